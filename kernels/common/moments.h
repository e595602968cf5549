/* SPDX-License-Identifier: Apache-2.0 */
/* Count, mean and squared deviations of samples of n numbers each; those of two sets of samples
 * merge exactly (Chan, Golub & LeVeque 1979; spec 3.4). Thread safe on different memory. */
#ifndef HD_KERNELS_COMMON_MOMENTS_H
#define HD_KERNELS_COMMON_MOMENTS_H

#include "runtime/base/inline.h"

#include <math.h>
#include <stdint.h>

struct hd_statistics {
    double *count;   /* [1] */
    double *mean;    /* [n] */
    double *squares; /* [n]: sums of squared deviations from the mean */
};

/* -- One element --------------------------------------------------------------------------------
 */

/* From the sums of `rows` bytes and of their squares. */
HD_INLINE void hd_statistics_byte(uint32_t sum, uint32_t square, int64_t rows, double *mean,
                                  double *squares)
{
    const double at = rows > 0 ? sum / (double)rows : 0, off = square - at * sum;
    *mean = at;
    *squares = off > 0 ? off : 0;
}

/* Takes in the other's; share: other count / both counts, both: count * share. */
HD_INLINE void hd_statistics_merge_one(double *mean, double *squares, double other_mean,
                                       double other_squares, double share, double both)
{
    const double off = other_mean - *mean;
    *mean += off * share;
    *squares += other_squares + off * off * both;
}

/* x * scale + shift has mean 0 and, but for epsilon, deviation 1. */
HD_INLINE void hd_statistics_scale(double count, double mean, double squares, double epsilon,
                                   float *scale, float *shift)
{
    const double factor = 1 / sqrt(squares / count + epsilon);
    *scale = (float)factor;
    *shift = (float)(-mean * factor);
}

/* -- All of them --------------------------------------------------------------------------------
 */

/* Of samples x[rows][n]. Sums go row by row. */
void hd_statistics_of(const float *x, int64_t rows, int64_t n, struct hd_statistics of);

/* Of bytes, which add up exactly in any order: hd_statistics_bytes_add adds a sample x[n] to
 * sum[n] and square[n], which start as zeros (at most 65,536 samples), and _bytes turns these sums
 * over `rows` samples into statistics. */
void hd_statistics_bytes_add(const uint8_t *x, int64_t n, uint32_t *sum, uint32_t *square);
void hd_statistics_bytes(const uint32_t *sum, const uint32_t *square, int64_t rows, int64_t n,
                         struct hd_statistics of);

/* into += other. Nothing changes when other's count is 0. */
void hd_statistics_merge(struct hd_statistics into, struct hd_statistics other, int64_t n);

/* -- On a GPU: all arrays are in device memory; launches only -----------------------------------
 */

/* As hd_statistics_of, but sums are added up in a tree, whose shape depends on rows and n alone. */
int hd_statistics_of_cuda(const float *x, int64_t rows, int64_t n, struct hd_statistics of,
                          void *stream);

/* Of bytes x[rows][n], at most 65,536 rows: the CPU's bits. room: hd_statistics_bytes_room(n)
 * bytes of work memory. */
int64_t hd_statistics_bytes_room(int64_t n);
int hd_statistics_bytes_cuda(const uint8_t *x, int64_t rows, int64_t n, uint32_t *room,
                             struct hd_statistics of, void *stream);

/* to = operands[n], at least one, merged in tree order (runtime/base/tree.h): the bits of as many
 * hd_statistics_merge. `to` is none of them. */
enum { HD_STATISTICS_OPERANDS = 64 };
struct hd_statistics_operands {
    int n;
    struct hd_statistics operand[HD_STATISTICS_OPERANDS];
};
int hd_statistics_reduce_cuda(const struct hd_statistics_operands *operands, int64_t n,
                              struct hd_statistics to, void *stream);

/* hd_statistics_merge for running statistics with their scale[n] and shift[n]
 * (hd_statistics_scale): the CPU's bits. Where `into` counts none, count and all squares start with
 * `prior` > 0. */
int hd_statistics_join_cuda(struct hd_statistics into, struct hd_statistics other, int64_t n,
                            double prior, double epsilon, float *scale, float *shift, void *stream);

#endif
