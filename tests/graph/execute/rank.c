/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/execute/rank.h"

#include "graph/language/load.h"
#include "runtime/base/config/yaml.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/sharded_update.h"
#include "tests/graph/execute/toy.h"
#include "tests/harness/check.h"

#include <string.h>

struct loaded_graph rank_load(const struct hd_registry *registry, const char *text, int64_t shards,
                              uint64_t seed)
{
    struct loaded_graph l;
    const struct hd_graph_source source = {.registry = registry, .shards = shards, .seed = seed};
    const int status = loaded_graph_load(&l, &source, "toy.yaml", text, strlen(text));
    hd_diag_report(l.diag);
    ck_assert_msg(status == HD_OK, "the graph has mistakes:\n%s", text);
    return l;
}

struct loaded_graph rank_load_with(const struct hd_verb *verb, const struct hd_verb *other,
                                   const char *text, int64_t shards, uint64_t seed)
{
    static const struct hd_verb *verbs[32];
    static struct hd_registry registry;
    int n = 0;
    for (; hd_toy_registry.verbs[n]; n++)
        verbs[n] = hd_toy_registry.verbs[n];
    verbs[n] = verb;
    verbs[n + 1] = other;
    registry = (struct hd_registry){hd_toy_registry.types, verbs, hd_toy_registry.keys};
    return rank_load(&registry, text, shards, seed);
}

atomic_int rank_interrupted;
int rank_hosts = 1;
const char *rank_scheduler = "lws";

static void start(struct rank *rank, struct hd_session_options options, int window)
{
    const struct hd_executor_options executor_options = {.window = window};
    options.scratch_bytes = hd_plan_get_scratch_bytes(rank->plan);
    ck_assert_int_eq(hd_session_create(&options, &rank->session), HD_OK);
    ck_assert_int_eq(
        hd_executor_create(rank->plan, rank->session, &executor_options, &rank->executor), HD_OK);
}

void rank_open(struct rank *rank, struct hd_graph *graph, struct hd_session_options options,
               int window)
{
    ck_assert_int_eq(hd_plan_create(graph, 0, 1, NULL, 100, &rank->plan), HD_OK);
    start(rank, options, window);
}

void rank_start(struct rank *rank, const struct hd_world *world, struct hd_graph *graph,
                bool sequential, int window, int patience_s)
{
    ck_assert_int_eq(hd_plan_create(graph, world->rank, world->world, NULL, 2, &rank->plan), HD_OK);
    hd_plan_assign_channels(rank->plan, window, true);
    const struct hd_comm_sizes sizes = {rank->plan->channels, hd_plan_get_payload_bytes(rank->plan),
                                        rank->plan->shared_bytes};
    if (world->world > 1)
        ck_assert_int_eq(ranks_join(world, rank_hosts, &sizes, &rank->rendezvous, &rank->comm),
                         HD_OK);
    const struct hd_session_options options = {.sequential = sequential,
                                               .workers = 1 + window % 2,
                                               .scheduler = rank_scheduler,
                                               .rank = world->rank,
                                               .ranks = world->world,
                                               .comm = rank->comm,
                                               .exchange = (enum hd_host_exchange)(window % 4),
                                               .watchdog_ns = patience_s * 1000000000LL,
                                               .interrupted = &rank_interrupted};
    start(rank, options, window);
}

void rank_stop(struct rank *rank)
{
    hd_executor_destroy(rank->executor);
    hd_session_destroy(rank->session);
    hd_rendezvous_destroy(rank->rendezvous);
    hd_comm_destroy(rank->comm);
    hd_plan_destroy(rank->plan);
}

/* Returns whether an instance equals the reference's; of a sharded value, this rank's blocks are
 * compared. */
static bool equal(const struct rank *rank, int value, const struct hd_spec *spec, const float *data,
                  const float *expected)
{
    if (rank->plan->values[value].storage != HD_STORE_SLICES)
        return memcmp(data, expected, (size_t)spec->bytes) == 0;
    for (int bucket = 0; bucket < spec->buckets; bucket++) {
        const struct hd_elements slice =
            hd_sharded_update_get_slice(rank->session, spec, bucket, rank->plan->rank);
        if (memcmp(data + slice.lo, expected + slice.lo,
                   (size_t)(slice.hi - slice.lo) * sizeof(float)) != 0)
            return false;
    }
    return true;
}

int rank_compare(const struct rank *rank, const struct hd_graph *graph,
                 const struct hd_reference *reference)
{
    for (int v = 0; v < graph->n_values; v++) {
        const struct hd_spec *spec = &graph->values[v].spec;
        const struct hd_plan_value *plan = &rank->plan->values[v];
        if (hd_executor_get_version(rank->executor, v) != hd_reference_version(reference, v))
            return hd_fail(1, "'%s': other number of versions", spec->name);
        for (int i = 0; i < plan->instances; i++)
            if (!equal(rank, v, spec, hd_executor_get_data(rank->executor, v, i),
                       hd_reference_data(reference, v, plan->first + i)))
                return hd_fail(1, "'%s': instance %lld differs", spec->name,
                               (long long)plan->first + i);
    }
    return 0;
}
