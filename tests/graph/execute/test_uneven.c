/* SPDX-License-Identifier: Apache-2.0 */
/* Samples run out unevenly: a shard, all shards of a rank or all shards have none left. Their
 * contributions have weight 0; no rank hangs, nothing becomes NaN, and the mean is that of the
 * other shards, stored or used in slices, on any number of ranks. */
#include "graph/language/load.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tests/graph/execute/rank.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 4, PARTIALS = 2, ITERATIONS = 7 };

/* -- Verb uneven: a gradient with or without samples ------------------------------------------- */

enum { GRAD, POLICY };

/* Samples of a partial: one partial of shard 1 empty, shard 2, half the shards, three of them, all.
 */
static int64_t samples(int64_t iteration, int64_t shard, int64_t partial)
{
    switch (iteration) {
    case 1:
        return shard == 1 && partial == 1 ? 0 : 2;
    case 2:
        return shard == 2 ? 0 : 1;
    case 3:
        return shard >= 2 ? 0 : 2;
    case 4:
        return shard != 3 ? 0 : 1;
    case 5:
        return 0;
    default:
        return 2;
    }
}

static float element(int64_t iteration, int64_t shard, int64_t partial, int64_t i)
{
    const uint64_t key =
        (uint64_t)(((iteration * SHARDS + shard) * PARTIALS + partial) * 100003 + i);
    return samples(iteration, shard, partial) ? (float)(hd_hash_mix(11, key) % 2001) * 1e-3f + 0.1f
                                              : 0;
}

static int uneven(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    const struct hd_spec *spec = views[GRAD].spec;
    for (int64_t partial = 0; partial < spec->partials; partial++) {
        float *floats = hd_grad_get_partial(spec, views[GRAD].data, partial);
        for (int64_t i = 0; i < spec->elements; i++)
            floats[i] = element(context->iteration, context->shard, partial, i);
        for (int bucket = 0; bucket < spec->buckets; bucket++)
            hd_grad_get_counts(spec, views[GRAD].data, partial)[bucket] =
                (float)samples(context->iteration, context->shard, partial);
    }
    return HD_OK;
}

/* It reads the policy, as a step that makes a gradient does; otherwise the rest of the graph would
 * be background steps. */
static const struct hd_port ports[] = {[GRAD] = {"grad", "grad", .mode = HD_WRITE},
                                       [POLICY] = {"policy", "params", .mode = HD_READ},
                                       {0}};
static const struct hd_verb verb_uneven = {.name = "uneven", .ports = ports, .body = uneven};

/* -- Graphs ------------------------------------------------------------------------------------ */

static const struct hd_type *const types[] = {&hd_type_params, &hd_type_adam_state, &hd_type_grad,
                                              &hd_type_scalars, NULL};
static const struct hd_verb *const verbs[] = {&verb_uneven,       &hd_verb_mean, &hd_verb_adam,
                                              &hd_verb_grad_norm, &hd_verb_stop, NULL};
static const struct hd_registry registry = {types, verbs, hd_task_keys};

#define VALUES(slices)                                                                             \
    "strategy: {shard_optimizer_above_mb: " slices "}\n"                                           \
    "values:\n"                                                                                    \
    "  policy: {type: params, bucket_mb: 0.02}\n"                                                  \
    "  optimizer: {type: adam_state, of: policy}\n"                                                \
    "  grad: {type: grad, per: shard, of: policy}\n"                                               \
    "  mean_grad: {type: grad, of: policy}\n"
#define STEPS                                                                                      \
    "iteration:\n"                                                                                 \
    "  - uneven: {reads: [policy], writes: [grad]}\n"                                              \
    "  - mean: {reads: [grad], writes: [mean_grad]}\n"
#define STOP "  - stop: {if: iteration >= 6, reason: limit}\n"

static const char *const texts[] = {
    VALUES("0") STEPS "  - adam: {reads: [mean_grad], updates: [policy, optimizer]}\n" STOP,
    VALUES("1000") STEPS "  - adam: {reads: [mean_grad], updates: [policy, optimizer]}\n" STOP,
    VALUES("0") "  norm: {type: scalars}\n" STEPS
                "  - grad_norm: {reads: [mean_grad], updates: [norm]}\n"
                "  - adam: {reads: [mean_grad, norm], updates: [policy, optimizer]}\n" STOP,
};

