/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/execute/toy.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tests/graph/execute/toy_gpu.h"
#include "tests/harness/check.h"

#include <string.h>

enum { INTS = HD_TOY_INTS, FLOATS = HD_TOY_FLOATS };

/* -- Types ------------------------------------------------------------------------------------- */

static int resolve_ints(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->bytes = INTS * (int64_t)sizeof(int64_t);
    return HD_OK;
}

/* A value has partials of eight integers; all such values of a graph have the same number of them,
 * so that a step may take several. */
static int resolve_rows(struct hd_spec *spec, const struct hd_setup *setup)
{
    spec->partials = 1 + (int64_t)(hd_hash_mix(setup->seed, 3) % 4);
    spec->bytes = spec->partials * INTS * (int64_t)sizeof(int64_t);
    return HD_OK;
}

static int count_ints(const struct hd_spec *spec)
{
    return (int)(spec->bytes / (int64_t)sizeof(int64_t));
}

static int init_ints(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                     void *data)
{
    for (int i = 0; i < count_ints(spec); i++)
        ((int64_t *)data)[i] = (int64_t)hd_hash_mix(hd_hash_text(spec->name) + setup->seed,
                                                    (uint64_t)(shard * 64 + i)) %
                               1000;
    return HD_OK;
}

static const char *ints_field_name(const struct hd_spec *spec, int field)
{
    (void)spec;
    return field == 0 ? "first" : NULL;
}

static double ints_field(const struct hd_spec *spec, const void *data, int field)
{
    (void)spec;
    return (double)((const int64_t *)data)[field];
}

static int64_t ints_bytes(const struct hd_spec *spec, int bucket)
{
    (void)bucket;
    return spec->bytes;
}

static void ints_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    (void)bucket;
    memcpy(vector, data, (size_t)spec->bytes);
}

static void ints_combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                         const void *other)
{
    (void)bucket;
    int64_t *a = into;
    const int64_t *b = other;
    for (int i = 0; i < count_ints(spec); i++)
        a[i] = how == HD_MAX   ? (a[i] > b[i] ? a[i] : b[i])
               : how == HD_MIN ? (a[i] < b[i] ? a[i] : b[i])
                               : (int64_t)((uint64_t)a[i] + (uint64_t)b[i]);
}

static void ints_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                        const void *vector, void *data)
{
    (void)bucket, (void)how;
    memcpy(data, vector, (size_t)spec->bytes);
}

static int resolve_floats(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->elements = FLOATS;
    spec->bytes = FLOATS * (int64_t)sizeof(float);
    spec->buckets = spec->bucket_mb > 0 ? (int)spec->bucket_mb : 1;
    return HD_OK;
}

static int init_floats(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                       void *data)
{
    for (int i = 0; i < FLOATS; i++)
        ((float *)data)[i] = (float)(hd_hash_mix(hd_hash_text(spec->name) + setup->seed,
                                                 (uint64_t)(shard * FLOATS + i)) %
                                     1000) *
                             0.001f;
    return HD_OK;
}

static int64_t floats_bytes(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return (hi - lo) * (int64_t)sizeof(float);
}

static void floats_pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    memcpy(vector, (const float *)data + lo, (size_t)(hi - lo) * sizeof(float));
}

static void floats_combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                           const void *other)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    float *a = into;
    const float *b = other;
    for (int64_t i = 0; i < hi - lo; i++)
        a[i] = how == HD_MAX   ? (a[i] > b[i] ? a[i] : b[i])
               : how == HD_MIN ? (a[i] < b[i] ? a[i] : b[i])
                               : a[i] + b[i];
}

static void floats_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                          const void *vector, void *data)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        ((float *)data)[i] = ((const float *)vector)[i - lo] * (how == HD_MEAN ? 0.25f : 1.0f);
}

static int copy_floats(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                       const void *src)
{
    (void)spec;
    if (dst != src)
        memcpy((float *)dst + lo, (const float *)src + lo, (size_t)(hi - lo) * sizeof(float));
    return HD_OK;
}

