// SPDX-License-Identifier: GPL-2.0-only
// Checks of saved states from files that others may have written. ALE itself believes what it
// loads: it writes as many bytes of RAM as the file says. One thread at a time for one ALE.
#pragma once

#include "ale/ale_interface.hpp"

#include <string>

namespace heddle
{

// Throws unless `state`, a serialised ALEState, has the size, texts and counts of `start`, one of
// the same game that this process made. Reads nothing outside them.
void check_layout(const std::string &state, const std::string &start);

// Throws unless every number of the loaded state by which ALE finds memory lies in its range. To be
// called before the next act.
void check_ranges(ale::ALEInterface &ale);

} // namespace heddle
