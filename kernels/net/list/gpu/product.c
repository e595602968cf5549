/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices: dense layers, and convolutions by columns of their windows. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

/* -- Sizes and places -------------------------------------------------------------------------- */

/* Channels come last, except in an observation, which has planes. */
void hd_gpu_size_conv(const struct hd_form *in, bool obs, const struct hd_form *out,
                      struct gpu_impl *impl)
{
    const struct hd_layer *layer = impl->base.layer;
    const int64_t kernel = layer->fields[HD_CONV_KERNEL];
    impl->window =
        hd_gpu_make_window(layer, obs ? in->channels : in->ld / in->plane, kernel,
                           layer->fields[HD_CONV_STRIDE], layer->fields[HD_CONV_PADDING]);
    impl->in =
        obs ? hd_gpu_count_obs_depth(&impl->window) : kernel * kernel * impl->window.channels;
    impl->out = out->ld / out->plane;
    impl->pixels = out->plane;
}

void hd_gpu_place_product(const struct list_net *net, struct gpu_impl *impl,
                          struct gpu_places *used)
{
    (void)net;
    impl->wide_bias = !impl->base.out.bf16;
    impl->weight = hd_gpu_take(&used->narrow, impl->out * impl->in);
    impl->bias = hd_gpu_take(impl->wide_bias ? &used->wide : &used->narrow, impl->out);
    impl->gradient = hd_gpu_take(&used->gradients, impl->out * impl->in);
    impl->sums = hd_gpu_take(&used->sums, impl->out);
}

/* A row of weights is like a row of the input, or a window, [y][x][channel]. */
static struct hd_gpu_matrix make_weights(const struct op *op, int64_t inputs)
{
    const struct gpu_impl *impl = as_gpu(op);
    const bool conv = op->layer->type == &hd_layer_conv;
    const bool planes = conv && impl->base.in.layout == HD_NCHW;
    struct hd_gpu_matrix matrix = hd_gpu_make_matrix(&impl->base.in, impl->out, inputs);
    matrix.columns = matrix.gradient_ld = impl->in;
    matrix.plane = planes ? 1
                   : conv ? (int64_t)impl->window.kernel * impl->window.kernel
                          : matrix.plane;
    return matrix;
}

/* Describes weight and bias of a layer whose outputs begin at `first`; the last of them are
 * padding. */
static void describe_layer(const struct list_net *net, const struct op *op,
                           const struct hd_layer *layer, int64_t first, int64_t outputs,
                           struct hd_gpu_matrix *matrices)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_tensor *weight = &net->base.tensors[layer->tensor];
    struct hd_gpu_matrix *matrix = &matrices[layer->tensor];
    matrix[0] = make_weights(op, weight->count / weight->shape[0]);
    matrix[0].shadow = impl->weight + first * impl->in;
    matrix[0].gradient = impl->gradient + first * impl->in;
    matrix[0].rows = outputs;
    matrix[1] = hd_gpu_make_rows(1, outputs);
    matrix[1].shadow = impl->bias + first;
    matrix[1].gradient = net->places.gradients + impl->sums + first;
}

void hd_gpu_describe_product(const struct list_net *net, const struct op *op,
                             struct hd_gpu_matrix *matrices)
{
    const struct hd_impl *impl = op->impl;
    const int64_t all = as_gpu(op)->out, own = impl->layer->out.size[0];
    describe_layer(net, op, impl->layer, 0, impl->joined ? own : all, matrices);
    if (impl->joined)
        describe_layer(net, op, impl->joined, own, all - own, matrices);
}

/* -- The three products ------------------------------------------------------------------------ */

static enum hd_gemm_type get_type(const struct gpu_pass *pass)
{
    return hd_gpu_is_bf16(pass->net) ? HD_GEMM_BF16 : HD_GEMM_F32;
}

