/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of on-policy learning, and their values. */
#pragma once

#include "tasks/types/collect/trajectories.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/data/permutation.h"
#include "tasks/types/learn/adam_state.h"
#include "tasks/types/learn/advantages.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/world.h"

static const struct step
    collect = {.verb = &hd_verb_collect_on_policy},
    collect_normalised = {.verb = &hd_verb_collect_on_policy, .ports = "obs_norm"},
    compute_obs_stats = {.verb = &hd_verb_compute_obs_stats, .ports = "trajectories"},
    sum_obs_stats = {.verb = &hd_verb_sum, .ports = "from=obs_stats to=summed_obs_stats"},
    merge_obs_stats = {.verb = &hd_verb_merge_stats,
                       .ports = "new=summed_obs_stats running=obs_norm"},
    compute_advantages = {.verb = &hd_verb_compute_advantages, .ports = "return_scale returns"},
    compute_advantages_normalised = {.verb = &hd_verb_compute_advantages,
                                     .ports = "obs_norm return_scale returns"},
    sum_returns = {.verb = &hd_verb_sum, .ports = "from=returns to=summed_returns"},
    merge_returns = {.verb = &hd_verb_merge_stats,
                     .ports = "new=summed_returns running=return_scale"},
    shuffle = {.verb = &hd_verb_shuffle}, sample_minibatch = {.verb = &hd_verb_sample_minibatch},
    loss_grad = {&hd_verb_loss_grad, "stats", "{loss: ppo}"},
    loss_grad_at_rate = {&hd_verb_loss_grad, "stats learning_rate", "{loss: ppo}"},
    mean_grad = {.verb = &hd_verb_mean, .ports = "from=grad to=mean_grad"},
    mean_stats = {.verb = &hd_verb_mean, .ports = "from=stats to=means"},
    adapt_lr = {.verb = &hd_verb_adapt_lr},
    grad_norm = {.verb = &hd_verb_grad_norm, .ports = "grad=mean_grad norm=grad_norm"},
    adam = {.verb = &hd_verb_adam, .ports = "grad_norm"};

/* Returns a world of PPO. */
static inline struct world *make_on_policy(int64_t shard)
{
    struct world *w = world_make(shard, 2);
    world_set(w, "policy.type=ppo");
    return w;
}

/* Opens a world, which may have a step that collects, with all that follows on it. */
static inline void open_on_policy(struct world *w)
{
    world_add(w, &compute_obs_stats, &sum_obs_stats, &merge_obs_stats, NULL);
    world_add(w, &compute_advantages, &sum_returns, &merge_returns, &shuffle, NULL);
    world_add(w, &sample_minibatch, &loss_grad, &mean_grad, &mean_stats, &adapt_lr, NULL);
    world_open(w, &grad_norm, &adam, NULL);
}

/* Updates the parameters by the mean gradient. */
static inline void run_adam(struct world *w)
{
    world_run(w, &grad_norm, 0);
    world_run(w, &adam, 0);
}

/* Updates the parameters by one shard's gradient, and by the samples in their order. Statistics are
 * those of this update alone. */
static inline void learn(struct world *w)
{
    value_clear(world_get(w, "stats"));
    value_clear(world_get(w, "grad_norm"));
    world_run(w, &loss_grad, 0);
    worlds_combine(&w, 1, &mean_grad);
    run_adam(w);
}

static inline void learn_in_order(struct world *w)
{
    struct hd_permutation *permutation = world_get(w, "permutation")->data;
    permutation->taken = 0;
    for (int i = 0; i < hd_permutation_get_split(&world_get(w, "permutation")->spec)->samples; i++)
        permutation->sample[i] = i;
    world_run(w, &sample_minibatch, 0);
    learn(w);
}

static inline struct hd_minibatch get_minibatch(const struct world *w)
{
    return hd_minibatch_get(INSTANCE(w, "batch"));
}

static inline struct hd_advantages get_advantages(const struct world *w)
{
    return hd_advantages_get(INSTANCE(w, "advantages"));
}

/* Adds random rows between low and high to moments. */
static inline void add_moments(struct value *value, uint64_t seed, float low, float high)
{
    enum { ROWS = 6 };
    const int64_t n = hd_moments_count_elements(&value->spec);
    struct hd_rng rng = hd_rng_make(seed, 4, 3, 2, 1);
    float *x = hd_alloc(ROWS * n, sizeof *x);
    void *other = hd_alloc(1, (size_t)value->spec.bytes);
    for (int64_t i = 0; i < ROWS * n; i++)
        x[i] = low + (high - low) * (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    hd_moments_compute(x, ROWS, n, hd_moments_get(&value->spec, other));
    hd_moments_join(&value->spec, value->data, other);
    hd_free(other);
    hd_free(x);
}
