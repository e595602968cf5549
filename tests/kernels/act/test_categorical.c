/* SPDX-License-Identifier: Apache-2.0 */
/* Draws from logits: frequencies are the probabilities, and a GPU's draws are the CPU's. */
#include "kernels/act/categorical.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

TEST(draws_follow_the_probabilities)
{
    enum { DRAWS = 200000, N = 4 };
    const float logit[N] = {1, -1, 0.5f, -40};
    double p[N], sum = 0;
    int64_t drawn[N] = {0};
    struct hd_rng rng = hd_rng_make(11, 12, 13, 14, 15);
    for (int i = 0; i < N; i++)
        sum += p[i] = exp(logit[i]);
    for (int i = 0; i < DRAWS; i++)
        drawn[hd_categorical_draw(logit, N, hd_rng_draw_uniform(&rng, (uint32_t)i))]++;
    for (int i = 0; i < N; i++) {
        const double share = p[i] / sum, deviation = sqrt(share * (1 - share) / DRAWS);
        ck_assert_double_eq_tol((double)drawn[i] / DRAWS, share, 5 * deviation + 1e-6);
    }
    ck_assert_int_eq(hd_categorical_draw(logit, N, 0), 0);
    ck_assert_int_eq(hd_categorical_draw(logit, N, 1 - 1e-9), 3);
    ck_assert_int_eq(hd_categorical_draw(logit, 3, 1 - 1e-12), 2);
}

#if HD_CUDA
struct draws_case {
    int groups, rows, n, ld;
    bool keep, shared;
};

static const struct draws_case cases[] = {{1, 1, 1, 1, true, false},
                                          {1, 37, 6, 7, true, true},
                                          {3, 100, 18, 18, false, false},
                                          {16, 2, 6, 7, true, true},
                                          {1, 5, 40, 64, true, true}};

/* Returns the distance of u from the nearest boundary between two actions: a GPU's exp may differ
 * in its last bit, which moves boundaries by less than 1e-14. */
static double distance(const float *logit, int n, double u)
{
    double sum = 0, below = 0, min_prob = 1;
    for (int i = 0; i < n; i++)
        sum += exp((double)logit[i]);
    for (int i = 0; i + 1 < n; i++) {
        below += (exp((double)logit[i]) / sum + 1e-8) / (1 + n * 1e-8);
        min_prob = fmin(min_prob, fabs(u - below));
    }
    return min_prob;
}

TEST(draws_of_a_gpu, .runs = COUNT(cases), .cuda = true)
{
    const struct draws_case *c = &cases[_i];
    const struct hd_rng rng = hd_rng_make(3, 5, 7, (int64_t)_i, 0);
    enum { FIRST = 1000, NEXT = 500 };
    const int guard = 8, rows = c->groups * c->rows;
    float *logit = test_alloc(rows * c->ld, sizeof *logit);
    float *kept = test_alloc(rows * c->n + guard, sizeof *kept);
    int32_t *action = test_alloc(rows + guard, sizeof *action);
    for (int i = 0; i < rows * c->ld; i++)
        logit[i] = (float)(8 * hd_rng_draw_uniform(&rng, (uint32_t)i) - 4);
    const float *logit_there = device_make(logit, rows * c->ld * 4);
    int32_t *action_there =
        c->shared ? device_shared((rows + guard) * 4) : device_make(NULL, (rows + guard) * 4);
    float *kept_there = c->keep ? device_make(NULL, (rows * c->n + guard) * 4) : NULL;
    struct hd_draws *draws = device_shared(c->groups * (int64_t)sizeof *draws);
    struct hd_categorical_group groups[HD_CATEGORICAL_GROUPS];
    for (int g = 0; g < c->groups; g++) {
        draws[g] = (struct hd_draws){rng, (uint32_t)(FIRST + g * NEXT)};
        groups[g] = (struct hd_categorical_group){&draws[g], action_there + g * c->rows,
                                                  c->keep ? kept_there + g * c->rows * c->n : NULL};
    }
    ck_assert_int_eq(hd_categorical_draw_cuda(logit_there, c->ld, c->n, c->rows, groups, c->groups,
                                              device_stream()),
                     HD_OK);
    if (c->shared) {
        device_get(kept, kept_there, 4); /* waits for the stream */
        memcpy(action, action_there, (size_t)(rows + guard) * 4);
    } else {
        device_get(action, action_there, (rows + guard) * 4);
    }
    for (int i = 0; i < rows; i++) {
        const int item = FIRST + i / c->rows * NEXT + i % c->rows;
        const double u = hd_rng_draw_uniform(&rng, (uint32_t)item);
        ck_assert_double_gt(distance(logit + i * c->ld, c->n, u), 1e-12);
        ck_assert_int_eq(action[i], hd_categorical_draw(logit + i * c->ld, c->n, u));
    }
    for (int i = rows; i < rows + guard; i++)
        ck_assert_int_eq(action[i], c->shared ? 0 : -1);
    if (!c->keep)
        return;
    device_get(kept, kept_there, (rows * c->n + guard) * 4);
    for (int i = 0; i < rows; i++)
        ck_assert_mem_eq(kept + i * c->n, logit + i * c->ld, (size_t)c->n * 4);
    for (int i = 0; i < guard; i++)
        ck_assert(isnan(kept[rows * c->n + i]));
}
#endif