/* Computes y[rows * pixels][out] from x[rows * pixels][in]. */
static int multiply_forward(const struct gpu_pass *pass, const struct op *op, int64_t rows,
                            const void *x, void *y)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_gemm gemm = {.m = rows * impl->pixels,
                                 .n = impl->out,
                                 .k = impl->in,
                                 .ld_a = impl->in,
                                 .ld_b = impl->in,
                                 .ld_c = impl->out,
                                 .transpose_b = true,
                                 .from = get_type(pass),
                                 .to = impl->base.out.bf16 ? HD_GEMM_BF16 : HD_GEMM_F32,
                                 .tf32 = hd_gpu_is_tf32(pass->net),
                                 .epilogue = impl->base.relu ? HD_GEMM_BIAS_RELU : HD_GEMM_BIAS};
    return hd_gpu_multiply(pass, &gemm, x, hd_gpu_get_shadow(pass, impl->weight),
                           hd_gpu_get_shadow(pass, impl->bias), y);
}

/* Computes the gradient of the weights from rows of delta and of the input, and adds it to that of
 * the previous rows if `add`. */
static int multiply_weights(const struct gpu_pass *pass, const struct op *op, int64_t rows,
                            const void *delta, const void *x, bool add)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_gemm gemm = {.m = impl->out,
                                 .n = impl->in,
                                 .k = rows * impl->pixels,
                                 .ld_a = impl->out,
                                 .ld_b = impl->in,
                                 .ld_c = impl->in,
                                 .transpose_a = true,
                                 .from = get_type(pass),
                                 .to = HD_GEMM_F32,
                                 .tf32 = hd_gpu_is_tf32(pass->net),
                                 .add = add};
    return hd_gpu_multiply(pass, &gemm, delta, x, NULL, pass->gradient + impl->gradient);
}

/* Computes the gradient of the input from rows of delta. */
static int multiply_data(const struct gpu_pass *pass, const struct op *op, int64_t rows,
                         const void *delta, void *dx)
{
    const struct gpu_impl *impl = as_gpu(op);
    const struct hd_gemm gemm = {.m = rows * impl->pixels,
                                 .n = impl->in,
                                 .k = impl->out,
                                 .ld_a = impl->out,
                                 .ld_b = impl->in,
                                 .ld_c = impl->in,
                                 .from = get_type(pass),
                                 .to = get_type(pass),
                                 .tf32 = hd_gpu_is_tf32(pass->net)};
    return hd_gpu_multiply(pass, &gemm, delta, hd_gpu_get_shadow(pass, impl->weight), NULL, dx);
}

/* -- Dense layers ------------------------------------------------------------------------------ */

static int dense_forward(const struct gpu_pass *pass, const struct op *op)
{
    return multiply_forward(pass, op, pass->rows, hd_gpu_get_value(pass, op->in, 0),
                            hd_gpu_get_value(pass, op->out, 0));
}

static int dense_weights(const struct gpu_pass *pass, const struct op *op)
{
    return multiply_weights(pass, op, pass->rows, hd_gpu_get_delta(pass, op->out, 0),
                            hd_gpu_get_value(pass, op->in, 0), false);
}

static int64_t count_dense_scratch(const struct gpu_impl *impl, int64_t rows)
{
    return rows * impl->in * hd_form_get_element_bytes(&impl->base.in);
}

static int dense_data(const struct gpu_pass *pass, const struct op *op)
{
    const struct hd_gpu_delta delta = hd_gpu_make_delta(pass, op, op->in, op->adds, 0);
    void *to = op->adds ? hd_gpu_get_scratch(pass) : delta.dx;
    HD_TRY(multiply_data(pass, op, pass->rows, hd_gpu_get_delta(pass, op->out, 0), to));
    return hd_gpu_leave(pass, op->in, &delta, to);
}

const struct gpu_impl_type hd_gpu_dense = {.has_bias = true,
                                           .place = hd_gpu_place_product,
                                           .describe = hd_gpu_describe_product,
                                           .count_scratch = count_dense_scratch,
                                           .forward = dense_forward,
                                           .backward_weights = dense_weights,
                                           .backward_data = dense_data};

/* -- Convolutions: columns are made for as many rows as stay in the GPU's cache until they are
 * multiplied ----------------------------------------------------------------------------------- */

static int64_t count_row_bytes(const struct gpu_impl *impl)
{
    return impl->pixels * impl->in * hd_form_get_element_bytes(&impl->base.out);
}

