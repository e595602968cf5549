/* SPDX-License-Identifier: Apache-2.0 */
/* The speed of a run once it is warm: measured by its rank 0, left in a file of the run directory,
 * read by `runner bench`. Thread safe. */
#pragma once

#include <stdint.h>

enum { HD_RATES_VERBS = 64, HD_RATES_VERB_BYTES = 32 };

/* A stretch of a run. Seconds are of wall-clock time unless stated otherwise. */
struct hd_rates {
    double seconds;
    int64_t updates;
    double env_steps;
    double busy_s;     /* all workers of rank 0 were in bodies, added up */
    double exposed_s;  /* collectives were open and no worker of rank 0 was in a body */
    int64_t workers;   /* of rank 0, for CPUs */
    int64_t gpus;      /* of rank 0 */
    double gpu_busy_s; /* all of them had work, added up */
    int64_t ranks, shards;
    uint64_t param_hash, fingerprint; /* at the end of the run */
    int n_verbs;
    struct {
        char verb[HD_RATES_VERB_BYTES];
        double seconds; /* workers were in bodies of it, added up */
    } verbs[HD_RATES_VERBS];
};

/* Writes and reads a small file of JSON. Errors (logged): HD_ERR_SYSTEM, HD_ERR_NOMEM; reading
 * HD_ERR_FORMAT, also when there is no file. */
int hd_rates_write(const char *path, const struct hd_rates *rates);
int hd_rates_read(const char *path, struct hd_rates *rates_p);

/* Numbers per second of the run. */
double hd_rates_get_updates_per_s(const struct hd_rates *rates);
double hd_rates_get_env_steps_per_s(const struct hd_rates *rates);

/* Shares, 0 to 1: of the workers' time in bodies; of the GPUs' time with work (gpus > 0); of the
 * time that only communication took; and the share of the workers' time that is left. */
double hd_rates_get_busy(const struct hd_rates *rates);
double hd_rates_get_gpu_busy(const struct hd_rates *rates);
double hd_rates_get_exposed(const struct hd_rates *rates);
double hd_rates_get_idle(const struct hd_rates *rates);
