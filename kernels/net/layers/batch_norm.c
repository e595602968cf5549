/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.BatchNorm1d, BatchNorm2d and their synchronised form (Ioffe and Szegedy 2015): each
 * channel of [C], [C][n] or [C][H][W] is normalised over samples and places. Vectors are columns,
 * through kernels/dense/batch_norm.h. Of rows, sums are doubles, added row by row in the order of
 * the elements. */
#include "kernels/dense/batch_norm.h"

#include "kernels/dense/linear.h"
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <string.h>

static int batch_norm_list_tensors(const struct hd_layer *layer,
                                   struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    const int64_t *channels = layer->in.size;
    tensors[0] = hd_layer_make_tensor(1, channels, HD_TENSOR_ONES, 0);
    tensors[1] = hd_layer_make_tensor(1, channels, HD_TENSOR_ZEROS, 0);
    return 2;
}

/* One channel: x becomes (x - mean) inverse weight + bias. */
struct channel {
    float mean, inverse, weight, bias;
};

static struct channel make_channel(const struct hd_layer_run *run, int64_t c, double mean,
                                   double variance)
{
    return (struct channel){.mean = (float)mean,
                            .inverse = (float)(1 / sqrt(variance + HD_BATCH_NORM_EPSILON)),
                            .weight = run->weight[c],
                            .bias = run->bias[c]};
}

static void normalise(const struct hd_layer_run *run, int64_t c, struct channel channel)
{
    const int64_t channels = run->layer->in.size[0], plane = hd_shape_count_plane(&run->layer->in);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t i = 0; i < plane; i++) {
            const int64_t at = (r * channels + c) * plane + i;
            run->to[at] =
                (run->x[at] - channel.mean) * channel.inverse * channel.weight + channel.bias;
        }
}

static bool is_vector(const struct hd_layer_run *run)
{
    return run->layer->in.dims == 1;
}

static void forward_running(const struct hd_layer_run *run)
{
    if (is_vector(run)) {
        hd_batch_norm_forward_running(run->layer->in.size[0], run->ld, run->mean, run->var,
                                      run->weight, run->bias, run->x, run->x_ld, run->to, run->ld);
        return;
    }
    for (int64_t c = 0; c < run->layer->in.size[0]; c++)
        normalise(run, c, make_channel(run, c, run->mean[c], run->var[c]));
}

static void batch_norm_forward(const struct hd_layer_run *run, const double *mean,
                               const double *variance)
{
    if (is_vector(run)) {
        hd_batch_norm_forward(run->layer->in.size[0], run->ld, mean, variance, run->weight,
                              run->bias, run->x, run->x_ld, run->to, run->ld);
        return;
    }
    for (int64_t c = 0; c < run->layer->in.size[0]; c++)
        normalise(run, c, make_channel(run, c, mean[c], variance[c]));
}

static void add_up(const struct hd_layer_run *run, double *sums)
{
    const int64_t channels = run->layer->in.size[0], plane = hd_shape_count_plane(&run->layer->in);
    if (is_vector(run)) {
        hd_batch_norm_compute_sums(channels, run->rows, run->x, run->x_ld, sums);
        return;
    }
    memset(sums, 0, (size_t)(2 * channels) * sizeof *sums);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t i = 0; i < plane; i++) {
                const double x = run->x[(r * channels + c) * plane + i];
                sums[c] += x;
                sums[channels + c] += x * x;
            }
}

static void add_up_backward(const struct hd_layer_run *run, const double *mean,
                            const double *variance, double *sums)
{
    const int64_t channels = run->layer->in.size[0], plane = hd_shape_count_plane(&run->layer->in);
    if (is_vector(run)) {
        hd_batch_norm_compute_backward_sums(channels, run->rows, mean, variance, run->dy, run->ld,
                                            run->x, run->x_ld, run->scratch, sums);
        return;
    }
    memset(sums, 0, (size_t)(2 * channels) * sizeof *sums);
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            const struct channel channel = make_channel(run, c, mean[c], variance[c]);
            for (int64_t i = 0; i < plane; i++) {
                const int64_t at = (r * channels + c) * plane + i;
                sums[c] += run->dy[at];
                sums[channels + c] +=
                    (double)run->dy[at] * ((run->x[at] - channel.mean) * channel.inverse);
            }
        }
}

static void backward(const struct hd_layer_run *run, const double *mean, const double *variance,
                     double count, const double *sums)
{
    const int64_t channels = run->layer->in.size[0], plane = hd_shape_count_plane(&run->layer->in);
    if (is_vector(run)) {
        hd_batch_norm_backward(channels, run->ld, run->rows, count, sums, mean, variance,
                               run->weight, run->x, run->x_ld, run->dy, run->to, run->ld);
        return;
    }
    for (int64_t r = 0; r < run->rows; r++)
        for (int64_t c = 0; c < channels; c++) {
            const struct channel channel = make_channel(run, c, mean[c], variance[c]);
            const float mean_dy = (float)(sums[c] / count);
            const float slope = (float)(sums[channels + c] / count);
            for (int64_t i = 0; i < plane; i++) {
                const int64_t at = (r * channels + c) * plane + i;
                const float xhat = (run->x[at] - channel.mean) * channel.inverse;
                run->to[at] =
                    channel.weight * channel.inverse * (run->dy[at] - mean_dy - xhat * slope);
            }
        }
}

/* A row of columns. */
static int64_t batch_norm_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    (void)layer;
    return hd_linear_get_ld(rows);
}

static const struct hd_layer_batch batch = {
    .add_up = add_up,
    .forward = batch_norm_forward,
    .add_up_backward = add_up_backward,
    .backward = backward,
};

const struct hd_layer_type hd_layer_batch_norm = {
    .name = "batch_norm",
    .form = HD_FORM_COLUMNS,
    .infer = hd_layer_keep_shape,
    .list_tensors = batch_norm_list_tensors,
    .count_scratch = batch_norm_count_scratch,
    .forward = forward_running,
    .batch = &batch,
};
