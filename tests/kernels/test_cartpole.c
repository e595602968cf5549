/* SPDX-License-Identifier: Apache-2.0 */
/* CartPole against gym: start states and trajectories equal to the bit, and the rules of a group.
 */
#include "kernels/envs/cartpole.h"
#include "kernels/envs/pcg64.h"
#include "runtime/base/alloc.h"
#include "tests/golden/cartpole_traces.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 3 };

struct fixture {
    const struct hd_env *env;
    void *group;
    float obs[ENVS][4], reward[ENVS];
    bool done[ENVS], truncated[ENVS];
};

static struct fixture make(int64_t envs)
{
    struct fixture f = {.env = hd_env_find("cartpole")};
    ck_assert_ptr_nonnull(f.env);
    f.group = hd_alloc(1, (size_t)f.env->bytes(envs));
    f.env->init(f.group, envs);
    return f;
}

static void step(struct fixture *f, const int32_t *action)
{
    f->env->step(f->group, action,
                 (struct hd_env_outcome){f->obs[0], f->reward, f->done, f->truncated});
}

/* The fill of the fixtures: splitmix64's output function over (k << 32) + j. */
static double fill(uint64_t k, uint64_t j)
{
    uint64_t z = (k << 32) + j + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 40) / 16777216.0;
}

static int32_t choose(const struct cartpole_trace *trace, const double state[4], int t)
{
    switch (trace->policy) {
    case BALANCE:
        return state[2] + state[3] > 0;
    case RANDOM:
        return (int32_t)floor(2 * fill(trace->seed, (uint64_t)t));
    default:
        return 0;
    }
}

/* Numpy's generator: first words of PCG64(SeedSequence(0)) give this random() in every numpy. */
START_TEST(test_pcg64)
{
    struct hd_pcg64 rng = hd_pcg64_make(0);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.6369616873214543);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.2697867137638703);
    rng = hd_pcg64_make(42);
    ck_assert_double_eq(hd_pcg64_uniform(&rng, 0, 1), 0.7739560485559633);
    struct hd_pcg64 low = hd_pcg64_make(1), high = hd_pcg64_make(1 | (uint64_t)1 << 32);
    ck_assert_uint_ne(hd_pcg64_next(&low), hd_pcg64_next(&high));
}
END_TEST

START_TEST(test_start_states)
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
        f.env->reset(f.group, 0, seed, f.obs[0]);
        for (int i = 0; i < 4; i++)
            ck_assert_float_eq(f.obs[0][i], expected[seed][i]);
    }
    hd_free(f.group);
}
END_TEST

START_TEST(test_traces)
{
    const struct cartpole_trace *trace = &cartpole_traces[_i];
    struct fixture f = make(1);
    f.env->reset(f.group, 0, trace->seed, f.obs[0]);
    const struct cartpole_row *row = trace->rows;
    double state[4];
    hd_cartpole_state(f.group, 0, state);
    ck_assert_mem_eq(state, row->state, sizeof state);
    row++;
    for (int t = 0; t < trace->steps; t++) {
        int32_t action = choose(trace, state, t);
        step(&f, &action);
        hd_cartpole_state(f.group, 0, state);
        ck_assert_float_eq(f.reward[0], 1);
        if (row->step == t + 1) {
            ck_assert_int_eq(action, row->action);
            ck_assert_mem_eq(state, row->state, sizeof state);
            ck_assert_int_eq(f.done[0], row->done);
            ck_assert_int_eq(f.truncated[0], row->truncated);
            for (int i = 0; i < 4; i++)
                ck_assert_float_eq(f.obs[0][i], (float)row->state[i]);
            row++;
        }
        ck_assert(f.done[0] == (t + 1 == trace->steps));
    }
    ck_assert_int_eq(row - trace->rows, trace->n_rows);
    hd_free(f.group);
}
END_TEST

/* Each env of a group plays as it would alone, and the bytes of a group are a snapshot of it. */
START_TEST(test_group)
{
    struct fixture f = make(ENVS), alone[ENVS];
    for (int i = 0; i < ENVS; i++) {
        alone[i] = make(1);
        f.env->reset(f.group, i, (uint64_t)i, f.obs[i]);
        f.env->reset(alone[i].group, 0, (uint64_t)i, alone[i].obs[0]);
        ck_assert_mem_eq(f.obs[i], alone[i].obs[0], sizeof f.obs[0]);
    }
    size_t bytes = (size_t)f.env->bytes(ENVS);
    void *copy = malloc(bytes);
    float seen[2][4];
    for (int t = 0; t < 7; t++) {
        int32_t action[ENVS] = {t % 2, t % 3 == 0, 1};
        if (t == 5)
            memcpy(copy, f.group, bytes);
        step(&f, action);
        for (int i = 0; i < ENVS; i++) {
            step(&alone[i], &action[i]);
            ck_assert_mem_eq(f.obs[i], alone[i].obs[0], sizeof f.obs[0]);
        }
    }
    memcpy(seen[0], f.obs[1], sizeof seen[0]);
    memcpy(f.group, copy, bytes);
    for (int t = 5; t < 7; t++)
        step(&f, (int32_t[ENVS]){t % 2, t % 3 == 0, 1});
    memcpy(seen[1], f.obs[1], sizeof seen[1]);
    ck_assert_mem_eq(seen[0], seen[1], sizeof seen[0]);
    free(copy);
    for (int i = 0; i < ENVS; i++)
        hd_free(alone[i].group);
    hd_free(f.group);
}
END_TEST

/* The final observation stays until the caller resets, which also restarts the time limit. */
START_TEST(test_reset_is_explicit)
{
    struct fixture f = make(1);
    for (int episode = 0; episode < 2; episode++) {
        f.env->reset(f.group, 0, 0, f.obs[0]);
        int length = 0;
        do {
            step(&f, &(int32_t){0});
            length++;
        } while (!f.done[0]);
        ck_assert_int_eq(length, 11);
        ck_assert(!f.truncated[0]);
        ck_assert_float_eq_tol(f.obs[0][2], 0.259626396f, 1e-8f);
    }
    hd_free(f.group);
}
END_TEST

START_TEST(test_find)
{
    ck_assert_ptr_null(hd_env_find("CartPole-v0"));
    ck_assert_ptr_null(hd_env_find(""));
    ck_assert_int_eq(hd_env_find("cartpole")->obs_size, 4);
    ck_assert_int_eq(hd_env_find("cartpole")->actions, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cartpole");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_add_test(tests, test_pcg64);
    tcase_add_test(tests, test_start_states);
    tcase_add_loop_test(tests, test_traces, 0,
                        (int)(sizeof cartpole_traces / sizeof cartpole_traces[0]));
    tcase_add_test(tests, test_group);
    tcase_add_test(tests, test_reset_is_explicit);
    tcase_add_test(tests, test_find);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
