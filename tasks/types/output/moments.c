/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/output/moments.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/base/arena.h"
#include "tasks/types/base/obs.h"

#include <math.h>
#include <string.h>

/* The weight, in samples, of the prior that the first samples join. */
static const double prior = 1e-4;

struct shape {
    int64_t n;
    bool obs;
    /* The scale of elements before there are samples, and the epsilon added to their variance. It
     * is 1 for bytes, which are whole numbers: a difference of one means nothing. */
    float first_scale;
    double epsilon;
    float clip; /* of a normalised number */
};

struct arrays {
    struct hd_moments moments;
    float *scale, *shift; /* [n] */
};

static int64_t lay_out(const struct shape *shape, void *memory, struct arrays *arrays)
{
    struct hd_arena arena = {.memory = memory};
    const int64_t n = shape->n;
    arrays->moments.count = hd_arena_take(&arena, 1, sizeof *arrays->moments.count);
    arrays->moments.mean = hd_arena_take(&arena, n, sizeof *arrays->moments.mean);
    arrays->moments.squares = hd_arena_take(&arena, n, sizeof *arrays->moments.squares);
    arrays->scale = hd_arena_take(&arena, n, sizeof *arrays->scale);
    arrays->shift = hd_arena_take(&arena, n, sizeof *arrays->shift);
    return arena.used;
}

static struct arrays arrays_of(const struct hd_spec *spec, const void *data)
{
    struct arrays arrays;
    lay_out(spec->shape, (void *)data, &arrays);
    return arrays;
}

/* -- Shape ------------------------------------------------------------------------------------- */

static int declare(const struct hd_setup *setup, struct hd_spec *spec, const struct shape *wanted)
{
    struct arrays unused;
    const struct shape *known = spec ? spec->shape : NULL;
    if (!spec || (known && known->n == wanted->n && known->obs == wanted->obs))
        return HD_OK;
    if (known)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "value '%s' cannot be about %lld numbers and about %lld",
                                 spec->name, (long long)known->n, (long long)wanted->n);
    struct shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = *wanted;
    spec->shape = shape;
    spec->bytes = lay_out(shape, NULL, &unused);
    return HD_OK;
}

/* Asks for the key only where there is a value that it bounds. */
static float read_clip(const struct hd_setup *setup, const struct hd_spec *spec, const char *key)
{
    return spec ? (float)hd_config_get_real(setup->config, key) : 0;
}

int hd_moments_declare_number(const struct hd_setup *setup, struct hd_spec *spec, bool normalises)
{
    const float clip = normalises ? read_clip(setup, spec, "policy.collect.clip_reward") : 0;
    return declare(setup, spec, &(struct shape){1, false, 1, 1e-8, clip});
}

int hd_moments_declare_obs(const struct hd_setup *setup, struct hd_spec *spec)
{
    const struct hd_obs_shape obs = hd_obs_shape_read(setup->config);
    const int64_t n = obs.u8 ? obs.obs_bytes : obs.obs_bytes / (int64_t)sizeof(float);
    const float clip = read_clip(setup, spec, "policy.collect.clip_obs");
    return declare(setup, spec,
                   &(struct shape){n, true, obs.u8 ? 1 / 255.0f : 1, obs.u8 ? 1 : 1e-8, clip});
}

int hd_moments_declare_like(const struct hd_setup *setup, struct hd_spec *spec,
                            const struct hd_spec *other)
{
    return other->shape ? declare(setup, spec, other->shape) : HD_OK;
}

int64_t hd_moments_count_elements(const struct hd_spec *spec)
{
    return ((const struct shape *)spec->shape)->n;
}

struct hd_moments hd_moments_get(const struct hd_spec *spec, void *data)
{
    return arrays_of(spec, data).moments;
}

/* -- Content ----------------------------------------------------------------------------------- */

static void update_scales(const struct shape *shape, const struct arrays *arrays)
{
    for (int64_t j = 0; j < shape->n; j++)
        hd_moments_compute_scale(*arrays->moments.count, arrays->moments.mean[j],
                                 arrays->moments.squares[j], shape->epsilon, arrays->scale + j,
                                 arrays->shift + j);
}

static int moments_init(const struct hd_spec *spec, const struct hd_setup *setup, int64_t shard,
                        void *data)
{
    (void)setup, (void)shard;
    const struct shape *shape = spec->shape;
    const struct arrays arrays = arrays_of(spec, data);
    for (int64_t j = 0; j < shape->n; j++)
        arrays.scale[j] = shape->first_scale;
    return HD_OK;
}

void hd_moments_join(const struct hd_spec *spec, void *data, const void *other)
{
    const struct shape *shape = spec->shape;
    const struct arrays into = arrays_of(spec, data), from = arrays_of(spec, other);
    if (*from.moments.count == 0)
        return;
    if (*into.moments.count == 0) {
        *into.moments.count = prior;
        for (int64_t j = 0; j < shape->n; j++)
            into.moments.squares[j] = prior;
    }
    hd_moments_merge(into.moments, from.moments, shape->n);
    update_scales(shape, &into);
}

#if HD_CUDA
int hd_moments_join_on_gpu(const struct hd_spec *spec, void *data, const void *other, void *stream)
{
    const struct shape *shape = spec->shape;
    const struct arrays into = arrays_of(spec, data);
    return hd_moments_merge_running_cuda(into.moments, arrays_of(spec, other).moments, shape->n,
                                         prior, shape->epsilon, into.scale, into.shift, stream);
}
#endif

double hd_moments_get_epsilon(const struct hd_spec *spec)
{
    return ((const struct shape *)spec->shape)->epsilon;
}

