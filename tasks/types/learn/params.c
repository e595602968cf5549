/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/params.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/base/warm_start.h"
#include "tasks/types/learn/counted_floats.h"

#include <math.h>
#include <string.h>

const struct hd_net *hd_params_get_net(const struct hd_spec *spec)
{
    return spec->of ? hd_params_get_net(spec->of) : spec->shape;
}

/* Returns the number of buckets: each is at most bucket_mb MiB of whole blocks, but at least one
 * block. */
static int count_buckets(const struct hd_spec *spec)
{
    if (spec->bucket_mb <= 0)
        return 1;
    double max = spec->bucket_mb * 1048576.0 / (sizeof(float) * HD_BLOCK);
    int64_t blocks = (spec->elements + HD_BLOCK - 1) / HD_BLOCK;
    int64_t per_bucket = max < 1 ? 1 : max > (double)blocks ? blocks : (int64_t)max;
    return (int)((blocks + per_bucket - 1) / per_bucket);
}

int hd_params_check_same_net(const struct hd_setup *setup, const struct hd_spec *a,
                             const struct hd_spec *b)
{
    const struct hd_net *one = hd_params_get_net(a), *other = hd_params_get_net(b);
    if (hd_net_count_params(one) == hd_net_count_params(other) &&
        hd_net_count_obs(one) == hd_net_count_obs(other))
        return HD_OK;
    return hd_diag_add_error(
        setup->diag, setup->location,
        "'%s' and '%s' have different nets (`net:`): [%lld] numbers to [%lld] by %lld parameters, "
        "and [%lld] to [%lld] by %lld",
        a->name, b->name, (long long)hd_net_count_obs(one), (long long)hd_net_count_outputs(one),
        (long long)hd_net_count_params(one), (long long)hd_net_count_obs(other),
        (long long)hd_net_count_outputs(other), (long long)hd_net_count_params(other));
}

int hd_params_check_made_of(const struct hd_setup *setup, const struct hd_spec *spec,
                            const struct hd_spec *params)
{
    return spec->of == params
               ? HD_OK
               : hd_diag_add_error(setup->diag, setup->location,
                                   "%s: '%s' is made of '%s', not of '%s'", setup->verb, spec->name,
                                   spec->of->name, params->name);
}

static int params_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_net *net;
    if (spec->start)
        HD_TRY(hd_warm_start_check(spec, setup->diag));
    HD_TRY(hd_policy_net_create(spec, setup, &net));
    spec->shape = net; /* which `release` destroys */
    if (spec->init && spec->init->type == spec->type && spec->init->shape)
        HD_TRY(hd_params_check_same_net(setup, spec, spec->init));
    spec->elements = hd_net_count_params(net);
    spec->bytes = hd_net_get_params_bytes(net);
    spec->buckets = count_buckets(spec);
    return HD_OK;
}

static void params_release(struct hd_spec *spec)
{
    hd_net_destroy(spec->shape);
}

/* The stream does not depend on the shard, so all shards start from the same parameters. Values
 * have different ones. */
static int params_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                       void *data)
{
    (void)shard;
    const uint64_t stream = hd_hash_text("params");
    const bool policy = strcmp(spec->name, "policy") == 0;
    struct hd_rng rng = hd_rng_make(
        setup->seed, policy ? stream : hd_hash_mix(stream, hd_hash_text(spec->name)), 0, 0, 0);
    HD_TRY(hd_net_init(spec->shape, &rng, data));
    return spec->start ? hd_warm_start_load(spec, data) : HD_OK;
}

static int copy_range(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                      const void *src)
{
    const struct hd_net *net = spec->shape;
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        if (dst != src)
            memcpy((float *)dst + at, (const float *)src + at, (size_t)(end - at) * sizeof(float));
        hd_net_refresh(net, dst, at, end);
    }
    return HD_OK;
}

