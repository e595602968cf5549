/* SPDX-License-Identifier: Apache-2.0 */
/* Count, mean and sum of squared deviations of samples that consist of n numbers each. Moments of
 * two sets of samples are merged exactly (Chan, Golub & LeVeque 1979; docs/di-engine.md 3.4).
 * Thread safe on different memory. The CUDA forms only launch kernels and return HD_OK or
 * HD_ERR_DEVICE (logged). */
#pragma once

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

struct hd_moments {
    double *count;   /* [1] */
    double *mean;    /* [n] */
    double *squares; /* [n]: sums of squared deviations from the mean */
};

/* -- One element ------------------------------------------------------------------------------- */

/* Computes mean and squares from the sum of `rows` bytes and the sum of their squares. */
HD_INLINE void hd_moments_finish_byte(uint32_t sum, uint32_t square, int64_t rows, double *mean,
                                      double *squares)
{
    const double at = rows > 0 ? sum / (double)rows : 0, off = square - at * sum;
    *mean = at;
    *squares = off > 0 ? off : 0;
}

/* Merges another mean and sum of squares into *mean and *squares; `share` is the other count
 * divided by both counts together, `both` is the first count times share. */
HD_INLINE void hd_moments_merge_one(double *mean, double *squares, double other_mean,
                                    double other_squares, double share, double both)
{
    const double off = other_mean - *mean;
    *mean += off * share;
    *squares += other_squares + off * off * both;
}

/* Computes scale and shift such that x * scale + shift has mean 0 and, up to epsilon, deviation
 * 1. */
HD_INLINE void hd_moments_compute_scale(double count, double mean, double squares, double epsilon,
                                        float *scale, float *shift)
{
    const double factor = 1 / sqrt(squares / count + epsilon);
    *scale = (float)factor;
    *shift = (float)(-mean * factor);
}

/* -- All of them ------------------------------------------------------------------------------- */

/* Computes the moments of samples x[rows][n], adding row by row. */
void hd_moments_compute(const float *x, int64_t rows, int64_t n, struct hd_moments of);

/* Moments of bytes, whose sums are exact in any order: hd_moments_add_bytes adds a sample x[n] to
 * sum[n] and square[n], which start as zeros (at most 65,536 samples), and _bytes turns these sums
 * over `rows` samples into moments. */
void hd_moments_add_bytes(const uint8_t *x, int64_t n, uint32_t *sum, uint32_t *square);
void hd_moments_finish_bytes(const uint32_t *sum, const uint32_t *square, int64_t rows, int64_t n,
                             struct hd_moments of);

/* Merges `other` into `into`. Nothing changes if other's count is 0. */
void hd_moments_merge(struct hd_moments into, struct hd_moments other, int64_t n);

/* -- On a GPU: all arrays are in device memory ------------------------------------------------- */

/* Computes the moments of x[rows][n] like hd_moments_compute, but adds in a tree whose shape
 * depends on rows and n alone. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_moments_compute_cuda(const float *x, int64_t rows, int64_t n, struct hd_moments of,
                            void *stream);

/* Computes the moments of bytes x[rows][n], at most 65,536 rows, with the CPU's bits. `scratch` has
 * hd_moments_get_scratch_bytes(n) bytes. Returns HD_OK or HD_ERR_DEVICE (logged). */
int64_t hd_moments_get_scratch_bytes(int64_t n);
int hd_moments_compute_bytes_cuda(const uint8_t *x, int64_t rows, int64_t n, uint32_t *scratch,
                                  struct hd_moments of, void *stream);

/* Merges operands[n], n >= 1, into `to` in tree order (runtime/base/tree.h), with the bits of as
 * many calls of hd_moments_merge. `to` is none of the operands. Returns HD_OK, HD_ERR_DEVICE or,
 * for too many operands, HD_ERR_UNSUPPORTED (logged). */
enum { HD_MOMENTS_OPERANDS = 64 };
struct hd_moments_operands {
    int n;
    struct hd_moments operand[HD_MOMENTS_OPERANDS];
};
int hd_moments_reduce_cuda(const struct hd_moments_operands *operands, int64_t n,
                           struct hd_moments to, void *stream);

/* Merges like hd_moments_merge and renews scale[n] and shift[n] (hd_moments_compute_scale), with
 * the CPU's bits. Where `into` counts no sample, its count and all squares start with `prior` > 0.
 * Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_moments_merge_running_cuda(struct hd_moments into, struct hd_moments other, int64_t n,
                                  double prior, double epsilon, float *scale, float *shift,
                                  void *stream);
