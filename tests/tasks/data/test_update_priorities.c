/* SPDX-License-Identifier: Apache-2.0 */
/* push_replay, sample_replay and update_priorities with priorities: who is drawn, with which
 * importance-sampling weight, and what becomes of errors of transitions that have left. */
#include "kernels/replay/replay.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/data/td_errors.h"
#include "tests/tasks/data/transitions.h"

#include <math.h>

enum { OBS = 4, N_SAMPLE = 6, CAPACITY = 20, B = 8, NSTEP = 1, ANNEAL = 4 };
static const double ALPHA = .5, BETA = .25;

static const struct step push_replay = {.verb = &hd_verb_push_replay, .ports = "priorities"},
                         sample_replay = {.verb = &hd_verb_sample_replay, .ports = "priorities"},
                         update_priorities = {.verb = &hd_verb_update_priorities};

static struct world *open_replay(bool weighs)
{
    struct world *w = world_make(1, 2);
    world_set(w,
              "policy.collect.n_sample=6; policy.learn.batch_size=8; policy.learn.microbatch=4; "
              "env.collector_env_num=1; policy.other.replay_buffer={replay_buffer_size: 20, "
              "alpha: 0.5, beta: 0.25, anneal_step: 4}; policy.priority=true; "
              "policy.priority_IS_weight=%s",
              weighs ? "true" : "false");
    world_open(w, &push_replay, &sample_replay, &update_priorities, NULL);
    return w;
}

static void push(struct world *w, int32_t first)
{
    fill_transitions(w, first, N_SAMPLE, NSTEP, OBS);
    world_run(w, &push_replay, first);
}

static const struct hd_priorities *get_priorities(const struct world *w)
{
    return world_get(w, "priorities")->data;
}

static struct hd_batch_draws get_draws(const struct world *w)
{
    return hd_batch_get_draws(INSTANCE(w, "batch"));
}

/* Returns the transition in which a share of the sum of all weights ends, by walking over them. */
static int64_t walk(const struct world *w, double share)
{
    const struct hd_priorities *p = get_priorities(w);
    double sum = 0, below = 0;
    for (int64_t i = 0; i < CAPACITY; i++)
        sum += p->weight[i];
    for (int64_t i = 0; i < CAPACITY; i++) {
        below += p->weight[i];
        if (share * sum < below)
            return p->end - 1 - (p->end - 1 + CAPACITY - i) % CAPACITY;
    }
    return p->end - 1;
}

/* Samples draw number `draw` and compares rows and weights with those of the priorities. */
static void sample(struct world *w, int64_t draw, bool weighs)
{
    const struct hd_context where = world_at(w, &sample_replay, 100 + draw);
    world_run_at(w, &sample_replay, where);
    const struct hd_transitions rows = hd_batch_get_rows(INSTANCE(w, "batch"));
    const struct hd_batch_draws draws = get_draws(w);
    const struct hd_priorities *p = get_priorities(w);
    const double beta = fmin(1, BETA + (double)draw * (1 - BETA) / ANNEAL);
    double min = INFINITY;
    for (int64_t t = p->first; t < p->end; t++)
        min = fmin(min, p->weight[t % CAPACITY]);
    ck_assert_int_eq(p->draws, draw + 1);
    for (int i = 0; i < B; i++) {
        const int64_t t = walk(w, (i + hd_rng_draw_uniform(&where.rng, (uint32_t)i)) / B);
        const double weight = pow(p->weight[t % CAPACITY] / min, -beta);
        ck_assert_int_eq(draws.number[i], t);
        ck_assert_int_eq(rows.action[i].choice, (int32_t)t);
        ck_assert_float_eq(((float *)rows.obs)[i * OBS], (float)t);
        ck_assert_float_eq(((float *)rows.next_obs)[i * OBS], (float)(t + 1));
        ck_assert_double_le(fabs(draws.importance[i] - (weighs ? weight : 1)), 1e-7);
    }
}

static float error_of(int i)
{
    return (float)(i * i) * .25f;
}

static void update(struct world *w)
{
    for (int i = 0; i < B; i++)
        *hd_td_errors_get(INSTANCE(w, "td_errors"), i) = error_of(i);
    world_run(w, &update_priorities, 200);
}

/* The last row of a transition decides. */
static void check_updated(const struct world *w)
{
    const struct hd_batch_draws draws = get_draws(w);
    const struct hd_priorities *p = get_priorities(w);
    for (int i = 0; i < B; i++) {
        int last = i;
        for (int j = i + 1; j < B; j++)
            last = draws.number[j] == draws.number[i] ? j : last;
        const double wanted = pow((double)error_of(last) + 1e-5, ALPHA);
        if (draws.number[i] >= p->first)
            ck_assert_double_eq(p->weight[draws.number[i] % CAPACITY], wanted);
    }
}

TEST(draws_follow_errors, .runs = 2)
{
    const bool weighs = _i == 1;
    struct world *w = open_replay(weighs);
    for (int32_t round = 0; round < 6; round++) {
        push(w, 2 * round * N_SAMPLE);
        push(w, (2 * round + 1) * N_SAMPLE);
        const struct hd_priorities *p = get_priorities(w);
        for (int64_t t = p->end - N_SAMPLE; t < p->end; t++)
            ck_assert_double_eq(p->weight[t % CAPACITY],
                                pow(round > 0 ? error_of(B - 1) : 1, ALPHA));
        sample(w, round, weighs);
        update(w);
        check_updated(w);
        for (int i = 0; i < w->n_values; i++)
            value_save_load(&w->values[i]);
    }
}

/* Transitions that were overwritten since they were drawn keep what their successors have. */
TEST(transitions_that_left_are_not_updated)
{
    struct world *w = open_replay(true);
    for (int32_t k = 0; k < 3; k++)
        push(w, k * N_SAMPLE);
    sample(w, 0, true);
    for (int32_t k = 3; k < 5; k++) /* transitions 0 … 9 leave */
        push(w, k * N_SAMPLE);
    update(w);
    const struct hd_batch_draws draws = get_draws(w);
    const struct hd_priorities *p = get_priorities(w);
    int left = 0;
    for (int i = 0; i < B; i++)
        left += draws.number[i] < p->first;
    ck_assert_int_eq(p->first, 10);
    ck_assert(left > 0 && left < B);
    check_updated(w);
    for (int64_t t = 18; t < 30; t++) /* which were not drawn */
        ck_assert_double_eq(p->weight[t % CAPACITY], 1);
}

/* An error that is not finite, of an update that is skipped, changes nothing. */
TEST(errors_that_are_no_numbers_are_left_out)
{
    struct world *w = open_replay(true);
    push(w, 0);
    push(w, N_SAMPLE);
    sample(w, 0, true);
    const uint64_t hash = value_hash(world_get(w, "priorities"));
    for (int i = 0; i < B; i++)
        *hd_td_errors_get(INSTANCE(w, "td_errors"), i) = i % 2 ? NAN : INFINITY;
    world_run(w, &update_priorities, 200);
    ck_assert_uint_eq(value_hash(world_get(w, "priorities")), hash);
}

TEST(priorities_of_another_replay_are_told)
{
    struct world *w = open_replay(true);
    push(w, 0);
    ((struct hd_priorities *)world_get(w, "priorities")->data)->end--;
    check_names(world_fail(w, &sample_replay, 0), "'replay'|'priorities'");
}
