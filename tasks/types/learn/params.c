/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/params.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tasks/builtin.h"
#include "tasks/types/learn/learn.h"

#include <math.h>
#include <string.h>

const struct hd_net *hd_params_get_net(const struct hd_spec *spec)
{
    return spec->of ? hd_params_get_net(spec->of) : spec->shape;
}

int hd_params_refuse_type(const struct hd_setup *setup, const char *type, const char *why)
{
    const struct hd_node *node = hd_config_get_node(setup->config, "policy.type");
    return hd_diag_add_error(setup->diag, node ? node->location : setup->location,
                             "%s: policy.type must be %s, found %s", why, type,
                             hd_config_get_text(setup->config, "policy.type"));
}

static int64_t floats_bytes(const struct hd_spec *spec)
{
    return hd_align_up(spec->elements * (int64_t)sizeof(float));
}

/* -- params -------------------------------------------------------------------------------------
 */

/* Buckets are whole blocks, of at most bucket_mb MiB, at least one block. */
static int count_parts(const struct hd_spec *spec)
{
    if (spec->bucket_mb <= 0)
        return 1;
    double max = spec->bucket_mb * 1048576.0 / (sizeof(float) * HD_BLOCK);
    int64_t blocks = (spec->elements + HD_BLOCK - 1) / HD_BLOCK;
    int64_t per_bucket = max < 1 ? 1 : max > (double)blocks ? blocks : (int64_t)max;
    return (int)((blocks + per_bucket - 1) / per_bucket);
}

/* Reports what is wrong with a field of the net where the config has it. */
static int report(const struct hd_spec *spec, const struct hd_setup *setup, const char *field,
                  const char *message)
{
    char key[64] = "runtime.precision";
    if (strcmp(field, "precision") != 0)
        snprintf(key, sizeof key, "policy.model.%s", field);
    const struct hd_node *node = hd_config_get_node(setup->config, key);
    return hd_diag_add_error(setup->diag, node ? node->location : spec->location, "%s: %s",
                             strrchr(key, '.') + 1, message);
}

/* policy.type says what the net yields. */
static void choose_heads(const struct hd_config *config, struct hd_net_fields *fields)
{
    const char *type = hd_config_get_text(config, "policy.type");
    if (strcmp(type, "dqn") == 0 && hd_config_get_bool(config, "policy.model.dueling"))
        fields->heads = HD_HEADS_DUELING;
    if (strcmp(type, "ppo") != 0)
        return;
    const char *init = hd_config_get_text(config, "policy.learn.ppo_param_init");
    fields->heads = HD_HEADS_ACTOR_CRITIC;
    fields->init = strcmp(init, "true") == 0     ? HD_INIT_ORTHOGONAL
                   : strcmp(init, "scaled") == 0 ? HD_INIT_SCALED
                                                 : HD_INIT_TORCH;
}

/* DI-engine has keys for the widths of the heads' hidden layers, which its encoder dictates. */
static int check_widths(const struct hd_spec *spec, const struct hd_setup *setup,
                        const struct hd_net_fields *fields)
{
    static const char *const names[] = {"actor_head_hidden_size", "critic_head_hidden_size"};
    const int64_t width = fields->hidden[fields->n_hidden - 1];
    for (int i = 0; i < 2 && fields->heads == HD_HEADS_ACTOR_CRITIC; i++) {
        char key[64], message[HD_NET_MESSAGE];
        snprintf(key, sizeof key, "policy.model.%s", names[i]);
        int64_t asked = hd_config_get_int(setup->config, key);
        if (asked == 0 || asked == width)
            continue;
        snprintf(message, sizeof message,
                 "expected %lld, the width of the encoder's last layer, or 0, which means that; "
                 "found %lld",
                 (long long)width, (long long)asked);
        return report(spec, setup, names[i], message);
    }
    return HD_OK;
}

/* tf32 is the GPU's way of multiplying floats; what CPUs do then is f32. */
static void choose_precision(const struct hd_config *config, struct hd_net_fields *fields)
{
    const char *precision = hd_config_get_text(config, "runtime.precision");
    fields->precision = strcmp(precision, "bf16") == 0 ? HD_BF16 : HD_F32;
    fields->on_gpu = strcmp(precision, "tf32") == 0 ? HD_TF32 : fields->precision;
}

