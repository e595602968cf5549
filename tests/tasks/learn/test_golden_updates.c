/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of DQN from prioritised replay and of advantage actor-critic through the verbs
 * themselves, against PyTorch's numbers (tests/golden/regen_updates.py): what is drawn with which
 * weights, errors, losses, and the net after each update. Once with the batch whole, once in
 * microbatches. */
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/data/td_errors.h"
#include "tests/tasks/learn/golden_update.h"

enum { ROWS = 8, OBS = 4, ACTIONS = 3, BLOCK = 8, NSTEP = 1, UPDATES = 3 };
static const struct hd_rng draws_rng = {.key = {21, 34}};

static const struct step push_replay = {.verb = &hd_verb_push_replay, .ports = "priorities"},
                         sample_replay = {.verb = &hd_verb_sample_replay, .ports = "priorities"},
                         dqn = {&hd_verb_loss_grad, "target stats td_errors", "{loss: dqn}"},
                         a2c = {&hd_verb_loss_grad, "stats", "{loss: a2c}"},
                         update_priorities = {.verb = &hd_verb_update_priorities},
                         mean = {.verb = &hd_verb_mean, .ports = "from=grad to=mean_grad"},
                         adam = {.verb = &hd_verb_adam};

static void fill_net(const struct world *w, const char *name, uint64_t first)
{
    fill_params(world_net(w, name), first, world_get(w, name)->data);
}

static struct world *make_world(bool cut)
{
    struct world *w = world_make(0, 2);
    world_set(w,
              "policy.model.action_shape=3; policy.learn.batch_size=8; "
              "policy.learn.microbatch=%d; policy.collect.n_sample=8; "
              "env.collector_env_num=1; policy.discount_factor=0.95; "
              "policy.learn.learning_rate=0.01; policy.learn.adam_eps=1e-4",
              cut ? 2 : 8);
    return w;
}

static struct world *open_dqn(bool cut)
{
    struct world *w = make_world(cut);
    world_set(w, "policy.type=dqn; policy.priority=true; policy.priority_IS_weight=true; "
                 "policy.other.replay_buffer={replay_buffer_size: 20, anneal_step: 4}");
    world_open(w, &push_replay, &sample_replay, &dqn, &mean, &adam, &update_priorities, NULL);
    fill_net(w, "policy", 0);
    fill_net(w, "target", 500);
    return w;
}

static struct world *open_a2c(bool cut)
{
    struct world *w = make_world(cut);
    world_set(w, "policy.type=a2c; policy.learn.value_weight=0.5; "
                 "policy.learn.entropy_weight=0.03");
    world_declare(w, (struct hd_spec){.name = "batch", .type = &hd_type_minibatch}, NULL);
    world_open(w, &a2c, &mean, &adam, NULL);
    fill_net(w, "policy", 100);
    return w;
}

static float number(uint64_t k, int64_t j)
{
    return (float)(2 * fill(k, (uint64_t)j) - 1);
}

/* -- Data -------------------------------------------------------------------------------------- */

/* Transition t leads from observation t to t + 1. */
static void push(struct world *w, int64_t first)
{
    const struct value *value = world_get(w, "transitions");
    const struct hd_transition_block_shape *shape = hd_transition_block_get_shape(&value->spec);
    struct hd_transition_block block = hd_transition_block_get(shape, value->data);
    hd_transition_block_clear(shape, value->data);
    block.first[0] = first == 0 ? 0 : first + 1;
    for (int64_t t = block.first[0]; t <= first + BLOCK; t++, (*block.n_frames)++)
        for (int64_t i = 0; i < OBS; i++)
            ((float *)block.frames)[*block.n_frames * OBS + i] = number(1000 + (uint64_t)t, i);
    for (int64_t t = first; t < first + BLOCK; t++) {
        struct hd_transition *transition =
            hd_transition_get(block.transitions, NSTEP, 1, t - first);
        transition->frame = transition->age = (int32_t)t;
        transition->ahead = 1;
        transition->reward[0] = number(2000, t);
        transition->done = t % 5 == 0;
        hd_transition_get_action(transition, NSTEP)->choice = (int32_t)(t % ACTIONS);
    }
    world_run(w, &push_replay, 0);
}

static void sample(struct world *w, int update, struct golden wanted)
{
    double number[ROWS], importance[ROWS];
    struct hd_context where = world_at(w, &sample_replay, update);
    where.rng = draws_rng;
    where.rng.iteration = (uint32_t)update;
    world_run_at(w, &sample_replay, where);
    const struct hd_batch_draws draws = hd_batch_get_draws(INSTANCE(w, "batch"));
    golden_read(wanted, "number", ROWS, number);
    golden_read(wanted, "importance", ROWS, importance);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(draws.number[i], (int64_t)number[i]);
        CHECK_CLOSE(draws.importance[i], importance[i], 1.0, 1e-6, "importance");
    }
}

static void fill_minibatch(struct world *w)
{
    const struct hd_minibatch batch = hd_minibatch_get(INSTANCE(w, "batch"));
    *batch.used = ROWS;
    for (int64_t i = 0; i < ROWS * OBS; i++)
        ((float *)batch.obs)[i] = number(3000, i);
    for (int64_t i = 0; i < ROWS; i++) {
        batch.action[i].choice = (int32_t)(i % ACTIONS);
        batch.advantage[i] = number(3001, i);
        batch.target[i] = number(3002, i);
    }
}

/* -- An update --------------------------------------------------------------------------------- */

/* Makes the gradient, its mean over one shard, and a step of Adam. */
static void learn(struct world *w, const struct step *loss)
{
    value_clear(world_get(w, "stats")); /* no means over updates */
    world_run(w, loss, 0);
    worlds_combine(&w, 1, &mean);
    world_run(w, &adam, 0);
}

static void check_errors(struct world *w, struct golden wanted)
{
    double td2[ROWS];
    golden_read(wanted, "td2", ROWS, td2);
    for (int i = 0; i < ROWS; i++)
        CHECK_CLOSE(*hd_td_errors_get(INSTANCE(w, "td_errors"), i), td2[i], 1.0, 1e-6,
                    "squared error");
}

/* The replay has room for 20 transitions: later blocks overwrite some that were drawn. */
TEST(prioritised_dqn_is_pytorch_s, .runs = 2)
{
    struct world *w = open_dqn(_i == 1);
    push(w, 0);
    ck_assert_int_eq(golden_count(golden_open("updates"), "dqn"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        const struct golden wanted = golden_get(golden_open("updates"), "dqn/%d", update);
        push(w, (update + 1) * BLOCK);
        sample(w, update, wanted);
        learn(w, &dqn);
        world_run(w, &update_priorities, update);
        check_errors(w, wanted);
        check_field(w, "stats", wanted, "total_loss", 1e-6);
        check_field(w, "stats", wanted, "q_value", 1e-6);
        check_net(w, "policy", wanted, "params", 1e-6);
        value_save_load(world_get(w, "priorities"));
    }
}

TEST(a2c_is_pytorch_s, .runs = 2)
{
    static const char *const fields[] = {"total_loss", "policy_loss", "value_loss", "entropy_loss"};
    struct world *w = open_a2c(_i == 1);
    fill_minibatch(w);
    ck_assert_int_eq(golden_count(golden_open("updates"), "a2c"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        const struct golden wanted = golden_get(golden_open("updates"), "a2c/%d", update);
        learn(w, &a2c);
        for (int i = 0; i < COUNT(fields); i++)
            check_field(w, "stats", wanted, fields[i], 1e-6);
        check_net(w, "policy", wanted, "params", 1e-6);
    }
}
