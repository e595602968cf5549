/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of DQN from prioritised replay and of advantage actor-critic through the verbs
 * themselves, against PyTorch's numbers (tests/golden/regen_updates.py): what is drawn with which
 * weights, errors, losses, and the net after each update. Once with the batch whole, once in
 * microbatches. */
#include "tasks/learn/losses/loss.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/minibatch.h"
#include "tasks/types/data/td_errors.h"
#include "tasks/types/learn/params.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/tasks/values.h"

enum { ROWS = 8, OBS = 4, ACTIONS = 3, BLOCK = 8, NSTEP = 1, UPDATES = 3 };
static const struct hd_rng draws_rng = {.key = {21, 34}};

/* The values of both; an algorithm has no use for some of them. */
struct world {
    struct hd_setup setup;
    struct hd_document *document; /* of the option `loss` */
    bool dqn;
    struct value policy, target, grad, mean, adam, stats;
    struct value block, replay, priorities, batch, td_errors;
};

static void open_value(struct world *w, struct value *value, const struct hd_type *type,
                       const char *name, const struct value *of, enum hd_placement placement)
{
    *value = (struct value){.spec = {.name = name,
                                     .type = type,
                                     .placement = placement,
                                     .of = of ? &of->spec : NULL,
                                     .location = w->setup.location,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(type->resolve(&value->spec, &w->setup), HD_OK);
    value_init(value, &w->setup, 0);
}

static void open_params(struct world *w, struct value *value, const char *name, uint64_t first)
{
    open_value(w, value, &hd_type_params, name, NULL, HD_GLOBAL);
    fill_params(hd_params_get_net(&value->spec), first, value->data);
}

static void get_loss_ports(struct world *w, struct value *values[MAX_PORTS])
{
    memset(values, 0, MAX_PORTS * sizeof *values);
    values[HD_LOSS_POLICY] = &w->policy;
    values[HD_LOSS_TARGET] = w->dqn ? &w->target : NULL;
    values[HD_LOSS_BATCH] = &w->batch;
    values[HD_LOSS_STATS] = &w->stats;
    values[HD_LOSS_GRAD] = &w->grad;
    values[HD_LOSS_TD_ERRORS] = w->dqn ? &w->td_errors : NULL;
}

static void open_stats(struct world *w)
{
    const struct hd_source_location location = w->setup.location;
    struct value *values[MAX_PORTS];
    struct hd_spec *specs[MAX_PORTS];
    ck_assert_int_eq(hd_document_create(&w->document), HD_OK);
    struct hd_node *map = hd_node_create_map(w->document, location);
    hd_node_put(w->document, map, "loss",
                hd_node_create_scalar(w->document, location, w->dqn ? "dqn" : "a2c"));
    w->setup.options = map;
    w->stats = (struct value){.spec = {.name = "stats", .type = &hd_type_scalars, .buckets = 1}};
    get_loss_ports(w, values);
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &w->setup, values, specs);
    ck_assert_int_eq(hd_verb_loss_grad.declare(&step), HD_OK);
    value_init(&w->stats, &w->setup, 0);
}

static void open_replay(struct world *w)
{
    open_params(w, &w->target, "target", 500);
    open_value(w, &w->block, &hd_type_transition_block, "transitions", NULL, HD_SHARD);
    open_value(w, &w->replay, &hd_type_replay, "replay", NULL, HD_SHARD);
    open_value(w, &w->priorities, &hd_type_priorities, "priorities", NULL, HD_SHARD);
    open_value(w, &w->td_errors, &hd_type_td_errors, "td_errors", NULL, HD_SHARD);
}

static void world_open(struct world *w, bool dqn, bool cut)
{
    const char *const sets[] = {dqn ? "policy.type=dqn" : "policy.type=a2c",
                                dqn ? "policy.priority=true" : "policy.priority=false",
                                dqn ? "policy.priority_IS_weight=true"
                                    : "policy.priority_IS_weight=false",
                                "policy.model.action_shape=3",
                                "policy.learn.batch_size=8",
                                cut ? "policy.learn.microbatch=2" : "policy.learn.microbatch=8",
                                "policy.collect.n_sample=8",
                                "env.collector_env_num=1",
                                "policy.other.replay_buffer.replay_buffer_size=20",
                                "policy.other.replay_buffer.anneal_step=4",
                                "policy.discount_factor=0.95",
                                "policy.learn.learning_rate=0.01",
                                "policy.learn.adam_eps=1e-4",
                                "policy.learn.value_weight=0.5",
                                "policy.learn.entropy_weight=0.03"};
    *w = (struct world){.setup = setup_open(sets, sizeof sets / sizeof *sets), .dqn = dqn};
    open_params(w, &w->policy, "policy", dqn ? 0 : 100);
    open_value(w, &w->grad, &hd_type_grad, "grad", &w->policy, HD_SHARD);
    open_value(w, &w->mean, &hd_type_grad, "mean_grad", &w->policy, HD_GLOBAL);
    open_value(w, &w->adam, &hd_type_adam_state, "optimizer", &w->policy, HD_GLOBAL);
    open_value(w, &w->batch, dqn ? &hd_type_batch : &hd_type_minibatch, "batch", NULL, HD_SHARD);
    if (dqn)
        open_replay(w);
    open_stats(w);
}

static void world_close(struct world *w)
{
    struct value *const values[] = {&w->td_errors, &w->priorities, &w->replay, &w->block,
                                    &w->target,    &w->stats,      &w->batch,  &w->adam,
                                    &w->mean,      &w->grad,       &w->policy};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i]->data)
            value_close(values[i]);
    hd_document_destroy(w->document);
    setup_close(&w->setup);
}