/* Returns how many of `rows` rows are processed at a time. */
static int64_t count_part_rows(const struct gpu_impl *impl, int64_t rows)
{
    const int64_t some = 32 << 20, max_rows = some / count_row_bytes(impl);
    const int64_t parts = max_rows > 0 ? (rows + max_rows - 1) / max_rows : rows;
    return parts > 0 ? (rows + parts - 1) / parts : rows;
}

static int64_t count_column_bytes(const struct gpu_impl *impl, int64_t rows)
{
    return count_part_rows(impl, rows) * count_row_bytes(impl);
}

static bool is_one_part(const struct gpu_impl *impl, int64_t rows)
{
    return count_part_rows(impl, rows) == rows;
}

/* Makes columns of `rows` rows of the input from row `first` on. */
static int make_columns(const struct gpu_pass *pass, const struct op *op, int64_t first,
                        int64_t rows, void *columns)
{
    const struct gpu_impl *impl = as_gpu(op);
    const bool bf16 = hd_gpu_is_bf16(pass->net);
    if (pass->net->on_gpu.values[op->in].is_obs) {
        const struct hd_gpu_obs obs = hd_gpu_get_obs(pass);
        HD_GPU_RUN(
            pass, hd_gpu_im2col_obs(&obs, first, &impl->window, rows, bf16, columns, pass->stream));
    } else {
        HD_GPU_RUN(pass, hd_gpu_im2col(hd_gpu_get_value(pass, op->in, first), &impl->window, rows,
                                       impl->relu_in, bf16, columns, pass->stream));
    }
    return HD_OK;
}

static int conv_forward(const struct gpu_pass *pass, const struct op *op)
{
    const int64_t part = count_part_rows(as_gpu(op), pass->rows);
    void *columns = hd_gpu_get_kept(pass, op);
    for (int64_t first = 0; first < pass->rows; first += part) {
        const int64_t some = pass->rows - first < part ? pass->rows - first : part;
        HD_TRY(make_columns(pass, op, first, some, columns));
        HD_TRY(multiply_forward(pass, op, some, columns, hd_gpu_get_value(pass, op->out, first)));
    }
    return HD_OK;
}

/* Columns are those that the forward pass left, if it left all, else made again. */
static int conv_weights(const struct gpu_pass *pass, const struct op *op)
{
    const int64_t part = count_part_rows(as_gpu(op), pass->rows);
    const bool left = is_one_part(as_gpu(op), pass->forward_rows);
    void *columns = left ? hd_gpu_get_kept(pass, op) : hd_gpu_get_scratch(pass);
    for (int64_t first = 0; first < pass->rows; first += part) {
        const int64_t some = pass->rows - first < part ? pass->rows - first : part;
        if (!left)
            HD_TRY(make_columns(pass, op, first, some, columns));
        HD_TRY(multiply_weights(pass, op, some, hd_gpu_get_delta(pass, op->out, first), columns,
                                first > 0));
    }
    return HD_OK;
}

static int conv_data(const struct gpu_pass *pass, const struct op *op)
{
    const struct gpu_impl *impl = as_gpu(op);
    const int64_t part = count_part_rows(impl, pass->rows);
    void *columns = hd_gpu_get_scratch(pass);
    for (int64_t first = 0; first < pass->rows; first += part) {
        const int64_t some = pass->rows - first < part ? pass->rows - first : part;
        const struct hd_gpu_delta delta = hd_gpu_make_delta(pass, op, op->in, op->adds, first);
        HD_TRY(multiply_data(pass, op, some, hd_gpu_get_delta(pass, op->out, first), columns));
        HD_GPU_RUN(pass, hd_gpu_col2im(&delta, &impl->window, some, columns, pass->stream));
    }
    return HD_OK;
}

const struct gpu_impl_type hd_gpu_columns = {.has_bias = true,
                                             .takes_raw_obs = is_one_part,
                                             .place = hd_gpu_place_product,
                                             .describe = hd_gpu_describe_product,
                                             .count_kept = count_column_bytes,
                                             .count_scratch = count_column_bytes,
                                             .forward = conv_forward,
                                             .backward_weights = conv_weights,
                                             .backward_data = conv_data};
