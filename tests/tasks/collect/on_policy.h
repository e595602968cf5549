/* SPDX-License-Identifier: Apache-2.0 */
/* The values of on-policy learning of one shard and its steps, without an executor. Every shard of
 * a test is a world of its own, with its own copy of what is global. */
#ifndef HD_TESTS_TASKS_COLLECT_ON_POLICY_H
#define HD_TESTS_TASKS_COLLECT_ON_POLICY_H

#include "runtime/base/tree.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/data/permutation.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/advantages.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/values.h"

enum {
    POLICY,
    OPTIMIZER,
    ENVS,
    COUNTERS,
    EPISODES,
    TRAJECTORIES,
    ADVANTAGES,
    RETURNS,
    SUMMED_RETURNS,
    SCALE,
    SEEN,
    SUMMED_OBS_STATS,
    OBS_NORM,
    PERMUTATION,
    BATCH,
    GRAD,
    MEAN_GRAD,
    GRAD_NORM,
    STATS,
    MEANS,
    RATE,
    N_VALUES,
    NONE = -1 /* an absent port */
};

struct world {
    struct hd_setup setup;
    struct hd_document *options; /* of the steps: loss: ppo */
    int64_t shard;
    double bucket_mb;
    bool plays;              /* has ENVS, COUNTERS and EPISODES */
    bool normalised;         /* observations go through OBS_NORM */
    bool own_grad, adapt_lr; /* adam reads GRAD, not MEAN_GRAD; it and the loss read RATE */
    struct value v[N_VALUES];
};

/* Values of a step's ports, ended by N_VALUES. */
static inline void world_ports(struct world *w, const int *which, struct value *values[MAX_PORTS])
{
    for (int i = 0; i < MAX_PORTS; i++)
        values[i] = NULL;
    for (int i = 0; which[i] != N_VALUES; i++)
        values[i] = which[i] == NONE ? NULL : &w->v[which[i]];
}

static inline void world_declare(struct world *w, const struct hd_verb *verb, const int *which)
{
    struct value *values[MAX_PORTS];
    struct hd_spec *specs[MAX_PORTS];
    world_ports(w, which, values);
    struct hd_setup step = step_setup(verb, &w->setup, values, specs);
    if (verb->declare)
        ck_assert_int_eq(verb->declare(&step), HD_OK);
}

/* Makes the context of one shard's task, or of a global one if shard < 0. */
static inline void world_run(struct world *w, const struct hd_verb *verb, const int *which,
                             struct hd_context where)
{
    struct value *values[MAX_PORTS];
    world_ports(w, which, values);
    run(verb, &w->setup, values, &where);
}

static inline int obs_norm_of(const struct world *w)
{
    return w->normalised ? OBS_NORM : NONE;
}

static const int collect_ports[] = {POLICY, NONE, ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_VALUES};
static const int obs_stats_ports[] = {TRAJECTORIES, SEEN, N_VALUES};
static const int merge_returns_ports[] = {SUMMED_RETURNS, SCALE, N_VALUES};
static const int merge_obs_ports[] = {SUMMED_OBS_STATS, OBS_NORM, N_VALUES};
static const int sum_ports[] = {RETURNS, SUMMED_RETURNS, N_VALUES};
static const int sum_seen_ports[] = {SEEN, SUMMED_OBS_STATS, N_VALUES};
static const int loss_ports[] = {POLICY, NONE, BATCH, STATS, GRAD, NONE, N_VALUES};
static const int mean_stats_ports[] = {STATS, MEANS, N_VALUES};
static const int adapt_lr_ports[] = {MEANS, RATE, N_VALUES};
static const int norm_ports[] = {MEAN_GRAD, GRAD_NORM, N_VALUES};

static inline void world_declare_all(struct world *w)
{
    if (w->plays)
        world_declare(w, &hd_verb_collect_on_policy, collect_ports);
    world_declare(w, &hd_verb_compute_obs_stats, obs_stats_ports);
    world_declare(w, &hd_verb_sum, sum_seen_ports);
    world_declare(w, &hd_verb_merge_stats, merge_obs_ports);
    world_declare(w, &hd_verb_compute_advantages,
                  (int[]){POLICY, TRAJECTORIES, OBS_NORM, SCALE, ADVANTAGES, RETURNS, N_VALUES});
    world_declare(w, &hd_verb_sum, sum_ports);
    world_declare(w, &hd_verb_merge_stats, merge_returns_ports);
    world_declare(w, &hd_verb_loss_grad, loss_ports);
    world_declare(w, &hd_verb_mean, mean_stats_ports);
    world_declare(w, &hd_verb_adapt_lr, adapt_lr_ports);
    world_declare(w, &hd_verb_grad_norm, norm_ports);
}

static inline bool is_there(const struct world *w, int value)
{
    return w->plays || (value != ENVS && value != COUNTERS && value != EPISODES);
}

