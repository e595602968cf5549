/* SPDX-License-Identifier: Apache-2.0 */
/* CartPole against gym: start states and trajectories equal to the bit, and the rules of a group.
 */
#include "kernels/envs/classic/classic.h"
#include "kernels/envs/classic/pcg64.h"
#include "kernels/envs/find/find.h"
#include "tests/golden/golden.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 3, MAX_STEPS = 200 };

struct fixture {
    const struct hd_env *env;
    void *group;
    float obs[ENVS][4], reward[ENVS];
    bool done[ENVS], truncated[ENVS];
};

static struct fixture make(int64_t envs)
{
    struct fixture f;
    char message[HD_ENV_MESSAGE];
    const struct hd_env_settings settings = {.envs = envs, .env_id = ""};
    struct hd_env_spec spec;
    ck_assert_int_eq(hd_env_find("cartpole", &f.env, message), 0);
    ck_assert_int_eq(f.env->create(&settings, &spec, &f.group, message), 0);
    return f;
}

static void reset(struct fixture *f, int64_t env, uint64_t seed)
{
    char message[HD_ENV_MESSAGE];
    ck_assert_int_eq(f->env->reset(f->group, env, seed, f->obs[env], message), 0);
}

static void step(struct fixture *f, const int32_t *action)
{
    char message[HD_ENV_MESSAGE];
    const struct hd_env_outcome outcome = {f->obs, f->reward, f->done, f->truncated};
    ck_assert_int_eq(f->env->step(f->group, action, &outcome, message), 0);
}

/* A saved state begins with x, x', theta and theta'. */
static void get_state(const struct fixture *f, double state_p[4])
{
    double saved[5];
    char message[HD_ENV_MESSAGE];
    ck_assert_int_eq(f->env->state_bytes(f->group), sizeof saved);
    ck_assert_int_eq(f->env->save(f->group, 0, saved, message), 0);
    memcpy(state_p, saved, 4 * sizeof *state_p);
}

static void drop(struct fixture *f)
{
    f->env->destroy(f->group);
}

static int32_t choose(struct golden trace, const double state[4], int t)
{
    const char *policy = golden_text(trace, "policy");
    if (strcmp(policy, "balance") == 0)
        return state[2] + state[3] > 0;
    if (strcmp(policy, "random") == 0)
        return (int32_t)floor(2 * fill((uint64_t)golden_number(trace, "seed"), (uint64_t)t));
    ck_assert_str_eq(policy, "left");
    return 0;
}

/* Numpy's generator: first words of PCG64(SeedSequence(0)) give this random() in every numpy. */
TEST(test_pcg64)
{
    struct hd_pcg64 rng = hd_pcg64_make(0);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.6369616873214543);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.2697867137638703);
    rng = hd_pcg64_make(42);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.7739560485559633);
    struct hd_pcg64 low = hd_pcg64_make(1), high = hd_pcg64_make(1 | (uint64_t)1 << 32);
    ck_assert_uint_ne(hd_pcg64_next(&low), hd_pcg64_next(&high));
}

TEST(test_start_states)
{
    static const float expected[5][4] = {
        {0.0136961687f, -0.0230213286f, -0.0459026476f, -0.0483472364f},
        {0.00118216247f, 0.0450463696f, -0.0355840387f, 0.0448649447f},
        {-0.0238387866f, -0.0201508857f, 0.0314225741f, -0.0408084058f},
        {-0.0414350833f, -0.0263189493f, 0.0301274465f, 0.00821620361f},
        {0.0443056106f, 0.00113275528f, 0.0476243706f, -0.0419163976f},
    };
    struct fixture f = make(1);
    for (uint64_t seed = 0; seed < 5; seed++) {
        reset(&f, 0, seed);
        for (int i = 0; i < 4; i++)
            ck_assert_float_eq(f.obs[0][i], expected[seed][i]);
    }
    drop(&f);
}

/* Checks the env with a row of a trace, after as many steps. */
static void check_row(const struct fixture *f, struct golden row, const double state[4])
{
    double wanted[4];
    golden_read(row, "state", 4, wanted);
    ck_assert_mem_eq(state, wanted, sizeof wanted);
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq(f->obs[0][i], (float)wanted[i]);
}

TEST(test_traces, .runs = golden_count(golden_open("cartpole_traces"), "traces"))
{
    const struct golden trace = golden_get(golden_open("cartpole_traces"), "traces/%d", _i);
    const int steps = (int)golden_number(trace, "steps"), rows = golden_count(trace, "rows");
    struct fixture f = make(1);
    reset(&f, 0, (uint64_t)golden_number(trace, "seed"));
    double state[4];
    get_state(&f, state);
    check_row(&f, golden_get(trace, "rows/0"), state);
    int checked = 1;
    for (int t = 0; t < steps; t++) {
        int32_t action = choose(trace, state, t);
        step(&f, &action);
        get_state(&f, state);
        ck_assert_float_eq(f.reward[0], 1);
        const struct golden row = golden_get(trace, "rows/%d", checked);
        if (golden_number(row, "step") == t + 1) {
            ck_assert_int_eq(action, (int)golden_number(row, "action"));
            check_row(&f, row, state);
            ck_assert_int_eq(f.done[0], (int)golden_number(row, "done"));
            ck_assert_int_eq(f.truncated[0], (int)golden_number(row, "truncated"));
            checked++;
        }
        ck_assert(f.done[0] == (t + 1 == steps));
    }
    ck_assert_int_eq(checked, rows);
    drop(&f);
}

