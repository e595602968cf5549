/* SPDX-License-Identifier: Apache-2.0 */
/* V-trace against the sums of the paper's equation 1 in double, and where policies are equal
 * against generalised advantage estimation, to the bit. */
#include "kernels/learn/losses/softmax.h"
#include "kernels/learn/vtrace.h"
#include "runtime/base/rng.h"
#include "tests/kernels/common/guarded.h"

#include <math.h>

enum { MAX_SAMPLES = 61, MAX_ACTIONS = 18 };

struct data {
    float value[MAX_SAMPLES + 1], next_value[MAX_SAMPLES], reward[MAX_SAMPLES], done[MAX_SAMPLES],
        end[MAX_SAMPLES], log_ratio[MAX_SAMPLES];
    struct hd_vtrace vtrace;
};

static float draw(const struct hd_rng *rng, int64_t i, double low, double high)
{
    return (float)(low + (high - low) * hd_rng_draw_uniform(rng, (uint32_t)i));
}

/* Fragments of different lengths, of which some end with their episode. */
static void fill(struct data *d, int64_t n, float lambda, float rho_max, float c_max)
{
    const struct hd_rng rng = hd_rng_make(9, (uint64_t)n, 0, 0, 0);
    for (int64_t i = 0; i <= n; i++)
        d->value[i] = draw(&rng, i, -2, 2);
    for (int64_t i = 0; i < n; i++) {
        d->reward[i] = draw(&rng, 1000 + i, -1, 1);
        d->log_ratio[i] = draw(&rng, 2000 + i, -3, 3);
        d->done[i] = i % 11 == 4;
        d->end[i] = i % 7 == 5 || d->done[i] != 0;
        d->next_value[i] = d->end[i] != 0 ? draw(&rng, 3000 + i, -2, 2) : d->value[i + 1];
    }
    d->vtrace =
        (struct hd_vtrace){{n, .95f, lambda, d->value, d->next_value, d->reward, d->done, d->end},
                           d->log_ratio,
                           rho_max,
                           c_max};
}

static double error_of(const struct data *d, int64_t t)
{
    const struct hd_gae *samples = &d->vtrace.samples;
    return d->reward[t] + (double)samples->gamma * d->next_value[t] * (1 - d->done[t]) -
           d->value[t];
}

static double weight_of(const struct data *d, int64_t t, double max)
{
    return fmin(max, exp((double)d->log_ratio[t]));
}

/* v - V of sample s: the sum over t >= s of gamma^(t - s) times the traces before t times delta. */
static double correct(const struct data *d, int64_t s)
{
    const struct hd_vtrace *vtrace = &d->vtrace;
    double sum = 0, factor = 1;
    for (int64_t t = s; t < vtrace->samples.n; t++) {
        sum += factor * weight_of(d, t, vtrace->rho_max) * error_of(d, t);
        if (d->end[t] != 0)
            break;
        factor *=
            (double)vtrace->samples.gamma * vtrace->samples.lambda * weight_of(d, t, vtrace->c_max);
    }
    return sum;
}

TEST(the_papers_sums)
{
    static const float limits[][3] = {
        {1, 1, 1}, {1, 2, .5f}, {.9f, 1e6f, 1e6f}, {0, 1, 1}, {1, 0, 1}};
    static struct data d;
    for (int64_t n = 1; n <= MAX_SAMPLES; n += 12)
        for (int l = 0; l < 5; l++) {
            float *correction = guarded(n * 4), *advantage = guarded(n * 4);
            fill(&d, n, limits[l][0], limits[l][1], limits[l][2]);
            hd_vtrace_compute(&d.vtrace, correction, advantage);
            for (int64_t s = 0; s < n; s++) {
                const double next = d.end[s] != 0 ? 0 : correct(&d, s + 1),
                             rho = weight_of(&d, s, d.vtrace.rho_max);
                const double wanted =
                    rho * (error_of(&d, s) + (double)d.vtrace.samples.gamma * next);
                ck_assert_double_eq_tol(correction[s], correct(&d, s),
                                        1e-5 * (1 + fabs(correct(&d, s))));
                ck_assert_double_eq_tol(advantage[s], wanted, 1e-5 * (1 + fabs(wanted)));
            }
            check_guard(correction, n * 4);
            check_guard(advantage, n * 4);
            hd_vtrace_compute(&d.vtrace, d.log_ratio, advantage); /* in place */
            ck_assert_mem_eq(d.log_ratio, correction, (size_t)n * 4);
        }
}

TEST(equal_policies_are_those_of_gae)
{
    static struct data d;
    float correction[MAX_SAMPLES], advantage[MAX_SAMPLES], gae[MAX_SAMPLES];
    for (int l = 0; l < 2; l++) {
        fill(&d, MAX_SAMPLES, l ? .8f : 1, 1, 1);
        memset(d.log_ratio, 0, sizeof d.log_ratio);
        hd_vtrace_compute(&d.vtrace, correction, advantage);
        hd_gae_compute(&d.vtrace.samples, gae);
        ck_assert_mem_eq(correction, gae, sizeof gae);
        if (l == 0)
            ck_assert_mem_eq(advantage, gae, sizeof gae);
    }
}

TEST(ratios)
{
    const struct hd_rng rng = hd_rng_make(3, 1, 0, 0, 0);
    float logit[2][MAX_ACTIONS];
    for (int64_t n = 1; n <= MAX_ACTIONS; n++)
        for (int32_t a = 0; a < n; a++) {
            double log_p[2];
            for (int p = 0; p < 2; p++) {
                double sum = 0;
                for (int64_t i = 0; i < n; i++) {
                    logit[p][i] = draw(&rng, (n * 40 + a) * 40 + 20 * p + i, -20, 20);
                    sum += exp(logit[p][i]);
                }
                log_p[p] = logit[p][a] - log(sum);
            }
            ck_assert_double_eq_tol(hd_softmax_compute_log_ratio(logit[0], logit[1], n, a),
                                    log_p[0] - log_p[1],
                                    1e-5 * (1 + fabs(log_p[0]) + fabs(log_p[1])));
        }
}