static const char *const counted[] = {"size", NULL};
static const struct hd_reduction ints_reduction = {
    .bytes = ints_bytes,
    .pack = ints_pack,
    .combine = ints_combine,
    .unpack = ints_unpack,
    .hows = 0,
};
static const struct hd_reduction floats_reduction = {
    .bytes = floats_bytes,
    .pack = floats_pack,
    .combine = floats_combine,
    .unpack = floats_unpack,
    .hows = 0,
};

static const struct hd_type type_ints = {.name = "ints",
                                         .counted = counted,
                                         .resolve = resolve_ints,
                                         .init = init_ints,
                                         .reduction = &ints_reduction,
                                         .field_name = ints_field_name,
                                         .field = ints_field};

static const struct hd_type type_news = {.name = "news",
                                         .none = true,
                                         .resolve = resolve_ints,
                                         .reduction = &ints_reduction,
                                         .field_name = ints_field_name,
                                         .field = ints_field};

static const struct hd_type type_rows = {.name = "rows",
                                         .resolve = resolve_rows,
                                         .init = init_ints,
                                         .reduction = &ints_reduction,
                                         .field_name = ints_field_name,
                                         .field = ints_field};

static const struct hd_type type_floats = {.name = "floats",
                                           .flat = true,
                                           .resolve = resolve_floats,
                                           .init = init_floats,
                                           .copy_range = copy_floats,
                                           .reduction = &floats_reduction};

static const struct hd_type *const types[] = {
    &type_ints, &type_rows, &type_floats, &type_news, &hd_toy_sums, &hd_toy_residual, NULL};

/* -- Verbs ------------------------------------------------------------------------------------- */

int64_t hd_toy_element(const struct hd_view *view, int i)
{
    if (!view->data || (view->spec->type->none && view->version == 0))
        return 7;
    if (view->spec->type->flat)
        return (int64_t)(((const float *)view->data)[i * 131] * 1024);
    return ((const int64_t *)view->data)[i % view->spec->partials * INTS + i];
}

/* Updates the floats of `to` by read-modify-write, so that order and rounding show. */
static void stir_floats(struct hd_context *context, const struct hd_view *to, const int64_t *inputs,
                        bool keep)
{
    float *data = to->data;
    for (int64_t i = 0; i < FLOATS; i++) {
        float noise = (float)hd_rng_draw_below(&context->rng, (uint32_t)(i % 5), 100) * 0.01f;
        float old = keep ? data[i] : 0.0f;
        data[i] = old * 0.75f + (float)(inputs[i % INTS] % 977) * 0.0013f + noise;
    }
}

static void stir(struct hd_context *context, const struct hd_view *to, const int64_t *inputs,
                 bool keep)
{
    if (to->spec->type->flat) {
        stir_floats(context, to, inputs, keep);
        return;
    }
    int64_t *data = to->data;
    const bool none = to->spec->type->none && to->version == 0;
    for (int i = 0; i < count_ints(to->spec); i++) {
        uint64_t old = !keep ? 0 : none ? 7 : (uint64_t)data[i];
        uint64_t mixed = hd_hash_mix(old + hd_rng_draw_u64(&context->rng, (uint32_t)i),
                                     (uint64_t)inputs[i % INTS] + (uint64_t)context->repeat_index);
        data[i] = (int64_t)(mixed % 1000);
    }
}

static int mix(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t inputs[INTS];
    for (int i = 0; i < INTS; i++)
        inputs[i] = hd_toy_element(&views[0], i);
    stir(context, &views[1], inputs, false);
    return HD_OK;
}

static int blend(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const int64_t *salt = args;
    int64_t inputs[INTS];
    for (int i = 0; i < INTS; i++)
        inputs[i] =
            3 * hd_toy_element(&views[0], i) + 5 * hd_toy_element(&views[1], INTS - 1 - i) + *salt;
    stir(context, &views[2], inputs, true);
    return HD_OK;
}

static int bump(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    int64_t inputs[INTS] = {context->iteration, context->shard};
    stir(context, &views[0], inputs, true);
    return HD_OK;
}