/* Each env of a group plays as it would alone, and a saved state continues equally in another group
 * and as another env. */
TEST(test_group)
{
    struct fixture f = make(ENVS), other = make(ENVS), alone[ENVS];
    char message[HD_ENV_MESSAGE], state[64];
    ck_assert_int_eq(f.env->state_bytes(f.group), 40);
    for (int i = 0; i < ENVS; i++) {
        alone[i] = make(1);
        reset(&f, i, (uint64_t)i);
        reset(&alone[i], 0, (uint64_t)i);
        ck_assert_mem_eq(f.obs[i], alone[i].obs[0], sizeof f.obs[0]);
    }
    for (int t = 0; t < 9; t++) {
        int32_t action[ENVS] = {t % 2, t % 3 == 0, 1}, moved[ENVS] = {1, 0, action[1]};
        if (t == 5) {
            ck_assert_int_eq(f.env->save(f.group, 1, state, message), 0);
            ck_assert_int_eq(f.env->load(other.group, 2, state, message), 0);
        }
        step(&f, action);
        for (int i = 0; i < ENVS; i++) {
            step(&alone[i], &action[i]);
            ck_assert_mem_eq(f.obs[i], alone[i].obs[0], sizeof f.obs[0]);
        }
        if (t >= 5) {
            step(&other, moved);
            ck_assert_mem_eq(f.obs[1], other.obs[2], sizeof f.obs[1]);
        }
    }
    for (int i = 0; i < ENVS; i++)
        drop(&alone[i]);
    drop(&other);
    drop(&f);
}

/* The number of steps is part of the state: the time limit falls in the same step. */
TEST(test_saved_time_limit)
{
    struct fixture f = make(1), other = make(1);
    char message[HD_ENV_MESSAGE], state[64];
    reset(&f, 0, 0);
    for (int t = 0; t < MAX_STEPS; t++) {
        struct fixture *playing = t < 150 ? &f : &other;
        if (t == 150) {
            f.env->save(f.group, 0, state, message);
            ck_assert_int_eq(other.env->load(other.group, 0, state, message), 0);
        }
        int32_t action = playing->obs[0][2] + playing->obs[0][3] > 0;
        if (t == 150)
            action = f.obs[0][2] + f.obs[0][3] > 0;
        step(playing, &action);
        ck_assert(playing->done[0] == (t + 1 == MAX_STEPS));
    }
    ck_assert(other.truncated[0]);
    memset(state, 0xFF, sizeof state);
    ck_assert_int_eq(f.env->load(f.group, 0, state, message), -1);
    ck_assert_ptr_nonnull(strstr(message, "-1 steps"));
    drop(&other);
    drop(&f);
}

/* The final observation stays until the caller resets, which also restarts the time limit. */
TEST(test_reset_is_explicit)
{
    struct fixture f = make(1);
    for (int episode = 0; episode < 2; episode++) {
        reset(&f, 0, 0);
        int length = 0;
        do {
            step(&f, &(int32_t){0});
            length++;
        } while (!f.done[0]);
        ck_assert_int_eq(length, 11);
        ck_assert(!f.truncated[0]);
        ck_assert_float_eq_tol(f.obs[0][2], 0.259626396f, 1e-8f);
    }
    drop(&f);
}

TEST(test_settings)
{
    const struct hd_env *env = &hd_env_cartpole;
    char message[HD_ENV_MESSAGE];
    struct hd_env_spec spec;
    void *group;
    struct hd_env_settings settings = {.envs = 1, .env_id = ""};
    ck_assert_int_eq(env->create(&settings, &spec, &group, message), 0);
    ck_assert_int_eq(spec.element, HD_ENV_F32);
    ck_assert_int_eq(spec.dims, 1);
    ck_assert_int_eq(spec.shape[0], 4);
    ck_assert_int_eq(spec.actions.n[0], 2);
    ck_assert_int_eq(hd_env_get_frame_bytes(&spec), 16);
    env->destroy(group);
    settings.env_id = "CartPole-v2";
    ck_assert_int_eq(env->create(&settings, &spec, &group, message), -1);
    ck_assert_ptr_nonnull(strstr(message, "'CartPole-v2'"));
    settings = (struct hd_env_settings){
        .envs = 1, .env_id = "", .options = &(struct hd_env_option){"length", "1"}, .n_options = 1};
    ck_assert_int_eq(env->create(&settings, &spec, &group, message), -1);
    ck_assert_ptr_nonnull(strstr(message, "'length'"));
}
