/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of soft actor-critic through the verbs themselves, against PyTorch's numbers
 * (tests/golden/regen_sac.py): targets, losses, the temperature, and all nets after each update.
 * Once with the batch whole, once in microbatches. */
#include "runtime/base/config/yaml.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/critic_batch.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/learn/temperature.h"
#include "tests/golden/sac.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/tasks/values.h"

enum { ROWS = GOLDEN_BATCH, OBS = 3, DIMS = 2 };
enum { POLICY_NET, CRITIC1, CRITIC2, TARGET1, TARGET2, LEARNERS = TARGET1 };

static const struct hd_rng target_rng = {.key = {21, 34}}, policy_rng = {.key = {55, 89}};
static const char *const names[GOLDEN_NETS] = {"policy", "critic1", "critic2", "target1",
                                               "target2"};

struct world {
    struct hd_setup setup;
    struct hd_document *document; /* of the declaration of critics */
    struct value net[GOLDEN_NETS], grad[LEARNERS], mean[LEARNERS], adam[LEARNERS];
    struct value temperature, batch, critic_batch, critic_stats, policy_stats;
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

static void open_stats(struct world *w, struct value *stats, int net, struct value *batch)
{
    *stats = (struct value){.spec = {.name = "stats", .type = &hd_type_scalars, .buckets = 1}};
    struct value *values[MAX_PORTS] = {&w->net[net], NULL, batch, stats,           &w->grad[net],
                                       NULL,         NULL, NULL,  &w->net[CRITIC1]};
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_loss_grad, &w->setup, values, specs);
    ck_assert_int_eq(hd_verb_loss_grad.declare(&step), HD_OK);
    value_init(stats, &w->setup, 0);
}

/* Sets the options of the steps that follow. */
static void set_options(struct world *w, const char *text)
{
    struct hd_node *node;
    ck_assert_int_eq(hd_node_parse(w->document, w->setup.location, text, w->setup.diag, &node),
                     HD_OK);
    w->setup.options = node;
}

static float number(uint64_t k, int64_t j)
{
    return (float)(2 * fill(k, (uint64_t)j) - 1);
}

static void fill_batch(struct world *w)
{
    const struct hd_transitions rows = hd_batch_get_rows(&w->batch.spec, w->batch.data);
    float *obs = rows.obs, *next_obs = rows.next_obs;
    *hd_batch_get_use(&w->batch.spec, w->batch.data).used = ROWS;
    for (int64_t i = 0; i < ROWS * OBS; i++) {
        obs[i] = number(1000, i);
        next_obs[i] = number(1001, i);
    }
    for (int64_t i = 0; i < ROWS * DIMS; i++)
        rows.action[i].real = number(1002, i);
    for (int64_t i = 0; i < ROWS; i++) {
        rows.reward[i] = number(1003, i);
        rows.done[i] = i % 3 == 0;
    }
}

static void open_nets(struct world *w)
{
    for (int i = 0; i < GOLDEN_NETS; i++) {
        set_options(w, i == POLICY_NET ? "{}" : "{net: policy.critic}");
        open_value(w, &w->net[i], &hd_type_params, names[i], NULL, HD_GLOBAL);
        fill_params(hd_params_get_net(&w->net[i].spec), 100 * (uint64_t)i, w->net[i].data);
    }
    set_options(w, "{}");
    for (int i = 0; i < LEARNERS; i++) {
        open_value(w, &w->grad[i], &hd_type_grad, "grad", &w->net[i], HD_SHARD);
        open_value(w, &w->mean[i], &hd_type_grad, "mean", &w->net[i], HD_GLOBAL);
        open_value(w, &w->adam[i], &hd_type_adam_state, "adam", &w->net[i], HD_GLOBAL);
    }
}