static int resolve_params(struct hd_spec *spec, const struct hd_setup *setup)
{
    const struct hd_config *config = setup->config;
    char message[HD_NET_MESSAGE];
    int64_t n_shape;
    struct hd_net_fields fields = {
        .obs_shape = hd_config_get_ints(config, "policy.model.obs_shape", &n_shape),
        .actions = hd_config_get_int(config, "policy.model.action_shape"),
    };
    choose_precision(config, &fields);
    fields.hidden =
        hd_config_get_ints(config, "policy.model.encoder_hidden_size_list", &fields.n_hidden);
    fields.obs_dims = (int)n_shape;
    if (strcmp(hd_config_get_text(config, "policy.model.norm"), "sync_batch_norm") == 0)
        fields.norm = HD_NORM_SYNC_BATCH;
    fields.obs_u8 = n_shape == 3; /* frames of pixels */
    choose_heads(config, &fields);
    HD_TRY(check_widths(spec, setup, &fields));
    const char *mistake = hd_net_find_mistake(&fields, message);
    if (mistake)
        return report(spec, setup, mistake, message);
    struct hd_net *net;
    HD_TRY(hd_net_create(&fields, &net));
    spec->shape = net;
    spec->elements = hd_net_count_params(net);
    spec->bytes = hd_net_get_params_bytes(net);
    spec->buckets = count_parts(spec);
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
    return hd_net_init(spec->shape, &rng, data);
}

static int copy_range(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                      const void *src)
{
    const struct hd_net *net = spec->shape;
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        memcpy((float *)dst + at, (const float *)src + at, (size_t)(end - at) * sizeof(float));
        hd_net_refresh(net, dst, at, end);
    }
    return HD_OK;
}

/* Files hold the floats; images follow from them. */
static int save_params(const struct hd_spec *spec, const void *data, FILE *file)
{
    return hd_value_write(spec, data, (size_t)spec->elements * sizeof(float), file);
}

static int load_params(const struct hd_spec *spec, void *data, FILE *file)
{
    HD_TRY(hd_value_read(spec, data, (size_t)spec->elements * sizeof(float), file));
    hd_net_refresh(spec->shape, data, 0, spec->elements);
    return HD_OK;
}

#if HD_CUDA
/* On a GPU: the floats, then what its passes make of them. */
static int64_t common_bytes(const struct hd_spec *spec)
{
    return spec->elements * (int64_t)sizeof(float);
}

static int64_t device_bytes(const struct hd_spec *spec)
{
    return hd_net_get_device_bytes(spec->shape);
}

static int ready_on_gpu(const struct hd_spec *spec)
{
    return hd_net_prepare_cuda(spec->shape, 0, 0);
}

static int renew_on_gpu(const struct hd_spec *spec, void *data, void *stream)
{
    return hd_net_refresh_cuda(spec->shape, data, 0, spec->elements, stream);
}

static int renew_on_host(const struct hd_spec *spec, void *data)
{
    hd_net_refresh(spec->shape, data, 0, spec->elements);
    return HD_OK;
}

static const struct hd_device_form device_form = {
    .common = common_bytes,
    .bytes = device_bytes,
    .ready = ready_on_gpu,
    .renew_on_gpu = renew_on_gpu,
    .renew_on_host = renew_on_host,
};
#endif

const struct hd_type hd_type_params = {
    .name = "params",
    .flat = true,
    .resolve = resolve_params,
    .release = release_params,
    .init = init_params,
    .copy_range = copy_range,
    .save = save_params,
    .load = load_params,
    .device = HD_ON_GPU(device_form),
};

/* -- What is made `of` params --------------------------------------------------------------------
 */

static int check_of(struct hd_spec *spec, const struct hd_setup *setup)
{
    if (!spec->of || spec->of->type != &hd_type_params)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "'%s' of type %s needs `of:` and a value of type params",
                                 spec->name, spec->type->name);
    spec->elements = spec->of->elements;
    spec->buckets = spec->of->buckets;
    return HD_OK;
}

static void release_nothing(struct hd_spec *spec)
{
    (void)spec;
}

/* -- grad: partials, each the floats and then a count per bucket
 * --------------------------------------
 */

static int64_t partial_bytes(const struct hd_spec *spec)
{
    return floats_bytes(spec) + hd_align_up(spec->buckets * (int64_t)sizeof(float));
}

