/* SPDX-License-Identifier: Apache-2.0 */
/* Training passes of dense nets with batch norm. All layers of a level are normalised by one set of
 * sums. The weights' gradients, on which no sums depend, are computed in the last stage, so that
 * the time between two sets of sums is short. */
#include "kernels/dense/batch_norm.h"
#include "kernels/net/net_dense_internal.h"
#include "runtime/base/alloc.h"

#include <string.h>

/* The work memory in addition to that of the plain passes. */
struct training {
    float *xhat;             /* [features][ld]: input of the norms, then their normalised output */
    float *dweight, *dbias;  /* [features]: gradients of the norms' parameters */
    double *mean, *variance; /* [features]: moments of the whole batch */
    double *count;           /* [1]: number of samples of the whole batch */
    void *scratch;           /* scratch of the backward pass */
};

/* Returns the next `bytes` of work memory; NULL if it only counts. */
static void *take(void *work, int64_t *used, int64_t bytes)
{
    void *at = work ? (char *)work + *used : NULL;
    *used += hd_align_up(bytes);
    return at;
}

/* Assigns addresses in `work` (NULL: only counts) and returns the bytes. */
static int64_t lay_out(const struct dense_net *net, int64_t batch, void *work, struct training *t)
{
    const int64_t n = net->features, floats = n * (int64_t)sizeof(float);
    const int64_t doubles = n * (int64_t)sizeof(double);
    int64_t used =
        hd_dense_get_forward_bytes(&net->base, batch); /* the plain passes use the start */
    t->xhat = take(work, &used, floats * hd_linear_get_ld(batch));
    t->scratch = take(work, &used, hd_dense_get_backward_bytes(&net->base, batch));
    t->dweight = take(work, &used, floats);
    t->dbias = take(work, &used, floats);
    t->mean = take(work, &used, doubles);
    t->variance = take(work, &used, doubles);
    t->count = take(work, &used, sizeof *t->count);
    return used;
}

int64_t hd_dense_get_training_bytes(const struct hd_net *base, int64_t batch)
{
    struct training unused;
    return lay_out(as_dense(base), batch, NULL, &unused);
}

/* The sums of a level's layers follow one another. The first sums begin with the count of
 * samples. */
int64_t hd_dense_count_training_sums(const struct hd_net *base, int stage)
{
    const struct dense_net *net = as_dense(base);
    const int level = stage < base->levels ? stage : 2 * base->levels - 1 - stage;
    int64_t n = stage == 0;
    for (int i = 0; i < net->n_layers && level >= 0; i++)
        if (net->layers[i].norm != NO_NORM && net->layers[i].level == level)
            n += 2 * net->layers[i].out;
    return n;
}

/* -- Forward ----------------------------------------------------------------------------------- */

static void normalise(const struct dense_net *net, const struct hd_training_pass *pass,
                      const struct training *t, int level, const double *total_sums)
{
    const float *params = pass->params;
    const int64_t ld = hd_linear_get_ld(pass->batch);
    if (level == 0)
        *t->count = *total_sums++;
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        double *mean = t->mean + layer->feature, *variance = t->variance + layer->feature;
        if (layer->level != level)
            continue;
        hd_batch_norm_compute_moments(layer->out, *t->count, total_sums, mean, variance);
        hd_batch_norm_forward(layer->out, ld, mean, variance, params + layer->norm_weight,
                              params + layer->norm_bias, t->xhat + layer->feature * ld, ld,
                              hd_dense_get_output(net, pass->work, i, ld), ld);
        total_sums += 2 * layer->out;
    }
}

void hd_dense_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                               int stage, const double *total_sums, double *sums)
{
    const struct dense_net *net = as_dense(base);
    const int64_t ld = hd_linear_get_ld(pass->batch);
    struct training t;
    lay_out(net, pass->batch, pass->work, &t);
    if (stage == 0) {
        const struct hd_net_rows rows = {
            .first = pass->obs, .n_first = pass->batch, .floats = true, .norm = pass->norm};
        hd_dense_take_obs(net, &rows, pass->work, ld);
        *sums++ = (double)pass->used;
    } else {
        normalise(net, pass, &t, stage - 1, total_sums);
    }
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        const bool normed = layer->norm != NO_NORM;
        float *y =
            normed ? t.xhat + layer->feature * ld : hd_dense_get_output(net, pass->work, i, ld);
        if (layer->level != stage)
            continue;
        hd_dense_forward_layer(net, pass->params, pass->work, i, ld, false, y);
        if (!normed)
            continue;
        hd_batch_norm_compute_sums(layer->out, pass->used, y, ld, sums);
        sums += 2 * layer->out;
    }
    if (stage == base->levels)
        hd_dense_combine_heads(net, pass->params, pass->work, pass->batch, ld, pass->q);
}

