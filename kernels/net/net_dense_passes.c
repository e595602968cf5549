/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/batch_norm.h"
#include "kernels/net/net_dense_internal.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Work memory: the observations and every layer's output, feature-major --------------------- */

int64_t hd_dense_get_forward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct dense_net *net = as_dense(base);
    int64_t features = base->obs;
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return features * hd_linear_get_ld(batch) * (int64_t)sizeof(float);
}

float *hd_dense_get_output(const struct dense_net *net, const void *work, int layer, int64_t ld)
{
    float *at = (float *)work;
    if (layer == FROM_OBS)
        return at;
    at += net->base.obs * ld;
    for (int i = 0; i < layer; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* q[b][a] = A[a][b] - mean_a A + V[b] (dueling); else the outputs of the layers, with parameters
 * after those of the actions where these are fewer. */
void hd_dense_combine_heads(const struct dense_net *net, const float *params, const void *work,
                            int64_t batch, int64_t ld, float *q)
{
    const int64_t actions = net->layers[net->of_actions].out, outputs = net->base.outputs;
    const int64_t added = net->base.actions - actions;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    const float *v = net->of_value >= 0 ? hd_dense_get_output(net, work, net->of_value, ld) : NULL;
    const float *a = hd_dense_get_output(net, work, net->of_actions, ld);
    for (int64_t b = 0; b < batch; b++) {
        float shift = 0;
        for (int64_t i = 0; i < actions && dueling; i++)
            shift += a[i * ld + b];
        if (dueling)
            shift = v[b] - shift / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            q[b * outputs + i] = a[i * ld + b] + shift;
        for (int64_t i = 0; i < added; i++)
            q[b * outputs + actions + i] = params[net->log_std + i];
        if (outputs > actions + added)
            q[b * outputs + actions + added] = v[b];
    }
}

/* Writes columns [first, first + rows) of the input, and zeros after them. */
static void append_columns(int64_t rows, int64_t features, const float *obs, int64_t first,
                           float *to, int64_t ld)
{
    for (int64_t j = 0; j < features; j++) {
        for (int64_t i = 0; i < rows; i++)
            to[j * ld + first + i] = obs[i * features + j];
        for (int64_t i = first + rows; i < ld; i++)
            to[j * ld + i] = 0;
    }
}

static void normalise(const struct hd_obs_norm *norm, int64_t features, int64_t rows, float *x,
                      int64_t ld)
{
    for (int64_t j = 0; j < features; j++)
        for (int64_t b = 0; b < rows; b++)
            x[j * ld + b] = hd_obs_normalise(norm, j, x[j * ld + b]);
}

void hd_dense_take_obs(const struct dense_net *net, const struct hd_net_rows *rows, void *work,
                       int64_t ld)
{
    const int64_t obs = net->base.obs;
    hd_transpose(rows->n_first, obs, rows->first, obs, work, ld);
    if (rows->n_second > 0)
        append_columns(rows->n_second, obs, rows->second, rows->n_first, work, ld);
    if (rows->norm)
        normalise(rows->norm, obs, rows->n_first + rows->n_second, work, ld);
}

void hd_dense_forward_layer(const struct dense_net *net, const float *params, const void *work,
                            int layer, int64_t ld, bool relu, float *y)
{
    const struct layer *is = &net->layers[layer];
    const float *x = hd_dense_get_output(net, work, is->input, ld);
    hd_linear_forward(is->out, is->in, ld, params + is->weight, params + is->bias, relu, x, ld, y,
                      ld);
}

int hd_dense_forward(const struct hd_net *base, const void *memory, const struct hd_net_rows *rows,
                     void *work, float *q)
{
    const struct dense_net *net = as_dense(base);
    const float *params = memory;
    const int64_t n = rows->n_first + rows->n_second, ld = hd_linear_get_ld(n);
    if (base->batch_norm && !rows->running)
        return HD_ERR_INPUT;
    hd_dense_take_obs(net, rows, work, ld);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        float *y = hd_dense_get_output(net, work, i, ld);
        hd_dense_forward_layer(net, params, work, i, ld, layer->hidden && layer->norm == NO_NORM,
                               y);
        if (layer->norm == NO_NORM)
            continue;
        const struct hd_net_norm *norm = &base->norms[layer->norm];
        hd_batch_norm_forward_running(layer->out, ld, rows->running + norm->mean,
                                      rows->running + norm->var, params + layer->norm_weight,
                                      params + layer->norm_bias, y, ld);
    }
    hd_dense_combine_heads(net, params, work, n, ld, q);
    return HD_OK;
}

/* -- Backward ---------------------------------------------------------------------------------- */

int64_t hd_dense_get_backward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct dense_net *net = as_dense(base);
    int64_t features = 0, ld = hd_linear_get_ld(batch);
    for (int i = 0; i < net->n_layers; i++)
        features += net->layers[i].out;
    return (features * ld + pad_floats(net->widest) * ld) * (int64_t)sizeof(float);
}

float *hd_dense_get_delta(const struct dense_net *net, void *scratch, int layer, int64_t ld)
{
    float *at = scratch;
    for (int i = 0; i < layer; i++)
        at += net->layers[i].out * ld;
    return at;
}

