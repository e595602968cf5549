/* SPDX-License-Identifier: Apache-2.0 */
/* Epsilon: the numbers of docs/di-engine.md 2.7 and the ends of a linear decay. Actions of a GPU,
 * greedy and random, are those of a CPU. */
#include "kernels/act/exploration.h"
#include "kernels/common/argmax.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

TEST(test_exponential)
{
    const struct hd_epsilon pong = {false, 1, .05, 250000}, cartpole = {false, .95, .1, 10000};
    ck_assert_double_eq(hd_epsilon_compute(&pong, 0), 1);
    ck_assert_double_eq_tol(hd_epsilon_compute(&pong, 96), 0.99963527, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_compute(&pong, 1e5), 0.68680404, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_compute(&pong, 1e6), 0.06739986, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_compute(&cartpole, 8), 0.94932027, 5e-9);
    ck_assert_double_eq_tol(hd_epsilon_compute(&cartpole, 1e4), 0.41269752, 5e-9);
}

TEST(test_linear)
{
    const struct hd_epsilon epsilon = {true, .9, .1, 1000};
    ck_assert_double_eq_tol(hd_epsilon_compute(&epsilon, 0), .9, 1e-15);
    ck_assert_double_eq_tol(hd_epsilon_compute(&epsilon, 250), .7, 1e-15);
    ck_assert_double_eq(hd_epsilon_compute(&epsilon, 1000), .1);
    ck_assert_double_eq(hd_epsilon_compute(&epsilon, 1e9), .1);
}

#if HD_CUDA
enum { ROWS = 300, ACTIONS = 6, LD = 7, GUARD = 8 };

/* Values with ties, some of which are NaN. */
static const float *some_values(const float **there_p)
{
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    float *q = test_alloc(ROWS * LD, sizeof *q);
    for (int i = 0; i < ROWS * LD; i++)
        q[i] = hd_rng_draw_below(&rng, (uint32_t)i, 50) == 0
                   ? NAN
                   : (float)hd_rng_draw_below(&rng, (uint32_t)(i + ROWS * LD), 5);
    *there_p = device_make(q, ROWS * LD * 4);
    return q;
}

static const int32_t *fetched(const int32_t *there)
{
    int32_t *action = test_alloc(ROWS + GUARD, sizeof *action);
    device_get(action, there, (ROWS + GUARD) * 4);
    for (int i = 0; i < GUARD; i++)
        ck_assert_int_eq(action[ROWS + i], -1);
    return action;
}

TEST(test_argmax_cuda, .cuda = true)
{
    const float *there, *q = some_values(&there);
    int32_t *action = device_make(NULL, (ROWS + GUARD) * 4);
    ck_assert_int_eq(hd_argmax_cuda(there, LD, ACTIONS, ROWS, action, device_stream()), HD_OK);
    const int32_t *found = fetched(action);
    for (int i = 0; i < ROWS; i++)
        ck_assert_int_eq(found[i], hd_argmax(q + i * LD, ACTIONS));
}
#endif
