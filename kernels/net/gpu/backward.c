/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass on a GPU, from the last layer to the first. A layer's step turns the gradient
 * of the layer after it into its own and computes the gradients of its parameters. */
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/status.h"

struct backward {
    const struct hd_gpu_pass *pass;
    const struct hd_gpu_plan *plan;
    int64_t rows, forward_rows;
    const struct hd_gpu_work *work;
    const struct hd_gpu_scratch *scratch;
    float *gradient; /* in GPU order */
    enum hd_gemm_type type;
};

static struct hd_gpu_sums sums_of(const struct backward *b, const struct hd_gpu_layer *layer,
                                  bool add)
{
    return (struct hd_gpu_sums){b->scratch->sums + layer->sums, b->plan->sums, add};
}

/* -- Gradients of weights ---------------------------------------------------------------------- */

/* Computes the gradient of layer i's weights from rows of delta and of its input, and adds it to
 * that of the previous rows if `add`. */
static int weights(const struct backward *b, int i, int64_t rows, const void *delta, const void *x,
                   bool add)
{
    const struct hd_gpu_layer *layer = &b->plan->layers[i];
    const struct hd_gemm gemm = {.m = layer->out,
                                 .n = layer->in,
                                 .k = rows * layer->pixels,
                                 .ld_a = layer->out,
                                 .ld_b = layer->in,
                                 .ld_c = layer->in,
                                 .transpose_a = true,
                                 .from = b->type,
                                 .to = HD_GEMM_F32,
                                 .tf32 = b->plan->tf32,
                                 .add = add};
    return hd_gpu_multiply(b->pass, &gemm, delta, x, NULL, b->gradient + layer->gradient);
}

/* Finds the columns of a part of a convolution's input: those that the forward pass left, if it
 * left all, else made again. */
static int columns_of(const struct backward *b, int i, int64_t first, int64_t rows,
                      const void **columns_p)
{
    const struct hd_gpu_plan *plan = b->plan;
    const struct hd_gpu_layer *layer = &plan->layers[i];
    *columns_p = b->work->columns[i];
    if (hd_gpu_count_part_rows(layer, hd_gpu_get_element_bytes(plan), b->forward_rows) ==
        b->forward_rows)
        return HD_OK;
    *columns_p = b->scratch->columns;
    if (i == 0) {
        const struct hd_gpu_obs obs = hd_gpu_get_kept_obs(plan, b->forward_rows, b->work);
        HD_GPU_RUN(b->pass, hd_gpu_im2col_obs(&obs, first, &layer->window, rows, plan->bf16,
                                              b->scratch->columns, b->pass->stream));
    } else {
        HD_GPU_RUN(b->pass, hd_gpu_im2col(hd_gpu_find_row(plan, i - 1, b->work->act[i - 1], first),
                                          &layer->window, rows, plan->bf16, b->scratch->columns,
                                          b->pass->stream));
    }
    return HD_OK;
}

/* Computes the gradient of the first convolution's weights from the bytes that were kept. */
static int first_conv_weights(const struct backward *b)
{
    const struct hd_gpu_first_conv conv = hd_gpu_get_first_conv(b->plan, b->rows);
    HD_GPU_RUN(b->pass, hd_gpu_first_conv_gradient(
                            &conv, &b->work->obs, b->scratch->delta[0], b->scratch->partials,
                            b->gradient + b->plan->layers[0].gradient, b->pass->stream));
    return HD_OK;
}

static int conv_weights(const struct backward *b, int i)
{
    const int64_t part =
        hd_gpu_count_part_rows(&b->plan->layers[i], hd_gpu_get_element_bytes(b->plan), b->rows);
    for (int64_t first = 0; first < b->rows; first += part) {
        const int64_t some = b->rows - first < part ? b->rows - first : part;
        const void *columns;
        HD_TRY(columns_of(b, i, first, some, &columns));
        HD_TRY(weights(b, i, some, hd_gpu_find_row(b->plan, i, b->scratch->delta[i], first),
                       columns, first > 0));
    }
    return HD_OK;
}

/* -- Gradients of activations ------------------------------------------------------------------ */

/* Computes the gradient of layer i's input from rows of delta. */
static int data(const struct backward *b, int i, int64_t rows, const void *delta, void *dx)
{
    const struct hd_gpu_layer *layer = &b->plan->layers[i];
    const struct hd_gemm gemm = {.m = rows * layer->pixels,
                                 .n = layer->in,
                                 .k = layer->out,
                                 .ld_a = layer->out,
                                 .ld_b = layer->in,
                                 .ld_c = layer->in,
                                 .from = b->type,
                                 .to = b->type,
                                 .tf32 = b->plan->tf32};
    return hd_gpu_multiply(b->pass, &gemm, delta,
                           hd_gpu_find_shadow(b->plan, b->pass->params, layer->weight), NULL, dx);
}