/* dL/dA = dq - mean_a dq and dL/dV = sum_a dq (dueling); else dq itself. Columns beyond the batch
 * are zero. */
void hd_dense_split_heads(const struct dense_net *net, const float *dq, int64_t batch, int64_t ld,
                          void *scratch)
{
    const int64_t actions = net->layers[net->of_actions].out, outputs = net->base.outputs;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    float *dv = net->of_value >= 0 ? hd_dense_get_delta(net, scratch, net->of_value, ld) : NULL;
    float *da = hd_dense_get_delta(net, scratch, net->of_actions, ld);
    for (int64_t b = 0; b < ld; b++) {
        const float *row = dq + b * outputs;
        float sum = 0;
        for (int64_t i = 0; i < actions && b < batch && dueling; i++)
            sum += row[i];
        float shift = sum / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            da[i * ld + b] = b < batch ? row[i] - shift : 0;
        if (dv)
            dv[b] = dueling ? sum : b < batch ? row[net->base.actions] : 0;
    }
}

/* Computes the gradient of the numbers that q takes from the parameters. */
static void sum_log_std(const struct dense_net *net, const float *dq, int64_t batch, float *grad)
{
    const int64_t actions = net->layers[net->of_actions].out, outputs = net->base.outputs;
    for (int64_t i = 0; i < net->base.actions - actions; i++) {
        float sum = 0;
        for (int64_t b = 0; b < batch; b++)
            sum += dq[b * outputs + actions + i];
        grad[net->log_std + i] = sum;
    }
}

void hd_dense_backward_layer_weights(const struct dense_net *net, int layer, const void *work,
                                     int64_t ld_forward, int64_t batch, int64_t ld, void *scratch,
                                     float *grad)
{
    const struct layer *is = &net->layers[layer];
    const int64_t ldx = pad_floats(is->in);
    float *x = hd_dense_get_delta(net, scratch, net->n_layers, ld);
    hd_transpose(is->in, batch, hd_dense_get_output(net, work, is->input, ld_forward), ld_forward,
                 x, ldx);
    hd_linear_backward_weights(is->out, is->in, batch, hd_dense_get_delta(net, scratch, layer, ld),
                               ld, x, ldx, grad + is->weight, grad + is->bias);
}

/* Two streams may read the encoder's output: the last one is processed first and overwrites, the
 * other one adds. */
void hd_dense_backward_layer_data(const struct dense_net *net, const float *params, int layer,
                                  const void *work, int64_t ld_forward, int64_t ld, void *scratch)
{
    const struct layer *is = &net->layers[layer];
    if (is->input == FROM_OBS)
        return;
    hd_linear_backward_data(is->out, is->in, ld, params + is->weight,
                            hd_dense_get_delta(net, scratch, layer, ld), ld, is->adds,
                            hd_dense_get_output(net, work, is->input, ld_forward), ld_forward,
                            hd_dense_get_delta(net, scratch, is->input, ld), ld);
}

int hd_dense_backward(const struct hd_net *base, const void *params, int64_t batch,
                      int64_t forward_batch, const void *work, const float *dq, void *scratch,
                      int stage, float *grad)
{
    const struct dense_net *net = as_dense(base);
    const int64_t ld = hd_linear_get_ld(batch), ld_forward = hd_linear_get_ld(forward_batch);
    (void)stage; /* there is only one stage */
    if (base->batch_norm)
        return HD_ERR_INPUT;
    hd_dense_split_heads(net, dq, batch, ld, scratch);
    sum_log_std(net, dq, batch, grad);
    for (int i = net->n_layers - 1; i >= 0; i--) {
        hd_dense_backward_layer_weights(net, i, work, ld_forward, batch, ld, scratch, grad);
        hd_dense_backward_layer_data(net, params, i, work, ld_forward, ld, scratch);
    }
    return HD_OK;
}

/* The derivatives by the observations take the place of a transposed input. Several layers read
 * observations only where a trunk is empty, which no dense net's is. */
int hd_dense_backward_obs(const struct hd_net *base, const void *memory, int64_t batch,
                          int64_t forward_batch, const void *work, const float *dq, void *scratch,
                          float *dobs)
{
    const struct dense_net *net = as_dense(base);
    const float *params = memory;
    const struct layer *first = &net->layers[0];
    const int64_t ld = hd_linear_get_ld(batch), ld_forward = hd_linear_get_ld(forward_batch);
    float *dx = hd_dense_get_delta(net, scratch, net->n_layers, ld);
    hd_dense_split_heads(net, dq, batch, ld, scratch);
    for (int i = net->n_layers - 1; i > 0; i--)
        hd_dense_backward_layer_data(net, params, i, work, ld_forward, ld, scratch);
    hd_linear_backward_data(first->out, first->in, ld, params + first->weight,
                            hd_dense_get_delta(net, scratch, 0, ld), ld, false, NULL, 0, dx, ld);
    hd_transpose(first->in, batch, dx, ld, dobs, first->in);
    return HD_OK;
}