/* Files hold the floats only: the shadow weights are derived from them. */
static int params_save(const struct hd_spec *spec, const void *data, FILE *file)
{
    return hd_value_write(spec, data, (size_t)spec->elements * sizeof(float), file);
}

static int params_load(const struct hd_spec *spec, void *data, FILE *file)
{
    HD_TRY(hd_value_read(spec, data, (size_t)spec->elements * sizeof(float), file));
    hd_net_refresh(spec->shape, data, 0, spec->elements);
    return HD_OK;
}

#if HD_CUDA
static bool params_supports_gpu(const struct hd_spec *spec)
{
    return !hd_net_find_cpu_layer(spec->shape);
}

/* On a GPU the floats stand first, then what its passes derive from them. */
static int64_t common_bytes(const struct hd_spec *spec)
{
    return spec->elements * (int64_t)sizeof(float);
}

static int64_t device_bytes(const struct hd_spec *spec)
{
    return hd_net_get_device_bytes(spec->shape);
}

static int params_ready_on_gpu(const struct hd_spec *spec)
{
    return hd_net_prepare_cuda(spec->shape, 0, 0);
}

static int renew_on_gpu(const struct hd_spec *spec, void *data, int64_t lo, int64_t hi,
                        void *stream)
{
    return hd_net_refresh_cuda(spec->shape, data, lo, hi, stream);
}

static int renew_on_host(const struct hd_spec *spec, void *data)
{
    hd_net_refresh(spec->shape, data, 0, spec->elements);
    return HD_OK;
}

static const struct hd_device_form device_form = {
    .supports = params_supports_gpu,
    .common = common_bytes,
    .bytes = device_bytes,
    .ready = params_ready_on_gpu,
    .renew_on_gpu = renew_on_gpu,
    .renew_on_host = renew_on_host,
};
#endif

static int params_check(const struct hd_spec *spec, const void *data,
                        char message[HD_NUMBERS_MESSAGE])
{
    return hd_numbers_check_f32(message, "parameter", data, spec->elements, -INFINITY);
}

/* -- Means over shards ------------------------------------------------------------------------- */
/* The count of a vector is that of its shards. */
static void params_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    memcpy(vector, (const float *)data + lo, (size_t)(hi - lo) * sizeof(float));
    ((float *)vector)[hi - lo] = 1;
}

static void params_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                          const void *vector, void *data)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    hd_counted_floats_divide(spec, bucket, how, vector, data);
    hd_net_refresh(spec->shape, data, lo, hi);
}

static float count_shard(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    (void)spec, (void)bucket, (void)data, (void)partial;
    return 1;
}

static const struct hd_reduction reduction = {
    .bytes = hd_counted_floats_get_bytes,
    .pack = params_pack,
    .combine = hd_counted_floats_add,
    .unpack = params_unpack,
    .hows = 1 << HD_MEAN,
};

const struct hd_type hd_type_params = {
    .name = "params",
    .given = true,
    .starts_from_file = true,
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = params_resolve,
    .release = params_release,
    .init = params_init,
    .copy_range = copy_range,
    .save = params_save,
    .load = params_load,
    .check = params_check,
    .reduction = &reduction,
    .weight = count_shard,
    .device = HD_ON_GPU(device_form),
};

int hd_params_check_of(const struct hd_spec *spec, const struct hd_setup *setup)
{
    if (!spec->of || spec->of->type != &hd_type_params)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "'%s' of type %s needs `of:` and a value of type params",
                                 spec->name, spec->type->name);
    const struct hd_node *net = hd_node_get(setup->options, "net");
    if (net)
        return hd_diag_add_error(
            setup->diag, net->location,
            "'%s' has the net of '%s': `net:` belongs to values of type params", spec->name,
            spec->of->name);
    return HD_OK;
}

int hd_params_resolve_floats(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_check_of(spec, setup));
    spec->elements = spec->of->elements;
    spec->buckets = spec->of->buckets;
    spec->bytes = hd_align_up(spec->elements * (int64_t)sizeof(float));
    return HD_OK;
}
