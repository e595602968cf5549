/* SPDX-License-Identifier: Apache-2.0 */
/* Measurements that a run leaves beside its logs, outside the bit contract: log/metrics.jsonl, a
 * JSON object a line, appended and never changed.
 *   {"start": {...}}   every time the ranks start: machine, versions, what holds memory
 *   {"s": 1.5, ...}    now and then: counters and times since that start
 *   {"end": {...}}     when rank 0 leaves in order: the totals by verb
 * `update` in a start says where it continues: samples of later updates before it belong to work
 * that was lost. Called by the session's thread of rank 0 only. */
#pragma once

struct hd_train;
struct hd_metrics;

/* Opens the file when training begins and writes the start. A file that cannot be written is a
 * warning, and NULL. hd_metrics_end (accepts NULL) releases it and writes the end with the `reason`
 * why the run is over; the session must still exist. */
struct hd_metrics *hd_metrics_start(const struct hd_train *train);
void hd_metrics_end(struct hd_metrics *metrics, const struct hd_train *train, const char *reason);

/* Writes a sample if it is time for one: four a second at first, fewer in long runs, whose number
 * of samples grows with the logarithm of their time. Called before every iteration. Accepts NULL.
 */
void hd_metrics_sample(struct hd_metrics *metrics, const struct hd_train *train);
