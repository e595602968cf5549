/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `grad_norm`: computes the L2 norm of a whole mean gradient, by which `adam` clips it, and
 * which is logged. Squares are added in order within blocks of HD_BLOCK elements, and the blocks in
 * the fixed tree. */
#include "kernels/learn/grad_norm.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/grad.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"

#include <math.h>

enum { GRAD, NORM };

static const struct hd_port ports[] = {
    [GRAD] = {"grad", "grad", .mode = HD_READ, .gpu_order = true, .divides = true},
    [NORM] = {"norm", "scalars", .mode = HD_UPDATE, .none = true},
    {0},
};

static const struct hd_scalar_field fields[] = {{"grad_norm_avg", HD_MEAN, 1}};

static int grad_norm_declare(const struct hd_setup *setup)
{
    return hd_scalars_declare(setup, setup->specs[NORM], "learner", fields, 1);
}

/* Returns sum[n] / count, rounded like a mean over shards, so that one shard alone is clipped like
 * several; `buffer` may be `sum`. */
static const float *mean_of(const float *sum, int64_t n, float count, float *buffer)
{
    if (count == 1)
        return sum;
    for (int64_t i = 0; i < n; i++)
        buffer[i] = sum[i] / count;
    return buffer;
}

/* Returns the sum of blocks [first, first + n). */
static double reduce(const double *blocks, int64_t first, int64_t n)
{
    if (n == 1)
        return blocks[first];
    return reduce(blocks, first, n / 2) + reduce(blocks, first + n / 2, n - n / 2);
}

/* Scratch is the sum of squares of each block, then a buffer for a block of the gradient. */
static double *lay_out(int64_t blocks, void *memory, float **buffer_p)
{
    *buffer_p = (float *)((char *)memory + hd_align_up(blocks * (int64_t)sizeof(double)));
    return memory;
}

static int grad_norm_prepare(const struct hd_setup *setup, void **args_p)
{
    int64_t *blocks = hd_alloc(1, sizeof *blocks);
    if (!blocks)
        return HD_ERR_NOMEM;
    *blocks = (setup->specs[GRAD]->elements + HD_BLOCK - 1) / HD_BLOCK;
    *args_p = blocks;
    return HD_OK;
}

static int64_t grad_norm_scratch(const void *blocks)
{
    return hd_align_up(*(const int64_t *)blocks * (int64_t)sizeof(double)) +
           HD_BLOCK * (int64_t)sizeof(float);
}

static int grad_norm_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const struct hd_view *grad = &views[GRAD];
    const int64_t blocks = *(const int64_t *)args;
    float *buffer, count;
    double *squares = lay_out(blocks, context->scratch, &buffer);
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        int64_t bucket_lo, bucket_hi;
        hd_spec_get_bucket(grad->spec, bucket, &bucket_lo, &bucket_hi);
        for (int64_t lo = bucket_lo; lo < bucket_hi; lo += HD_BLOCK) {
            const int64_t hi = bucket_hi - lo < HD_BLOCK ? bucket_hi : lo + HD_BLOCK;
            const float *sum = hd_grad_sum(grad->spec, grad->data, bucket, lo, hi, buffer, &count);
            squares[lo / HD_BLOCK] =
                hd_grad_norm_sum_squares(mean_of(sum, hi - lo, count, buffer), hi - lo);
        }
    }
    hd_scalars_push(views[NORM].spec, views[NORM].data, 0, sqrt(reduce(squares, 0, blocks)), 1);
    return HD_OK;
}

#if HD_CUDA
static int grad_norm_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                 const void *args)
{
    const struct hd_view *grad = &views[GRAD];
    const int64_t blocks = *(const int64_t *)args;
    const int32_t *gpu_at = NULL;
    if (grad->spec->gpu_order)
        HD_TRY(hd_net_get_gradient_table(hd_params_get_net(grad->spec), &gpu_at));
    for (int bucket = 0; bucket < grad->spec->buckets; bucket++) {
        const struct hd_partials partials = hd_grad_get_partials(grad->spec, grad->data, bucket);
        int64_t lo, hi;
        hd_spec_get_bucket(grad->spec, bucket, &lo, &hi);
        HD_TRY(hd_grad_norm_sum_squares_cuda(&partials, gpu_at, lo, hi, context->scratch,
                                             context->stream));
    }
    return hd_grad_norm_push_cuda(context->scratch, blocks,
                                  hd_scalars_get_slot(views[NORM].spec, views[NORM].data, 0),
                                  context->stream);
}

static const struct hd_gpu_verb on_gpu = {
    .body = grad_norm_body_on_gpu, .scratch = grad_norm_scratch, .graph_capturable = true};
#endif

const struct hd_verb hd_verb_grad_norm = {
    .name = "grad_norm",
    .stream_id = 0xef283e725e9dfb17,
    .ports = ports,
    .declare = grad_norm_declare,
    .prepare = grad_norm_prepare,
    .scratch = grad_norm_scratch,
    .body = grad_norm_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "computes the L2 norm of the mean gradient, or of each shard's own",
};
