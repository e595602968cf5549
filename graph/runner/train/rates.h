/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a run is once it is warm: measured by its rank 0, left in a file of the run directory,
 * read by `runner bench`. */
#ifndef HD_GRAPH_RUNNER_TRAIN_RATES_H
#define HD_GRAPH_RUNNER_TRAIN_RATES_H

#include <stdint.h>

enum { HD_RATES_VERBS = 64, HD_RATES_VERB_BYTES = 32 };

/* A stretch of a run. Seconds are of wall-clock time unless stated otherwise. */
struct hd_rates {
    double seconds;
    int64_t updates;
    double env_steps;
    double busy_s;     /* of all workers of rank 0: in bodies */
    double exposed_s;  /* collectives were open and no worker of rank 0 was in a body */
    int64_t workers;   /* of rank 0, for CPUs */
    int64_t gpus;      /* of rank 0 */
    double gpu_busy_s; /* of all of them */
    int64_t ranks, shards;
    uint64_t param_hash, fingerprint; /* at the end of the run */
    int n_verbs;
    struct {
        char verb[HD_RATES_VERB_BYTES];
        double seconds; /* at least one body of it ran */
    } verbs[HD_RATES_VERBS];
};

/* As a small file of JSON. Errors: HD_ERR_SYSTEM, HD_ERR_NOMEM; reading also HD_ERR_FORMAT
 * (logged). */
int hd_rates_write(const char *path, const struct hd_rates *rates);
int hd_rates_read(const char *path, struct hd_rates *rates_p);

#endif
