/* SPDX-License-Identifier: Apache-2.0 */
/* Advantages against the numbers of docs/di-engine.md 9.4 and against theory; those of a GPU, and
 * the returns computed from them there, are bitwise the CPU's. */
#include "kernels/learn/advantages.h"
#include "kernels/learn/gae.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

TEST(advantages_of_the_spec)
{
    const float v[] = {.5f, .6f, .7f, .8f, .2f, .1f}, next[] = {.6f, .7f, .9f, .2f, .1f, .4f};
    const float r[] = {1, 0, -1, .5f, 1, 0}, done[] = {0, 0, 1, 0, 0, 0},
                end[] = {0, 0, 1, 0, 1, 0};
    const double expected[] = {-0.32225192, -1.5058501, -1.7, 0.74350953, 0.89899999, 0.296};
    struct hd_gae gae = {6, .99f, .95f, v, next, r, done, end};
    float adv[6];
    hd_gae_compute(&gae, adv);
    for (int i = 0; i < 6; i++)
        ck_assert_double_eq_tol(adv[i], expected[i], 1e-6);
    gae.end = done;
    hd_gae_compute(&gae, adv);
    ck_assert_double_eq_tol(adv[3], 1.0053334, 1e-6);
    ck_assert_double_eq_tol(adv[4], 1.177388, 1e-6);
}

/* With lambda = 1 and values that follow one another an advantage is the discounted return of the
 * fragment, bootstrap included, minus the value; with lambda = 0 it is the one-step error. */
TEST(advantages_by_theory)
{
    enum { N = 50 };
    struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    float v[N + 1], r[N], zero[N] = {0}, end[N] = {0}, adv[N];
    for (int i = 0; i <= N; i++)
        v[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)i);
    for (int i = 0; i < N; i++)
        r[i] = (float)hd_rng_draw_uniform(&rng, (uint32_t)(100 + i));
    end[19] = 1;
    struct hd_gae gae = {N, .9f, 1, v, v + 1, r, zero, end};
    hd_gae_compute(&gae, adv);
    double value = v[N];
    for (int i = N - 1; i >= 0; i--) {
        if (i == 19)
            value = v[20];
        value = r[i] + (double)gae.gamma * value;
        ck_assert_double_eq_tol(adv[i], value - v[i], 1e-5);
    }
    gae.lambda = 0;
    hd_gae_compute(&gae, adv);
    for (int i = 0; i < N; i++)
        ck_assert_double_eq_tol(adv[i], r[i] + (double)gae.gamma * v[i + 1] - v[i], 1e-6);
}

/* A NaN stays in its fragment. */
TEST(fragments_do_not_touch)
{
    const float v[] = {1, 2, 3, 4}, next[] = {2, 5, 4, 6}, r[] = {1, 1, 1, NAN}, done[4] = {0};
    const float end[] = {0, 1, 0, 1};
    const struct hd_gae gae = {4, .5f, .5f, v, next, r, done, end};
    float adv[4];
    hd_gae_compute(&gae, adv);
    ck_assert_float_eq(adv[1], 1.5f);
    ck_assert_float_eq(adv[0], 1.375f);
    ck_assert(isnan(adv[2]) && isnan(adv[3]));
}

#if HD_CUDA
enum { GUARD = 8 };

