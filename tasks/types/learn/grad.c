/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/grad.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tasks/types/learn/counted_floats.h"
#include "tasks/types/learn/learn.h"
#include "tasks/types/learn/params.h"

#include <math.h>

/* An instance is [partials]; a partial is [elements] floats, or as many as the GPU's order has,
 * then [buckets] counts. */
static int64_t floats_bytes(const struct hd_spec *spec)
{
    int64_t floats = spec->elements;
#if HD_CUDA
    if (spec->gpu_order)
        floats = hd_net_count_gpu_gradient(hd_params_get_net(spec));
#endif
    return hd_align_up(floats * (int64_t)sizeof(float));
}

static int64_t partial_bytes(const struct hd_spec *spec)
{
    return floats_bytes(spec) + hd_align_up(spec->buckets * (int64_t)sizeof(float));
}

static void set_gpu_order(struct hd_spec *spec, bool gpu_order)
{
    spec->gpu_order = gpu_order;
    spec->bytes = spec->partials * partial_bytes(spec);
}

static int grad_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_resolve_floats(spec, setup));
    if (spec->placement == HD_SHARD)
        spec->partials = hd_learn_shape_read(setup->config).partials; /* one for every microbatch */
    set_gpu_order(spec, false);
    return HD_OK;
}

static const float *partial_floats(const struct hd_spec *spec, const void *data, int64_t partial)
{
    return (const float *)((const char *)data + partial * partial_bytes(spec));
}

static const float *partial_counts(const struct hd_spec *spec, const void *data, int64_t partial)
{
    return (const float *)((const char *)data + partial * partial_bytes(spec) + floats_bytes(spec));
}

float *hd_grad_get_partial(const struct hd_spec *spec, void *data, int64_t partial)
{
    return (float *)partial_floats(spec, data, partial);
}

float *hd_grad_get_counts(const struct hd_spec *spec, void *data, int64_t partial)
{
    return (float *)partial_counts(spec, data, partial);
}

static uint64_t grad_hash(const struct hd_spec *spec, const void *data)
{
    uint64_t hash = 0;
    for (int64_t partial = 0; partial < spec->partials; partial++) {
        hash = hd_hash_floats(hash, partial_floats(spec, data, partial), spec->elements);
        hash = hd_hash_floats(hash, partial_counts(spec, data, partial), spec->buckets);
    }
    return hash;
}

static float weight(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    return partial_counts(spec, data, partial)[bucket];
}

const float *hd_grad_sum(const struct hd_spec *spec, const void *data, int bucket, int64_t lo,
                         int64_t hi, float *buffer, float *count_p)
{
    const int64_t stride = partial_bytes(spec) / (int64_t)sizeof(float);
    const float *floats = partial_floats(spec, data, 0), *counts = partial_counts(spec, data, 0);
    *count_p = 1;
    float count = counts[bucket];
    if (spec->placement != HD_SHARD) {
        if (isnan(count))
            *count_p = count;
        return floats + lo;
    }
    hd_tree_add(1, &counts, spec->partials, stride, bucket, bucket + 1, &count);
    if (count > 0 || isnan(count))
        *count_p = count;
    if (spec->partials == 1)
        return floats + lo;
    hd_tree_add(1, &floats, spec->partials, stride, lo, hi, buffer);
    return buffer;
}

/* Only means are cut in ranges, and a mean has one partial. */
static int64_t get_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi, int i,
                              int64_t *at_p)
{
    *at_p =
        i == 0 ? lo * (int64_t)sizeof(float) : floats_bytes(spec) + bucket * (int64_t)sizeof(float);
    return i == 0 ? (hi - lo) * (int64_t)sizeof(float) : i == 1 ? (int64_t)sizeof(float) : -1;
}

/* The vector is the sum of the partials: floats, then their count. */
static void grad_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    int64_t lo, hi, stride = partial_bytes(spec) / (int64_t)sizeof(float);
    float *sum = vector;
    const float *floats = partial_floats(spec, data, 0), *counts = partial_counts(spec, data, 0);
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    hd_tree_add(1, &floats, spec->partials, stride, lo, hi, sum);
    hd_tree_add(1, &counts, spec->partials, stride, bucket, bucket + 1, sum + (hi - lo));
}

static void grad_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                        const void *vector, void *data)
{
    hd_grad_get_counts(spec, data, 0)[bucket] =
        hd_counted_floats_divide(spec, bucket, how, vector, data);
}

struct hd_partials hd_grad_get_partials(const struct hd_spec *spec, const void *data, int bucket)
{
    return (struct hd_partials){
        .floats = partial_floats(spec, data, 0),
        .counts = spec->placement == HD_SHARD ? partial_counts(spec, data, 0) + bucket : NULL,
        .n = spec->partials,
        .stride = partial_bytes(spec) / (int64_t)sizeof(float),
    };
}

static float *count_of(const struct hd_spec *spec, int bucket, void *data)
{
    return hd_grad_get_counts(spec, data, 0) + bucket;
}

#if HD_CUDA
static int reduce_on_gpu(const struct hd_spec *spec, int bucket, enum hd_combine how, int n_in,
                         const void *const *in, const struct hd_spec *out_spec, void *out,
                         void *stream)
{
    struct hd_partials partials[HD_PARTIALS_GROUPS];
    int64_t lo, hi;
    if (n_in > HD_PARTIALS_GROUPS)
        return hd_fail(HD_ERR_UNSUPPORTED, "a rank with a GPU has at most %d shards, not %d",
                       HD_PARTIALS_GROUPS, n_in);
    for (int i = 0; i < n_in; i++)
        partials[i] = hd_grad_get_partials(spec, in[i], bucket);
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return hd_partials_mean_cuda(n_in, partials, how == HD_MEAN, lo, hi, out,
                                 hd_grad_get_counts(out_spec, out, 0) + bucket, stream);
}

static int add_on_gpu(enum hd_combine how, const struct hd_operand *operands, int n_operands,
                      int64_t n, float *to, float *total, void *stream)
{
    struct hd_partials partials[HD_PARTIALS_GROUPS];
    if (n_operands > HD_PARTIALS_GROUPS)
        return hd_fail(HD_ERR_UNSUPPORTED, "gradients of %d ranks: at most %d are added on GPUs",
                       n_operands, HD_PARTIALS_GROUPS);
    for (int i = 0; i < n_operands; i++)
        partials[i] =
            (struct hd_partials){.floats = operands[i].floats, .counts = operands[i].count, .n = 1};
    return hd_partials_mean_cuda(n_operands, partials, how == HD_MEAN, 0, n, to, total, stream);
}
#endif

static const struct hd_reduction reduction = {
    .bytes = hd_counted_floats_get_bytes,
    .pack = grad_pack,
    .combine = hd_counted_floats_add,
    .unpack = grad_unpack,
    .hows = 1 << HD_MEAN,
    .count = count_of,
#if HD_CUDA
    .reduce_on_gpu = reduce_on_gpu,
    .graph_capturable = true,
    .add_on_gpu = add_on_gpu,
#endif
};

const struct hd_type hd_type_grad = {
    .name = "grad",
    .none = true,
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = grad_resolve,
    .get_byte_range = get_byte_range,
    .check = hd_value_accept,
    .hash = grad_hash,
    .reduction = &reduction,
    .weight = weight,
    .set_gpu_order = set_gpu_order,
};
