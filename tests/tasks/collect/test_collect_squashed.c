/* SPDX-License-Identifier: Apache-2.0 */
/* collect with actions that a squashed policy draws, on the pendulum: what the environment takes,
 * random actions at first, noise that stays for several steps, and episodes that a time limit ends.
 */
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { LENGTH = 200 /* steps of an episode */, REPEAT = 5, SAMPLES = 2 * LENGTH };
enum { CHANGES = 2 * (LENGTH / REPEAT - 1) - 4 /* some draws are near the ones before */ };

static const struct step collect = {.verb = &hd_verb_collect};

static struct world *open_pendulum(const char *more)
{
    struct world *w = world_make(0, 2);
    world_set(w,
              "policy.type=sac; policy.action_space=continuous; env.type=pendulum; "
              "policy.model.obs_shape=3; policy.model.action_shape=1; env.collector_env_num=2; "
              "policy.collect.n_sample=400; policy.collect.noise_repeat=5; %s",
              more);
    world_open(w, &collect, NULL);
    return w;
}

static struct hd_transition_block run(struct world *w, int64_t iteration)
{
    const struct value *transitions = world_get(w, "transitions");
    world_run(w, &collect, iteration);
    return hd_transition_block_get(hd_transition_block_get_shape(&transitions->spec),
                                   transitions->data);
}

static const struct hd_transition *get(const struct hd_transition_block *block, int64_t i)
{
    return hd_transition_get(block->transitions, 1, 1, i);
}

static float get_action(const struct hd_transition_block *block, int64_t i)
{
    return hd_transition_get_action(get(block, i), 1)->real;
}

/* Returns the observation before a transition, which is not the one that the collect before left.
 */
static const float *get_obs(const struct hd_transition_block *block, int64_t i)
{
    const struct hd_transition *transition = get(block, i);
    int64_t frame = 0, shown = block->first[transition->env];
    while (block->env[frame] != transition->env || shown++ < transition->frame)
        frame++;
    return (const float *)(block->frames + frame * 3 * (int64_t)sizeof(float));
}

/* The pendulum's costs tell its torque, which is twice the action. */
static void check_reward(const struct hd_transition_block *block, int64_t i)
{
    const float *obs = get_obs(block, i);
    const double angle = atan2((double)obs[1], (double)obs[0]), speed = (double)obs[2];
    const double torque = 2 * (double)get_action(block, i);
    ck_assert_double_eq_tol((double)get(block, i)->reward[0],
                            -(angle * angle + 0.1 * speed * speed + 0.001 * torque * torque), 2e-4);
}

/* Returns the noise behind an action of the policy, or what a random action is. */
static double find_noise(const struct world *w, const struct hd_transition_block *block, int64_t i,
                         bool random)
{
    float out[2];
    world_forward(w, "policy", NULL, get_obs(block, i), 1, out);
    const double action = (double)get_action(block, i);
    return random ? action : (atanh(action) - (double)out[0]) / exp((double)out[1]);
}

/* Checks a collect of two episodes, and returns how often noise changed. */
static int check_collect(const struct world *w, const struct hd_transition_block *block,
                         bool random)
{
    int changes = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        const int64_t step = get(block, i)->age;
        ck_assert(fabsf(get_action(block, i)) <= 1);
        if (step > 0)
            check_reward(block, i);
        if (step < 2)
            continue;
        const double before = find_noise(w, block, i - 1, random);
        const double change = fabs(find_noise(w, block, i, random) - before);
        ck_assert_int_eq(get(block, i)->env, get(block, i - 1)->env);
        ck_assert_msg(step % REPEAT == 0 || change < 1e-3 * (1 + fabs(before)),
                      "noise changes by %g at step %lld", change, (long long)step);
        changes += change > 1e-3 * (1 + fabs(before));
    }
    return changes;
}

/* The first collect is random, the second one, of another episode, is the policy's. */
TEST(noise_stays_and_random_actions_come_first)
{
    struct world *w = open_pendulum("policy.random_collect_size=400");
    struct hd_transition_block block = run(w, 0);
    ck_assert_int_ge(check_collect(w, &block, true), CHANGES);
    float least = 1, most = -1, first = get_action(&block, 0);
    for (int64_t i = 0; i < SAMPLES; i++) {
        least = fminf(least, get_action(&block, i));
        most = fmaxf(most, get_action(&block, i));
    }
    ck_assert(least < -0.9f && most > 0.9f);
    /* Two shards have collected as much each. */
    ((struct hd_env_counters *)world_get(w, "totals")->data)->sample = 2 * SAMPLES;
    block = run(w, 1);
    ck_assert_int_ge(check_collect(w, &block, false), CHANGES);
    ck_assert(get_action(&block, 0) != first);
}

/* An end by a time limit is terminal only where the run file says so. */
TEST(a_time_limit_is_no_terminal_state, .runs = 3)
{
    static const char *const sets[] = {"policy.collect.truncation=auto",
                                       "policy.collect.truncation=bootstrap",
                                       "policy.collect.truncation=terminal"};
    struct world *w = open_pendulum(sets[_i]);
    const struct hd_transition_block block = run(w, 0);
    for (int64_t i = 0; i < SAMPLES; i++)
        ck_assert(get(&block, i)->done == (float)(_i == 2 && get(&block, i)->age == LENGTH - 1));
    ck_assert_int_eq(((struct hd_env_counters *)world_get(w, "counters")->data)->episode, 2);
}

/* A critic yields one number, from which a policy's actions cannot come. */
TEST(a_net_of_something_else_does_not_act)
{
    static const struct step step = {.verb = &hd_verb_collect, .ports = "policy=critic"};
    struct world *w = world_make(0, 2);
    world_set(w, "policy.type=sac; policy.action_space=continuous; env.type=pendulum; "
                 "policy.model.obs_shape=3; policy.model.action_shape=1; "
                 "policy.critic={layers: [{dense: 8}, relu], heads: {value: {type: dense}}}");
    world_declare(
        w, (struct hd_spec){.name = "critic", .type = &hd_type_params, .placement = HD_GLOBAL},
        "{net: policy.critic}");
    world_open(w, &step, NULL);
    check_names(world_mistake(w, &step), "collect|policy.type sac|2 numbers|yields 1");
}