static int resolve_grad(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(check_of(spec, setup));
    if (spec->placement == HD_SHARD)
        spec->partials = hd_learn_shape_read(setup->config).partials; /* one for every microbatch */
    spec->bytes = spec->partials * partial_bytes(spec);
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

static uint64_t hash_grad(const struct hd_spec *spec, const void *data)
{
    uint64_t hash = 0;
    for (int64_t partial = 0; partial < spec->partials; partial++) {
        hash = hd_hash_floats(hash, partial_floats(spec, data, partial), spec->elements);
        hash = hd_hash_floats(hash, partial_counts(spec, data, partial), spec->buckets);
    }
    return hash;
}

static float weight_grad(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    return partial_counts(spec, data, partial)[bucket];
}

static int64_t vector_bytes(const struct hd_spec *spec, int bucket)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return (hi - lo + 1) * (int64_t)sizeof(float);
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

/* Of a mean: one partial. */
static int64_t get_grad_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi,
                                   int i, int64_t *at_p)
{
    *at_p =
        i == 0 ? lo * (int64_t)sizeof(float) : floats_bytes(spec) + bucket * (int64_t)sizeof(float);
    return i == 0 ? (hi - lo) * (int64_t)sizeof(float) : i == 1 ? (int64_t)sizeof(float) : -1;
}

/* The sum of the partials, floats and count alike. */
static void pack_grad(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    int64_t lo, hi, stride = partial_bytes(spec) / (int64_t)sizeof(float);
    float *sum = vector;
    const float *floats = partial_floats(spec, data, 0), *counts = partial_counts(spec, data, 0);
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    hd_tree_add(1, &floats, spec->partials, stride, lo, hi, sum);
    hd_tree_add(1, &counts, spec->partials, stride, bucket, bucket + 1, sum + (hi - lo));
}

static void combine_grad(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                         const void *other)
{
    (void)how;
    int64_t n = vector_bytes(spec, bucket) / (int64_t)sizeof(float);
    float *restrict sum = into;
    const float *restrict operand = other;
    for (int64_t i = 0; i < n; i++)
        sum[i] += operand[i];
}

static void unpack_grad(const struct hd_spec *spec, int bucket, enum hd_combine how,
                        const void *vector, void *data)
{
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    const float *restrict sum = vector;
    float *restrict to = (float *)data + lo;
    float count = sum[hi - lo];
    float divisor = how == HD_MEAN && count > 0 ? count : 1;
    for (int64_t i = 0; i < hi - lo; i++)
        to[i] = sum[i] / divisor;
    hd_grad_get_counts(spec, data, 0)[bucket] = count;
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

static float *count_of(const struct hd_spec *spec, int bucket, void *data)
{
    return hd_grad_get_counts(spec, data, 0) + bucket;
}
#endif

static const struct hd_reduction grad_reduction = {
    .bytes = vector_bytes,
    .pack = pack_grad,
    .combine = combine_grad,
    .unpack = unpack_grad,
    .hows = 1 << HD_SUM | 1 << HD_MEAN,
#if HD_CUDA
    .reduce_on_gpu = reduce_on_gpu,
    .add_on_gpu = add_on_gpu,
    .count = count_of,
#endif
};

const struct hd_type hd_type_grad = {
    .name = "grad",
    .flat = true,
    .resolve = resolve_grad,
    .release = release_nothing,
    .get_byte_range = get_grad_byte_range,
    .hash = hash_grad,
    .reduction = &grad_reduction,
    .weight = weight_grad,
};

/* -- adam_state: first moments, second moments, updates per bucket
 * ----------------------------------
 */

static int resolve_adam(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(check_of(spec, setup));
    spec->bytes = 2 * floats_bytes(spec) + hd_align_up(spec->buckets * (int64_t)sizeof(int64_t));
    return HD_OK;
}

struct hd_adam_state hd_adam_state_lay_out(const struct hd_spec *spec, void *data)
{
    char *at = data;
    int64_t bytes = floats_bytes(spec);
    return (struct hd_adam_state){(float *)at, (float *)(at + bytes), (int64_t *)(at + 2 * bytes)};
}

static int64_t get_adam_byte_range(const struct hd_spec *spec, int bucket, int64_t lo, int64_t hi,
                                   int i, int64_t *at_p)
{
    *at_p = i * floats_bytes(spec) +
            (i < 2 ? lo * (int64_t)sizeof(float) : bucket * (int64_t)sizeof(int64_t));
    return i < 2 ? (hi - lo) * (int64_t)sizeof(float) : i == 2 ? (int64_t)sizeof(int64_t) : -1;
}

static uint64_t hash_adam(const struct hd_spec *spec, const void *data)
{
    struct hd_adam_state moments = hd_adam_state_lay_out(spec, (void *)data);
    uint64_t hash = hd_hash_floats(0, moments.first, spec->elements);
    hash = hd_hash_floats(hash, moments.second, spec->elements);
    return hd_hash_mix(hash, (uint64_t)moments.updates[0]);
}

const struct hd_type hd_type_adam_state = {
    .name = "adam_state",
    .flat = true,
    .resolve = resolve_adam,
    .release = release_nothing,
    .get_byte_range = get_adam_byte_range,
    .hash = hash_adam,
};
