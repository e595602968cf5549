// SPDX-License-Identifier: GPL-2.0-only
// The whole state of an ALE, for a continuation that is equal to the bit.
#ifndef HD_KERNELS_ENVS_ATARI_ALE_STATE_HPP
#define HD_KERNELS_ENVS_ATARI_ALE_STATE_HPP

#include "ale/ale_interface.hpp"

#include <string>

namespace heddle
{

// Equal bytes for equal states between two acts; one size for one game. Throws.
std::string save_state(ale::ALEInterface &ale);

// Of a state that save_state made for the same game in the same build of ALE. Throws, and then the
// ALE is of no more use.
void load_state(ale::ALEInterface &ale, const std::string &state);

} // namespace heddle

#endif
