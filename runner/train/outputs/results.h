/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run that rank 0 leaves. Called by the session's thread only. */
#pragma once

#include "runner/train/base/train.h"

/* Reserves room on the disk for what hd_results_write writes, and warns if there is none. */
void hd_results_reserve(const struct hd_train *train);

/* Writes a file in the room that is reserved for result.json in the run directory `dir`, as a
 * struct hd_file_put does. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (both logged). */
int hd_results_put(void *dir, const char *path, const void *data, int64_t bytes);

/* Writes final weights, result.json, the trace, rates and the report as far as the options ask for
 * them, and prints the summary. Nothing may run any more. Errors (logged): HD_ERR_SYSTEM,
 * HD_ERR_NOMEM, HD_ERR_INPUT when the run was too short for rates. */
int hd_results_write(struct hd_train *train, const char *reason);

/* -- Ends that no stop step decided ---------------------------------------------------------- */
/* Signals and failures leave result.json and report.html, too. What the run had reached is read
 * from its directory, so that whoever is left can write them: rank 0, a rank that has lost it, or
 * the launcher. */

struct hd_end {
    const struct hd_options *options;
    const char *dir;
    const char *reason, *detail; /* as in struct hd_result */
    bool checkpointed;           /* the run stopped after a checkpoint, which has */
    int64_t train_iter;          /* so many updates, */
    int64_t env_step;            /* so many env steps */
    double wall_s;
    int ranks;
};

/* Writes both files, as far as that is possible. One thread at a time. */
void hd_end_write(const struct hd_end *end);

/* Writes both files if this rank is the one to do so: rank 0, or rank 1 when rank 0 was lost.
 * Ranks that were lost are left to a launcher, which knows how they ended. Does nothing before
 * there is a run directory. Called by the thread that ends the process. */
void hd_end_record(struct hd_train *train, int status);

/* Returns whether the run in a directory has left result.json. */
bool hd_end_exists(const char *dir);
