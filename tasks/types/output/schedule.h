/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: numbers of policy.learn that change with the share of a run that is done
 * (policy.learn.schedule). The verb `compute_schedule` writes what they are now to a value of type
 * scalars, from a counter that all ranks have, and steps with a port `schedule` read it. Thread
 * safe. */
#pragma once

#include "kernels/common/scalar.h"
#include "tasks/base/registry.h"

/* -- The course of a number -------------------------------------------------------------------- */

enum { HD_SCHEDULE_POINTS = 32 };

/* A number between points, of which the first is at share 0. */
struct hd_schedule {
    bool cosine; /* half a wave from point to point, else a straight line */
    int n;
    double share[HD_SCHEDULE_POINTS], value[HD_SCHEDULE_POINTS]; /* shares ascend; two that are the
                                                                    same are a jump */
};

/* Returns the number when `share` >= 0 of the whole is done; the last one stays. On a line it is
 * (1 - q) from + q to. */
double hd_schedule_compute(const struct hd_schedule *schedule, double share);

/* The numbers that may have a schedule are policy.learn.<name>. */
enum { HD_SCHEDULED = 4 };
extern const char *const hd_scheduled_names[HD_SCHEDULED];

/* Reads the schedule of number i; n is 0 when the run file has none. The config need not be the
 * reader's alone: this is no use of the key. Returns HD_OK, or HD_ERR_INPUT after adding mistakes
 * to `diag`. */
int hd_schedule_read(const struct hd_config *config, int i, struct hd_diag *diag,
                     struct hd_schedule *schedule_p);

/* Puts the limit of the run in the place of policy.learn.schedule.total: auto, where the run file
 * has schedules, and stores whether it did. Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT after
 * adding a mistake to `diag`: there is no limit. */
int hd_schedule_resolve(struct hd_config *config, struct hd_diag *diag, bool *limited_p);

/* -- Its readers ------------------------------------------------------------------------------- */

/* A number that may have a schedule, for a verb with a port `schedule`. */
struct hd_scheduled {
    double constant; /* until a step has written another one */
    int port, field; /* where it is found; -1: it is constant */
};

/* Sets *scheduled_p to the number policy.learn.<name>, read at `port`, from a verb's `prepare`.
 * Returns HD_OK, or HD_ERR_INPUT (in setup->diag) when the number has a schedule and the port no
 * such value. */
int hd_scheduled_prepare(const struct hd_setup *setup, int port, const char *name,
                         struct hd_scheduled *scheduled_p);

/* Returns the number as it is now, given the views of the verb's ports. */
double hd_scheduled_get(const struct hd_scheduled *scheduled, const struct hd_view *views);

/* Returns where a GPU finds it when it runs, in memory of a pinned type; NULL: it is constant. */
const struct hd_scalar *hd_scheduled_find_entry(const struct hd_scheduled *scheduled,
                                                const struct hd_view *views);
