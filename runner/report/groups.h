/* SPDX-License-Identifier: Apache-2.0 */
/* Runs put together by values of their config: repeats of one setting, whose seeds differ. One
 * thread at a time. */
#pragma once

#include "runner/base/options.h"
#include "runner/report/differences.h"

/* Puts runs, with what differs between them (hd_differences_build_json), together by the values of
 * keys, `names` of which have KEY or KEY,KEY each; groups are in the order in which the runs bring
 * them. Stores an object with
 *   keys         the keys
 *   confidence, resamples   of all intervals
 *   thresholds   returns at which performance profiles are
 *   groups       [{values: a text for each key, runs: indices of its runs that count,
 *                left_out: [[index, why], ...], repeated: [[index, index of a run of equal bits],
 * ...], last, best, train, goal_env_steps: {n, mean, iqm, max} over runs that have it, improvement:
 * P(a run's last return > one of the first group's) + P(=) / 2, null in the first group, profile:
 * shares of last returns > thresholds}, ...] differences  [[key, a list of its values in each
 * group], ...] of the other keys that are not the same in all runs; two values in a list: these are
 * no repeats An interval is {value, low, high}; null: not known. Errors (logged): HD_ERR_INPUT, no
 * run has a key; HD_ERR_NOMEM. */
int hd_groups_build_json(const struct hd_runs *runs, const json_t *differences,
                         const struct hd_names *names, json_t **json_p);