static float number(uint64_t k, int64_t j)
{
    return (float)(2 * fill(k, (uint64_t)j) - 1);
}

/* -- Data -------------------------------------------------------------------------------------- */

/* Transition t leads from observation t to t + 1. */
static void push(struct world *w, int64_t first)
{
    const struct hd_transition_block_shape *shape = hd_transition_block_get_shape(&w->block.spec);
    struct hd_transition_block block = hd_transition_block_get(shape, w->block.data);
    hd_transition_block_clear(shape, w->block.data);
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
    struct value *values[MAX_PORTS] = {&w->block, &w->replay, &w->priorities};
    const struct hd_context where = at(&w->setup, 0, 0);
    run(&hd_verb_push_replay, &w->setup, values, &where);
}

static void sample(struct world *w, int update, struct golden wanted)
{
    double number[ROWS], importance[ROWS];
    struct value *values[MAX_PORTS] = {&w->replay, &w->batch, &w->priorities};
    struct hd_context where = at(&w->setup, 0, update);
    where.rng = draws_rng;
    where.rng.iteration = (uint32_t)update;
    run(&hd_verb_sample_replay, &w->setup, values, &where);
    const struct hd_batch_draws draws = hd_batch_get_draws(&w->batch.spec, w->batch.data);
    golden_read(wanted, "number", ROWS, number);
    golden_read(wanted, "importance", ROWS, importance);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(draws.number[i], (int64_t)number[i]);
        CHECK_CLOSE(draws.importance[i], importance[i], 1.0, 1e-6, "importance");
    }
}

static void fill_minibatch(struct world *w)
{
    const struct hd_minibatch batch = hd_minibatch_get(&w->batch.spec, w->batch.data);
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
static void learn(struct world *w)
{
    const struct hd_reduction *reduction = w->grad.spec.type->reduction;
    struct value *values[MAX_PORTS];
    struct hd_context where = at(&w->setup, 0, 0);
    memset(w->stats.data, 0, (size_t)w->stats.spec.bytes); /* no means over updates */
    get_loss_ports(w, values);
    run(&hd_verb_loss_grad, &w->setup, values, &where);
    void *vector = hd_alloc(1, (size_t)reduction->bytes(&w->grad.spec, 0));
    reduction->pack(&w->grad.spec, 0, w->grad.data, vector);
    reduction->unpack(&w->mean.spec, 0, HD_MEAN, vector, w->mean.data);
    hd_free(vector);
    struct value *adam[MAX_PORTS] = {&w->mean, &w->policy, &w->adam};
    where = at(&w->setup, -1, 0);
    run(&hd_verb_adam, &w->setup, adam, &where);
}

/* The field `key`_avg. */
static void check_field(const struct world *w, struct golden wanted, const char *key)
{
    const struct hd_spec *spec = &w->stats.spec;
    char name[32];
    snprintf(name, sizeof name, "%s_avg", key);
    const int field = hd_value_find_field(spec, name);
    ck_assert_int_ge(field, 0);
    CHECK_CLOSE(spec->type->field(spec, w->stats.data, field), golden_number(wanted, "%s", key),
                1.0, 1e-6, key);
}

static void check_params(const struct world *w, struct golden wanted)
{
    check_tensors(hd_params_get_net(&w->policy.spec), w->policy.data, wanted, "params", 1e-6);
}

static void check_errors(const struct world *w, struct golden wanted)
{
    double td2[ROWS];
    golden_read(wanted, "td2", ROWS, td2);
    for (int i = 0; i < ROWS; i++)
        CHECK_CLOSE(*hd_td_errors_get(&w->td_errors.spec, w->td_errors.data, i), td2[i], 1.0, 1e-6,
                    "squared error");
}

/* The replay has room for 20 transitions: later blocks overwrite some that were drawn. */
TEST(prioritised_dqn_is_pytorch_s, .runs = 2)
{
    static struct world w;
    world_open(&w, true, _i == 1);
    push(&w, 0);
    ck_assert_int_eq(golden_count(golden_open("updates"), "dqn"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        const struct golden wanted = golden_get(golden_open("updates"), "dqn/%d", update);
        push(&w, (update + 1) * BLOCK);
        sample(&w, update, wanted);
        learn(&w);
        struct value *values[MAX_PORTS] = {&w.batch, &w.td_errors, &w.priorities};
        const struct hd_context where = at(&w.setup, 0, update);
        run(&hd_verb_update_priorities, &w.setup, values, &where);
        check_errors(&w, wanted);
        check_field(&w, wanted, "total_loss");
        check_field(&w, wanted, "q_value");
        check_params(&w, wanted);
        value_save_load(&w.priorities);
    }
    world_close(&w);
}

TEST(a2c_is_pytorch_s, .runs = 2)
{
    static struct world w;
    world_open(&w, false, _i == 1);
    fill_minibatch(&w);
    ck_assert_int_eq(golden_count(golden_open("updates"), "a2c"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        const struct golden wanted = golden_get(golden_open("updates"), "a2c/%d", update);
        learn(&w);
        check_field(&w, wanted, "total_loss");
        check_field(&w, wanted, "policy_loss");
        check_field(&w, wanted, "value_loss");
        check_field(&w, wanted, "entropy_loss");
        check_params(&w, wanted);
    }
    world_close(&w);
}