static inline void world_open(struct world *w, const char *const *sets, int n)
{
    static const struct {
        const char *name;
        const struct hd_type *type;
        enum hd_placement placement;
        int of;
    } is[N_VALUES] = {
        [POLICY] = {"policy", &hd_type_params, HD_GLOBAL, NONE},
        [OPTIMIZER] = {"optimizer", &hd_type_adam_state, HD_GLOBAL, POLICY},
        [ENVS] = {"envs", &hd_type_envs, HD_SHARD, NONE},
        [COUNTERS] = {"counters", &hd_type_env_counters, HD_SHARD, NONE},
        [EPISODES] = {"episodes", &hd_type_scalars, HD_SHARD, NONE},
        [TRAJECTORIES] = {"trajectories", &hd_type_trajectories, HD_SHARD, NONE},
        [ADVANTAGES] = {"advantages", &hd_type_advantages, HD_SHARD, NONE},
        [RETURNS] = {"returns", &hd_type_moments, HD_SHARD, NONE},
        [SUMMED_RETURNS] = {"summed_returns", &hd_type_moments, HD_GLOBAL, NONE},
        [SCALE] = {"scale", &hd_type_moments, HD_GLOBAL, NONE},
        [SEEN] = {"seen", &hd_type_moments, HD_SHARD, NONE},
        [SUMMED_OBS_STATS] = {"summed_obs_stats", &hd_type_moments, HD_GLOBAL, NONE},
        [OBS_NORM] = {"obs_norm", &hd_type_moments, HD_GLOBAL, NONE},
        [PERMUTATION] = {"permutation", &hd_type_permutation, HD_SHARD, NONE},
        [BATCH] = {"batch", &hd_type_minibatch, HD_SHARD, NONE},
        [GRAD] = {"grad", &hd_type_grad, HD_SHARD, POLICY},
        [MEAN_GRAD] = {"mean_grad", &hd_type_grad, HD_GLOBAL, POLICY},
        [GRAD_NORM] = {"grad_norm", &hd_type_scalars, HD_GLOBAL, NONE},
        [STATS] = {"stats", &hd_type_scalars, HD_SHARD, NONE},
        [MEANS] = {"means", &hd_type_scalars, HD_GLOBAL, NONE},
        [RATE] = {"rate", &hd_type_scalars, HD_GLOBAL, NONE},
    };
    static const char options[] = "{loss: ppo}";
    const char *all[32] = {"policy.type=ppo"};
    ck_assert_int_lt(n, 24);
    for (int i = 0; i < n; i++)
        all[i + 1] = sets[i];
    w->setup = setup_open(all, n + 1);
    ck_assert_int_eq(
        hd_document_parse("step", options, sizeof options - 1, w->setup.diag, &w->options), HD_OK);
    w->setup.options = hd_document_get_root(w->options);
    for (int i = 0; i < N_VALUES; i++) {
        if (!is_there(w, i))
            continue;
        w->v[i] = (struct value){.spec = {.name = is[i].name,
                                          .type = is[i].type,
                                          .placement = is[i].placement,
                                          .of = is[i].of == NONE ? NULL : &w->v[is[i].of].spec,
                                          .role = "collector",
                                          .location = w->setup.location,
                                          .bucket_mb = w->bucket_mb,
                                          .buckets = 1,
                                          .partials = 1}};
        if (is[i].type->resolve)
            ck_assert_int_eq(is[i].type->resolve(&w->v[i].spec, &w->setup), HD_OK);
    }
    world_declare_all(w);
    for (int i = 0; i < N_VALUES; i++)
        if (is_there(w, i))
            value_init(&w->v[i], &w->setup, w->shard);
}

static inline void world_close(struct world *w)
{
    for (int i = N_VALUES - 1; i >= 0; i--)
        if (is_there(w, i))
            value_close(&w->v[i]);
    hd_document_destroy(w->options);
    setup_close(&w->setup);
}

/* -- Steps ------------------------------------------------------------------------------------- */

static inline struct hd_context world_at(const struct world *w, int64_t iteration,
                                         int64_t repeat_index)
{
    struct hd_context where = at(&w->setup, w->shard, iteration);
    where.rng = hd_rng_make(w->setup.seed, 77, w->shard, iteration, repeat_index);
    where.repeat_index = repeat_index;
    return where;
}

/* Spoils the values that the step writes: their old content may be anything. */
static inline void spoil(struct value *value)
{
    memset(value->data, 0xFF, (size_t)value->spec.bytes);
}

static inline void world_collect(struct world *w, int64_t iteration)
{
    spoil(&w->v[TRAJECTORIES]);
    world_run(w, &hd_verb_collect_on_policy,
              (int[]){POLICY, obs_norm_of(w), ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_VALUES},
              world_at(w, iteration, 0));
}

static inline void world_compute_advantages(struct world *w)
{
    spoil(&w->v[ADVANTAGES]);
    world_run(w, &hd_verb_compute_advantages,
              (int[]){POLICY, TRAJECTORIES, obs_norm_of(w), SCALE, ADVANTAGES, RETURNS, N_VALUES},
              world_at(w, 0, 0));
}

static inline void world_shuffle(struct world *w, int64_t iteration, int64_t repeat_index)
{
    spoil(&w->v[PERMUTATION]);
    world_run(w, &hd_verb_shuffle, (int[]){PERMUTATION, N_VALUES},
              world_at(w, iteration, repeat_index));
}

