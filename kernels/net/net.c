/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/net.h"

#include "kernels/common/orthogonal.h"
#include "kernels/net/net_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* -- Making one ----------------------------------------------------------------------------------
 */

const char *hd_net_find_mistake(const struct hd_net_fields *fields, char message[HD_NET_MESSAGE])
{
    if (fields->obs_dims != 1 && fields->obs_dims != 3) {
        snprintf(message, HD_NET_MESSAGE,
                 "expected one number (a dense net) or [channels, height, width] (a convolutional "
                 "net), found %d numbers",
                 fields->obs_dims);
        return "obs_shape";
    }
    if (fields->obs_dims == 3 && fields->norm != HD_NORM_NONE) {
        snprintf(message, HD_NET_MESSAGE,
                 "sync_batch_norm is for dense nets; convolutional ones (an obs_shape of three "
                 "numbers) take none");
        return "norm";
    }
    if (fields->precision == HD_TF32) {
        snprintf(message, HD_NET_MESSAGE, "tf32 is for GPUs; processors compute in f32 or bf16");
        return "precision";
    }
    if (fields->obs_dims == 3)
        return hd_conv_net_find_mistake(fields, message);
    if (fields->precision != HD_F32) {
        snprintf(message, HD_NET_MESSAGE,
                 "bf16 is for convolutional nets; dense nets compute in f32");
        return "precision";
    }
    return NULL;
}

void hd_net_add_tensor(struct hd_net *net, const char *layer, const char *kind, int dims,
                       const int64_t *shape, int64_t fan_in)
{
    struct hd_tensor *tensor = &net->tensors[net->n_tensors++];
    *tensor = (struct hd_tensor){
        .dims = dims, .offset = net->row_major_elements, .count = 1, .fan_in = fan_in};
    snprintf(tensor->name, sizeof tensor->name, "%s.%s", layer, kind);
    for (int i = 0; i < HD_NET_DIMS; i++) {
        tensor->shape[i] = i < dims ? shape[i] : 1;
        tensor->count *= tensor->shape[i];
    }
    net->row_major_elements += tensor->count;
}

int hd_net_add_norm(struct hd_net *net, const char *module, int64_t features)
{
    struct hd_net_norm *norm = &net->norms[net->n_norms];
    *norm = (struct hd_net_norm){.features = features, .mean = hd_net_count_running(net)};
    norm->var = norm->mean + features;
    snprintf(norm->name, sizeof norm->name, "%s", module);
    hd_net_add_tensor(net, module, "weight", 1, &features, 0);
    hd_net_add_tensor(net, module, "bias", 1, &features, 0);
    return net->n_norms++;
}

struct hd_net hd_net_make_base(const struct hd_net_fields *fields)
{
    struct hd_net net = {.obs = 1,
                         .actions = fields->actions,
                         .outputs = fields->actions,
                         .obs_u8 = fields->obs_u8,
                         .heads = fields->heads,
                         .init = fields->init,
                         .batch_norm = fields->norm == HD_NORM_SYNC_BATCH,
                         .bf16 = fields->precision == HD_BF16,
                         .on_gpu = fields->on_gpu};
    for (int i = 0; i < fields->obs_dims; i++) {
        net.obs *= fields->obs_shape[i];
        net.obs_shape[i] = fields->obs_dims == 3 ? fields->obs_shape[i] : 0;
    }
    if (net.heads == HD_HEADS_ACTOR_CRITIC)
        net.outputs++;
    return net;
}

int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p)
{
    char message[HD_NET_MESSAGE];
    if (hd_net_find_mistake(fields, message))
        return HD_ERR_INPUT;
    struct hd_net *net;
    HD_TRY(fields->obs_dims == 3 ? hd_conv_net_create(fields, &net)
                                 : hd_dense_net_create(fields, &net));
    net->gpus = hd_alloc(1, sizeof *net->gpus);
    if (!net->gpus) {
        hd_net_destroy(net);
        return HD_ERR_NOMEM;
    }
    int64_t bytes = net->elements * (int64_t)sizeof(float);
    if (net->params_bytes == 0)
        net->params_bytes = hd_align_up(bytes);
    *net_p = net;
    return HD_OK;
}

void hd_net_destroy(struct hd_net *net)
{
    if (!net)
        return;
    for (int i = 0; i < HD_NET_GPUS && net->gpus && net->gpus->release; i++)
        net->gpus->release(net->gpus->on[i]);
    net->ops->destroy(net);
    hd_free(net->gpus);
    hd_free(net->norms);
    hd_free(net->tensors);
    hd_free(net);
}

int64_t hd_net_count_params(const struct hd_net *net)
{
    return net->elements;
}

