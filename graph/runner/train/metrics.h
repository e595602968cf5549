/* SPDX-License-Identifier: Apache-2.0 */
/* What a run tells of itself beside its logs, outside the bit contract: log/metrics.jsonl, a JSON
 * object a line, appended and never changed.
 *   {"start": {...}}   every time the ranks start: machine, versions, what holds memory
 *   {"s": 1.5, ...}    now and then: counters and times since that start
 *   {"end": {...}}     when rank 0 leaves in order: the totals by verb
 * `update` in a start says where it goes on: samples of later updates before it belong to work that
 * was lost. */
#ifndef HD_GRAPH_RUNNER_TRAIN_METRICS_H
#define HD_GRAPH_RUNNER_TRAIN_METRICS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct hd_train;
struct hd_metrics;
struct hd_machine;

/* Rank 0, when training begins: opens the file and writes the start. A file that cannot be written
 * is a warning, and NULL. Released by hd_metrics_end (accepts NULL), which writes the end with the
 * `reason` why the run is over; the session must be there still. */
struct hd_metrics *hd_metrics_start(const struct hd_train *train);
void hd_metrics_end(struct hd_metrics *metrics, const struct hd_train *train, const char *reason);

/* Writes a sample if it is time for one: four a second at first, fewer in long runs, whose number
 * of samples grows with the logarithm of their time. Called by the submitting thread before every
 * iteration. Accepts NULL. */
void hd_metrics_sample(struct hd_metrics *metrics, const struct hd_train *train);

/* A machine, and what this program is made of, as objects; NULL without memory. */
json_t *hd_machine_build_json(const struct hd_machine *machine);
json_t *hd_versions_build_json(bool ask_gpus);

#endif