bool hd_dense_update_running(const struct hd_net *base, const struct hd_training_pass *pass,
                             float *running)
{
    const struct dense_net *net = as_dense(base);
    struct training t;
    lay_out(net, pass->batch, pass->work, &t);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        if (layer->norm == NO_NORM)
            continue;
        const struct hd_net_norm *norm = &base->norms[layer->norm];
        hd_batch_norm_update_running(layer->out, *t.count, t.mean + layer->feature,
                                     t.variance + layer->feature, running + norm->mean,
                                     running + norm->var);
    }
    return *t.count >= 2;
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* Moves dL/doutput of a level's layers before their norms. */
static void go_back(const struct dense_net *net, const struct hd_training_pass *pass,
                    const struct training *t, int level, const double *total_sums)
{
    const float *params = pass->params;
    const int64_t ld = hd_linear_get_ld(pass->batch);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        if (layer->level != level)
            continue;
        hd_batch_norm_backward(layer->out, ld, pass->used, *t->count, total_sums,
                               t->variance + layer->feature, params + layer->norm_weight,
                               t->xhat + layer->feature * ld, ld,
                               hd_dense_get_delta(net, t->scratch, i, ld), ld);
        total_sums += 2 * layer->out;
    }
}

static void add_up(const struct dense_net *net, const struct hd_training_pass *pass,
                   const struct training *t, int level, double *sums)
{
    const int64_t ld = hd_linear_get_ld(pass->batch);
    for (int i = 0; i < net->n_layers; i++) {
        const struct layer *layer = &net->layers[i];
        if (layer->level != level)
            continue;
        hd_batch_norm_compute_backward_sums(layer->out, pass->used,
                                            hd_dense_get_delta(net, t->scratch, i, ld), ld,
                                            t->xhat + layer->feature * ld, ld, sums);
        for (int64_t j = 0; j < layer->out; j++) {
            t->dbias[layer->feature + j] = (float)sums[j];
            t->dweight[layer->feature + j] = (float)sums[layer->out + j];
        }
        sums += 2 * layer->out;
    }
}

static void write_gradients(const struct dense_net *net, const struct hd_training_pass *pass,
                            const struct training *t)
{
    const int64_t ld = hd_linear_get_ld(pass->batch);
    for (int i = net->n_layers - 1; i >= 0; i--) {
        const struct layer *layer = &net->layers[i];
        const size_t bytes = (size_t)layer->out * sizeof(float);
        hd_dense_backward_layer_weights(net, i, pass->work, ld, pass->batch, ld, t->scratch,
                                        pass->grad);
        if (layer->norm == NO_NORM)
            continue;
        memcpy(pass->grad + layer->norm_weight, t->dweight + layer->feature, bytes);
        memcpy(pass->grad + layer->norm_bias, t->dbias + layer->feature, bytes);
    }
}

void hd_dense_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                                int stage, const double *total_sums, double *sums)
{
    const struct dense_net *net = as_dense(base);
    const int64_t ld = hd_linear_get_ld(pass->batch);
    const int level = base->levels - stage;
    struct training t;
    lay_out(net, pass->batch, pass->work, &t);
    if (stage == 0)
        hd_dense_split_heads(net, pass->dq, pass->batch, ld, t.scratch);
    else
        go_back(net, pass, &t, level, total_sums);
    for (int i = net->n_layers - 1; i >= 0; i--)
        if (net->layers[i].level == level)
            hd_dense_backward_layer_data(net, pass->params, i, pass->work, ld, ld, t.scratch);
    if (level > 0)
        add_up(net, pass, &t, level - 1, sums);
    else
        write_gradients(net, pass, &t);
}
