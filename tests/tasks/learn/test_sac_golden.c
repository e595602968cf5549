/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of soft actor-critic through the verbs themselves, against PyTorch's numbers
 * (tests/golden/regen_sac.py): targets, losses, the temperature, and all nets after each update.
 * Once with the batch whole, once in microbatches. */
#include "tasks/types/data/batch.h"
#include "tasks/types/data/critic_batch.h"
#include "tests/tasks/learn/golden_update.h"

enum { ROWS = 8, OBS = 3, DIMS = 2, NETS = 5, UPDATES = 3 };
enum { POLICY_NET, CRITIC1, CRITIC2, LEARNERS };

static const struct hd_rng target_rng = {.key = {21, 34}}, policy_rng = {.key = {55, 89}};
static const char *const names[NETS] = {"policy", "critic1", "critic2", "target1", "target2"};
static const struct step
    compute_targets = {.verb = &hd_verb_compute_targets},
    losses[LEARNERS] = {{&hd_verb_loss_grad, "stats critic1 critic2 temperature", "{loss: sac}"},
                        {&hd_verb_loss_grad,
                         "policy=critic1 batch=critic_batch stats=critic_stats grad=grad1",
                         "{loss: sac_critic}"},
                        {&hd_verb_loss_grad, "policy=critic2 batch=critic_batch grad=grad2",
                         "{loss: sac_critic}"}},
    means[LEARNERS] = {{.verb = &hd_verb_mean, .ports = "from=grad to=mean_grad"},
                       {.verb = &hd_verb_mean, .ports = "from=grad1 to=mean_grad1"},
                       {.verb = &hd_verb_mean, .ports = "from=grad2 to=mean_grad2"}},
    adams[LEARNERS] = {{&hd_verb_adam, NULL, "{}"},
                       {&hd_verb_adam, "mean_grad=mean_grad1 policy=critic1 optimizer=adam1",
                        "{learning_rate: $policy.learn.learning_rate_q}"},
                       {&hd_verb_adam, "mean_grad=mean_grad2 policy=critic2 optimizer=adam2",
                        "{learning_rate: $policy.learn.learning_rate_q}"}},
    adapt_temperature = {.verb = &hd_verb_adapt_temperature, .ports = "means=stats"},
    polyak[] = {{.verb = &hd_verb_polyak_update, .ports = "net=critic1 target=target1"},
                {.verb = &hd_verb_polyak_update, .ports = "net=critic2 target=target2"}};

static float number(uint64_t k, int64_t j)
{
    return (float)(2 * fill(k, (uint64_t)j) - 1);
}

static void fill_batch(struct world *w)
{
    const struct hd_transitions rows = hd_batch_get_rows(INSTANCE(w, "batch"));
    float *obs = rows.obs, *next_obs = rows.next_obs;
    *hd_batch_get_use(INSTANCE(w, "batch")).used = ROWS;
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

static struct world *open_sac(bool cut)
{
    struct world *w = world_make(0, 2);
    world_set(w,
              "policy.type=sac; policy.action_space=continuous; policy.model.obs_shape=3; "
              "policy.model.action_shape=2; "
              "policy.model.layers=[{dense: 16}, relu, {dense: 12}, relu]; "
              "policy.model.heads={policy: {type: squashed_gaussian}}; "
              "policy.critic={input: [obs, action], layers: [{dense: 14}, relu, {dense: 18}, "
              "relu], heads: {value: {type: dense}}}; policy.discount_factor=0.95; "
              "policy.learn.batch_size=8; policy.learn.microbatch=%d; "
              "policy.learn.learning_rate=0.01; policy.learn.learning_rate_q=0.02; "
              "policy.learn.learning_rate_alpha=0.05; policy.learn.adam_eps=1e-4; "
              "policy.learn.alpha=0.3; policy.learn.target_theta=0.1",
              cut ? 2 : 8);
    for (int i = CRITIC1; i < NETS; i++)
        world_declare(
            w, (struct hd_spec){.name = names[i], .type = &hd_type_params, .placement = HD_GLOBAL},
            "{net: policy.critic}");
    world_add(w, &compute_targets, &polyak[0], &polyak[1], NULL);
    for (int i = 0; i < LEARNERS; i++)
        world_add(w, &losses[i], &means[i], &adams[i], NULL);
    world_open(w, &adapt_temperature, NULL);
    for (int i = 0; i < NETS; i++)
        fill_params(world_net(w, names[i]), 100 * (uint64_t)i, world_get(w, names[i])->data);
    fill_batch(w);
    return w;
}

/* Runs a step with random numbers of a stream of its own. */
static void run_with(struct world *w, const struct step *step, const struct hd_rng *rng, int update)
{
    struct hd_context where = world_at(w, step, update);
    where.rng = *rng;
    where.rng.iteration = (uint32_t)update;
    world_run_at(w, step, where);
}

/* Makes the mean of one shard's gradient, and a step of Adam by it. */
static void step_of_adam(struct world *w, int net)
{
    worlds_combine(&w, 1, &means[net]);
    world_run(w, &adams[net], 0);
}

static void update_all(struct world *w, int update)
{
    value_clear(world_get(w, "critic_stats")); /* no means over updates */
    value_clear(world_get(w, "stats"));
    run_with(w, &compute_targets, &target_rng, update);
    for (int net = CRITIC1; net <= CRITIC2; net++) {
        world_run(w, &losses[net], update);
        step_of_adam(w, net);
    }
    run_with(w, &losses[POLICY_NET], &policy_rng, update);
    step_of_adam(w, POLICY_NET);
    world_run(w, &adapt_temperature, update);
    world_run(w, &polyak[0], update);
    world_run(w, &polyak[1], update);
}

/* Checks with the number of.key. */
static void check_number(double found, struct golden of, const char *key)
{
    CHECK_CLOSE(found, golden_number(of, "%s", key), 1.0, 1e-6, key);
}

static void check_update(struct world *w, struct golden wanted)
{
    const float *found = hd_critic_batch_get(INSTANCE(w, "critic_batch")).target;
    double target[ROWS];
    golden_read(wanted, "target", ROWS, target);
    for (int i = 0; i < ROWS; i++)
        CHECK_CLOSE(found[i], target[i], 1.0, 1e-6, "target");
    check_field(w, "critic_stats", wanted, "critic_loss", 1e-6);
    check_number(world_field(w, "critic_stats", "q_value_avg"), wanted, "q");
    check_field(w, "stats", wanted, "policy_loss", 1e-6);
    check_field(w, "stats", wanted, "log_prob", 1e-6);
    check_number(world_field(w, "temperature", "alpha"), wanted, "alpha");
    for (int net = 0; net < NETS; net++)
        check_net(w, names[net], golden_get(wanted, "params"), names[net], 1e-6);
}

TEST(three_updates_are_pytorch_s, .runs = 2)
{
    struct world *w = open_sac(_i == 1);
    ck_assert_int_eq(golden_count(golden_open("sac"), "updates"), UPDATES);
    for (int update = 0; update < UPDATES; update++) {
        update_all(w, update);
        check_update(w, golden_get(golden_open("sac"), "updates/%d", update));
        value_save_load(world_get(w, "temperature"));
    }
}