float hd_moments_get_clip(const struct hd_spec *spec)
{
    return ((const struct shape *)spec->shape)->clip;
}

double hd_moments_get_deviation(const struct hd_spec *spec, const void *data)
{
    const struct shape *shape = spec->shape;
    const struct hd_moments moments = arrays_of(spec, data).moments;
    return sqrt((*moments.count > 0 ? moments.squares[0] / *moments.count : 1) + shape->epsilon);
}

void hd_moments_get_scales(const struct hd_spec *spec, void *data, float **scale_p, float **shift_p)
{
    const struct arrays arrays = arrays_of(spec, data);
    *scale_p = arrays.scale;
    *shift_p = arrays.shift;
}

const struct hd_obs_norm *hd_moments_get_obs_norm(const struct hd_view *view,
                                                  struct hd_obs_norm *norm_p)
{
    if (!view->data)
        return NULL;
    const struct arrays arrays = arrays_of(view->spec, view->data);
    *norm_p = (struct hd_obs_norm){arrays.scale, arrays.shift, hd_moments_get_clip(view->spec)};
    return norm_p;
}

int hd_moments_declare_norms(const struct hd_setup *setup, struct hd_spec *obs,
                             struct hd_spec *rewards)
{
    HD_TRY(hd_moments_declare_obs(setup, obs));
    return hd_moments_declare_number(setup, rewards, true);
}

static int check_norm(const struct hd_setup *setup, const struct hd_port *ports, int port,
                      const char *key)
{
    if (setup->specs[port] || !hd_config_get_bool(setup->config, key))
        return HD_OK;
    return hd_diag_add_error(setup->diag, hd_config_locate(setup->config, key, setup->location),
                             "%s: true: the step %s of this graph has no value for its port '%s', "
                             "so that nothing would be normalised",
                             key, setup->verb, ports[port].name);
}

int hd_moments_check_norms(const struct hd_setup *setup, const struct hd_port *ports, int obs,
                           int rewards)
{
    HD_TRY(check_norm(setup, ports, obs, "policy.collect.normalize_obs"));
    return check_norm(setup, ports, rewards, "policy.collect.normalize_reward");
}

/* -- Combining --------------------------------------------------------------------------------- */

static void moments_combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                            const void *other)
{
    (void)bucket, (void)how;
    hd_moments_merge(arrays_of(spec, into).moments, arrays_of(spec, other).moments,
                     hd_moments_count_elements(spec));
}

static void moments_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                           const void *vector, void *data)
{
    (void)bucket, (void)how;
    memcpy(data, vector, (size_t)spec->bytes);
}

#if HD_CUDA
/* Scale and shift are copied from the first operand, as the reduction on the host does. */
static int reduce_on_gpu(const struct hd_spec *spec, int bucket, enum hd_combine how, int n_in,
                         const void *const *in, const struct hd_spec *out_spec, void *out,
                         void *stream)
{
    (void)bucket, (void)how;
    struct hd_moments_operands operands = {.n = n_in};
    if (n_in > HD_MOMENTS_OPERANDS)
        return hd_fail(HD_ERR_UNSUPPORTED, "a rank with a GPU has at most %d shards, not %d",
                       HD_MOMENTS_OPERANDS, n_in);
    for (int i = 0; i < n_in; i++)
        operands.operand[i] = arrays_of(spec, in[i]).moments;
    HD_TRY(hd_device_copy(out, in[0], spec->bytes, stream));
    return hd_moments_reduce_cuda(&operands, hd_moments_count_elements(spec),
                                  arrays_of(out_spec, out).moments, stream);
}
#endif

static const struct hd_reduction reduction = {
    .bytes = hd_value_get_vector_bytes,
    .pack = hd_value_pack,
    .combine = moments_combine,
    .unpack = moments_unpack,
    .hows = 1 << HD_SUM,
#if HD_CUDA
    .reduce_on_gpu = reduce_on_gpu,
    .graph_capturable = true,
#endif
};

/* -- Fields: the first element's --------------------------------------------------------------- */

enum { COUNT, MEAN, STD, N_FIELDS };

static const char *moments_field_name(const struct hd_spec *spec, int field)
{
    static const char *const names[N_FIELDS] = {"count", "mean", "std"};
    (void)spec;
    return field < N_FIELDS ? names[field] : NULL;
}

static double moments_field(const struct hd_spec *spec, const void *data, int field)
{
    const struct hd_moments moments = arrays_of(spec, data).moments;
    return field == COUNT  ? *moments.count
           : field == MEAN ? *moments.mean
                           : hd_moments_get_deviation(spec, data);
}

static int moments_check(const struct hd_spec *spec, const void *data,
                         char message[HD_NUMBERS_MESSAGE])
{
    const struct shape *shape = spec->shape;
    const struct arrays arrays = arrays_of(spec, data);
    HD_TRY(hd_numbers_check_f64(message, "count", arrays.moments.count, 1, 0));
    HD_TRY(hd_numbers_check_f64(message, "mean", arrays.moments.mean, shape->n, -INFINITY));
    HD_TRY(hd_numbers_check_f64(message, "squares", arrays.moments.squares, shape->n, 0));
    HD_TRY(hd_numbers_check_f32(message, "scale", arrays.scale, shape->n, 0));
    return hd_numbers_check_f32(message, "shift", arrays.shift, shape->n, -INFINITY);
}

const struct hd_type hd_type_moments = {
    .name = "moments",
    .init = moments_init,
    .check = moments_check,
    .reduction = &reduction,
    .field_name = moments_field_name,
    .field = moments_field,
};
