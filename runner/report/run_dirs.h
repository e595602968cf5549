/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the run directories that the arguments of a command stand for. One thread at a time. */
#pragma once

#include "runner/base/options.h"

struct hd_run_dirs {
    int n;
    char *paths[HD_DIRS_MAX];
};

/* Takes each of given[n] for a run directory, or, if it has none of its files but run directories
 * in it, for all of these, in the order of their names, numbers by their value. The caller has set
 * *dirs_p to zero; hd_run_dirs_release releases them, after an error too. Errors (logged):
 * HD_ERR_INPUT, there are more than HD_DIRS_MAX; HD_ERR_NOMEM. */
int hd_run_dirs_find(const char *const *given, int n, struct hd_run_dirs *dirs_p);
void hd_run_dirs_release(struct hd_run_dirs *dirs);
