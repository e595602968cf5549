/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what differs between the configs of runs. One thread at a time. */
#pragma once

#include "runner/report/outcome.h"

struct hd_runs {
    int n;
    struct hd_history *list;
    struct hd_outcome *outcomes; /* [n] */
};

/* Returns [[key, text in the first run, in the second, ...], ...] of the keys whose values are not
 * the same in all runs, "" where a run has no such key; the name of a run counts as none. NULL:
 * no memory. */
json_t *hd_differences_build_json(const struct hd_runs *runs);
