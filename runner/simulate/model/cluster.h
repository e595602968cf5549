/* SPDX-License-Identifier: Apache-2.0 */
/* Plays what the ranks of a cluster submit in simulated time: the workers of each rank, the sync
 * points between ranks, and the messages between nodes. One simulation at a time. */
#pragma once

#include "runner/simulate/model/calibration.h"
#include "runner/simulate/model/network.h"
#include "runner/simulate/model/submission.h"

#include <stdio.h>

struct hd_cluster {
    const struct hd_network *network;
    int ranks, workers; /* workers: of each rank, the submitting thread among them */
    struct hd_comm_hosts hosts;
    const struct hd_submission *const *submissions; /* [ranks] */
    const struct hd_peers *const *exchanges;        /* [ranks] */
    const struct hd_calibration *calibration;
    /* [ranks][nodes]: what tasks take, in place of the calibration's times, and then the result has
     * no path; or NULL */
    const double *const *seconds;
    double scale;           /* of the times of tasks */
    bool submits_only;      /* worker 0 of each rank, which submits, runs nothing */
    int gpus;               /* of each rank */
    double gpu_speedup;     /* how much faster than a worker a GPU does a step */
    double gpu_bytes_per_s; /* at which bytes get to a GPU and back */
    double message_s;       /* what starting a message costs its rank */
    double byte_s;          /* what each byte costs that it sends and receives; 0: a card does it */
    int first_mark;         /* iteration from which on is measured */
    int traced;             /* rank whose trace is written; -1: none */
    FILE *trace;
    /* Called when rank 0 begins an iteration, so many of all; or NULL. */
    void (*progress)(void *arg, int iteration, int iterations, double seconds);
    void *progress_arg;
};

enum { HD_PATH_NAMES = 64 };

/* The sums are over the time from the first mark to the last. */
struct hd_cluster_result {
    double seconds;
    int64_t updates;
    double
        exposed_s; /* sync points were open and no worker of the rank ran a task: mean of ranks */
    double busy_s; /* workers ran tasks, all of a rank added up: mean of ranks */
    double gpu_busy_s; /* so did GPUs */
    double sent_bytes; /* by all nodes */
    /* The chain of tasks, messages and submissions that ends last, by name. */
    struct hd_path_share {
        const char *name; /* of a submission */
        bool message;     /* waiting for other ranks and messages in a sync point of this name */
        double seconds;
    } path[HD_PATH_NAMES];
    int n_path;
};

/* Returns HD_OK, HD_ERR_NOMEM, HD_ERR_INPUT for a task of which the calibration knows nothing, or
 * HD_ERR_INTERNAL when ranks wait for each other for ever (logged). */
int hd_cluster_simulate(const struct hd_cluster *cluster, struct hd_cluster_result *result_p);
