/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm as torch.nn.BatchNorm1d and SyncBatchNorm define it (Ioffe and Szegedy 2015), on the
 * feature-major activations of kernels/dense/linear.h: X[i][b], rows ld floats apart, ld a multiple
 * of HD_LANES. A batch may be distributed over several items, which share sums over all of its
 * samples. The calls are:
 *
 *     compute_sums                               for every item; the caller adds the sums
 *     compute_moments, forward, update_running   with the sums of the whole batch
 *     compute_backward_sums                      for every item; the caller adds the sums
 *     backward                                   with the sums of the whole batch
 *
 * Sums are doubles, in which products of two floats are exact: HD_LANES partial sums, then pairs of
 * halves. xhat is (X - mean) / sqrt(variance + epsilon). Thread safe, no allocation; no two
 * pointers of a call overlap unless stated. */
#pragma once

#include <stdint.h>

/* PyTorch's defaults: what is added to variances, and the weight of a batch in running
 * statistics. */
#define HD_BATCH_NORM_EPSILON 1e-5
#define HD_BATCH_NORM_MOMENTUM 0.1

/* Computes sums[i] = sum_b X[i][b] and sums[features + i] = sum_b X[i][b]^2, b < used. */
void hd_batch_norm_compute_sums(int64_t features, int64_t used, const float *x, int64_t ld,
                                double *sums);

/* Computes mean[features] and the biased variance[features] of `count` samples; zeros if there are
 * none. */
void hd_batch_norm_compute_moments(int64_t features, double count, const double *sums, double *mean,
                                   double *variance);

/* Computes Y[i][b] = weight[i] xhat + bias[i], for all b < columns (a multiple of HD_LANES). */
void hd_batch_norm_forward(int64_t features, int64_t columns, const double *mean,
                           const double *variance, const float *weight, const float *bias,
                           const float *x, int64_t ldx, float *y, int64_t ldy);

/* Normalises like hd_batch_norm_forward by running statistics. A row's result depends on that row
 * alone. */
void hd_batch_norm_forward_running(int64_t features, int64_t columns, const float *running_mean,
                                   const float *running_var, const float *weight, const float *bias,
                                   const float *x, int64_t ldx, float *y, int64_t ldy);

/* Updates running statistics by those of a batch, with the unbiased variance. A batch of fewer than
 * two samples, which PyTorch refuses, changes nothing. */
void hd_batch_norm_update_running(int64_t features, double count, const double *mean,
                                  const double *variance, float *running_mean, float *running_var);

/* Computes sums[i] = sum_b dY[i][b] and sums[features + i] = sum_b dY[i][b] xhat[i][b], b < used.
 * They are also the gradients of bias and weight. `row` is scratch of hd_linear_get_ld(used)
 * floats.
 */
void hd_batch_norm_compute_backward_sums(int64_t features, int64_t used, const double *mean,
                                         const double *variance, const float *dy, int64_t lddy,
                                         const float *x, int64_t ldx, float *row, double *sums);

/* Computes dX = weight / sqrt(variance + epsilon) (dY - mean dY - xhat mean(dY xhat)), the means
 * being sums / count, for b < used; 0 for used <= b < columns. dX may be dY. */
void hd_batch_norm_backward(int64_t features, int64_t columns, int64_t used, double count,
                            const double *sums, const double *mean, const double *variance,
                            const float *weight, const float *x, int64_t ldx, const float *dy,
                            float *dx, int64_t ld);
