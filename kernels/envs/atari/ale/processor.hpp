// SPDX-License-Identifier: GPL-2.0-only
// A faster execution of ALE's 6502. One thread at a time for one console.
#pragma once

#include "ale/ale_interface.hpp"

namespace heddle
{

// Gives the console that `ale` has loaded a processor with the same instructions and the same
// effects, but whose registers a compiler can keep in registers. Must be called when the console is
// new.
void replace_processor(ale::ALEInterface &ale);

} // namespace heddle
