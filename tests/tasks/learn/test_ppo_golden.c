/* SPDX-License-Identifier: Apache-2.0 */
/* Two epochs of PPO through the verbs themselves, against DI-engine's numbers (docs/di-engine.md
 * 9.3): the losses, norms of gradients and statistics of returns, then values, logits and
 * parameters. */
#include "tests/tasks/learn/golden_update.h"
#include "tests/tasks/on_policy.h"

/* Tolerances are absolute. Of Pong's gradient PyTorch's norm is off by 3.6e-6: it adds the squares
 * of 800,000 elements in single precision (a naive net in double gives 0.66390774). Adam divides
 * gradients by their own size: the smallest, whose rounding is as large as they are, move
 * parameters by whole steps. */
static const struct {
    const char *file, *sets;
    double loss, norm, outputs, params;
} cases[] = {
    {.file = "ppo_cartpole",
     .sets = "policy.learn.learning_rate=0.001; policy.learn.entropy_weight=0.01; "
             "policy.collect.discount_factor=0.9",
     .loss = 4e-7,
     .norm = 2e-7,
     .outputs = 3e-7,
     .params = 1e-6},
    {.file = "ppo_pong",
     .sets = "policy.learn.learning_rate=0.0003; policy.learn.entropy_weight=0.001; "
             "policy.collect.discount_factor=0.99; policy.model.obs_shape=[4,84,84]; "
             "policy.model.action_shape=6",
     .loss = 4e-7,
     .norm = 5e-6,
     .outputs = 3e-7,
     .params = 1e-6},
};
enum { CASES = sizeof cases / sizeof *cases, EPOCHS = 2 };

static struct world *open_case(int number, bool cut)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.collect.n_sample=8; policy.learn.batch_size=8; env.collector_env_num=2; "
                 "policy.collect.gae_lambda=0.95; policy.learn.value_weight=0.5; "
                 "policy.learn.clip_ratio=0.2; policy.learn.grad_clip_type=clip_norm; "
                 "policy.learn.grad_clip_value=0.5; "
                 "policy.model.encoder_hidden_size_list=[64,64,128]");
    world_set(w, "policy.learn.microbatch=%d; %s", cut ? 2 : 8, cases[number].sets);
    open_on_policy(w);
    fill_params(world_net(w, "policy"), 0, world_get(w, "policy")->data);
    return w;
}

/* Observation b of docs/di-engine.md 9.3. */
static void fill_obs(const struct hd_obs_shape *shape, int b, void *obs)
{
    const int64_t n = shape->u8 ? shape->obs_bytes : shape->obs_bytes / (int64_t)sizeof(float);
    for (int64_t i = 0; i < n; i++) {
        const double u = fill(1000 + (uint64_t)b, (uint64_t)i);
        if (shape->u8)
            ((uint8_t *)obs)[i] = (uint8_t)(256 * u);
        else
            ((float *)obs)[i] = (float)(2 * u - 1);
    }
}

/* Eight steps of two envs: the first ends an episode, the second is cut. As next_obs of sample b is
 * observation b + 1, the envs show observations 0 … 4 and 4 … 8. */
static void fill_trajectories(struct world *w, int actions)
{
    const struct hd_trajectories_shape *shape =
        hd_trajectories_get_shape(&world_get(w, "trajectories")->spec);
    hd_trajectories_clear(INSTANCE(w, "trajectories"), 0);
    struct hd_trajectories t = hd_trajectories_get(INSTANCE(w, "trajectories"), 0);
    const struct hd_frame_upload show = hd_trajectories_get_show(shape, &t);
    ck_assert_int_eq(shape->fragment, 4);
    for (int env = 0; env < 2; env++)
        for (int i = 0; i < 5; i++)
            fill_obs(&shape->obs, 4 * env + i, hd_frame_upload_next(&show, env, i == 0));
    for (int b = 0; b < 8; b++) {
        const int64_t step = b / 4 * shape->steps + b % 4;
        t.row[b] = (int32_t)step;
        t.end[b] = b % 4 == 3;
        t.frame[step] = b % 4;
        t.action[step].choice = b % actions;
        t.reward[step] = b % 3 == 0 ? -0.5f : 1;
        t.done[step] = b == 3;
        for (int j = 0; j < actions; j++)
            t.logit[step * actions + j] =
                (float)(0.5 * (2 * fill(2000 + (uint64_t)b, (uint64_t)j) - 1));
    }
    *t.made = 8;
    *t.forward = 4;
}

/* Values and logits of the eight observations, with the lists of.value and of.logit. */
static void check_outputs(struct world *w, struct golden of, const char *value, const char *logit,
                          double tolerance)
{
    const struct hd_obs_shape *shape =
        &hd_trajectories_get_shape(&world_get(w, "trajectories")->spec)->obs;
    const int actions = (int)hd_net_count_actions(world_net(w, "policy")), outputs = actions + 1;
    char *obs = test_alloc(8, (size_t)shape->obs_bytes);
    float out[8 * 7];
    for (int b = 0; b < 8; b++)
        fill_obs(shape, b, obs + b * shape->obs_bytes);
    world_forward(w, "policy", NULL, obs, 8, out);
    for (int b = 0; b < 8; b++) {
        CHECK_CLOSE(out[b * outputs + actions], golden_number(of, "%s/%d", value, b), 1.0,
                    tolerance, "value");
        for (int j = 0; j < actions; j++)
            CHECK_CLOSE(out[b * outputs + j], golden_number(of, "%s/%d/%d", logit, b, j), 1.0,
                        tolerance, "logit");
    }
}

static void run_epoch(struct world *w)
{
    world_run(w, &compute_advantages, 0);
    worlds_combine(&w, 1, &sum_returns);
    world_run(w, &merge_returns, 0);
    learn_in_order(w);
}

static void check_running(const struct world *w, struct golden wanted, const char *key,
                          double tolerance)
{
    CHECK_CLOSE(world_field(w, "return_scale", key), golden_number(wanted, "%s", key), 1.0,
                tolerance, key);
}

/* Once with the minibatch whole, once in microbatches. */
TEST(two_epochs_are_di_engine_s, .runs = 2 * CASES)
{
    const int number = _i % CASES;
    const struct golden golden = golden_open(cases[number].file);
    struct world *w = open_case(number, _i >= CASES);
    fill_trajectories(w, golden_count(golden, "logit_before/0"));
    check_outputs(w, golden, "value_before", "logit_before", cases[number].outputs);
    ck_assert_int_eq(golden_count(golden, "updates"), EPOCHS);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        run_epoch(w);
        check_ppo_update(w, golden_get(golden, "updates/%d", epoch), cases[number].loss,
                         cases[number].norm);
    }
    check_running(w, golden_get(golden, "running"), "mean", 1e-7);
    check_running(w, golden_get(golden, "running"), "std", 1e-7);
    check_running(w, golden_get(golden, "running"), "count", 1e-9);
    check_outputs(w, golden, "value_after", "logit_after", cases[number].outputs);
    check_net(w, "policy", golden, "params_after", cases[number].params);
}
