/* SPDX-License-Identifier: Apache-2.0 */
/* The initial parameters and running statistics. */
#include "kernels/common/normal.h"
#include "kernels/net/net_internal.h"
#include "kernels/net/orthogonal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>

/* Returns the gain of a weight matrix that is initially orthogonal, or 0 if the tensor gets
 * PyTorch's default. */
static double orthogonal_gain(const struct hd_net *net, const struct hd_tensor *tensor)
{
    if (net->init == HD_INIT_TORCH || tensor->init != HD_TENSOR_UNIFORM || tensor->dims == 1)
        return 0;
    if (net->init == HD_INIT_ORTHOGONAL)
        return tensor->dims == 2 ? 1 : 0;
    if (tensor->output == HD_OUTPUT_NONE)
        return sqrt(2);
    const bool logits = net->heads == HD_HEADS_ACTOR_CRITIC && tensor->output == HD_OUTPUT_ACTIONS;
    return logits ? 0.01 : 1;
}

/* A bias follows its weight in the list of tensors. */
static bool starts_at_zero(const struct hd_net *net, int i)
{
    const struct hd_tensor *tensor = &net->tensors[i];
    return tensor->init == HD_TENSOR_ZEROS ||
           (tensor->init == HD_TENSOR_UNIFORM && tensor->dims == 1 &&
            orthogonal_gain(net, &net->tensors[i - 1]) > 0);
}

/* Draws or sets the elements by themselves, as PyTorch's layers start. */
static void draw(const struct hd_tensor *tensor, const struct hd_rng *rng, float *row_major)
{
    const double bound = 1.0 / sqrt((double)tensor->fan_in);
    for (int64_t j = 0; j < tensor->count; j++) {
        const uint32_t item = (uint32_t)(tensor->offset + j);
        row_major[j] = tensor->init == HD_TENSOR_ONES ? 1
                       : tensor->init == HD_TENSOR_NORMAL
                           ? (float)hd_normal_draw(rng, item)
                           : (float)((2.0 * hd_rng_draw_uniform(rng, item) - 1.0) * bound);
    }
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
    if (gain > 0)
        status =
            hd_orthogonal_init(rng, tensor->offset, rows, tensor->count / rows, gain, row_major);
    else if (!starts_at_zero(net, i))
        draw(tensor, rng, row_major);
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

void hd_net_init_running(const struct hd_net *net, float *running)
{
    for (int i = 0; i < net->n_norms; i++)
        for (int64_t j = 0; j < net->norms[i].features; j++) {
            running[net->norms[i].mean + j] = 0;
            running[net->norms[i].var + j] = 1;
        }
}