int64_t hd_net_get_params_bytes(const struct hd_net *net)
{
    return net->params_bytes;
}

int64_t hd_net_count_obs(const struct hd_net *net)
{
    return net->obs;
}

int64_t hd_net_get_obs_bytes(const struct hd_net *net)
{
    return net->obs * (int64_t)(net->obs_u8 ? sizeof(uint8_t) : sizeof(float));
}

bool hd_net_has_u8_obs(const struct hd_net *net)
{
    return net->obs_u8;
}

int64_t hd_net_count_actions(const struct hd_net *net)
{
    return net->actions;
}

enum hd_heads hd_net_get_heads(const struct hd_net *net)
{
    return net->heads;
}

int64_t hd_net_count_outputs(const struct hd_net *net)
{
    return net->outputs;
}

/* -- Parameters ---------------------------------------------------------------------------------
 */

int hd_net_count_tensors(const struct hd_net *net)
{
    return net->n_tensors;
}

const struct hd_tensor *hd_net_get_tensor(const struct hd_net *net, int i)
{
    return &net->tensors[i];
}

int hd_net_export_tensor(const struct hd_net *net, const float *params, int i, float *row_major)
{
    return net->ops->export_tensor(net, params, i, row_major);
}

int hd_net_import_tensor(const struct hd_net *net, const float *row_major, int i, float *params)
{
    return net->ops->import_tensor(net, row_major, i, params);
}

void hd_net_refresh(const struct hd_net *net, void *params, int64_t lo, int64_t hi)
{
    if (net->ops->refresh)
        net->ops->refresh(net, params, lo, hi);
}

/* The gain of a weight matrix that starts orthogonal; 0: the tensor starts as PyTorch's default. */
static double orthogonal_gain(const struct hd_net *net, const struct hd_tensor *tensor)
{
    static const struct {
        const char *name;
        double gain;
    } outputs[] = {
        {"actor_head.Q.1.0.weight", 0.01}, {"critic_head.last.weight", 1}, {"head.Q.1.0.weight", 1},
        {"head.A.1.0.weight", 1},          {"head.V.1.0.weight", 1},
    };
    if (net->init == HD_INIT_TORCH || tensor->dims == 1)
        return 0;
    if (net->init == HD_INIT_ORTHOGONAL)
        return tensor->dims == 2 ? 1 : 0;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
        if (strcmp(tensor->name, outputs[i].name) == 0)
            return outputs[i].gain;
    return sqrt(2);
}

/* Biases follow their weights in the list of tensors. */
static bool starts_at_zero(const struct hd_net *net, int i)
{
    return net->tensors[i].dims == 1 && orthogonal_gain(net, &net->tensors[i - 1]) > 0;
}

static void draw_uniform(const struct hd_tensor *tensor, const struct hd_rng *rng, float *row_major)
{
    double bound = 1.0 / sqrt((double)tensor->fan_in);
    for (int64_t j = 0; j < tensor->count; j++)
        row_major[j] =
            (float)((2.0 * hd_rng_draw_uniform(rng, (uint32_t)(tensor->offset + j)) - 1.0) * bound);
}

/* Batch norms start by changing nothing: weights of 1, each followed by its biases of 0. */
static void start_norm(const struct hd_net *net, int i, float *row_major)
{
    const bool weight = net->tensors[i - 1].fan_in > 0;
    for (int64_t j = 0; j < net->tensors[i].count && weight; j++)
        row_major[j] = 1;
}

static int init_tensor(const struct hd_net *net, int i, const struct hd_rng *rng, float *params)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    const double gain = orthogonal_gain(net, tensor);
    const int64_t rows = tensor->shape[0];
    int status = HD_OK;
    float *row_major = hd_alloc(tensor->count, sizeof *row_major); /* zeros */
    if (!row_major)
        return HD_ERR_NOMEM;
    if (tensor->fan_in == 0)
        start_norm(net, i, row_major);
    else if (gain > 0)
        status =
            hd_orthogonal_init(rng, tensor->offset, rows, tensor->count / rows, gain, row_major);
    else if (!starts_at_zero(net, i))
        draw_uniform(tensor, rng, row_major);
    if (status == HD_OK)
        status = hd_net_import_tensor(net, row_major, i, params);
    hd_free(row_major);
    return status;
}

int hd_net_init(const struct hd_net *net, const struct hd_rng *rng, void *params)
{
    for (int i = 0; i < net->n_tensors; i++)
        HD_TRY(init_tensor(net, i, rng, params));
    hd_net_refresh(net, params, 0, net->elements);
    return HD_OK;
}

/* -- Passes --------------------------------------------------------------------------------------
 */

