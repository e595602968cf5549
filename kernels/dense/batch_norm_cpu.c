/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/batch_norm.h"
#include "kernels/dense/linear.h"

#include <math.h>
#include <string.h>

typedef float vec __attribute__((vector_size(4 * HD_LANES), aligned(4)));
typedef double wide __attribute__((vector_size(8 * HD_LANES)));

/* -- Sums -------------------------------------------------------------------------------------- */

/* Loads floats b … b + HD_LANES - 1 of a row, with zeros from `used` on. */
static inline void load(const float *row, int64_t b, int64_t used, wide *to)
{
    vec floats = {0};
    if (used - b >= HD_LANES)
        floats = *(const vec *)(row + b);
    else
        memcpy(&floats, row + b, (size_t)(used - b) * sizeof *row);
    *to = __builtin_convertvector(floats, wide);
}

static inline double add_lanes(const wide *lanes)
{
    double sums[HD_LANES];
    memcpy(sums, lanes, sizeof sums);
    for (int half = HD_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

/* Computes sums[i] = sum_b X[i][b] and sums[features + i] = sum_b X[i][b] Y[i][b]. */
static void add_rows(int64_t features, int64_t used, const float *x, int64_t ldx, const float *y,
                     int64_t ldy, double *sums)
{
    for (int64_t i = 0; i < features; i++) {
        wide sum = {0}, product = {0}, term, factor;
        for (int64_t b = 0; b < used; b += HD_LANES) {
            load(x + i * ldx, b, used, &term);
            load(y + i * ldy, b, used, &factor);
            sum += term;
            product += term * factor;
        }
        sums[i] = add_lanes(&sum);
        sums[features + i] = add_lanes(&product);
    }
}

void hd_batch_norm_compute_sums(int64_t features, int64_t used, const float *x, int64_t ld,
                                double *sums)
{
    add_rows(features, used, x, ld, x, ld, sums);
}

/* Rounding errors may make a variance negative; a NaN remains a NaN. */
void hd_batch_norm_compute_moments(int64_t features, double count, const double *sums, double *mean,
                                   double *variance)
{
    for (int64_t i = 0; i < features; i++) {
        const double m = count > 0 ? sums[i] / count : 0;
        const double v = count > 0 ? sums[features + i] / count - m * m : 0;
        mean[i] = m;
        variance[i] = v < 0 ? 0 : v;
    }
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* The numbers by which a feature is normalised. The mean is subtracted as two floats, so that a
 * large mean costs no digits. */
struct feature {
    float high, low, scale;
};

static struct feature make_feature(double mean, double variance)
{
    const float high = (float)mean;
    return (struct feature){.high = high,
                            .low = (float)(mean - (double)high),
                            .scale = (float)(1 / sqrt(variance + HD_BATCH_NORM_EPSILON))};
}

static inline float normalise(struct feature f, float x)
{
    return ((x - f.high) - f.low) * f.scale;
}

void hd_batch_norm_forward(int64_t features, int64_t columns, const double *mean,
                           const double *variance, const float *weight, const float *bias,
                           const float *x, int64_t ldx, float *y, int64_t ldy)
{
    for (int64_t i = 0; i < features; i++) {
        const struct feature f = make_feature(mean[i], variance[i]);
        const float w = weight[i], shift = bias[i];
        const float *restrict from = x + i * ldx;
        float *restrict to = y + i * ldy;
        for (int64_t b = 0; b < columns; b++)
            to[b] = w * normalise(f, from[b]) + shift;
    }
}

void hd_batch_norm_forward_running(int64_t features, int64_t columns, const float *running_mean,
                                   const float *running_var, const float *weight, const float *bias,
                                   const float *x, int64_t ldx, float *y, int64_t ldy)
{
    for (int64_t i = 0; i < features; i++) {
        const float scale = (float)(1 / sqrt((double)running_var[i] + HD_BATCH_NORM_EPSILON));
        const float mean = running_mean[i], w = weight[i], shift = bias[i];
        const float *restrict from = x + i * ldx;
        float *restrict to = y + i * ldy;
        for (int64_t b = 0; b < columns; b++)
            to[b] = w * ((from[b] - mean) * scale) + shift;
    }
}

void hd_batch_norm_update_running(int64_t features, double count, const double *mean,
                                  const double *variance, float *running_mean, float *running_var)
{
    const double momentum = HD_BATCH_NORM_MOMENTUM;
    for (int64_t i = 0; i < features && count >= 2; i++) {
        const double unbiased = variance[i] * count / (count - 1);
        running_mean[i] = (float)((1 - momentum) * (double)running_mean[i] + momentum * mean[i]);
        running_var[i] = (float)((1 - momentum) * (double)running_var[i] + momentum * unbiased);
    }
}

void hd_batch_norm_compute_backward_sums(int64_t features, int64_t used, const double *mean,
                                         const double *variance, const float *dy, int64_t lddy,
                                         const float *x, int64_t ldx, float *row, double *sums)
{
    for (int64_t i = 0; i < features; i++) {
        const struct feature f = make_feature(mean[i], variance[i]);
        double both[2];
        for (int64_t b = 0; b < used; b++)
            row[b] = normalise(f, x[i * ldx + b]);
        add_rows(1, used, dy + i * lddy, lddy, row, 0, both);
        sums[i] = both[0];
        sums[features + i] = both[1];
    }
}

void hd_batch_norm_backward(int64_t features, int64_t columns, int64_t used, double count,
                            const double *sums, const double *mean, const double *variance,
                            const float *weight, const float *x, int64_t ldx, const float *dy,
                            float *dx, int64_t ld)
{
    for (int64_t i = 0; i < features; i++) {
        const struct feature f = make_feature(mean[i], variance[i]);
        const float scale = (float)((double)weight[i] / sqrt(variance[i] + HD_BATCH_NORM_EPSILON));
        const float mean_dy = count > 0 ? (float)(sums[i] / count) : 0;
        const float slope = count > 0 ? (float)(sums[features + i] / count) : 0;
        const float *at = x + i * ldx, *from = dy + i * ld;
        float *to = dx + i * ld;
        for (int64_t b = 0; b < used; b++)
            to[b] = scale * ((from[b] - mean_dy) - normalise(f, at[b]) * slope);
        for (int64_t b = used; b < columns; b++)
            to[b] = 0;
    }
}
