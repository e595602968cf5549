/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluation that is distributed over shards has the same result as one on rank 0, and keep_best
 * keeps the policy with the best result. */
#include "tasks/types/collect/envs.h"
#include "tasks/types/output/eval_result.h"
#include "tests/tasks/world.h"

enum { MAX_SHARDS = 8 };

static const struct step evaluate = {.verb = &hd_verb_evaluate},
                         sum = {.verb = &hd_verb_sum, .ports = "from=result to=summed"};

/* Returns the world of a shard, or of rank 0 if `shard` is -1. */
static struct world *open_shard(int envs, int episodes, int64_t shard, int64_t shards)
{
    struct world *w = world_make(shard, shards);
    world_set(w, "env.evaluator_env_num=%d; env.n_evaluator_episode=%d", envs, episodes);
    w->role = "evaluator";
    w->update = 30;
    world_open(w, &evaluate, &sum, NULL);
    return w;
}

static void run(struct world *w)
{
    world_run(w, &evaluate, 7);
    value_save_load(world_get(w, "envs"));
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
    struct world *alone = open_shard(c->envs, c->episodes, -1, c->shards), *sharded[MAX_SHARDS];
    int64_t played = 0, max = 0;
    for (int s = 0; s < c->shards; s++) {
        sharded[s] = open_shard(c->envs, c->episodes, s, c->shards);
        const int64_t count = count_envs(world_get(sharded[s], "envs"));
        played += count;
        max = count > max ? count : max;
    }
    ck_assert_int_eq(played, c->envs);
    ck_assert_int_eq(max, (c->envs + c->shards - 1) / c->shards);
    for (int round = 0; round < 2; round++) {
        run(alone);
        for (int s = 0; s < c->shards; s++)
            run(sharded[s]);
        worlds_combine(sharded, c->shards, &sum);
        const struct value *summed = world_get(sharded[0], "summed");
        ck_assert_uint_eq(value_hash(summed), value_hash(world_get(alone, "result")));
        ck_assert_int_eq(((struct hd_eval_result *)summed->data)->train_iter, 30);
    }
}

/* A broadcast result arrives unchanged. */
TEST(test_result_is_broadcast)
{
    struct world *w = open_shard(5, 5, -1, 2);
    run(w);
    worlds_combine(&w, 1, &sum);
    ck_assert_uint_eq(value_hash(world_get(w, "summed")), value_hash(world_get(w, "result")));
}

/* The first result is kept, and the first after an update; later ones when their mean is above all
 * before. */
TEST(test_keep_best)
{
    static const struct step keep_best = {.verb = &hd_verb_keep_best};
    static const double means[] = {9, -5, -7, -5, -4, 3, 2};
    static const bool kept[] = {true, true, false, false, true, true, false};
    struct world *w = world_make(-1, 2);
    world_open(w, &keep_best, NULL);
    struct hd_eval_result *is = world_get(w, "evaluation")->data;
    for (int i = 0; i < 7; i++) {
        const uint64_t before = value_hash(world_get(w, "best"));
        is->episodes = 5;
        is->mean = means[i];
        is->train_iter = i;
        ((float *)world_get(w, "policy")->data)[0] = (float)i;
        world_run(w, &keep_best, i);
        ck_assert_uint_eq(value_hash(world_get(w, "best")),
                          kept[i] ? value_hash(world_get(w, "policy")) : before);
        ck_assert((value_hash(world_get(w, "best_evaluation")) ==
                   value_hash(world_get(w, "evaluation"))) == kept[i]);
        value_save_load(world_get(w, "best_evaluation"));
    }
}