int hd_net_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch)
{
    return net->ops->prepare ? net->ops->prepare(net, batch, backward_batch) : HD_OK;
}

int64_t hd_net_get_forward_bytes(const struct hd_net *net, int64_t batch)
{
    return net->ops->forward_bytes(net, batch);
}

static void forward(const struct hd_net *net, const void *params, const struct hd_net_rows *rows,
                    void *work, float *q)
{
    if (net->ops->forward(net, params, rows, work, q) == HD_OK)
        return;
    for (int64_t i = 0; i < (rows->n_first + rows->n_second) * net->outputs; i++)
        q[i] = NAN;
}

void hd_net_forward(const struct hd_net *net, const void *params, const struct hd_obs_norm *norm,
                    const void *obs, int64_t batch, void *work, float *q)
{
    const struct hd_net_rows rows = {
        .first = obs, .n_first = batch, .floats = !net->obs_u8, .norm = norm};
    forward(net, params, &rows, work, q);
}

void hd_net_forward_floats(const struct hd_net *net, const void *params,
                           const struct hd_obs_norm *norm, const float *obs, int64_t batch,
                           void *work, float *q)
{
    const struct hd_net_rows rows = {.first = obs, .n_first = batch, .floats = true, .norm = norm};
    forward(net, params, &rows, work, q);
}

void hd_net_forward_pair(const struct hd_net *net, const void *params,
                         const struct hd_obs_norm *norm, const void *obs, const void *next_obs,
                         int64_t rows, void *work, float *q)
{
    const struct hd_net_rows both = {.first = obs,
                                     .n_first = rows,
                                     .second = next_obs,
                                     .n_second = rows,
                                     .floats = !net->obs_u8,
                                     .norm = norm};
    forward(net, params, &both, work, q);
}

void hd_net_forward_running(const struct hd_net *net, const void *params, const float *running,
                            const struct hd_obs_norm *norm, const void *obs, int64_t batch,
                            void *work, float *q)
{
    const struct hd_net_rows rows = {
        .first = obs, .n_first = batch, .floats = !net->obs_u8, .norm = norm, .running = running};
    forward(net, params, &rows, work, q);
}

int hd_net_count_stages(const struct hd_net *net)
{
    return net->ops->stages ? net->ops->stages(net) : 1;
}

void hd_net_get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = 0;
    *hi_p = net->elements;
    if (net->ops->stage_range)
        net->ops->stage_range(net, stage, lo_p, hi_p);
}

int64_t hd_net_get_backward_bytes(const struct hd_net *net, int64_t batch)
{
    return net->ops->backward_bytes(net, batch);
}

void hd_net_backward(const struct hd_net *net, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad)
{
    int64_t lo, hi;
    if (net->ops->backward(net, params, batch, forward_batch, work, dq, scratch, stage, grad) ==
        HD_OK)
        return;
    hd_net_get_stage_range(net, stage, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        grad[i] = NAN;
}

/* -- Training with batch norm --------------------------------------------------------------------
 */

int hd_net_count_levels(const struct hd_net *net)
{
    return net->levels;
}

int hd_net_count_norms(const struct hd_net *net)
{
    return net->n_norms;
}

const struct hd_net_norm *hd_net_get_norm(const struct hd_net *net, int i)
{
    return &net->norms[i];
}

int64_t hd_net_count_running(const struct hd_net *net)
{
    int64_t floats = 0;
    for (int i = 0; i < net->n_norms; i++)
        floats += 2 * net->norms[i].features;
    return floats;
}

void hd_net_init_running(const struct hd_net *net, float *running)
{
    for (int i = 0; i < net->n_norms; i++)
        for (int64_t j = 0; j < net->norms[i].features; j++) {
            running[net->norms[i].mean + j] = 0;
            running[net->norms[i].var + j] = 1;
        }
}

int64_t hd_net_get_training_bytes(const struct hd_net *net, int64_t batch)
{
    return net->ops->training_bytes(net, batch);
}

int64_t hd_net_count_training_sums(const struct hd_net *net, int number)
{
    return net->levels > 0 ? net->ops->training_sums(net, number) : 0;
}

void hd_net_training_forward(const struct hd_net *net, const struct hd_training_pass *pass,
                             int stage, const double *pooled, double *sums)
{
    net->ops->training_forward(net, pass, stage, pooled, sums);
}

void hd_net_training_backward(const struct hd_net *net, const struct hd_training_pass *pass,
                              int stage, const double *pooled, double *sums)
{
    net->ops->training_backward(net, pass, stage, pooled, sums);
}

bool hd_net_update_running(const struct hd_net *net, const struct hd_training_pass *pass,
                           float *running)
{
    return net->ops->track(net, pass, running);
}
