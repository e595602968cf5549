/* SPDX-License-Identifier: Apache-2.0 */
/* PPO's loss and its gradient against the numbers of docs/di-engine.md 9.4 and a naive version in
 * double. */
#include "kernels/learn/losses/ppo_loss.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#include <string.h>

/* hd_ppo_loss_compute or its form on a GPU, and hd_standardise or its form. */
typedef void loss_kernel(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p);
typedef void standard_kernel(float *adv, int64_t n);

static void check_spec(loss_kernel *differentiate, standard_kernel *standardise)
{
    const float out[] = {.1f, .2f, -.3f, .5f, 1, -1, 0, 1.5f, 0, 0, 0, -.2f, 2, 1, 0, 0};
    const float old[] = {0, 0, 0, .5f, -.5f, 0, .3f, -.3f, .1f, 0, 1, 2};
    const float value_old[] = {.4f, 1, .1f, .05f}, target[] = {1, 1.2f, -.5f, .3f};
    float adv[] = {1, -.5f, .25f, 2}, dout[16];
    const int32_t action[] = {0, 1, 2, 0};
    const struct hd_ppo_loss loss = {.batch = 4,
                                     .logits = 3,
                                     .dims = 1,
                                     .choices = {3},
                                     .clip = .2f,
                                     .value_clip = true,
                                     .value_weight = .5f,
                                     .entropy_weight = .01f,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = value_old,
                                     .advantage = adv,
                                     .target = target,
                                     .action = (const void *)action};
    struct hd_ppo_sums sums;
    differentiate(&loss, dout, &sums);
    ck_assert_double_eq_tol(sums.policy / 4, -0.83046669, 1e-6);
    ck_assert_double_eq_tol(sums.value / 4, 0.073750004, 1e-6);
    ck_assert_double_eq_tol(sums.entropy / 4, 0.96025443, 1e-6);
    ck_assert_double_eq_tol(sums.approx_kl / 4, -0.32842207, 1e-6);
    ck_assert_double_eq(sums.clipfrac / 4, 0.5);
    ck_assert_double_eq_tol((sums.policy + .5 * sums.value - .01 * sums.entropy) / 4, -0.80319422,
                            1e-6);
    const double dv[] = {-0.0625, 0.0375, 0, -0.0375};
    const double dlogit[] = {-0.1728111, 0.1077558, 0.0650553};
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(dout[i * 4 + 3] / 4, dv[i], 1e-6);
    for (int i = 0; i < 3; i++)
        ck_assert_double_eq_tol(dout[i] / 4, dlogit[i], 1e-6);
    const double normalised[] = {0.29260287, -1.1118909, -0.40964404, 1.2289321};
    standardise(adv, 4);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(adv[i], normalised[i], 1e-6);
}

TEST(loss_of_the_spec)
{
    check_spec(hd_ppo_loss_compute, hd_standardise);
}

enum { ROWS = 200, ACTIONS = 5, WIDTH = ACTIONS + 1 };

static void log_softmax(const double *logit, double *log_p)
{
    double sum = 0;
    for (int j = 0; j < ACTIONS; j++)
        sum += exp(logit[j]);
    for (int j = 0; j < ACTIONS; j++)
        log_p[j] = logit[j] - log(sum);
}

static double bound(double x, double lo, double hi)
{
    return fmin(fmax(x, lo), hi);
}

