/* SPDX-License-Identifier: Apache-2.0 */
/* Writes result.json: how a run ended, with DI-engine's fields (docs/di-engine.md 5.5) and ours
 * (docs/configuration.md). Thread safe on different paths. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hd_result {
    bool stop;                    /* the stop value was reached */
    int64_t env_step, train_iter; /* over all shards */
    int64_t skipped;              /* updates whose loss was not finite; -1: not known */
    double eval_value;            /* mean return of the last evaluation in the run; NaN: none */
    const double *eval_value_raw; /* its returns [n_eval_value_raw] */
    int64_t n_eval_value_raw;
    int64_t eval_train_iter;      /* of its weights */
    double last_value;            /* mean return of the last weights; NaN: not evaluated */
    const double *last_value_raw; /* its returns [n_last_value_raw] */
    int64_t n_last_value_raw;
    double best_value;       /* mean return of the best weights; NaN: none was evaluated */
    int64_t best_train_iter; /* of these */
    double train_value;      /* mean return of training episodes, late in the run; NaN: none */
    const char *weights;     /* path of the best weights in the run directory; NULL: none */
    const char *reason;      /* of the stop step; or HD_RESULT_STOPPED, HD_RESULT_FAILED */
    const char *detail; /* the key of the limit, the signal, the failure's sentence; NULL: none */
    uint64_t param_hash, fingerprint; /* param_hash 0: there are no final parameters */
    double wall_s;                    /* from the start until now */
    int64_t ranks, shards, seed;
    const char *command; /* the command line as typed */
    const char *env;     /* the environment's type; NULL: not known */
};

/* The reasons of ends that no stop step decided. */
#define HD_RESULT_STOPPED "stopped"
#define HD_RESULT_FAILED "failed"

struct hd_file_put;

/* Writes the result as JSON with the time, this host and the program's version, by `put`
 * (runtime/io/base/files.h; NULL: hd_file_write_atomic). Returns HD_OK, HD_ERR_NOMEM (logged) or
 * what `put` does. */
int hd_result_write(const struct hd_file_put *put, const char *path,
                    const struct hd_result *result);