/* Makes the permutation the identity. */
static inline void world_in_order(struct world *w)
{
    struct hd_permutation *permutation = w->v[PERMUTATION].data;
    const int64_t n = hd_permutation_get_split(&w->v[PERMUTATION].spec)->samples;
    permutation->taken = 0;
    for (int64_t i = 0; i < n; i++)
        permutation->sample[i] = (int32_t)i;
}

static inline void world_sample_minibatch(struct world *w)
{
    spoil(&w->v[BATCH]);
    world_run(w, &hd_verb_sample_minibatch,
              (int[]){TRAJECTORIES, ADVANTAGES, PERMUTATION, BATCH, N_VALUES}, world_at(w, 0, 0));
}

static inline void world_loss(struct world *w)
{
    spoil(&w->v[GRAD]);
    world_run(w, &hd_verb_loss_grad,
              (int[]){POLICY, NONE, BATCH, STATS, GRAD, obs_norm_of(w), NONE,
                      w->adapt_lr ? RATE : NONE, N_VALUES},
              world_at(w, 0, 0));
}

/* Runs grad_norm on the gradient that adam reads, then adam, bucket by bucket. */
static inline void world_adam(struct world *w)
{
    const int from = w->own_grad ? GRAD : MEAN_GRAD;
    const int ports[] = {from, POLICY, OPTIMIZER, GRAD_NORM, w->adapt_lr ? RATE : NONE, N_VALUES};
    struct value *values[MAX_PORTS];
    char message[HD_MESSAGE_BYTES] = "";
    world_run(w, &hd_verb_grad_norm, (int[]){from, GRAD_NORM, N_VALUES}, world_at(w, 0, 0));
    world_ports(w, ports, values);
    void *args = prepare(&hd_verb_adam, &w->setup, values);
    void *scratch = hd_alloc(1, (size_t)hd_verb_adam.scratch(args));
    for (int bucket = w->v[POLICY].spec.buckets - 1; bucket >= 0; bucket--) {
        struct hd_view views[MAX_PORTS] = {{0}};
        struct hd_context context = world_at(w, 0, 0);
        context.message = message;
        context.scratch = scratch;
        for (int i = 0; ports[i] != N_VALUES; i++)
            if (values[i])
                views[i] = (struct hd_view){
                    .data = values[i]->data, .spec = &values[i]->spec, .bucket = bucket};
        ck_assert_int_eq(hd_verb_adam.body(&context, views, args), HD_OK);
    }
    hd_free(scratch);
    unprepare(&hd_verb_adam, args);
}

/* -- Collectives ------------------------------------------------------------------------------- */

struct reduce {
    struct world *worlds;
    int value, bucket;
    enum hd_combine how;
    char *levels[8];
};

static inline void *pack_partial(void *arg, int64_t i, int level)
{
    struct reduce *reduce = arg;
    const struct value *value = &reduce->worlds[i].v[reduce->value];
    value->spec.type->reduction->pack(&value->spec, reduce->bucket, value->data,
                                      reduce->levels[level]);
    return reduce->levels[level];
}

static inline void *fold_two(void *arg, int level, void *left, void *right)
{
    struct reduce *reduce = arg;
    const struct hd_spec *spec = &reduce->worlds[0].v[reduce->value].spec;
    (void)level;
    spec->type->reduction->combine(spec, reduce->bucket, reduce->how, left, right);
    return left;
}

/* Combines value `from` of n shards to the global value `to` of each of them. */
static inline void worlds_combine(struct world *worlds, int n, int from, enum hd_combine how,
                                  int to)
{
    struct reduce reduce = {.worlds = worlds, .value = from, .how = how};
    const struct hd_spec *spec = &worlds[0].v[from].spec;
    const struct hd_reduction *reduction = spec->type->reduction;
    for (reduce.bucket = 0; reduce.bucket < spec->buckets; reduce.bucket++) {
        for (int i = 0; i < 8; i++)
            reduce.levels[i] = hd_alloc(1, (size_t)reduction->bytes(spec, reduce.bucket) + 64);
        const void *sum = hd_tree_reduce(0, n, pack_partial, fold_two, &reduce);
        for (int i = 0; i < n; i++)
            reduction->unpack(&worlds[i].v[to].spec, reduce.bucket, how, sum, worlds[i].v[to].data);
        for (int i = 0; i < 8; i++)
            hd_free(reduce.levels[i]);
    }
}

/* -- Looking in -------------------------------------------------------------------------------- */

static inline double world_field(const struct world *w, int value, const char *name)
{
    const struct value *is = &w->v[value];
    const int field = hd_value_find_field(&is->spec, name);
    ck_assert_msg(field >= 0, "'%s' has no %s", is->spec.name, name);
    return is->spec.type->field(&is->spec, is->data, field);
}

static inline struct hd_minibatch world_batch(const struct world *w)
{
    return hd_minibatch_get(&w->v[BATCH].spec, w->v[BATCH].data);
}

static inline struct hd_advantages world_rows(const struct world *w)
{
    return hd_advantages_get(&w->v[ADVANTAGES].spec, w->v[ADVANTAGES].data);
}

#endif
