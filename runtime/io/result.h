/* SPDX-License-Identifier: Apache-2.0 */
/* Writes result.json: how a run ended, with DI-engine's fields (docs/di-engine.md 5.5) and ours.
 * Thread safe on different paths. */
#ifndef HD_RUNTIME_IO_RESULT_H
#define HD_RUNTIME_IO_RESULT_H

#include <stdbool.h>
#include <stdint.h>

struct hd_result {
    bool stop;                    /* the stop value was reached */
    int64_t env_step, train_iter; /* over all shards */
    double eval_value;            /* mean return of the last evaluation; NaN: none */
    const double *eval_value_raw; /* its returns [n_eval_value_raw] */
    int64_t n_eval_value_raw;
    const char *finish_time; /* as ctime writes it */
    const char *reason;      /* of the stop step */
    uint64_t param_hash, fingerprint;
    double wall_s;
    int64_t ranks, shards;
};

/* Writes the result as JSON, atomically. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (both
 * logged). */
int hd_result_write(const char *path, const struct hd_result *result);

#endif
