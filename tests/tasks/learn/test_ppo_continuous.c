/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of PPO with real actions, whose deviations are parameters, through the verbs
 * themselves, against PyTorch's numbers (tests/golden/regen_ppo_continuous.py): losses, the norm of
 * the gradient, and the net after each update. Nets computed layer by layer and as dense nets, the
 * batch whole and in microbatches. */
#include "tests/tasks/learn/golden_update.h"
#include "tests/tasks/on_policy.h"

enum { ROWS = 8, OBS = 3, DIMS = 2 };

static float number(uint64_t k, int64_t j)
{
    return (float)(2 * fill(k, (uint64_t)j) - 1);
}

/* Tensors without inputs, the deviations, have a fill of their own. */
static void fill_net(const struct hd_net *net, float *params)
{
    fill_params(net, 0, params);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        float log_std[DIMS] = {number(2000, 0), number(2000, 1)};
        if (hd_net_get_tensor(net, t)->fan_in == 0)
            ck_assert_int_eq(hd_net_import_tensor(net, log_std, t, params), HD_OK);
    }
}

static void fill_batch(struct world *w)
{
    const struct hd_minibatch batch = get_minibatch(w);
    float *obs = (float *)batch.obs;
    *batch.used = ROWS;
    for (int64_t i = 0; i < ROWS * OBS; i++)
        obs[i] = number(1000, i);
    for (int64_t i = 0; i < ROWS * DIMS; i++)
        batch.action[i].real = number(1001, i);
    for (int64_t i = 0; i < ROWS * 2 * DIMS; i++)
        batch.logit[i] = number(1002, i);
    for (int64_t i = 0; i < ROWS; i++) {
        batch.advantage[i] = number(1003, i);
        batch.target[i] = number(1004, i);
        batch.value[i] = 0;
    }
}

static struct world *open_case(const char *activation, bool cut)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.model.layers=[{dense: 12}, %s]; policy.learn.microbatch=%d", activation,
              cut ? 2 : 8);
    world_set(w, "policy.model.heads={policy: {type: gaussian}, "
                 "value: {type: dense, layers: [{dense: 10}, relu]}}; "
                 "policy.action_space=continuous; policy.model.obs_shape=3; "
                 "policy.collect.n_sample=8; env.collector_env_num=2; policy.learn.batch_size=8; "
                 "policy.learn.learning_rate=0.01; policy.learn.adam_eps=1e-4; "
                 "policy.learn.clip_ratio=0.2; policy.learn.value_clip=false; "
                 "policy.learn.value_weight=0.5; policy.learn.entropy_weight=0.03; "
                 "policy.learn.grad_clip_type=clip_norm; policy.learn.grad_clip_value=0.5");
    open_on_policy(w);
    fill_net(world_net(w, "policy"), world_get(w, "policy")->data);
    fill_batch(w);
    return w;
}

static void check_update(const struct world *w, struct golden wanted)
{
    static const char *const fields[] = {"total_loss",   "policy_loss", "value_loss",
                                         "entropy_loss", "kl",          "clipfrac"};
    for (int i = 0; i < COUNT(fields); i++)
        check_field(w, "stats", wanted, fields[i], 1e-6);
    check_field(w, "grad_norm", wanted, "grad_norm", 1e-6);
    check_net(w, "policy", wanted, "params", 1e-6);
}

TEST(three_updates_are_pytorch_s, .runs = 2 * golden_count(golden_open("ppo_continuous"), "nets"))
{
    const struct golden golden = golden_get(golden_open("ppo_continuous"), "nets/%d", _i / 2);
    struct world *w = open_case(golden_text(golden, "activation"), _i % 2 == 1);
    ck_assert_int_gt(golden_count(golden, "updates"), 0);
    for (int update = 0; update < golden_count(golden, "updates"); update++) {
        learn(w);
        check_update(w, golden_get(golden, "updates/%d", update));
    }
}
