/* SPDX-License-Identifier: Apache-2.0 */
/* Three updates of PPO with recurrent nets through the verbs themselves, against PyTorch's numbers
 * for the same case (tests/interop/pytorch/torch_recurrent.py): losses, norms of gradients,
 * parameters. */
#include "tests/tasks/learn/golden_update.h"
#include "tests/tasks/on_policy.h"

enum { GOLDEN_ENVS = 4, GOLDEN_STEPS = 6, UNROLL = 3, SAMPLES = GOLDEN_ENVS * GOLDEN_STEPS };

/* -- The collect ------------------------------------------------------------------------------- */

static bool is_done(int env, int t)
{
    static const int dones[][2] = {{0, 1}, {1, 2}, {2, 5}, {3, 3}, {3, 4}};
    for (size_t i = 0; i < sizeof dones / sizeof *dones; i++)
        if (dones[i][0] == env && dones[i][1] == t)
            return true;
    return false;
}

static float number(uint64_t k, int64_t j, double scale)
{
    return (float)(scale * (2 * fill(k, (uint64_t)j) - 1));
}

static void show(const struct hd_frame_upload *frames, int env, uint64_t k, bool begins)
{
    float *frame = hd_frame_upload_next(frames, env, begins);
    for (int i = 0; i < 2; i++)
        frame[i] = number(k, i, 1);
}

/* An episode that ends shows a last observation, which nothing may depend on, and then the next
 * one's first. */
static void fill_step(const struct hd_trajectories *t, const struct hd_frame_upload *frames,
                      int env, int step)
{
    enum { LAST = 9000 };
    const int i = env * GOLDEN_STEPS + step;
    const bool done = is_done(env, step);
    t->row[i] = i;
    t->end[i] = done || step + 1 == GOLDEN_STEPS;
    t->frame[i] = (int32_t)(t->shown[env] - 1);
    t->action[i].choice = i % 2;
    t->reward[i] = i % 3 == 0 ? -0.5f : 1;
    t->done[i] = done;
    for (int j = 0; j < 2; j++)
        t->logit[2 * i + j] = number(2000 + (uint64_t)i, j, 0.5);
    if (done)
        show(frames, env, LAST, false);
    show(frames, env, (uint64_t)(1000 + 7 * env + step + 1), done);
}

/* The state before a sequence is zero if an episode begins with it. */
static void fill_states(const struct hd_trajectories_shape *shape, const struct hd_trajectories *t,
                        int env)
{
    const int each = GOLDEN_STEPS / UNROLL;
    for (int k = 0; k < each; k++)
        for (int64_t j = 0; j < shape->sequences.state; j++)
            hd_trajectories_get_state(shape, t, env, k)[j] =
                k > 0 && is_done(env, k * UNROLL - 1)
                    ? 0
                    : number((uint64_t)(3000 + env * each + k), j, 0.5);
}

static void fill_trajectories(struct world *w)
{
    const struct hd_trajectories_shape *shape =
        hd_trajectories_get_shape(&world_get(w, "trajectories")->spec);
    hd_trajectories_clear(INSTANCE(w, "trajectories"), 0);
    const struct hd_trajectories t = hd_trajectories_get(INSTANCE(w, "trajectories"), 0);
    const struct hd_frame_upload frames = hd_trajectories_get_show(shape, &t);
    ck_assert_int_eq(shape->steps, GOLDEN_STEPS);
    for (int env = 0; env < GOLDEN_ENVS; env++) {
        show(&frames, env, (uint64_t)(1000 + 7 * env), true);
        for (int step = 0; step < GOLDEN_STEPS; step++)
            fill_step(&t, &frames, env, step);
        fill_states(shape, &t, env);
    }
    *t.made = SAMPLES;
    *t.forward = GOLDEN_STEPS;
}

/* -- Updates ----------------------------------------------------------------------------------- */

static struct golden get_case(int number)
{
    return golden_get(golden_open("ppo_recurrent"), "cases/%d", number);
}

static struct world *open_case(struct golden golden, bool cut)
{
    struct world *w = make_on_policy(0);
    world_set(w, "policy.model.layers=%s; policy.learn.microbatch=%d",
              golden_text(golden, "layers"), cut ? 6 : 24);
    world_set(w, "policy.model.heads={policy: {type: categorical}, value: {type: dense}}; "
                 "policy.model.obs_shape=2; env.options={velocities: false}; "
                 "env.collector_env_num=4; policy.collect.n_sample=24; "
                 "policy.collect.unroll_len=3; policy.collect.segment_at_done=false; "
                 "policy.collect.discount_factor=0.9; policy.collect.gae_lambda=0.95; "
                 "policy.learn.batch_size=24; policy.learn.value_norm=false; "
                 "policy.learn.value_weight=0.5; policy.learn.entropy_weight=0.01; "
                 "policy.learn.clip_ratio=0.2; policy.learn.learning_rate=0.001; "
                 "policy.learn.grad_clip_type=clip_norm; policy.learn.grad_clip_value=0.5");
    open_on_policy(w);
    fill_params(world_net(w, "policy"), 0, world_get(w, "policy")->data);
    return w;
}

static void check_tensor_names(const struct world *w, struct golden golden)
{
    const struct hd_net *net = world_net(w, "policy");
    for (int t = 0; t < hd_net_count_tensors(net); t++)
        ck_assert_str_eq(hd_net_get_tensor(net, t)->name, golden_text(golden, "names/%d", t));
}

/* Once with the minibatch whole, once in microbatches of two sequences. */
TEST(three_updates_are_pytorch_s, .runs = 2 * golden_count(golden_open("ppo_recurrent"), "cases"))
{
    const struct golden golden = get_case(_i / 2);
    struct world *w = open_case(golden, _i % 2 == 1);
    fill_trajectories(w);
    ck_assert_int_gt(golden_count(golden, "updates"), 0);
    for (int i = 0; i < golden_count(golden, "updates"); i++) {
        world_run(w, &compute_advantages, 0);
        learn_in_order(w);
        check_ppo_update(w, golden_get(golden, "updates/%d", i), 4e-7, 4e-7);
    }
    check_tensor_names(w, golden);
    check_net(w, "policy", golden, "params_after", 1e-6);
}

/* Sequences stay whole and in their order. */
TEST(permutations_are_of_sequences)
{
    struct world *w = open_case(get_case(0), false);
    bool seen[SAMPLES] = {false}, moved = false;
    world_run(w, &shuffle, 0);
    const struct hd_permutation *permutation = world_get(w, "permutation")->data;
    for (int i = 0; i < SAMPLES; i++) {
        const int32_t sample = permutation->sample[i];
        ck_assert(sample >= 0 && sample < SAMPLES && !seen[sample]);
        seen[sample] = true;
        moved |= sample != i;
        ck_assert_int_eq(sample % UNROLL, i % UNROLL);
        if (i % UNROLL > 0)
            ck_assert_int_eq(sample, permutation->sample[i - 1] + 1);
    }
    ck_assert(moved);
}
