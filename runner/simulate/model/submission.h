/* SPDX-License-Identifier: Apache-2.0 */
/* A submission is what one rank submits in some iterations, as a graph: its tasks, sync points and
 * waits, and which of them wait for which. It is recorded from the executor itself, so a simulation
 * has the tasks, dependences and messages of a run. One thread at a time makes it; then it is
 * read-only. */
#pragma once

#include "graph/plan/plan.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/session.h"

#include <stdio.h>

enum hd_submitted_kind {
    HD_SUBMITTED_TASK,
    HD_SUBMITTED_SYNC, /* a sync point */
    HD_SUBMITTED_WAIT  /* the submitter goes on when what it depends on has ended */
};

enum hd_sync_scope {
    HD_SYNC_ALL_RANKS, /* passed when all have arrived and the messages of the host have ended */
    HD_SYNC_HOST,      /* passed when the ranks of the host have arrived */
    HD_SYNC_PAIRS      /* passed when the own messages have ended */
};

struct hd_submitted {
    enum hd_submitted_kind kind;
    enum hd_sync_scope scope; /* of sync points */
    int name;                 /* index in `names` */
    int iteration, shard;     /* shard: counted on this rank, -1: none */
    int bucket, item, stage, priority;
    int home; /* of a task: HD_HOST, or a GPU */
    bool background, waits;
    bool copies; /* volume / 2 bytes, to a GPU or from one */
    int before;  /* number of nodes that it depends on */
    int after;   /* index in `after` of the first that depends on it; the next node's ends them */
    int sync;    /* number among the rank's sync points */
    int64_t sequence; /* of a sync point, the same on all ranks */
    int64_t volume;   /* as in struct hd_task */
    int64_t at_ns;    /* when it was submitted (hd_clock_get_ns), of what is observed; else 0 */
};

/* A mark tells what had been submitted when an iteration began. */
struct hd_iteration_mark {
    int node;
    int64_t updates;
    int64_t iteration, at_ns; /* which, and when: of what is observed */
};

struct hd_submission {
    struct hd_submitted *nodes; /* [n_nodes + 1] in order; the last one is empty and ends `after` */
    int n_nodes, n_syncs;
    int *after;
    char **names;
    int n_names;
    struct hd_iteration_mark *marks; /* [n_marks]: of every iteration, and of the end */
    int n_marks;
    int64_t last_sequence;
    int channels;  /* that sync points are on: sequence % channels */
    uint64_t hash; /* equal for ranks that submit the same, but for whom they send to */
};

/* This is what a rank exchanges at a sync point: with its partners on all other hosts, or with one.
 */
struct hd_peer_bytes {
    int peer;     /* of a sync point of a pair: the other rank */
    int messages; /* in both directions */
    int64_t out_bytes, in_bytes;
};

/* The exchanges of all sync points of a rank. */
struct hd_peers {
    struct hd_peer_bytes *list; /* [n] */
    int n;
    int64_t capacity;
};

struct hd_record_options {
    struct hd_graph *graph;
    int rank, ranks;
    int gpus; /* of each rank */
    struct hd_comm_hosts hosts;
    enum hd_host_exchange exchange;
    int64_t param_check_interval;
    int open_exchanges; /* 0: auto */
    int window;
    int iterations; /* from the one on that makes the first update */
};

/* Records a rank without running anything and without the memory of its values. The caller releases
 * both results. Returns HD_OK, HD_ERR_INPUT when no iteration makes an update, HD_ERR_NOMEM, or the
 * errors of hd_plan_create (logged). */
int hd_submission_record(const struct hd_record_options *options,
                         struct hd_submission **submission_p, struct hd_peers **exchanges_p);
void hd_submission_release(struct hd_submission *submission);
void hd_peers_release(struct hd_peers *exchanges);

/* Makes `after` of a submission's nodes from edges [n], each of the numbers of two nodes, the
 * second of which depends on the first, in order of the second. Returns HD_OK or HD_ERR_NOMEM. */
int hd_submission_list_after(struct hd_submission *submission, const int (*edges)[2], int64_t n);

/* -- Observing a run --------------------------------------------------------------------------- */
/* An observer notes what a session submits while it runs, and keeps the newest nodes, at least
 * 2^16. The session's thread makes all calls. */

/* `first_shard` is the rank's, comm its communicator or NULL, borrowed. hd_observer_destroy accepts
 * NULL. Returns HD_OK or HD_ERR_NOMEM. */
struct hd_observer;
int hd_observer_create(int64_t first_shard, const struct hd_comm *comm,
                       struct hd_observer **observer_p);
void hd_observer_destroy(struct hd_observer *observer);

/* Returns what the options of the session take; NULL for NULL. */
struct hd_recorder *hd_observer_get_recorder(struct hd_observer *observer);

/* Notes that an iteration begins, and the updates so far. Returns HD_OK or HD_ERR_NOMEM. */
int hd_observer_begin_iteration(struct hd_observer *observer, int64_t iteration, int64_t updates);

/* Writes the begin of a line of "tasks", up to the list of what the node waited for. */
void hd_submitted_write(const struct hd_submitted *node, const struct hd_peer_bytes *exchange,
                        int rank, int number, const char *name, double at_us, FILE *file);

/* Writes the members "iterations" and "tasks" of a trace (runner/trace/trace_file.h); the stream
 * knows whether that failed. */
void hd_observer_write(const struct hd_observer *observer, int rank, FILE *file);
