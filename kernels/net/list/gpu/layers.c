/* SPDX-License-Identifier: Apache-2.0 */
/* All that is no product: layers by their own operations, sums of residuals, and conversions. */
#include "kernels/net/gpu/layers.h"

#include "kernels/net/list/gpu/on_gpu_internal.h"

/* -- Layers ------------------------------------------------------------------------------------ */

/* Returns where a tensor lies, apart from its start: it is a vector like rows of the input, or a
 * table. */
static struct hd_gpu_matrix make_matrix(const struct gpu_impl *impl, const struct hd_tensor *tensor)
{
    const int64_t width = tensor->count / tensor->shape[0];
    return impl->base.layer->type->observation
               ? hd_gpu_make_rows(tensor->shape[0], width)
               : hd_gpu_make_matrix(&impl->base.in, 1, tensor->count);
}

/* Sums of columns are the gradients of all tensors. */
static void place(const struct list_net *net, struct gpu_impl *impl, struct gpu_places *used)
{
    struct hd_tensor tensors[HD_LAYER_TENSORS];
    const int n = hd_layer_list_tensors(impl->base.layer, tensors);
    (void)net;
    impl->wide_weight = impl->wide_bias = true;
    for (int t = 0; t < n; t++) {
        const struct hd_gpu_matrix matrix = make_matrix(impl, &tensors[t]);
        const int64_t elements = matrix.rows * matrix.columns;
        *(t == 0 ? &impl->weight : &impl->bias) = hd_gpu_take(&used->wide, elements);
        *(t == 0 ? &impl->sums : &impl->more_sums) = hd_gpu_take(&used->sums, elements);
    }
}

static void describe(const struct list_net *net, const struct op *op,
                     struct hd_gpu_matrix *matrices)
{
    const struct gpu_impl *impl = as_gpu(op);
    struct hd_tensor tensors[HD_LAYER_TENSORS];
    const int n = hd_layer_list_tensors(op->layer, tensors);
    for (int t = 0; t < n; t++) {
        struct hd_gpu_matrix *matrix = &matrices[op->layer->tensor + t];
        *matrix = make_matrix(impl, &tensors[t]);
        matrix->shadow = t == 0 ? impl->weight : impl->bias;
        matrix->gradient = net->places.gradients + (t == 0 ? impl->sums : impl->more_sums);
    }
}

static int64_t count_kept(const struct gpu_impl *impl, int64_t rows)
{
    const struct hd_gpu_image out = hd_gpu_make_image(&impl->base.out);
    const struct hd_layer_on_gpu *type = impl->base.layer->type->gpu;
    return type->count_kept ? rows * type->count_kept(&out) * (int64_t)sizeof(float) : 0;
}

static struct hd_gpu_run make_run(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl *impl = as_gpu(op);
    return (struct hd_gpu_run){.layer = op->layer,
                               .rows = pass->rows,
                               .in = hd_gpu_make_image(&impl->base.in),
                               .out = hd_gpu_make_image(&impl->base.out),
                               .bf16 = hd_gpu_is_bf16(pass->net),
                               .weight = hd_gpu_get_shadow(pass, impl->weight),
                               .bias = hd_gpu_get_shadow(pass, impl->bias),
                               .x = hd_gpu_get_value(pass, op->in, 0),
                               .y = hd_gpu_get_value(pass, op->out, 0),
                               .kept = hd_gpu_get_kept(pass, op),
                               .stream = pass->stream};
}

static int forward(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_run run = make_run(pass, op);
    HD_GPU_RUN(pass, op->layer->type->gpu->forward(&run));
    return HD_OK;
}

static struct hd_gpu_run make_backward(const struct gpu_pass *pass, const struct op *op)
{
    struct hd_gpu_run run = make_run(pass, op);
    run.dy = hd_gpu_get_delta(pass, op->out, 0);
    run.scratch = hd_gpu_get_scratch(pass);
    run.dx = hd_gpu_make_delta(pass, op, op->in, op->adds, 0);
    run.dweight = hd_gpu_make_sums(pass, as_gpu(op)->sums);
    run.dbias = hd_gpu_make_sums(pass, as_gpu(op)->more_sums);
    return run;
}

static int backward_weights(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_run run = make_backward(pass, op);
    if (op->layer->type->gpu->backward_weights)
        HD_GPU_RUN(pass, op->layer->type->gpu->backward_weights(&run));
    return HD_OK;
}

static int backward_data(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_run run = make_backward(pass, op);
    HD_GPU_RUN(pass, op->layer->type->gpu->backward_data(&run));
    return HD_OK;
}

const struct gpu_impl_type hd_gpu_layers = {.place = place,
                                            .describe = describe,
                                            .count_kept = count_kept,
                                            .count_scratch = count_kept,
                                            .forward = forward,
                                            .backward_weights = backward_weights,
                                            .backward_data = backward_data};

/* -- Residuals and conversions ----------------------------------------------------------------- */

static int add(const struct gpu_pass *pass, const struct op *op)
{
    HD_GPU_RUN(pass, hd_gpu_add(pass->rows * op->impl->in.ld, hd_gpu_get_value(pass, op->skip, 0),
                                hd_gpu_get_value(pass, op->in, 0), op->impl->in.bf16,
                                hd_gpu_get_value(pass, op->out, 0), pass->stream));
    return HD_OK;
}

/* Where those by `skip` are no others, their sums are those by `in` too. */
static int pass_on_both(const struct gpu_pass *pass, const struct op *op)
{
    const void *dy = hd_gpu_get_delta(pass, op->out, 0);
    struct hd_gpu_delta in = hd_gpu_make_delta(pass, op, op->in, op->adds, 0);
    struct hd_gpu_delta skip = hd_gpu_make_delta(pass, op, op->skip, op->adds_skip, 0);
    if (as_gpu(op)->shares_delta && !skip.add && !skip.x && !skip.sums.sums &&
        hd_gpu_wants_delta(pass, op->skip)) {
        skip.sums = in.sums;
        in.sums.sums = NULL;
    }
    HD_TRY(hd_gpu_leave(pass, op->in, &in, dy));
    return hd_gpu_leave(pass, op->skip, &skip, dy);
}

const struct gpu_impl_type hd_gpu_residuals = {.forward = add, .backward_data = pass_on_both};

static int convert(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_form *from = hd_gpu_get_form(pass, op->in),
                         *to = hd_gpu_get_form(pass, op->out);
    const struct hd_gpu_image image = hd_gpu_make_image(to);
    const bool planes = from->layout == HD_NCHW && image.pixels > 1;
    HD_GPU_RUN(pass, hd_gpu_convert(&image, pass->rows, hd_gpu_get_value(pass, op->in, 0), from->ld,
                                    planes, from->bf16, to->bf16,
                                    hd_gpu_get_value(pass, op->out, 0), pass->stream));
    return HD_OK;
}

static int pass_on(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_delta delta = hd_gpu_make_delta(pass, op, op->in, op->adds, 0);
    return hd_gpu_leave(pass, op->in, &delta, hd_gpu_get_delta(pass, op->out, 0));
}

const struct gpu_impl_type hd_gpu_conversions = {.forward = convert, .backward_data = pass_on};
