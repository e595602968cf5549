/* SPDX-License-Identifier: Apache-2.0 */
/* The output layers of all streams as one op, with what a net makes of them. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

static int count_streams(const struct gpu_impl *impl)
{
    return impl->streams[1].layer ? 2 : 1;
}

/* Returns whether stream s is the first that reads its value. */
static bool is_first_reader(const struct gpu_impl *impl, int s)
{
    return s == 0 || impl->streams[s].value != impl->streams[0].value;
}

static int64_t count_ld(const struct gpu_impl *impl)
{
    return hd_gpu_fill_up(impl->base.biases);
}

/* -- Places ------------------------------------------------------------------------------------ */

/* The gradient by weights has a row for each output, and columns for all neurons of a value. */
static void place(const struct list_net *net, struct gpu_impl *impl, struct gpu_places *used)
{
    for (int s = 0; s < count_streams(impl); s++) {
        struct gpu_stream *stream = &impl->streams[s];
        const int64_t ld = net->on_gpu.values[stream->value].form.ld;
        stream->ld_weight = hd_gpu_fill_up(stream->width);
        stream->weight =
            hd_gpu_take(&used->wide, (stream->end - stream->first) * stream->ld_weight);
        stream->gradient = is_first_reader(impl, s)
                               ? hd_gpu_take(&used->gradients, impl->base.biases * ld)
                               : impl->streams[0].gradient;
    }
    impl->wide_bias = true;
    impl->bias = hd_gpu_take(&used->wide, impl->base.biases);
    impl->sums = hd_gpu_take(&used->sums, count_ld(impl));
}

static struct hd_gpu_matrix make_bias(const struct list_net *net, const struct gpu_impl *impl,
                                      int64_t first, int64_t n)
{
    struct hd_gpu_matrix matrix = hd_gpu_make_rows(1, n);
    matrix.shadow = impl->bias + first;
    matrix.gradient = net->places.gradients + impl->sums + first;
    return matrix;
}

static void describe(const struct list_net *net, const struct op *op,
                     struct hd_gpu_matrix *matrices)
{
    const struct gpu_impl *impl = as_gpu(op);
    for (int s = 0; s < count_streams(impl); s++) {
        const struct gpu_stream *stream = &impl->streams[s];
        const struct hd_form *form = &net->on_gpu.values[stream->value].form;
        const int64_t outputs = stream->end - stream->first;
        struct hd_gpu_matrix *matrix = &matrices[stream->layer->tensor];
        matrix[0] = hd_gpu_make_matrix(form, outputs, stream->layer->in.size[0]);
        matrix[0].shadow = stream->weight;
        matrix[0].gradient = stream->gradient + stream->first * form->ld + stream->from;
        matrix[0].columns = stream->ld_weight;
        matrix[1] = make_bias(net, impl, stream->first, outputs);
    }
    if (impl->log_std)
        matrices[impl->log_std->tensor] =
            make_bias(net, impl, impl->streams[0].end, impl->streams[0].end);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Describes the streams that read a value; NO_VALUE: all of them. */
static struct hd_gpu_heads make_heads(const struct gpu_pass *pass, const struct op *op, int value)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_net *base = &pass->net->base;
    struct hd_gpu_heads heads = {.actions = (int32_t)base->actions,
                                 .outputs = (int32_t)impl->base.biases,
                                 .dueling = base->heads == HD_HEADS_DUELING,
                                 .ld_out = count_ld(impl)};
    for (int s = 0; s < count_streams(impl); s++) {
        const struct gpu_stream *stream = &impl->streams[s];
        if (value != NO_VALUE && stream->value != value)
            continue;
        heads.streams[heads.n_streams++] =
            (struct hd_gpu_stream){.hidden = hd_gpu_get_value(pass, stream->value, 0),
                                   .weight = hd_gpu_get_shadow(pass, stream->weight),
                                   .ld = hd_gpu_get_form(pass, stream->value)->ld,
                                   .ld_weight = stream->ld_weight,
                                   .from = (int32_t)stream->from,
                                   .width = (int32_t)stream->width,
                                   .first = stream->first,
                                   .end = stream->end};
    }
    return heads;
}

static int forward(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_heads heads = make_heads(pass, op, NO_VALUE);
    HD_GPU_RUN(pass,
               hd_gpu_heads_forward(&heads, pass->rows, hd_gpu_get_shadow(pass, as_gpu(op)->bias),
                                    pass->q, pass->stream));
    return HD_OK;
}

/* The derivatives by the outputs. */
static int64_t count_scratch(const struct gpu_impl *impl, int64_t rows)
{
    return rows * count_ld(impl) * (int64_t)sizeof(float);
}

static int split(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_heads heads = make_heads(pass, op, NO_VALUE);
    const struct hd_gpu_sums sums = hd_gpu_make_sums(pass, as_gpu(op)->sums);
    HD_GPU_RUN(pass, hd_gpu_heads_split(&heads, pass->rows, pass->dq, hd_gpu_get_scratch(pass),
                                        &sums, pass->stream));
    return HD_OK;
}

/* The derivatives by a value, which need not be known of an observation. */
static int data(const struct gpu_pass *pass, const struct op *op, int value)
{
    const struct hd_gpu_heads heads = make_heads(pass, op, value);
    const struct hd_gpu_delta delta =
        hd_gpu_make_delta(pass, op, value, value == op->in ? op->adds : op->adds_skip, 0);
    const struct hd_gpu_image image = hd_gpu_make_image(hd_gpu_get_form(pass, value));
    if (hd_gpu_wants_delta(pass, value))
        HD_GPU_RUN(pass, hd_gpu_heads_backward(&delta, &heads, &image, pass->rows,
                                               hd_gpu_get_scratch(pass), pass->stream));
    return HD_OK;
}

static int weights(const struct gpu_pass *pass, const struct op *op,
                   const struct gpu_stream *stream)
{
    const struct gpu_impl *impl = as_gpu(op);
    const int64_t ld = hd_gpu_get_form(pass, stream->value)->ld;
    const struct hd_gemm gemm = {.m = impl->base.biases,
                                 .n = ld,
                                 .k = pass->rows,
                                 .ld_a = count_ld(impl),
                                 .ld_b = ld,
                                 .ld_c = ld,
                                 .transpose_a = true};
    return hd_gpu_multiply(pass, &gemm, hd_gpu_get_scratch(pass),
                           hd_gpu_get_value(pass, stream->value, 0), NULL,
                           pass->gradient + stream->gradient);
}

static int backward(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl *impl = as_gpu(op);
    HD_TRY(split(pass, op));
    for (int s = 0; s < count_streams(impl); s++)
        if (is_first_reader(impl, s)) {
            HD_TRY(data(pass, op, impl->streams[s].value));
            HD_TRY(weights(pass, op, &impl->streams[s]));
        }
    return HD_OK;
}

const struct gpu_impl_type hd_gpu_output_layers = {.place = place,
                                                   .describe = describe,
                                                   .count_scratch = count_scratch,
                                                   .forward = forward,
                                                   .backward_weights = backward};
