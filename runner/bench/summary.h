/* SPDX-License-Identifier: Apache-2.0 */
/* Sums up what the results of one comparison say. One thread at a time. */
#pragma once

#include <jansson.h>
#include <stdio.h>

/* Sums up lines of one comparison (hd_results_select), of at least one run. Stores an object with
 *   config, machine, commit, date, ranks, shards, sets   of the newest line
 *   confidence, resamples   of all intervals
 *   rates, goal   null, or what runs that measured rates, and runs to the goal, say:
 *     candidates  [{name, lag, bits, n, disturbed, said, ...}, ...] in the order of their first
 *                 lines. bits: a number that candidates have in common whose bits must be the same;
 *                 n: runs; disturbed: how, or ""; pairs: turns in common with the first candidate;
 *                 said: sentences that compare it with that, turn by turn
 *     notes       sentences on all of them
 *     measured, warmup, workers, gpus   of the newest line of rates
 * A candidate of rates has updates_per_s, env_steps_per_s: {value, low, high, all: of each run};
 * faster: {value, low, high} of the ratio less 1 to the first; busy, exposed, idle,
 * gpu_busy, verbs: mean shares; param_hash; trace, or null. One of goals has reached: how many did;
 * missed: [[seed, reason], ...]; seconds, env_steps, updates of those that reached it, as above.
 * For json_decref. Errors: HD_ERR_NOMEM. */
int hd_bench_summarize(const json_t *lines, json_t **summary_p);

/* Prints it as tables. */
void hd_bench_print(const json_t *summary, FILE *file);