/* Returns the loss of one row in the papers' notation. */
static double naive_loss(const struct hd_ppo_loss *l, int b, const double *out)
{
    double old[ACTIONS], log_p[ACTIONS], log_old[ACTIONS], entropy = 0;
    for (int j = 0; j < ACTIONS; j++)
        old[j] = l->logit_old[b * ACTIONS + j];
    log_softmax(out, log_p);
    log_softmax(old, log_old);
    for (int j = 0; j < ACTIONS; j++)
        entropy -= exp(log_p[j]) * log_p[j];
    double ratio = exp(log_p[l->action[b].choice] - log_old[l->action[b].choice]),
           adv = l->advantage[b];
    double policy = -fmin(ratio * adv, bound(ratio, 1 - l->clip, 1 + l->clip) * adv);
    double v = out[ACTIONS], v_old = l->value_old[b];
    double v_clip = v_old + bound(v - v_old, -l->clip, l->clip);
    double unclipped = pow(v - l->target[b], 2), clipped = pow(v_clip - l->target[b], 2);
    double value = 0.5 * (l->value_clip ? fmax(unclipped, clipped) : unclipped);
    return policy + l->value_weight * value - l->entropy_weight * entropy;
}

/* Checks the derivative by differences of the naive loss. Rows so near a kink that the differences
 * see both of its sides are left out. */
static void check_gradient(loss_kernel *differentiate, bool value_clip)
{
    struct hd_rng rng = hd_rng_make(7, 8, 9, 10, 11);
    float out[ROWS * WIDTH], old[ROWS * ACTIONS], rest[3][ROWS], dout[ROWS * WIDTH];
    int32_t action[ROWS];
    uint32_t item = 0;
    for (int i = 0; i < ROWS * WIDTH; i++)
        out[i] = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
    for (int i = 0; i < ROWS * ACTIONS; i++)
        old[i] = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
    for (int i = 0; i < 3 * ROWS; i++)
        rest[i / ROWS][i % ROWS] = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
    for (int i = 0; i < ROWS; i++)
        action[i] = (int32_t)hd_rng_draw_below(&rng, item++, ACTIONS);
    const struct hd_ppo_loss loss = {.batch = ROWS,
                                     .logits = ACTIONS,
                                     .dims = 1,
                                     .choices = {ACTIONS},
                                     .clip = .2f,
                                     .value_clip = value_clip,
                                     .value_weight = .7f,
                                     .entropy_weight = .03f,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = rest[0],
                                     .advantage = rest[1],
                                     .target = rest[2],
                                     .action = (const void *)action};
    struct hd_ppo_sums sums;
    differentiate(&loss, dout, &sums);
    double total = 0, step = 1e-6;
    int kinks = 0;
    for (int b = 0; b < ROWS; b++) {
        double row[WIDTH];
        for (int j = 0; j < WIDTH; j++)
            row[j] = out[b * WIDTH + j];
        const double here = naive_loss(&loss, b, row);
        total += here;
        for (int j = 0; j < WIDTH; j++) {
            const double x = row[j];
            row[j] = x + step;
            const double right = (naive_loss(&loss, b, row) - here) / step;
            row[j] = x - step;
            const double left = (here - naive_loss(&loss, b, row)) / step;
            row[j] = x;
            if (fabs(right - left) > 1e-3)
                kinks++;
            else
                ck_assert_double_eq_tol(dout[b * WIDTH + j], (left + right) / 2, 1e-4);
        }
    }
    ck_assert_int_lt(kinks, 5);
    ck_assert_double_eq_tol(sums.policy + loss.value_weight * sums.value -
                                loss.entropy_weight * sums.entropy,
                            total, 1e-3);
}

TEST(gradient_by_differences, .runs = 2)
{
    check_gradient(hd_ppo_loss_compute, _i == 0);
}