static void world_open(struct world *w, bool cut)
{
    const char *const sets[] = {
        "policy.type=sac",
        "policy.action_space=continuous",
        "policy.model.obs_shape=3",
        "policy.model.action_shape=2",
        "policy.model.layers=[{dense: 16}, relu, {dense: 12}, relu]",
        "policy.model.heads={policy: {type: squashed_gaussian}}",
        "policy.critic={input: [obs, action], layers: [{dense: 14}, relu, {dense: 18}, relu], "
        "heads: {value: {type: dense}}}",
        "policy.discount_factor=0.95",
        "policy.learn.batch_size=8",
        cut ? "policy.learn.microbatch=2" : "policy.learn.microbatch=8",
        "policy.learn.learning_rate=0.01",
        "policy.learn.learning_rate_q=0.02",
        "policy.learn.learning_rate_alpha=0.05",
        "policy.learn.adam_eps=1e-4",
        "policy.learn.alpha=0.3",
        "policy.learn.target_theta=0.1"};
    w->setup = setup_open(sets, sizeof sets / sizeof *sets);
    ck_assert_int_eq(hd_document_parse("graph.yaml", "{}", 2, w->setup.diag, &w->document), HD_OK);
    open_nets(w);
    open_value(w, &w->temperature, &hd_type_temperature, "temperature", NULL, HD_GLOBAL);
    open_value(w, &w->batch, &hd_type_batch, "batch", NULL, HD_SHARD);
    open_value(w, &w->critic_batch, &hd_type_critic_batch, "critic_batch", NULL, HD_SHARD);
    set_options(w, "{loss: sac_critic}");
    open_stats(w, &w->critic_stats, CRITIC1, &w->critic_batch);
    set_options(w, "{loss: sac}");
    open_stats(w, &w->policy_stats, POLICY_NET, &w->batch);
    fill_batch(w);
}

static void world_close(struct world *w)
{
    struct value *const values[] = {&w->temperature, &w->batch, &w->critic_batch, &w->critic_stats,
                                    &w->policy_stats};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        value_close(values[i]);
    for (int i = 0; i < LEARNERS; i++) {
        value_close(&w->adam[i]);
        value_close(&w->mean[i]);
        value_close(&w->grad[i]);
    }
    for (int i = 0; i < GOLDEN_NETS; i++)
        value_close(&w->net[i]);
    hd_document_destroy(w->document);
    setup_close(&w->setup);
}

static struct hd_context where(const struct world *w, const struct hd_rng *rng, int update)
{
    struct hd_context context = at(&w->setup, 0, update);
    context.rng = *rng;
    context.rng.iteration = (uint32_t)update;
    return context;
}

/* Makes the mean of one shard's gradient, and a step of Adam by it. */
static void step_of_adam(struct world *w, int net, const char *options)
{
    const struct hd_reduction *reduction = w->grad[net].spec.type->reduction;
    struct value *values[MAX_PORTS] = {&w->mean[net], &w->net[net], &w->adam[net]};
    const struct hd_context context = at(&w->setup, -1, 0);
    void *vector = hd_alloc(1, (size_t)reduction->bytes(&w->grad[net].spec, 0));
    reduction->pack(&w->grad[net].spec, 0, w->grad[net].data, vector);
    reduction->unpack(&w->mean[net].spec, 0, HD_MEAN, vector, w->mean[net].data);
    hd_free(vector);
    set_options(w, options);
    run(&hd_verb_adam, &w->setup, values, &context);
}

static void update_critics(struct world *w, int update)
{
    struct value *targets[MAX_PORTS] = {&w->net[POLICY_NET], &w->net[TARGET1], &w->net[TARGET2],
                                        &w->temperature,     &w->batch,        &w->critic_batch};
    struct hd_context context = where(w, &target_rng, update);
    run(&hd_verb_compute_targets, &w->setup, targets, &context);
    for (int net = CRITIC1; net <= CRITIC2; net++) {
        struct value *values[MAX_PORTS] = {&w->net[net], NULL, &w->critic_batch,
                                           net == CRITIC1 ? &w->critic_stats : NULL, &w->grad[net]};
        context = at(&w->setup, 0, update);
        set_options(w, "{loss: sac_critic}");
        run(&hd_verb_loss_grad, &w->setup, values, &context);
        step_of_adam(w, net, "{learning_rate: $policy.learn.learning_rate_q}");
    }
}

