/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a recording of what a rank submits. One thread at a time. */
#pragma once

#include "graph/execute/execute.h"
#include "runner/simulate/model/dependences.h"
#include "runner/simulate/model/submission.h"

enum { HD_GROUPS_MAX = 128, HD_KEPT_NODES = 1 << 16 };

/* The nodes of a task group since the submitter last waited for it. */
struct hd_recorded_group {
    const struct hd_task_group *group;
    int *nodes;
    int64_t n, capacity;
};

struct hd_recording {
    struct hd_recorder recorder; /* the first member: callbacks find the rest by it */
    const struct hd_record_options *options;
    int64_t first_shard; /* of the rank */
    const struct hd_comm *comm;
    struct hd_executor *executor;
    struct hd_dependences *dependences;
    struct hd_submission *submission;
    struct hd_peers *exchanges;
    int (*edges)[2]; /* from, to; in order of `to` */
    int64_t n_edges, edges_capacity, nodes_capacity, names_capacity, marks_capacity;
    struct hd_recorded_group groups[HD_GROUPS_MAX];
    int n_groups;
    int base;      /* nodes that are forgotten; all numbers count them */
    bool observes; /* a run, and forgets */
    int end;       /* iterations to record; 0: not known yet */
    bool ended;    /* all of them are recorded */
};

/* Makes what a recording needs, and releases it, but for the submission and the exchanges, which
 * are the caller's. The first returns HD_OK or HD_ERR_NOMEM. */
int hd_recording_begin(struct hd_recording *recording);
void hd_recording_end(struct hd_recording *recording);
