/* SPDX-License-Identifier: Apache-2.0 */
/* A small registry for tests of the graph engine: integer and float values, verbs that mix them. */
#ifndef HD_TESTS_GRAPH_TOY_H
#define HD_TESTS_GRAPH_TOY_H

#include "graph/graph.h"

/* Types `ints` (8 integers, counted attribute `size`, field `first`), `floats` (flat, three blocks
 * and a bit, so that `parts` can cut it) and `news` (ints that start as none). Verbs `mix` (reads
 * a, writes to), `blend` (reads a and b, updates to), `bump` (updates to, counts its size), `note`
 * (reads a, updates to: meant for what nobody reads), `fail` (reads a, writes to, fails at
 * iteration 3), and the built-in collectives and stop. */
extern const struct hd_registry hd_toy_registry;

/* Loads a graph text with the toy registry and an empty config. Aborts the test when the text has
 * mistakes (printing them). *config_p and *diag_p must be released after the graph. */
struct hd_graph *hd_toy_load(const char *text, int64_t shards, uint64_t seed,
                             struct hd_document **document_p, struct hd_config **config_p,
                             struct hd_diag **diag_p);

#endif