static float *random_floats(int64_t n, int64_t seed)
{
    const struct hd_rng rng = hd_rng_make((uint64_t)seed, 3, 0, 0, 0);
    float *x = test_alloc(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(2 * hd_rng_draw_uniform(&rng, (uint32_t)i) - 1);
    return x;
}

/* Returns flags, of which one in `among` is 1. */
static float *random_flags(int64_t n, int64_t among, int64_t seed)
{
    const struct hd_rng rng = hd_rng_make((uint64_t)seed, 4, 0, 0, 0);
    float *x = test_alloc(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = hd_rng_draw_below(&rng, (uint32_t)i, among) == 0;
    return x;
}

static float *there(const float *x, int64_t n)
{
    return device_make(x, n * 4);
}

static const float *fetched(const float *x, int64_t n)
{
    float *host = test_alloc(n + GUARD, sizeof *host);
    device_get(host, x, (n + GUARD) * 4);
    for (int64_t i = n; i < n + GUARD; i++)
        ck_assert(isnan(host[i]));
    return host;
}

/* Fragments have one sample, about as many as are loaded at a time, or many. */
TEST(advantages_of_a_gpu, .runs = 6 * 4, .cuda = true)
{
    static const int64_t sizes[] = {1, 7, 8, 9, 40, 1000}, among[] = {1, 5, 9, 1000};
    const int64_t n = sizes[_i / 4];
    float *v = random_floats(n, 1), *next = random_floats(n, 2), *r = random_floats(n, 3);
    float *done = random_flags(n, 3, 4), *end = random_flags(n, among[_i % 4], 5);
    float *expected = test_alloc(n, 4), *advantage = there(NULL, n + GUARD);
    const struct hd_gae gae = {n, .97f, .9f, v, next, r, done, end};
    const struct hd_gae gae_there = {
        n, .97f, .9f, there(v, n), there(next, n), there(r, n), there(done, n), there(end, n)};
    hd_gae_compute(&gae, expected);
    ck_assert_int_eq(hd_gae_compute_cuda(&gae_there, advantage, device_stream()), HD_OK);
    ck_assert_mem_eq(fetched(advantage, n), expected, (size_t)n * 4);
}

TEST(values_of_rows, .cuda = true)
{
    enum { ROWS = 300, OUTPUTS = 7 };
    const float *out = random_floats(ROWS * OUTPUTS, 1);
    float *value = there(NULL, ROWS + GUARD);
    ck_assert_int_eq(hd_advantages_gather_values_cuda(there(out, ROWS * OUTPUTS), ROWS, OUTPUTS,
                                                      value, device_stream()),
                     HD_OK);
    const float *found = fetched(value, ROWS);
    for (int i = 0; i < ROWS; i++)
        ck_assert_float_eq(found[i], out[i * OUTPUTS + OUTPUTS - 1]);
}

/* -- Advantages of a collect ------------------------------------------------------------------- */

struct collect_case {
    int64_t groups, samples;
    bool has_unit;
    double count; /* count of the moments that give the unit */
    bool returns;
};

static const struct collect_case collect_cases[] = {{1, 1, false, 0, true},
                                                    {1, 50, true, 0, true},
                                                    {3, 33, true, 12, true},
                                                    {2, 300, true, 3, false}};

/* A collect with only the arrays that advantages need: rewards, ends and dones of steps, whose
 * samples come in another order. */
struct played {
    struct hd_steps steps;
    float *reward, *done, *end; /* [N] of samples */
};

static void play(const struct collect_case *c, struct played *p)
{
    const int64_t q = c->samples, n = c->groups * q;
    char *data = test_alloc(n, 4 * 4);
    p->steps =
        (struct hd_steps){.groups = c->groups, .group_bytes = 4 * q * 4, .samples = q, .steps = q};
    p->steps.at.end = q * 4;
    p->steps.at.reward = 2 * q * 4;
    p->steps.at.done = 3 * q * 4;
    p->reward = random_floats(n, 1);
    p->done = random_flags(n, 4, 2);
    p->end = random_flags(n, 6, 3);
    for (int64_t l = 0; l < c->groups; l++) {
        float *group = (float *)(data + l * p->steps.group_bytes);
        for (int64_t i = 0; i < q; i++) {
            const int64_t sample = l * q + i, step = q - 1 - i;
            p->end[sample] = i == q - 1 || p->done[sample] != 0 || p->end[sample] != 0;
            ((int32_t *)group)[i] = (int32_t)step;
            group[q + i] = p->end[sample];
            group[2 * q + step] = p->reward[sample];
            group[3 * q + step] = p->done[sample];
        }
    }
    p->steps.data = device_make(data, 4 * n * 4);
}

/* Does what the verb `compute_advantages` does on a CPU, step by step. */
struct expected {
    float *advantage, *target, *value, *returns;
};

static void expect(const struct played *p, int64_t n, const float *value, const float *after,
                   float unit, struct expected *expected)
{
    float *v = test_alloc(n, 4), *next = test_alloc(n, 4);
    for (int64_t i = 0; i < n; i++)
        v[i] = value[i] * unit;
    for (int64_t i = 0; i < n; i++)
        if (p->done[i] == 0)
            next[i] = p->end[i] != 0 ? *after++ * unit : v[i + 1];
    *expected =
        (struct expected){test_alloc(n, 4), test_alloc(n, 4), test_alloc(n, 4), test_alloc(n, 4)};
    const struct hd_gae gae = {n, .95f, .8f, v, next, p->reward, p->done, p->end};
    hd_gae_compute(&gae, expected->advantage);
    for (int64_t i = 0; i < n; i++) {
        expected->returns[i] = v[i] + expected->advantage[i];
        expected->target[i] = expected->returns[i] / unit;
        expected->value[i] = v[i] / unit;
    }
}

static struct hd_moments number(const double *count, const double *mean, const double *squares)
{
    return (struct hd_moments){device_make(count, 8), device_make(mean, 8),
                               device_make(squares, 8)};
}

TEST(advantages_of_a_collect_cuda, .runs = COUNT(collect_cases), .cuda = true)
{
    const struct collect_case *c = &collect_cases[_i];
    const int64_t n = c->groups * c->samples, capacity = n + 5;
    const double mean = 1, squares = 7.7, epsilon = 1e-8;
    const float unit = !c->has_unit    ? 1
                       : c->count == 0 ? (float)sqrt(1 + epsilon)
                                       : (float)sqrt(squares / c->count + epsilon);
    const float *value = random_floats(n, 7), *after = random_floats(capacity, 8);
    struct played played;
    struct expected expected;
    play(c, &played);
    expect(&played, n, value, after, unit, &expected);
    int32_t *after_there = device_make(NULL, capacity * 4);
    struct hd_advantages_args args = {.steps = played.steps,
                                      .gamma = .95f,
                                      .lambda = .8f,
                                      .value = there(value, n),
                                      .after = after_there,
                                      .after_value = there(after, capacity),
                                      .capacity = capacity,
                                      .epsilon = epsilon,
                                      .work = device_make(NULL, hd_advantages_get_work_bytes(n)),
                                      .advantage = there(NULL, n + GUARD),
                                      .target = there(NULL, n + GUARD),
                                      .value_before = there(NULL, n + GUARD)};
    if (c->has_unit)
        args.unit = number(&c->count, &mean, &squares);
    if (c->returns)
        args.returns = number(NULL, NULL, NULL);
    ck_assert_int_eq(
        hd_steps_find_bootstraps_cuda(&played.steps, after_there, capacity, device_stream()),
        HD_OK);
    ck_assert_int_eq(hd_advantages_compute_cuda(&args, device_stream()), HD_OK);
    ck_assert_mem_eq(fetched(args.advantage, n), expected.advantage, (size_t)n * 4);
    ck_assert_mem_eq(fetched(args.target, n), expected.target, (size_t)n * 4);
    ck_assert_mem_eq(fetched(args.value_before, n), expected.value, (size_t)n * 4);
    if (!c->returns)
        return;
    double found[3], sums[3];
    hd_moments_compute(expected.returns, n, 1, (struct hd_moments){&sums[0], &sums[1], &sums[2]});
    device_get(&found[0], args.returns.count, 8);
    device_get(&found[1], args.returns.mean, 8);
    device_get(&found[2], args.returns.squares, 8);
    ck_assert_double_eq(found[0], (double)n);
    CHECK_CLOSE(found[1], sums[1], 1.0, 1e-13, "mean"); /* added in another order */
    CHECK_CLOSE(found[2], sums[2], (double)n, 1e-13, "squares");
}
#endif