/* Computes the delta of the previous convolution from convolution i's. */
static int through_conv(const struct backward *b, int i)
{
    const struct hd_gpu_plan *plan = b->plan;
    const struct hd_gpu_layer *layer = &plan->layers[i];
    const int64_t part = hd_gpu_count_part_rows(layer, hd_gpu_get_element_bytes(plan), b->rows);
    for (int64_t first = 0; first < b->rows; first += part) {
        const int64_t some = b->rows - first < part ? b->rows - first : part;
        const struct hd_gpu_sums sums = sums_of(b, &plan->layers[i - 1], first > 0);
        HD_TRY(data(b, i, some, hd_gpu_find_row(plan, i, b->scratch->delta[i], first),
                    b->scratch->columns));
        HD_GPU_RUN(b->pass,
                   hd_gpu_col2im(b->scratch->columns, &layer->window, some,
                                 hd_gpu_find_row(plan, i - 1, b->work->act[i - 1], first),
                                 plan->bf16,
                                 hd_gpu_find_row(plan, i - 1, b->scratch->delta[i - 1], first),
                                 &sums, b->pass->stream));
    }
    return HD_OK;
}

static int through_dense(const struct backward *b, int i)
{
    const struct hd_gpu_layer *before = &b->plan->layers[i - 1];
    const struct hd_gpu_sums sums = sums_of(b, before, false);
    HD_TRY(data(b, i, b->rows, b->scratch->delta[i], b->scratch->delta[i - 1]));
    HD_GPU_RUN(b->pass, hd_gpu_mask(b->rows * before->pixels, before->out,
                                    before->relu ? b->work->act[i - 1] : NULL, b->plan->bf16,
                                    b->scratch->delta[i - 1], &sums, b->pass->stream));
    return HD_OK;
}

/* -- Heads ------------------------------------------------------------------------------------- */

/* Computes the gradients of the output layers' parameters and the hidden layers' delta. */
static int heads(const struct backward *b, const float *dq)
{
    const struct hd_gpu_plan *plan = b->plan;
    const struct hd_gpu_heads *shape = &plan->heads;
    const struct hd_gpu_pass *pass = b->pass;
    const int last = plan->n_layers - 1;
    const struct hd_gpu_sums of_out = sums_of(b, &plan->output, false);
    const struct hd_gpu_sums of_hidden = sums_of(b, &plan->layers[last], false);
    const struct hd_gemm gemm = {.m = hd_gpu_count_head_outputs(shape),
                                 .n = shape->ld_hidden,
                                 .k = b->rows,
                                 .ld_a = shape->ld_out,
                                 .ld_b = shape->ld_hidden,
                                 .ld_c = shape->ld_hidden,
                                 .transpose_a = true};
    HD_GPU_RUN(pass,
               hd_gpu_heads_split(shape, b->rows, dq, b->scratch->dout, &of_out, pass->stream));
    HD_GPU_RUN(pass,
               hd_gpu_heads_backward_hidden(
                   shape, b->rows, b->scratch->dout,
                   hd_gpu_find_shadow(plan, pass->params, plan->output.weight), b->work->act[last],
                   plan->bf16, b->scratch->delta[last], &of_hidden, pass->stream));
    return hd_gpu_multiply(pass, &gemm, b->scratch->dout, b->work->act[last], NULL,
                           b->gradient + plan->output.gradient);
}

static int layer_step(const struct backward *b, int i, const float *dq)
{
    const struct hd_gpu_plan *plan = b->plan;
    if (i == plan->n_layers - 1)
        HD_TRY(heads(b, dq));
    else
        HD_TRY(plan->layers[i + 1].conv ? through_conv(b, i + 1) : through_dense(b, i + 1));
    if (plan->layers[i].conv)
        return i == 0 && plan->direct ? first_conv_weights(b) : conv_weights(b, i);
    return weights(b, i, b->rows, b->scratch->delta[i],
                   i > 0 ? b->work->act[i - 1] : b->work->input, false);
}

/* Returns the stage in which a layer's gradients are computed. */
static int find_stage(const struct hd_gpu_pass *pass, int i)
{
    return pass->on->stage[hd_gpu_find_end(pass->plan, i)];
}

/* Writes the gradients of the biases of layers [lowest, end). */
static int finish(const struct backward *b, int lowest, int end)
{
    const struct hd_gpu_plan *plan = b->plan;
    const int64_t first = plan->layers[lowest].sums;
    const int64_t last = end < plan->n_layers ? plan->layers[end].sums : plan->sums;
    HD_GPU_RUN(b->pass, hd_gpu_finish_sums(b->scratch->sums, plan->sums, first, last,
                                           b->gradient + plan->gradients, b->pass->stream));
    return HD_OK;
}

int hd_gpu_backward(const struct hd_gpu_pass *pass, int64_t rows, int64_t forward_rows,
                    const struct hd_gpu_work *work, const float *dq,
                    const struct hd_gpu_scratch *scratch, int first, int last, float *gradient)
{
    const struct backward b = {.pass = pass,
                               .plan = pass->plan,
                               .rows = rows,
                               .forward_rows = forward_rows,
                               .work = work,
                               .scratch = scratch,
                               .gradient = gradient,
                               .type = pass->plan->bf16 ? HD_GEMM_BF16 : HD_GEMM_F32};
    int end = pass->plan->n_layers;
    while (end > 0 && find_stage(pass, end - 1) < first)
        end--;
    int lowest = end;
    for (; lowest > 0 && find_stage(pass, lowest - 1) < last; lowest--)
        HD_TRY(layer_step(&b, lowest - 1, dq));
    return lowest < end ? finish(&b, lowest, end) : HD_OK;
}
