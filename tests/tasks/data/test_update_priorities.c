/* SPDX-License-Identifier: Apache-2.0 */
/* push_replay, sample_replay and update_priorities with priorities: who is drawn, with which
 * importance-sampling weight, and what becomes of errors of transitions that have left. */
#include "kernels/replay/replay.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/priorities.h"
#include "tasks/types/data/td_errors.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { TRANSITION_BLOCK, REPLAY, PRIORITIES, BATCH, TD_ERRORS, N_VALUES };
enum { OBS = 4, N_SAMPLE = 6, CAPACITY = 20, B = 8, NSTEP = 1, ANNEAL = 4 };
static const double ALPHA = .5, BETA = .25;

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES];
    struct value *push[3], *sample[3], *update[3];
};

static void world_open(struct world *w, const char *weights)
{
    const char *const sets[] = {"policy.collect.n_sample=6",
                                "policy.other.replay_buffer.replay_buffer_size=20",
                                "policy.other.replay_buffer.alpha=0.5",
                                "policy.other.replay_buffer.beta=0.25",
                                "policy.other.replay_buffer.anneal_step=4",
                                "policy.learn.batch_size=8",
                                "policy.learn.microbatch=4",
                                "env.collector_env_num=1",
                                "policy.priority=true",
                                weights};
    static const struct hd_type *const types[] = {&hd_type_transition_block, &hd_type_replay,
                                                  &hd_type_priorities, &hd_type_batch,
                                                  &hd_type_td_errors};
    static const char *const names[] = {"transition_block", "replay", "priorities", "batch",
                                        "td_errors"};
    w->setup = setup_open(sets, 10);
    for (int i = 0; i < N_VALUES; i++)
        value_open(&w->values[i], &w->setup, types[i], names[i], NULL);
    struct value *v = w->values;
    memcpy(w->push, (struct value *[]){&v[TRANSITION_BLOCK], &v[REPLAY], &v[PRIORITIES]},
           sizeof w->push);
    memcpy(w->sample, (struct value *[]){&v[REPLAY], &v[BATCH], &v[PRIORITIES]}, sizeof w->sample);
    memcpy(w->update, (struct value *[]){&v[BATCH], &v[TD_ERRORS], &v[PRIORITIES]},
           sizeof w->update);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

/* Pushes transitions first … first + N_SAMPLE - 1, whose action is their number. */
static void push(struct world *w, int32_t first)
{
    const struct hd_transition_block_shape *shape =
        hd_transition_block_get_shape(&w->values[TRANSITION_BLOCK].spec);
    struct hd_transition_block block =
        hd_transition_block_get(shape, w->values[TRANSITION_BLOCK].data);
    hd_transition_block_clear(shape, w->values[TRANSITION_BLOCK].data);
    block.first[0] = first == 0 ? 0 : first + 1;
    for (int64_t k = block.first[0]; k <= first + N_SAMPLE; k++)
        ((float *)block.frames)[(*block.n_frames)++ * OBS] = (float)k;
    for (int32_t i = 0; i < N_SAMPLE; i++) {
        struct hd_transition *transition = hd_transition_get(block.transitions, NSTEP, 1, i);
        transition->frame = transition->age = first + i;
        transition->ahead = 1;
        hd_transition_get_action(transition, NSTEP)->choice = first + i;
    }
    struct hd_context where = at(&w->setup, 0, first);
    run(&hd_verb_push_replay, &w->setup, w->push, &where);
}

static const struct hd_priorities *get_priorities(const struct world *w)
{
    return w->values[PRIORITIES].data;
}

static struct hd_batch_draws get_draws(const struct world *w)
{
    return hd_batch_get_draws(&w->values[BATCH].spec, w->values[BATCH].data);
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
    struct hd_context where = at(&w->setup, 1, 100 + draw);
    run(&hd_verb_sample_replay, &w->setup, w->sample, &where);
    const struct hd_transitions rows =
        hd_batch_get_rows(&w->values[BATCH].spec, w->values[BATCH].data);
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
    struct value *errors = &w->values[TD_ERRORS];
    for (int i = 0; i < B; i++)
        *hd_td_errors_get(&errors->spec, errors->data, i) = error_of(i);
    struct hd_context where = at(&w->setup, 1, 200);
    run(&hd_verb_update_priorities, &w->setup, w->update, &where);
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
    struct world w;
    world_open(&w, weighs ? "policy.priority_IS_weight=true" : "policy.priority_IS_weight=false");
    for (int32_t round = 0; round < 6; round++) {
        push(&w, 2 * round * N_SAMPLE);
        push(&w, (2 * round + 1) * N_SAMPLE);
        const struct hd_priorities *p = get_priorities(&w);
        for (int64_t t = p->end - N_SAMPLE; t < p->end; t++)
            ck_assert_double_eq(p->weight[t % CAPACITY],
                                pow(round > 0 ? error_of(B - 1) : 1, ALPHA));
        sample(&w, round, weighs);
        update(&w);
        check_updated(&w);
        for (int i = REPLAY; i < N_VALUES; i++)
            value_save_load(&w.values[i]);
    }
    world_close(&w);
}

/* Transitions that were overwritten since they were drawn keep what their successors have. */
TEST(transitions_that_left_are_not_updated)
{
    struct world w;
    world_open(&w, "policy.priority_IS_weight=true");
    for (int32_t k = 0; k < 3; k++)
        push(&w, k * N_SAMPLE);
    sample(&w, 0, true);
    for (int32_t k = 3; k < 5; k++) /* transitions 0 … 9 leave */
        push(&w, k * N_SAMPLE);
    update(&w);
    const struct hd_batch_draws draws = get_draws(&w);
    const struct hd_priorities *p = get_priorities(&w);
    int left = 0;
    for (int i = 0; i < B; i++)
        left += draws.number[i] < p->first;
    ck_assert_int_eq(p->first, 10);
    ck_assert(left > 0 && left < B);
    check_updated(&w);
    for (int64_t t = 18; t < 30; t++) /* which were not drawn */
        ck_assert_double_eq(p->weight[t % CAPACITY], 1);
    world_close(&w);
}

/* An error that is not finite, of an update that is skipped, changes nothing. */
TEST(errors_that_are_no_numbers_are_left_out)
{
    struct world w;
    world_open(&w, "policy.priority_IS_weight=true");
    push(&w, 0);
    push(&w, N_SAMPLE);
    sample(&w, 0, true);
    const uint64_t hash = value_hash(&w.values[PRIORITIES]);
    struct value *errors = &w.values[TD_ERRORS];
    for (int i = 0; i < B; i++)
        *hd_td_errors_get(&errors->spec, errors->data, i) = i % 2 ? NAN : INFINITY;
    struct hd_context where = at(&w.setup, 1, 200);
    run(&hd_verb_update_priorities, &w.setup, w.update, &where);
    ck_assert_uint_eq(value_hash(&w.values[PRIORITIES]), hash);
    world_close(&w);
}

TEST(priorities_of_another_replay_are_told)
{
    struct world w;
    world_open(&w, "policy.priority_IS_weight=true");
    push(&w, 0);
    ((struct hd_priorities *)w.values[PRIORITIES].data)->end--;
    struct hd_context where = at(&w.setup, 0, 0);
    char message[HD_MESSAGE_BYTES] = "";
    void *args = prepare(&hd_verb_sample_replay, &w.setup, w.sample);
    ck_assert_int_eq(run_body(&hd_verb_sample_replay, w.sample, &where, args, message),
                     HD_ERR_TASK);
    ck_assert_ptr_nonnull(strstr(message, "have different transitions"));
    unprepare(&hd_verb_sample_replay, args);
    world_close(&w);
}
