/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers that tests take out of kernels, to see that the race is found. */
#include "tests/emulation/kernel.hpp"

#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string>

/* Notes in the file HD_EMULATED_BARRIERS, once in each process, that a kernel has come to this
 * barrier. */
static void note(const std::string &place)
{
    static const char *const path = getenv("HD_EMULATED_BARRIERS");
    static std::set<std::string> noted;
    if (!path || !noted.insert(place).second)
        return;
    FILE *file = fopen(path, "a");
    fprintf(file, "%s\n", place.c_str());
    fclose(file);
}

bool hd_emulated_leaves_out(const char *place)
{
    static const char *const wanted = getenv("HD_EMULATED_WITHOUT_BARRIER");
    static const bool asked = wanted || getenv("HD_EMULATED_BARRIERS");
    if (!asked)
        return false;
    const std::string here = place, end = wanted ? std::string("/") + wanted : "";
    note(here);
    return wanted && here.size() >= end.size() &&
           here.compare(here.size() - end.size(), end.size(), end) == 0;
}
