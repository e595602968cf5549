/* SPDX-License-Identifier: Apache-2.0 */
/* The initial parameters and running statistics. */
#include "kernels/net/net_internal.h"
#include "kernels/net/orthogonal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* Returns the gain of a weight matrix that is initially orthogonal, or 0 if the tensor gets
 * PyTorch's default. */
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

/* A bias follows its weight in the list of tensors. */
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

/* A batch norm initially changes nothing: weights of 1, followed by biases of 0. */
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

void hd_net_init_running(const struct hd_net *net, float *running)
{
    for (int i = 0; i < net->n_norms; i++)
        for (int64_t j = 0; j < net->norms[i].features; j++) {
            running[net->norms[i].mean + j] = 0;
            running[net->norms[i].var + j] = 1;
        }
}
