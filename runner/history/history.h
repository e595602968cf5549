/* SPDX-License-Identifier: Apache-2.0 */
/* A run directory read back for reports; the run has ended, was killed or still runs. One thread at
 * a time. */
#pragma once

#include "runner/history/curves.h"
#include "runner/trace/trace_file.h"

#include <jansson.h>
#include <stdio.h>

struct hd_history {
    const char *dir;
    char *config_text;           /* total_config.yaml */
    json_t *config;              /* [[path, text], …] of its leaves, in order */
    json_t *result;              /* result.json; NULL: the run has not ended in order */
    json_t *start;               /* the last one (metrics.h); NULL: it left none */
    json_t *end;                 /* of the last part of the run; or NULL */
    json_t *samples;             /* objects; "s" made to grow over all parts of the run */
    int starts;                  /* parts that it had */
    struct hd_curves curves;     /* HD_CURVES_WALL made the same seconds */
    struct hd_trace_file *trace; /* or NULL */
};

/* Reads what a run left in `dir`, which must outlive the history. hd_history_release releases it.
 * Errors (logged): HD_ERR_INPUT when dir is not a run directory, HD_ERR_FORMAT when a file in it is
 * damaged, HD_ERR_NOMEM. */
int hd_history_read(const char *dir, struct hd_history *history_p);
/* Reads a run directory, or a trace alone, whose history has no more than that; else as above. */
int hd_history_open(const char *path, struct hd_history *history_p);
void hd_history_release(struct hd_history *history);

/* Returns the text of a leaf of the config; "" when there is none. */
const char *hd_history_get_key(const struct hd_history *history, const char *path);

/* Returns everything as one object for a page of so many runs, which together are thinned out to
 * some megabytes at most; NULL without memory. The timeline is left out unless wanted. Thins the
 * history's own tables. */
json_t *hd_history_build_json(struct hd_history *history, bool timeline, int runs);

/* Returns what a trace has of the time of one iteration, the one that is `back` before the last, or
 * the first whole one that was kept: {iteration, begin_s, end_s, workers, sums, lanes, events} as
 * in the timeline of a page; null where it has none, NULL without memory. */
json_t *hd_trace_file_build_json(const struct hd_trace_file *trace, int64_t back);

/* Writes where the time went as a table for people: from the trace, with its bounds where the cable
 * has this rate (0: unknown), or from the totals. Returns HD_OK or the errors of hd_bounds_find. */
int hd_history_print_times(const struct hd_history *history, double bytes_per_s, FILE *file);
