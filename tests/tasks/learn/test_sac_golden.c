/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of soft actor-critic through the verbs themselves, against PyTorch's numbers
 * (tests/golden/regen_sac.py): targets, losses, the temperature, and all nets after each update.
 * Once with the batch whole, once in microbatches. */
#include "runtime/base/config/yaml.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/data/critic_batch.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/learn/temperature.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/tasks/values.h"

enum { ROWS = 8, OBS = 3, DIMS = 2, UPDATES = 3 };
enum { POLICY_NET, CRITIC1, CRITIC2, TARGET1, TARGET2, NETS, LEARNERS = TARGET1 };

static const struct hd_rng target_rng = {.key = {21, 34}}, policy_rng = {.key = {55, 89}};
static const char *const names[NETS] = {"policy", "critic1", "critic2", "target1", "target2"};

struct world {
    struct hd_setup setup;
    struct hd_document *document; /* of the declaration of critics */
    struct value net[NETS], grad[LEARNERS], mean[LEARNERS], adam[LEARNERS];
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
    for (int i = 0; i < NETS; i++) {
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
    for (int i = 0; i < NETS; i++)
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

/* Checks with the number of.key. */
static void check_number(double found, struct golden of, const char *key)
{
    CHECK_CLOSE(found, golden_number(of, "%s", key), 1.0, 1e-6, key);
}

static void check_update(struct world *w, struct golden wanted)
{
    const float *found = hd_critic_batch_get(&w->critic_batch.spec, w->critic_batch.data).target;
    double target[ROWS];
    golden_read(wanted, "target", ROWS, target);
    for (int i = 0; i < ROWS; i++)
        CHECK_CLOSE(found[i], target[i], 1.0, 1e-6, "target");
    check_number(field(&w->critic_stats, "critic_loss_avg"), wanted, "critic_loss");
    check_number(field(&w->critic_stats, "q_value_avg"), wanted, "q");
    check_number(field(&w->policy_stats, "policy_loss_avg"), wanted, "policy_loss");
    check_number(field(&w->policy_stats, "log_prob_avg"), wanted, "log_prob");
    check_number(field(&w->temperature, "alpha"), wanted, "alpha");
    for (int net = 0; net < NETS; net++)
        check_tensors(hd_params_get_net(&w->net[net].spec), w->net[net].data,
                      golden_get(wanted, "params"), names[net], 1e-6);
}

TEST(three_updates_are_pytorch_s, .runs = 2)
{
    static struct world w;
    world_open(&w, _i == 1);
    ck_assert_int_eq(golden_count(golden_open("sac"), "updates"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        memset(w.critic_stats.data, 0,
               (size_t)w.critic_stats.spec.bytes); /* no means over updates */
        memset(w.policy_stats.data, 0, (size_t)w.policy_stats.spec.bytes);
        update_critics(&w, update);
        update_policy(&w, update);
        check_update(&w, golden_get(golden_open("sac"), "updates/%d", update));
        value_save_load(&w.temperature);
    }
    world_close(&w);
}
