/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a simulation. One thread. */
#pragma once

#include "runner/simulate/model/cluster.h"
#include "runner/simulate/model/traffic.h"

enum { HD_BY_SUBMISSION = -2 };

/* This tells what has become of a node; times are in simulated seconds. */
struct hd_played {
    double ready, begin, end;
    double work; /* of a task that has begun: seconds that are left */
    double idle; /* of a sync point: how long a worker of the rank had been idle when it began */
    int cause;   /* node of this rank for which it waited last, or HD_BY_SUBMISSION */
    int last;    /* of a sync point: rank for which it waited last */
};

struct hd_ready {
    int node, order;
};

/* A heap. */
struct hd_ready_list {
    struct hd_ready *heap; /* [n] */
    int n;
};

struct hd_worker {
    struct hd_rank *rank;
    int lane, home, node;
    int previous; /* node; -1: none */
    bool idle;
    double length; /* of what it runs, in seconds */
    double begin_s;
};

/* The time of a task: a drawn one times `factor`, or, without times, the factor. */
struct hd_node_time {
    const struct hd_task_times *times;
    double factor;
};

/* A sync point of a sequence number, as one rank sees it. */
struct hd_post {
    int node;     /* once the rank has arrived; valid if `arrived` */
    int messages; /* of a pair, that have not ended; less than 0: one ended before it arrived */
    bool arrived;
};

/* A sync point of all ranks. */
struct hd_meeting {
    struct hd_traffic traffic; /* between hosts */
    int arrived;               /* ranks */
    int flows;                 /* under way */
    int last;                  /* the rank that began last of those whose flow ended last */
    double end, last_begin;    /* when that ended, and when the rank arrived */
};

struct hd_totals {
    double at_s, exposed_s, busy_s, gpu_busy_s;
};

struct hd_rank {
    struct hd_simulation *simulation;
    int number;
    const struct hd_submission *submission;
    const struct hd_peers *exchanges;
    const struct hd_node_time *times; /* [nodes] */
    struct hd_node_time *owned_times; /* the same, of the first rank that has them */
    int *left;                        /* [nodes]: dependences, and 1 until it is submitted */
    struct hd_played *played;         /* [nodes] */
    struct hd_ready_list *ready;      /* [homes] */
    int n_became_ready;
    int *background; /* nodes that wait for a time slice, in order */
    int64_t background_begin, background_end;
    struct hd_worker *workers;             /* those of the host, then those of GPUs */
    int next;                              /* node that the submitter comes to */
    bool waits;                            /* the submitter, at `next` */
    int n_marks;                           /* that the submitter has passed */
    int n_open;                            /* sync points */
    int passed[HD_CHANNELS_MAX], n_passed; /* that may end, as soon as a worker looks */
    struct hd_post *posts;                 /* [sequence numbers] */
    int bodies;                            /* that run now */
    double busy_since_s, busy_union_s;
    int workers_busy;                  /* of the host */
    double full_since_s, full_union_s; /* all of them were */
    double delay_s; /* of the task that ends next, by the bytes that were moved meanwhile */
    double marked_s, busy_marked_s; /* when a sync point last opened or ended */
    double busy_s, gpu_busy_s, exposed_s;
    struct hd_totals first, last; /* at the marks between which is measured */
};

struct hd_host {
    int *arrived; /* [sequence numbers]: ranks */
};

struct hd_simulation {
    const struct hd_cluster *cluster;
    struct hd_rank *list;
    struct hd_host *hosts;
    struct hd_meeting *meetings; /* [sequence numbers] */
    double sent_bytes;
    void (*pass)(void *rank, int64_t node); /* lets a rank go on behind a sync point */
};

/* Returns how long at least one worker of a rank ran a task until now. */
static inline double hd_rank_get_busy_union(const struct hd_rank *rank, double now)
{
    return rank->busy_union_s + (rank->bodies > 0 ? now - rank->busy_since_s : 0);
}

/* Returns how long at least one worker was idle until now. */
static inline double hd_rank_get_idle(const struct hd_rank *rank, double now)
{
    const bool full = rank->workers_busy == rank->simulation->cluster->workers;
    return now - rank->full_union_s - (full ? now - rank->full_since_s : 0);
}

/* Counts the time since the last mark as exposed, as far as a sync point was open and no worker ran
 * a task. */
static inline void hd_rank_mark_exposed(struct hd_rank *rank, double now)
{
    const double busy = hd_rank_get_busy_union(rank, now);
    const double exposed = now - rank->marked_s - (busy - rank->busy_marked_s);
    if (rank->n_open > 0 && exposed > 0)
        rank->exposed_s += exposed;
    rank->marked_s = now;
    rank->busy_marked_s = busy;
}

/* Background tasks on the host run in time slices. */
static inline bool hd_submitted_is_sliced(const struct hd_submitted *node)
{
    return node->background && node->home == HD_HOST;
}

/* Finds the times of a rank's tasks (times.c). Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT for a
 * task of which the calibration knows nothing (logged). */
int hd_rank_find_times(struct hd_rank *rank);

/* Returns the time of a task (times.c). */
double hd_rank_draw_time(const struct hd_rank *rank, int node);

/* Plans the messages of all sync points of a simulation whose ranks are made, and releases that
 * (exchange.c). Returns HD_OK or HD_ERR_NOMEM. */
int hd_meetings_create(struct hd_simulation *simulation);
void hd_meetings_release(struct hd_simulation *simulation);

/* The rank arrives at a sync point (exchange.c). When it has been passed, simulation->pass is
 * called with the rank and the node. */
void hd_rank_arrive(struct hd_rank *rank, int node);

/* Adds the names on the critical path of a simulation that has ended, between the marks, to the
 * result, those of the longest time first (critical_path.c). */
void hd_critical_path_find(const struct hd_simulation *simulation,
                           struct hd_cluster_result *result);
