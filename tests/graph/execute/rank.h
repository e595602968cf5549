/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of graphs on several ranks: one rank's place in the run of a graph. */
#ifndef HD_TESTS_GRAPH_EXECUTE_RANK_H
#define HD_TESTS_GRAPH_EXECUTE_RANK_H

#include "graph/execute/execute.h"
#include "tests/graph/execute/reference.h"
#include "tests/runtime/comm/ranks.h"

#include <stdatomic.h>

/* A graph with all that it refers to. */
struct rank_graph {
    struct hd_document *document;
    struct hd_config *config;
    struct hd_diag *diag;
    struct hd_graph *graph;
};

/* With the toys of tests/graph/execute/toy.h, or other verbs. */
struct rank_graph rank_load(const struct hd_registry *registry, const char *text, int64_t shards,
                            uint64_t seed);
void rank_unload(struct rank_graph *l);

struct rank {
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_session *session;
    struct hd_plan *plan;
    struct hd_executor *executor;
};

enum { RANKS_MAX = 4 };

/* Set, it interrupts the ranks of this process. */
extern atomic_int rank_interrupted;

/* Set, ranks exchange by messages, as between hosts. */
extern bool rank_message_passing;

/* Meets the other ranks and makes everything up to the executor: scheduler lws, one or two workers
 * by the window; comparisons every two updates; a watchdog of `patience_s`. */
void rank_start(struct rank *rank, const struct hd_world *world, struct hd_graph *graph,
                bool sequential, int window, int patience_s);
void rank_stop(struct rank *rank);

/* 0 when all that this rank owns is the reference's, by bits and number of versions; logs the first
 * difference. */
int rank_compare(const struct rank *rank, const struct hd_graph *graph,
                 const struct hd_reference *reference);

#endif
