/* SPDX-License-Identifier: Apache-2.0 */
/* Count, mean and squared deviations of samples of n numbers each; those of two sets of samples
 * merge exactly (Chan, Golub & LeVeque 1979; spec 3.4). Thread safe on different memory. */
#ifndef HD_KERNELS_COMMON_MOMENTS_H
#define HD_KERNELS_COMMON_MOMENTS_H

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

struct hd_moments {
    double *count;   /* [1] */
    double *mean;    /* [n] */
    double *squares; /* [n]: sums of squared deviations from the mean */
};

/* -- One element ------------------------------------------------------------------------------- */

/* From the sums of `rows` bytes and of their squares. */
HD_INLINE void hd_moments_finish_byte(uint32_t sum, uint32_t square, int64_t rows, double *mean,
                                      double *squares)
{
    const double at = rows > 0 ? sum / (double)rows : 0, off = square - at * sum;
    *mean = at;
    *squares = off > 0 ? off : 0;
}

/* Takes in the other's; share: other count / both counts, both: count * share. */
HD_INLINE void hd_moments_merge_one(double *mean, double *squares, double other_mean,
                                    double other_squares, double share, double both)
{
    const double off = other_mean - *mean;
    *mean += off * share;
    *squares += other_squares + off * off * both;
}

/* x * scale + shift has mean 0 and, but for epsilon, deviation 1. */
HD_INLINE void hd_moments_compute_scale(double count, double mean, double squares, double epsilon,
                                        float *scale, float *shift)
{
    const double factor = 1 / sqrt(squares / count + epsilon);
    *scale = (float)factor;
    *shift = (float)(-mean * factor);
}

/* -- All of them ------------------------------------------------------------------------------- */

/* Of samples x[rows][n]. Sums go row by row. */
void hd_moments_compute(const float *x, int64_t rows, int64_t n, struct hd_moments of);

/* Of bytes, which add up exactly in any order: hd_moments_add_bytes adds a sample x[n] to
 * sum[n] and square[n], which start as zeros (at most 65,536 samples), and _bytes turns these sums
 * over `rows` samples into moments. */
void hd_moments_add_bytes(const uint8_t *x, int64_t n, uint32_t *sum, uint32_t *square);
void hd_moments_finish_bytes(const uint32_t *sum, const uint32_t *square, int64_t rows, int64_t n,
                             struct hd_moments of);

/* into += other. Nothing changes when other's count is 0. */
void hd_moments_merge(struct hd_moments into, struct hd_moments other, int64_t n);

/* -- On a GPU: all arrays are in device memory; launches only ---------------------------------- */

/* As hd_moments_compute, but sums are added up in a tree, whose shape depends on rows and n alone.
 */
int hd_moments_compute_cuda(const float *x, int64_t rows, int64_t n, struct hd_moments of,
                            void *stream);

/* Of bytes x[rows][n], at most 65,536 rows: the CPU's bits. scratch:
 * hd_moments_get_scratch_bytes(n) bytes of work memory. */
int64_t hd_moments_get_scratch_bytes(int64_t n);
int hd_moments_compute_bytes_cuda(const uint8_t *x, int64_t rows, int64_t n, uint32_t *scratch,
                                  struct hd_moments of, void *stream);

/* to = operands[n], at least one, merged in tree order (runtime/base/tree.h): the bits of as many
 * hd_moments_merge. `to` is none of them. */
enum { HD_MOMENTS_OPERANDS = 64 };
struct hd_moments_operands {
    int n;
    struct hd_moments operand[HD_MOMENTS_OPERANDS];
};
int hd_moments_reduce_cuda(const struct hd_moments_operands *operands, int64_t n,
                           struct hd_moments to, void *stream);

/* hd_moments_merge for running moments with their scale[n] and shift[n]
 * (hd_moments_compute_scale): the CPU's bits. Where `into` counts none, count and all squares start
 * with `prior` > 0. */
int hd_moments_merge_running_cuda(struct hd_moments into, struct hd_moments other, int64_t n,
                                  double prior, double epsilon, float *scale, float *shift,
                                  void *stream);

#endif
