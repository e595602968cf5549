/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of graphs on several ranks: one rank's place in the run of a graph. */
#pragma once

#include "graph/execute/execute.h"
#include "tests/graph/execute/reference.h"
#include "tests/graph/loaded_graph.h"
#include "tests/runtime/comm/ranks.h"

#include <stdatomic.h>

/* Load a graph text with an empty configuration of the toys of tests/graph/execute/toy.h: with the
 * verbs of a registry, or with the toys and one or two (or NULL) verbs more, one registry at a
 * time. A text with mistakes ends the test. */
struct loaded_graph rank_load(const struct hd_registry *registry, const char *text, int64_t shards,
                              uint64_t seed);
struct loaded_graph rank_load_with(const struct hd_verb *verb, const struct hd_verb *other,
                                   const char *text, int64_t shards, uint64_t seed);

struct rank {
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_session *session;
    struct hd_plan *plan;
    struct hd_executor *executor;
};

enum { RANKS_MAX = 4 };

/* Interrupts the ranks of this process when it is set. */
extern atomic_int rank_interrupted;

/* The number of hosts among which the ranks count as divided. */
extern int rank_hosts;

/* The scheduler of ranks that rank_start makes. */
extern const char *rank_scheduler;

/* Joins the other ranks and makes everything up to the executor: as many channels for buckets, and
 * one or two workers, by the window; comparisons every two updates; a watchdog of `patience_s`. */
void rank_start(struct rank *rank, const struct hd_world *world, struct hd_graph *graph,
                bool sequential, int window, int patience_s);

/* Makes everything up to the executor of a rank that is alone, with options of its own. */
void rank_open(struct rank *rank, struct hd_graph *graph, struct hd_session_options options,
               int window);
void rank_stop(struct rank *rank);

/* Returns 0 if everything that this rank owns equals the reference's, in bits and number of
 * versions; else logs the first difference. */
int rank_compare(const struct rank *rank, const struct hd_graph *graph,
                 const struct hd_reference *reference);
