/* SPDX-License-Identifier: Apache-2.0 */
/* The meaning of a graph, written down as directly as possible: every step at its place in program
 * order, all shards in one process, every version at the start of every iteration kept by copying.
 * No plan, no slots, no snapshots, no StarPU. */
#pragma once

#include "graph/language/graph.h"

struct hd_reference;

/* Runs the graph to its stop (at most 1000 iterations; the test fails after that). */
struct hd_reference *hd_reference_run(struct hd_graph *graph);
void hd_reference_destroy(struct hd_reference *reference);

/* Return the final content of an instance (by shard; 0 for others), the number of versions, the
 * number of complete iterations, and the reason of the stop. */
const void *hd_reference_data(const struct hd_reference *reference, int value, int64_t shard);
int64_t hd_reference_version(const struct hd_reference *reference, int value);
int64_t hd_reference_iterations(const struct hd_reference *reference);
const char *hd_reference_reason(const struct hd_reference *reference);
