/* SPDX-License-Identifier: Apache-2.0 */
/* The transforms of minimal filtering with 4 inputs for the points 0, 1, -1 and infinity (Lavin &
 * Gray 2016), on a line of vectors `step` apart: a kernel of 2 yields 3 outputs, one of 3 yields 2.
 * A patch is transformed along both dimensions, one after the other. Thread safe. */
#pragma once

#include "kernels/common/vector.h"

enum { HD_WINOGRAD_SIDE = 4 /* side of a patch of the input */ };

/* G: transforms a line of the kernel to a line of products. */
HD_ALWAYS void hd_winograd_expand_kernel(int64_t kernel, const hd_vec *g, int step, hd_vec *u)
{
    const hd_vec ends = kernel == 2 ? g[0] : g[0] + g[2 * step];
    u[0] = g[0];
    u[step] = (ends + g[step]) * 0.5f;
    u[2 * step] = (ends - g[step]) * 0.5f;
    u[3 * step] = g[(kernel - 1) * step];
}

/* G transposed: transforms gradients of products to those of the kernel. */
HD_ALWAYS void hd_winograd_reduce_kernel(int64_t kernel, const hd_vec *u, int step, hd_vec *g)
{
    const hd_vec even = (u[step] + u[2 * step]) * 0.5f, odd = (u[step] - u[2 * step]) * 0.5f;
    const hd_vec first = u[0] + even, last = u[3 * step];
    g[0] = first;
    if (kernel == 2) {
        g[step] = odd + last;
    } else {
        g[step] = odd;
        g[2 * step] = even + last;
    }
}

/* B transposed: transforms a line of the input in place. */
HD_ALWAYS void hd_winograd_transform_input(hd_vec *d, int step)
{
    const hd_vec d1 = d[step], d2 = d[2 * step];
    d[0] = d[0] - d2;
    d[step] = d1 + d2;
    d[2 * step] = d2 - d1;
    d[3 * step] = d1 - d[3 * step];
}

/* B: transforms gradients of products to those of the input, in place. */
HD_ALWAYS void hd_winograd_restore_input(hd_vec *v, int step)
{
    const hd_vec v0 = v[0], v1 = v[step], v2 = v[2 * step], v3 = v[3 * step];
    v[step] = v1 - v2 + v3;
    v[2 * step] = v1 + v2 - v0;
    v[3 * step] = -v3;
}

/* A transposed: transforms a line of products to a line of outputs, in place. */
HD_ALWAYS void hd_winograd_reduce_output(int64_t outs, hd_vec *m, int step)
{
    const hd_vec sum = m[step] + m[2 * step], difference = m[step] - m[2 * step];
    m[0] = m[0] + sum;
    if (outs == 2) {
        m[step] = difference - m[3 * step];
    } else {
        m[step] = difference;
        m[2 * step] = sum - m[3 * step];
    }
}

/* A: transforms gradients of outputs to those of products, in place. */
HD_ALWAYS void hd_winograd_expand_output(int64_t outs, hd_vec *y, int step)
{
    const hd_vec first = y[0], second = y[step], last = y[(outs - 1) * step];
    const hd_vec ends = outs == 2 ? first : first + last;
    y[step] = ends + second;
    y[2 * step] = ends - second;
    y[3 * step] = -last;
}

/* Transforms a patch both ways: `columns` lines downwards, then all lines across. */
#define HD_DOWN_AND_ACROSS(columns, down, across)                                                  \
    for (int64_t i_ = 0; i_ < (columns); i_++)                                                     \
        down;                                                                                      \
    for (int64_t i_ = 0; i_ < HD_WINOGRAD_SIDE; i_++)                                              \
        across;