/* If nothing moved, the ratio is 1 and all branches tie: the gradient is the plain one. */
static void check_ties(loss_kernel *differentiate)
{
    const float out[] = {.3f, -.2f, .5f}, old[] = {.3f, -.2f}, v_old[] = {.5f}, adv[] = {2};
    const float target[] = {1};
    const int32_t action[] = {1};
    const struct hd_ppo_loss loss = {.batch = 1,
                                     .logits = 2,
                                     .dims = 1,
                                     .choices = {2},
                                     .clip = .2f,
                                     .value_clip = true,
                                     .value_weight = 1,
                                     .out = out,
                                     .logit_old = old,
                                     .value_old = v_old,
                                     .advantage = adv,
                                     .target = target,
                                     .action = (const void *)action};
    struct hd_ppo_sums sums;
    float dout[3];
    differentiate(&loss, dout, &sums);
    const double p1 = 1 / (1 + exp(.5));
    ck_assert_double_eq_tol(dout[0], 2 * (1 - p1), 1e-6);
    ck_assert_double_eq_tol(dout[1], -2 * (1 - p1), 1e-6);
    ck_assert_double_eq_tol(dout[2], -.5, 1e-6);
    ck_assert_double_eq_tol(sums.kl, 0, 1e-9);
}

TEST(gradient_where_branches_tie)
{
    check_ties(hd_ppo_loss_compute);
}

#if HD_CUDA

/* Calls hd_ppo_loss_compute_cuda on copies of what the loss points to. */
static void run_on_device(const struct hd_ppo_loss *loss, const int64_t *used, float *dout,
                          struct hd_ppo_sums *sums_p)
{
    const int64_t row = loss->batch * sizeof(float), logits = row * loss->logits;
    struct hd_ppo_loss there = *loss;
    struct hd_ppo_sums *sums = device_shared(sizeof *sums);
    float *dout_there = device_make(NULL, logits + row);
    there.out = device_make(loss->out, logits + row);
    there.logit_old = device_make(loss->logit_old, logits);
    there.value_old = device_make(loss->value_old, row);
    there.advantage = device_make(loss->advantage, row);
    there.target = device_make(loss->target, row);
    there.action = device_make(loss->action, row * loss->dims);
    ck_assert_int_eq(hd_ppo_loss_compute_cuda(&there, used ? device_make(used, sizeof *used) : NULL,
                                              dout_there, sums, device_stream()),
                     HD_OK);
    device_get(dout, dout_there, logits + row);
    *sums_p = *sums;
}

static void on_device(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p)
{
    run_on_device(loss, NULL, dout, sums_p);
}

static void standardise_on_device(float *adv, int64_t n)
{
    float *there = device_make(adv, n * sizeof *adv);
    ck_assert_int_eq(hd_standardise_cuda(there, device_make(&n, sizeof n), device_stream()), HD_OK);
    device_get(adv, there, n * sizeof *adv);
}

TEST(cuda_loss_of_the_spec, .cuda = true)
{
    check_spec(on_device, standardise_on_device);
}

TEST(cuda_gradient_by_differences, .runs = 2, .cuda = true)
{
    check_gradient(on_device, _i == 0);
}

TEST(cuda_gradient_where_branches_tie, .cuda = true)
{
    check_ties(on_device);
}

enum { MANY = 1100, CHOICES = 18, OUTPUTS = CHOICES + 1 };

struct many {
    float out[MANY * OUTPUTS], old[MANY * CHOICES], value_old[MANY], adv[MANY], target[MANY];
    int32_t action[MANY];
};

/* Policies that have moved by up to +-0.1, so that some ratios are beyond the clip. */
static struct hd_ppo_loss make_many(struct many *m)
{
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    uint32_t item = 0;
    for (int b = 0; b < MANY; b++) {
        for (int j = 0; j < CHOICES; j++) {
            m->old[b * CHOICES + j] = (float)(4 * hd_rng_draw_uniform(&rng, item++) - 2);
            m->out[b * OUTPUTS + j] =
                m->old[b * CHOICES + j] + (float)(.6 * hd_rng_draw_uniform(&rng, item++) - .3);
        }
        m->value_old[b] = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
        m->out[b * OUTPUTS + CHOICES] =
            m->value_old[b] + (float)(hd_rng_draw_uniform(&rng, item++) - .5);
        m->adv[b] = (float)(4 * hd_rng_draw_uniform(&rng, item++) - 2);
        m->target[b] = (float)(2 * hd_rng_draw_uniform(&rng, item++) - 1);
        m->action[b] = (int32_t)hd_rng_draw_below(&rng, item++, CHOICES);
    }
    return (struct hd_ppo_loss){.batch = MANY,
                                .logits = CHOICES,
                                .dims = 1,
                                .choices = {CHOICES},
                                .clip = .2f,
                                .value_clip = true,
                                .value_weight = .5f,
                                .entropy_weight = .01f,
                                .out = m->out,
                                .logit_old = m->old,
                                .value_old = m->value_old,
                                .advantage = m->adv,
                                .target = m->target,
                                .action = (const void *)m->action};
}

