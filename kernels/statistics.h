/* SPDX-License-Identifier: Apache-2.0 */
/* Count, mean and squared deviations of samples of n numbers each; those of two sets of samples
 * merge exactly (Chan, Golub & LeVeque 1979; spec 3.4). Thread safe on different memory. */
#ifndef HD_KERNELS_STATISTICS_H
#define HD_KERNELS_STATISTICS_H

#include <stdint.h>

struct hd_statistics {
    double *count;   /* [1] */
    double *mean;    /* [n] */
    double *squares; /* [n]: sums of squared deviations from the mean */
};

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

#endif
