/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/params.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/builtin.h"

#include <string.h>

const struct hd_net *hd_params_net(const struct hd_spec *spec)
{
    return spec->of ? hd_params_net(spec->of) : spec->shape;
}

static int64_t padded(int64_t bytes)
{
    return (bytes + HD_ALIGNMENT - 1) / HD_ALIGNMENT * HD_ALIGNMENT;
}

static int64_t floats_bytes(const struct hd_spec *spec)
{
    return padded(spec->elements * (int64_t)sizeof(float));
}

/* -- params -------------------------------------------------------------------------------------
 */

/* Parts are whole blocks, of at most part_mb MiB, at least one block. */
static int count_parts(const struct hd_spec *spec)
{
    if (spec->part_mb <= 0)
        return 1;
    double most = spec->part_mb * 1048576.0 / (sizeof(float) * HD_BLOCK);
    int64_t blocks = (spec->elements + HD_BLOCK - 1) / HD_BLOCK;
    int64_t per_part = most < 1 ? 1 : most > (double)blocks ? blocks : (int64_t)most;
    return (int)((blocks + per_part - 1) / per_part);
}

static int resolve_params(struct hd_spec *spec, const struct hd_setup *setup)
{
    int64_t n_shape, n_hidden, obs = 1;
    const int64_t *shape = hd_config_ints(setup->config, "policy.model.obs_shape", &n_shape);
    const int64_t *hidden =
        hd_config_ints(setup->config, "policy.model.encoder_hidden_size_list", &n_hidden);
    for (int64_t i = 0; i < n_shape; i++)
        obs *= shape[i];
    const struct hd_net_fields fields = {
        .obs = obs,
        .actions = hd_config_int(setup->config, "policy.model.action_shape"),
        .hidden = hidden,
        .n_hidden = n_hidden,
        .dueling = hd_config_bool(setup->config, "policy.model.dueling"),
    };
    struct hd_net *net;
    HD_TRY(hd_net_create(&fields, &net));
    spec->shape = net;
    spec->elements = hd_net_elements(net);
    spec->bytes = floats_bytes(spec);
    spec->parts = count_parts(spec);
    return HD_OK;
}

static void release_params(struct hd_spec *spec)
{
    hd_net_destroy(spec->shape);
}

/* All shards start from the same parameters, whatever the value is called. */
static int init_params(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                       void *data)
{
    (void)shard;
    struct hd_rng rng = hd_rng_make(setup->seed, hd_hash_text("params"), 0, 0, 0);
    hd_net_init(spec->shape, &rng, data);
    return HD_OK;
}

const struct hd_type hd_type_params = {
    .name = "params",
    .flat = true,
    .resolve = resolve_params,
    .release = release_params,
    .init = init_params,
};

/* -- What is made `of` params --------------------------------------------------------------------
 */

static int check_of(struct hd_spec *spec, const struct hd_setup *setup)
{
    if (!spec->of || spec->of->type != &hd_type_params)
        return hd_diag_error(setup->diag, setup->mark,
                             "'%s' of type %s needs `of:` and a value of type params", spec->name,
                             spec->type->name);
    spec->elements = spec->of->elements;
    spec->parts = spec->of->parts;
    return HD_OK;
}

static void release_nothing(struct hd_spec *spec)
{
    (void)spec;
}

/* -- grad: the floats, then a count per part ------------------------------------------------------
 */

static int resolve_grad(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(check_of(spec, setup));
    spec->bytes = floats_bytes(spec) + padded(spec->parts * (int64_t)sizeof(float));
    return HD_OK;
}

float *hd_grad_counts(const struct hd_spec *spec, void *data)
{
    return (float *)((char *)data + floats_bytes(spec));
}

static uint64_t hash_grad(const struct hd_spec *spec, const void *data)
{
    const float *counts = (const float *)((const char *)data + floats_bytes(spec));
    return hd_hash_floats(hd_hash_floats(0, data, spec->elements), counts, spec->parts);
}

static int64_t part_elements(const struct hd_spec *spec, int part, int64_t *lo_p)
{
    int64_t hi;
    hd_spec_part(spec, part, lo_p, &hi);
    return hi - *lo_p;
}

static int64_t vector_bytes(const struct hd_spec *spec, int part)
{
    int64_t lo;
    return (part_elements(spec, part, &lo) + 1) * (int64_t)sizeof(float);
}

static void pack_grad(const struct hd_spec *spec, int part, const void *data, void *vector)
{
    int64_t lo, n = part_elements(spec, part, &lo);
    memcpy(vector, (const float *)data + lo, (size_t)n * sizeof(float));
    ((float *)vector)[n] = ((const float *)((const char *)data + floats_bytes(spec)))[part];
}

static void combine_grad(const struct hd_spec *spec, int part, enum hd_combine how, void *into,
                         const void *other)
{
    (void)how;
    int64_t lo, n = part_elements(spec, part, &lo);
    float *restrict sum = into;
    const float *restrict term = other;
    for (int64_t i = 0; i <= n; i++)
        sum[i] += term[i];
}

static void unpack_grad(const struct hd_spec *spec, int part, enum hd_combine how,
                        const void *vector, void *data)
{
    int64_t lo, n = part_elements(spec, part, &lo);
    const float *restrict sum = vector;
    float *restrict to = (float *)data + lo;
    float count = sum[n];
    float divisor = how == HD_MEAN && count > 0 ? count : 1;
    for (int64_t i = 0; i < n; i++)
        to[i] = sum[i] / divisor;
    hd_grad_counts(spec, data)[part] = count;
}

static const struct hd_reduction grad_reduction = {vector_bytes, pack_grad, combine_grad,
                                                   unpack_grad};

const struct hd_type hd_type_grad = {
    .name = "grad",
    .flat = true,
    .resolve = resolve_grad,
    .release = release_nothing,
    .hash = hash_grad,
    .reduction = &grad_reduction,
};

/* -- adam_state: first moments, second moments, updates per part ----------------------------------
 */

static int resolve_adam(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(check_of(spec, setup));
    spec->bytes = 2 * floats_bytes(spec) + padded(spec->parts * (int64_t)sizeof(int64_t));
    return HD_OK;
}

struct hd_moments hd_adam_moments(const struct hd_spec *spec, void *data)
{
    char *at = data;
    int64_t bytes = floats_bytes(spec);
    return (struct hd_moments){(float *)at, (float *)(at + bytes), (int64_t *)(at + 2 * bytes)};
}

static uint64_t hash_adam(const struct hd_spec *spec, const void *data)
{
    struct hd_moments moments = hd_adam_moments(spec, (void *)data);
    uint64_t hash = hd_hash_floats(0, moments.first, spec->elements);
    hash = hd_hash_floats(hash, moments.second, spec->elements);
    return hd_hash_mix(hash, (uint64_t)moments.updates[0]);
}

const struct hd_type hd_type_adam_state = {
    .name = "adam_state",
    .flat = true,
    .resolve = resolve_adam,
    .release = release_nothing,
    .hash = hash_adam,
};
