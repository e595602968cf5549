/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `grad_norm`: the L2 norm of a whole gradient, for `adam` to clip it by and for logs. Squares
 * are added up in blocks of HD_BLOCK elements, in order, and the blocks in the fixed tree. */
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/params.h"
#include "tasks/types/scalars.h"

#include <math.h>

enum { GRAD, NORM };

static const struct hd_port ports[] = {
    [GRAD] = {.name = "grad", .type = "grad", .mode = HD_READ},
    [NORM] = {.name = "norm", .type = "scalars", .mode = HD_UPDATE},
    {0},
};

static const struct hd_scalar_field fields[] = {{"grad_norm_avg", HD_MEAN, 1}};

static int declare(const struct hd_setup *setup)
{
    return hd_scalars_declare(setup, setup->specs[NORM], "learner", fields, 1);
}

/* Sums of one block go in LANES chains. */
enum { LANES = 16 };

static double block_squares(const float *x, int64_t n)
{
    double chains[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            chains[l] += (double)x[i + l] * x[i + l];
    for (; i < n; i++)
        chains[i % LANES] += (double)x[i] * x[i];
    for (int l = 0; l < LANES; l++)
        sum += chains[l];
    return sum;
}

static double squares(const float *x, int64_t n, int64_t first, int64_t blocks)
{
    if (blocks > 1)
        return squares(x, n, first, blocks / 2) +
               squares(x, n, first + blocks / 2, blocks - blocks / 2);
    const int64_t lo = first * HD_BLOCK, hi = lo + HD_BLOCK;
    return block_squares(x + lo, (hi < n ? hi : n) - lo);
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    const int64_t n = views[GRAD].spec->elements;
    const double norm = sqrt(squares(views[GRAD].data, n, 0, (n + HD_BLOCK - 1) / HD_BLOCK));
    hd_scalars_push(views[NORM].spec, views[NORM].data, 0, norm, 1);
    return HD_OK;
}

const struct hd_verb hd_verb_grad_norm = {
    .name = "grad_norm",
    .ports = ports,
    .declare = declare,
    .body = body,
    .help = "the L2 norm of a gradient",
};