static struct loaded_graph load(const char *text)
{
    static const struct hd_set sets[] = {
        {"policy.model.obs_shape=4", NULL},
        {"policy.model.action_shape=2", NULL},
        {"policy.model.encoder_hidden_size_list=[128,128,64]", NULL},
        {"policy.learn.batch_size=4", NULL},
        {"policy.learn.microbatch=2", NULL}};
    const struct hd_key *schema = hd_task_keys;
    struct loaded_graph l = {0};
    ck_assert_int_eq(hd_diag_create(&l.diag), HD_OK);
    ck_assert_int_eq(hd_config_create(&schema, 1, NULL, sets, 5, l.diag, &l.config), HD_OK);
    ck_assert_int_eq(
        hd_document_parse("uneven.yaml", text, (int64_t)strlen(text), l.diag, &l.document), HD_OK);
    const struct hd_graph_source source = {.registry = &registry,
                                           .config = l.config,
                                           .graph = hd_document_get_root(l.document),
                                           .shards = SHARDS,
                                           .seed = 3};
    int status = hd_graph_load(&source, l.diag, &l.graph);
    hd_diag_report(l.diag);
    ck_assert_int_eq(status, HD_OK);
    return l;
}

/* -- Runs -------------------------------------------------------------------------------------- */

struct job {
    int text, ranks;
    bool sequential;
};

static int run_rank(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct rank rank = {0};
    const char *reason;
    hd_log_set_rank(world->rank, world->world);
    struct loaded_graph l = load(texts[job->text]);
    struct hd_reference *reference = hd_reference_run(l.graph);
    rank_start(&rank, world, l.graph, job->sequential, 2, 30);
    bool sharded = false;
    for (int i = 0; i < rank.plan->n_ops; i++)
        sharded |= rank.plan->ops[i].lowering == HD_LOWERING_SHARDED_UPDATE;
    int code = sharded == (job->text == 0) ? 0 : hd_fail(1, "lowered otherwise than meant");
    if (code == 0 && hd_executor_run(rank.executor, &reason) != HD_OK)
        code = hd_fail(2, "%s", hd_session_get_message(rank.session));
    if (code == 0)
        code = rank_compare(&rank, l.graph, reference);
    rank_stop(&rank);
    hd_reference_destroy(reference);
    loaded_graph_release(&l);
    return code;
}

TEST(empty_shards_hold_up_nobody, .runs = 18)
{
    static const int ranks[] = {1, 2, 4};
    struct job job = {.text = _i / 6, .ranks = ranks[_i % 3], .sequential = _i / 3 % 2};
    ranks_run(job.ranks, run_rank, &job, "");
}

/* Adam on the mean over the samples that there are, element by element in double. */
static double trained(double param, int64_t i)
{
    double m = 0, v = 0;
    for (int64_t t = 1; t <= ITERATIONS; t++) {
        double sum = 0, count = 0;
        for (int64_t shard = 0; shard < SHARDS; shard++)
            for (int64_t partial = 0; partial < PARTIALS; partial++) {
                sum += element(t - 1, shard, partial, i);
                count += (double)samples(t - 1, shard, partial);
            }
        const double g = count > 0 ? sum / count : 0;
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        param -= 1e-3 / (1 - pow(0.9, (double)t)) * m /
                 (sqrt(v) / sqrt(1 - pow(0.999, (double)t)) + 1e-8);
    }
    return param;
}

TEST(the_others_mean_is_theirs_alone, .runs = 3)
{
    struct loaded_graph l = load(texts[_i]);
    struct hd_reference *reference = hd_reference_run(l.graph);
    const int policy = hd_graph_find_value(l.graph, "policy");
    const struct hd_spec *spec = &l.graph->values[policy].spec;
    const struct hd_setup setup = {.config = l.config, .shards = SHARDS, .seed = 3};
    const float *now = hd_reference_data(reference, policy, 0);
    float *first = hd_alloc(spec->bytes, 1);
    ck_assert_int_gt(spec->buckets, 3);
    ck_assert_int_eq(hd_value_init(spec, &setup, 0, first), HD_OK);
    for (int64_t i = 0; i < spec->elements; i++) {
        const double expected = trained(first[i], i);
        ck_assert_msg(fabs(now[i] - expected) < 2e-6, "element %lld is %g, not %g", (long long)i,
                      now[i], expected);
    }
    hd_free(first);
    hd_reference_destroy(reference);
    loaded_graph_release(&l);
}
