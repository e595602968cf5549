/* SPDX-License-Identifier: Apache-2.0 */
/* A small registry for tests of the graph engine: integer and float values, verbs that mix them. */
#pragma once

#include "graph/language/graph.h"

/* Types `ints` (8 integers, counted attribute `size`, field `first`), `rows` (one to four partials
 * of 8 integers, by the seed), `floats` (flat, three blocks and a bit, so that `parts` can cut it)
 * and `news` (ints that start as none). Verbs `mix` (reads a, writes to), `blend` (reads a and b,
 * updates to), `bump` (updates to, counts its size), `note` (reads a, updates to: meant for what
 * nobody reads), `fail` (reads a, writes to, fails at iteration 3), and the built-in collectives
 * and stop. In toy_subtasks.c: type `sums` (flat like floats, one to three partials a shard by its
 * name, a weight per bucket) and `residual` (flat like floats, for their means), verbs `spread`
 * (reads a and b, writes sums by items and stages, updates tally at its finish), `fill` (likewise,
 * but whole), `apply` (reads a mean of sums and hint, updates to and state by buckets or in slices)
 * and `creep` (reads a, updates ints in several calls). In toy_items.c: verb `weave` (reads a,
 * every and rows `from`, updates rows `state` and writes rows `to` by items and stages, between
 * which shards may add numbers up, updates tally at its finish, which may be last). */
extern const struct hd_registry hd_toy_registry;

enum { HD_TOY_INTS = 8, HD_TOY_FLOATS = 3 * 4096 + 17 };
extern const struct hd_type hd_toy_sums, hd_toy_residual;
extern const struct hd_verb hd_toy_spread, hd_toy_fill, hd_toy_apply, hd_toy_creep, hd_toy_weave;

/* Element i (of partial i modulo partials) of a view as an integer, whatever its type; a value that
 * is none counts as 7. */
int64_t hd_toy_element(const struct hd_view *view, int i);
