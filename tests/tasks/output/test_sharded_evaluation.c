/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluation that is distributed over shards has the same result as one on rank 0, and keep_best
 * keeps the policy with the best result. */
#include "tasks/types/collect/envs.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/eval_result.h"
#include "tests/tasks/values.h"

#include <stdlib.h>

enum { MAX_SHARDS = 8 };

struct world {
    struct hd_setup setup;
    struct value policy;
    struct value envs[MAX_SHARDS], result[MAX_SHARDS]; /* shards 1 …: instances of one spec */
};

static void open_instance(struct world *w, struct value *first, struct value *value, int shard)
{
    value->spec = first->spec;
    value_init(value, &w->setup, shard);
}

static void world_open(struct world *w, const char *const *sets, int n, int shards)
{
    w->setup = setup_open(sets, n);
    w->setup.shards = shards;
    const enum hd_placement placement = shards > 0 ? HD_SHARD : HD_RANK0;
    value_open(&w->policy, &w->setup, &hd_type_params, "policy", NULL);
    value_resolve_at(&w->envs[0], &w->setup, &hd_type_envs, "eval_envs", "evaluator", placement);
    value_resolve_at(&w->result[0], &w->setup, &hd_type_eval_result, "result", NULL, placement);
    for (int s = 0; s < (shards > 0 ? shards : 1); s++) {
        open_instance(w, &w->envs[0], &w->envs[s], s);
        open_instance(w, &w->result[0], &w->result[s], s);
    }
}

static void world_close(struct world *w, int shards)
{
    for (int s = (shards > 0 ? shards : 1) - 1; s >= 1; s--) {
        hd_value_fini(&w->envs[s].spec, w->envs[s].data);
        hd_free(w->envs[s].data);
        hd_free(w->result[s].data);
    }
    value_close(&w->result[0]);
    value_close(&w->envs[0]);
    value_close(&w->policy);
    setup_close(&w->setup);
}

static void evaluate(struct world *w, int s, int64_t shard)
{
    struct value *ports[MAX_PORTS] = {&w->policy, NULL, &w->envs[s], NULL, &w->result[s]};
    struct hd_context where = at(&w->setup, shard, 7);
    where.update = 30;
    memset(w->result[s].data, 0xFF, (size_t)w->result[s].spec.bytes);
    run(&hd_verb_evaluate, &w->setup, ports, &where);
    value_save_load(&w->envs[s]);
}

/* Adds the shards' results as the collective `sum` does. */
static void combine(struct world *w, int shards, struct value *result)
{
    const struct hd_reduction *reduction = hd_type_eval_result.reduction;
    const struct hd_spec *spec = &w->result[0].spec;
    size_t bytes = (size_t)reduction->bytes(spec, 0);
    void *sum = hd_alloc(1, bytes), *vector = hd_alloc(1, bytes);
    for (int s = 0; s < shards; s++) {
        reduction->pack(spec, 0, w->result[s].data, s ? vector : sum);
        if (s > 0)
            reduction->combine(spec, 0, HD_SUM, sum, vector);
    }
    reduction->unpack(spec, 0, HD_SUM, sum, result->data);
    hd_free(sum);
    hd_free(vector);
}

static int64_t count_envs(const struct value *envs)
{
    int64_t count = 0;
    for (int64_t group = 0; group < envs->spec.partials; group++)
        count += *hd_envs_get(&envs->spec, envs->data, group).count;
    return count;
}

struct sharding_case {
    int envs, episodes, shards;
};

static const struct sharding_case cases[] = {
    {5, 5, 2}, {5, 8, 4}, {8, 8, 4}, {3, 7, 8}, {1, 2, 2}, {5, 3, 2}, {6, 13, 1},
};

TEST(test_same_result, .runs = COUNT(cases))
{
    const struct sharding_case *c = &cases[_i];
    char envs[64], episodes[64];
    snprintf(envs, sizeof envs, "env.evaluator_env_num=%d", c->envs);
    snprintf(episodes, sizeof episodes, "env.n_evaluator_episode=%d", c->episodes);
    const char *const sets[] = {envs, episodes};
    struct world alone, sharded;
    world_open(&alone, sets, 2, 0);
    world_open(&sharded, sets, 2, c->shards);
    int64_t played = 0, max = 0;
    for (int s = 0; s < c->shards; s++) {
        const int64_t count = count_envs(&sharded.envs[s]);
        played += count;
        max = count > max ? count : max;
    }
    ck_assert_int_eq(played, c->envs);
    ck_assert_int_eq(max, (c->envs + c->shards - 1) / c->shards);
    for (int round = 0; round < 2; round++) {
        evaluate(&alone, 0, -1);
        for (int s = 0; s < c->shards; s++)
            evaluate(&sharded, s, s);
        struct value result = {.spec = sharded.result[0].spec};
        value_init(&result, &sharded.setup, 0);
        combine(&sharded, c->shards, &result);
        ck_assert_uint_eq(value_hash(&result), value_hash(&alone.result[0]));
        ck_assert_int_eq(((struct hd_eval_result *)result.data)->train_iter, 30);
        hd_free(result.data);
    }
    world_close(&sharded, c->shards);
    world_close(&alone, 0);
}

/* A broadcast result arrives unchanged. */
TEST(test_result_is_broadcast)
{
    struct world w;
    world_open(&w, NULL, 0, 0);
    evaluate(&w, 0, -1);
    struct value result = {.spec = w.result[0].spec};
    value_init(&result, &w.setup, 0);
    combine(&w, 1, &result);
    ck_assert_uint_eq(value_hash(&result), value_hash(&w.result[0]));
    hd_free(result.data);
    world_close(&w, 0);
}

/* The first result is always kept, later ones when their mean is above all before. */
TEST(test_keep_best)
{
    struct hd_setup setup = setup_open(NULL, 0);
    struct value result, policy, best, best_verdict;
    value_open(&result, &setup, &hd_type_eval_result, "eval_result", NULL);
    value_open(&policy, &setup, &hd_type_params, "candidate", NULL);
    value_open(&best, &setup, &hd_type_params, "best", NULL);
    value_open(&best_verdict, &setup, &hd_type_eval_result, "best_verdict", NULL);
    struct value *ports[MAX_PORTS] = {&result, &policy, &best, &best_verdict};
    static const double means[] = {-5, -7, -5, -4, 3, 2};
    static const bool kept[] = {true, false, false, true, true, false};
    for (int i = 0; i < 6; i++) {
        struct hd_context where = at(&setup, -1, i);
        struct hd_eval_result *is = result.data;
        is->episodes = 5;
        is->mean = means[i];
        is->train_iter = i;
        ((float *)policy.data)[0] = (float)i;
        uint64_t before = value_hash(&best);
        run(&hd_verb_keep_best, &setup, ports, &where);
        ck_assert_uint_eq(value_hash(&best), kept[i] ? value_hash(&policy) : before);
        ck_assert((value_hash(&best_verdict) == value_hash(&result)) == kept[i]);
        value_save_load(&best_verdict);
    }
    value_close(&best_verdict);
    value_close(&best);
    value_close(&policy);
    value_close(&result);
    setup_close(&setup);
}