/* Compares sums over `rows` rows, each of which may differ by some last bits of exp and log. */
static void check_sums(const struct hd_ppo_sums *sums, const struct hd_ppo_sums *is, double rows)
{
    CHECK_CLOSE(sums->policy, is->policy, 1 + rows, 1e-6, "policy");
    CHECK_CLOSE(sums->value, is->value, 1 + rows, 1e-12, "value");
    CHECK_CLOSE(sums->entropy, is->entropy, 1 + rows, 1e-6, "entropy");
    CHECK_CLOSE(sums->approx_kl, is->approx_kl, 1 + rows, 1e-6, "approx_kl");
    CHECK_CLOSE(sums->kl, is->kl, 1 + rows, 1e-6, "kl");
    CHECK_CLOSE(sums->adv, is->adv, 1 + rows, 1e-12, "adv");
    CHECK_CLOSE(sums->v, is->v, 1 + rows, 1e-12, "v");
    ck_assert_double_eq(sums->clipfrac, is->clipfrac);
    ck_assert(sums->adv_max == is->adv_max && sums->v_max == is->v_max);
}

/* The results are the CPU's, and rows that are not used get zeros. */
TEST(cuda_rows_are_the_cpu_s, .cuda = true)
{
    static const int64_t uses[] = {0, 1, 511, 512, 513, MANY, MANY + 7};
    static struct many many;
    static float found[MANY * OUTPUTS], wanted[MANY * OUTPUTS];
    const struct hd_ppo_loss all = make_many(&many);
    for (int k = 0; k < 7; k++) {
        struct hd_ppo_loss loss = all;
        struct hd_ppo_sums sums, is;
        loss.batch = uses[k] < MANY ? uses[k] : MANY;
        hd_ppo_loss_compute(&loss, wanted, &is);
        run_on_device(&all, &uses[k], found, &sums);
        for (int64_t i = 0; i < loss.batch * OUTPUTS; i++)
            CHECK_CLOSE(found[i], wanted[i], 1.0, 2e-6, "derivative");
        for (int64_t i = loss.batch * OUTPUTS; i < MANY * OUTPUTS; i++)
            ck_assert(found[i] == 0);
        check_sums(&sums, &is, (double)loss.batch);
        ck_assert(loss.batch < 500 || (is.clipfrac > 50 && is.clipfrac < (double)loss.batch));
    }
}

/* Results agree up to the last bit: sums are in double in another order. */
TEST(cuda_standardise_is_the_cpu_s, .runs = 6, .cuda = true)
{
    static const int64_t sizes[] = {0, 1, 2, 511, 513, 5000};
    static float found[5000], wanted[5000];
    const struct hd_rng rng = hd_rng_make(9, 4, 3, 2, 1);
    const int64_t n = sizes[_i];
    for (int64_t i = 0; i < 5000; i++)
        found[i] = wanted[i] = (float)(1000 + hd_rng_draw_uniform(&rng, (uint32_t)i));
    hd_standardise(wanted, n);
    standardise_on_device(found, n);
    for (int64_t i = 0; i < n; i++)
        CHECK_CLOSE(found[i], wanted[i], 1 + fabs(wanted[i]), 1.2e-7, "standardised");
}

#endif
