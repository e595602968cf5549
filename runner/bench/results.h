/* SPDX-License-Identifier: Apache-2.0 */
/* The results of `runner bench`: a line of JSON for each run, in memory and in a file that later
 * calls read and add to. One thread at a time.
 *
 * All lines have
 *   case        HD_BENCH_RATES, or HD_BENCH_GOAL of --to-goal
 *   config, candidate, strategy, grid, sets   what ran; lag: the largest in its graph
 *   call, turn  which call of the program, and which of its turns: equal ones are pairs
 *   base_hash, config_hash, bits_hash   of the config without strategy and grid, of all of it, and
 *               of what its bits may depend on; in hexadecimal, as are
 *   param_hash, fingerprint   of the run's end
 *   ranks, shards, load (load.h), commit, machine, date
 * those of rates, of which other programs may leave out what is unknown beside updates_per_s
 *   updates, warmup, evaluations   as asked for; measured: updates in whole iterations
 *   workers, gpus, updates_per_s, env_steps_per_s
 *   busy, exposed, idle, gpu_busy, verbs: {name: share}   shares of the workers' (GPUs') time
 *   trace       of one iteration (hd_trace_file_build_json), in the last turn of a call
 * and those to a goal
 *   seed, reached, reason   whether and why the run ended
 *   seconds, env_steps, updates   until then
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define HD_BENCH_RATES "bench"
#define HD_BENCH_GOAL "bench_goal"

/* Adds the lines of a file to a list; a file that is missing has none, unless it has to exist.
 * Lines of other programs are left out, and told of. Errors (logged with their places):
 * HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_results_read(const char *path, bool exists, json_t *lines);

/* Returns those lines, for json_decref, that are of one comparison with the last one: of the same
 * config, machine, commit and number of ranks, and of as many updates; of a candidate with other
 * settings, or by another program, those that agree with its last one; of one seed the newest. Says
 * how many of the others there are and why. NULL without memory. */
json_t *hd_results_select(const json_t *lines);

/* Returns HD_ERR_DIVERGED (logged) when lines whose parameters must be the same have others. */
int hd_results_compare(const json_t *lines);

/* Return a member of a line: NaN, "" where there is none. */
double hd_result_get_number(const json_t *line, const char *key);
const char *hd_result_get_text(const json_t *line, const char *key);
bool hd_result_is(const json_t *line, const char *key, const char *text);