static int fail_late(struct hd_context *context, const struct hd_view *views, const void *args)
{
    if (context->iteration == 3)
        return hd_body_fail(context, "meant to fail");
    return mix(context, views, args);
}

static int prepare_blend(const struct hd_setup *setup, void **args_p)
{
    int64_t *salt = hd_alloc(1, sizeof *salt);
    if (!salt)
        return HD_ERR_NOMEM;
    *salt = (int64_t)(setup->seed % 89);
    *args_p = salt;
    return HD_OK;
}

static int64_t next_size(const void *args, const int64_t *now)
{
    (void)args;
    return now[0] + 3 < 14 ? now[0] + 3 : 14;
}

static const struct hd_port mix_ports[] = {
    {"a", NULL, .mode = HD_READ, .none = true}, {"to", NULL, .mode = HD_WRITE}, {0}};
static const struct hd_port blend_ports[] = {{"a", NULL, .mode = HD_READ, .none = true},
                                             {"b", NULL, .mode = HD_READ, .none = true},
                                             {"to", NULL, .mode = HD_UPDATE, .none = true},
                                             {0}};
static const struct hd_port bump_ports[] = {{"to", "ints", .mode = HD_UPDATE}, {0}};
static const struct hd_port note_ports[] = {
    {"a", NULL, .mode = HD_READ, .none = true},
    {"again", NULL, .mode = HD_READ, .optional = true, .none = true},
    {"to", NULL, .mode = HD_UPDATE, .none = true},
    {0}};
static const struct hd_counted_attribute bump_counted[] = {{0, "size", next_size}, {0}};

/* These have a form for GPUs, the others have none: values go to and fro. */
#if HD_CUDA
static int mix_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    return hd_toy_queue(context, views, args, mix_ports, false, mix);
}

static int blend_on_gpu(struct hd_context *context, const struct hd_view *views, const void *args)
{
    return hd_toy_queue(context, views, args, blend_ports, false, blend);
}

static const struct hd_gpu_verb gpu_mix = {.body = mix_on_gpu};
static const struct hd_gpu_verb gpu_blend = {.body = blend_on_gpu};
#endif

static const struct hd_verb verb_mix = {
    .name = "mix", .stream_id = 1, .ports = mix_ports, .body = mix, .gpu = HD_ON_GPU(gpu_mix)};
static const struct hd_verb verb_fail = {
    .name = "fail", .stream_id = 2, .ports = mix_ports, .body = fail_late};
static const struct hd_verb verb_blend = {.name = "blend",
                                          .stream_id = 3,
                                          .ports = blend_ports,
                                          .prepare = prepare_blend,
                                          .body = blend,
                                          .gpu = HD_ON_GPU(gpu_blend)};
static const struct hd_verb verb_bump = {
    .name = "bump", .stream_id = 4, .ports = bump_ports, .counted = bump_counted, .body = bump};
static const struct hd_verb verb_note = {
    .name = "note", .stream_id = 5, .ports = note_ports, .prepare = prepare_blend, .body = blend};

static const struct hd_verb *const verbs[] = {
    &verb_mix,          &verb_blend,      &verb_bump,      &verb_note,    &verb_fail,
    &hd_verb_sum,       &hd_toy_spread,   &hd_toy_fill,    &hd_toy_apply, &hd_toy_creep,
    &hd_toy_weave,      &hd_verb_min,     &hd_verb_reduce, &hd_verb_max,  &hd_verb_mean,
    &hd_verb_broadcast, &hd_verb_barrier, &hd_verb_stop,   NULL};

static const struct hd_key keys[] = {
    {"limit", HD_KEY_INT, 1, 1000, "9", NULL, NULL, "a number for expressions", NULL},
    {"on", HD_KEY_BOOL, 0, 0, "true", NULL, NULL, "a switch", NULL},
    {"off", HD_KEY_BOOL, 0, 0, "false", NULL, NULL, "another", NULL},
    {"rate", HD_KEY_REAL, 0, 1, "0.5", NULL, NULL, "another", NULL},
    {0},
};

const struct hd_registry hd_toy_registry = {types, verbs, keys};
