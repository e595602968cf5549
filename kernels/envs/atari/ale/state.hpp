// SPDX-License-Identifier: GPL-2.0-only
// Saves the whole state of an ALE, so that it continues bitwise identically. One thread at a time
// for one ALE.
#pragma once

#include "ale/ale_interface.hpp"

#include <string>

namespace heddle
{

// Returns equal bytes for equal states between two acts, of one size for one game. Throws.
std::string save_state(ale::ALEInterface &ale);

// Restores a state that save_state made for the same game in the same build of ALE. If it throws,
// the ALE must not be used any more.
void load_state(ale::ALEInterface &ale, const std::string &state);

// As load_state, for bytes that anybody may have written: throws unless they have the layout of
// `start`, which save_state made here, and lead ALE to no memory but its own.
void load_untrusted_state(ale::ALEInterface &ale, const std::string &state,
                          const std::string &start);

} // namespace heddle