static void update_policy(struct world *w, int update)
{
    struct value *values[MAX_PORTS] = {&w->net[POLICY_NET],
                                       NULL,
                                       &w->batch,
                                       &w->policy_stats,
                                       &w->grad[POLICY_NET],
                                       NULL,
                                       NULL,
                                       NULL,
                                       &w->net[CRITIC1],
                                       &w->net[CRITIC2],
                                       &w->temperature};
    struct hd_context context = where(w, &policy_rng, update);
    set_options(w, "{loss: sac}");
    run(&hd_verb_loss_grad, &w->setup, values, &context);
    step_of_adam(w, POLICY_NET, "{}");
    struct value *adapted[MAX_PORTS] = {&w->policy_stats, &w->temperature};
    run(&hd_verb_adapt_temperature, &w->setup, adapted, &context);
    for (int i = 0; i < 2; i++) {
        struct value *moved[MAX_PORTS] = {&w->net[CRITIC1 + i], &w->net[TARGET1 + i]};
        run(&hd_verb_polyak_update, &w->setup, moved, &context);
    }
}

static double field(const struct value *stats, const char *name)
{
    const struct hd_spec *spec = &stats->spec;
    return spec->type->field(spec, stats->data, hd_value_find_field(spec, name));
}

static void check_params(const struct world *w, int net, const struct golden_tensor *wanted)
{
    const struct hd_net *is = hd_params_get_net(&w->net[net].spec);
    ck_assert_int_eq(hd_net_count_tensors(is), GOLDEN_TENSORS);
    for (int t = 0; t < GOLDEN_TENSORS; t++) {
        const int64_t n = hd_net_get_tensor(is, t)->count;
        float *row_major = test_alloc(n, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(is, w->net[net].data, t, row_major), HD_OK);
        check_tensor(row_major, n, 1, wanted[t].l2, wanted[t].sum, wanted[t].first,
                     wanted[t].n_first, 1e-6, names[net]);
    }
}

static void check_update(struct world *w, const struct golden_update *wanted)
{
    const float *target = hd_critic_batch_get(&w->critic_batch.spec, w->critic_batch.data).target;
    for (int i = 0; i < ROWS; i++)
        CHECK_CLOSE(target[i], wanted->target[i], 1.0, 1e-6, "target");
    CHECK_CLOSE(field(&w->critic_stats, "critic_loss_avg"), wanted->critic_loss, 1.0, 1e-6,
                "critic loss");
    CHECK_CLOSE(field(&w->critic_stats, "q_value_avg"), wanted->q, 1.0, 1e-6, "q");
    CHECK_CLOSE(field(&w->policy_stats, "policy_loss_avg"), wanted->policy_loss, 1.0, 1e-6,
                "policy loss");
    CHECK_CLOSE(field(&w->policy_stats, "log_prob_avg"), wanted->log_prob, 1.0, 1e-6, "log prob");
    CHECK_CLOSE(field(&w->temperature, "alpha"), wanted->alpha, 1.0, 1e-6, "alpha");
    for (int net = 0; net < GOLDEN_NETS; net++)
        check_params(w, net, wanted->params[net]);
}

TEST(three_updates_are_pytorch_s, .runs = 2)
{
    static struct world w;
    world_open(&w, _i == 1);
    for (int update = 0; update < GOLDEN_UPDATES; update++) {
        memset(w.critic_stats.data, 0,
               (size_t)w.critic_stats.spec.bytes); /* no means over updates */
        memset(w.policy_stats.data, 0, (size_t)w.policy_stats.spec.bytes);
        update_critics(&w, update);
        update_policy(&w, update);
        check_update(&w, &golden_updates[update]);
        value_save_load(&w.temperature);
    }
    world_close(&w);
}
