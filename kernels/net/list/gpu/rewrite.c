/* SPDX-License-Identifier: Apache-2.0 */
/* The rules by which GPUs' walks are made: convolutions and dense layers are products, with their
 * bias and ReLU; the output layers of all streams are one op; a convolution rectifies what it
 * reads itself where nothing else reads that. */
#include "kernels/net/list/gpu/on_gpu_internal.h"
#include "kernels/net/list/rewrite_internal.h"
#include "runtime/base/alloc.h"

static bool is_bf16(const struct rewrite *rewrite)
{
    return hd_gpu_is_bf16(rewrite->net);
}

/* -- Observations ------------------------------------------------------------------------------ */

/* An embedding and output layers read floats. */
static bool reads_floats(const struct rewrite *rewrite, const struct op *op)
{
    return op->layer->type == &hd_layer_embedding || hd_rewrite_ends_stream(rewrite, op);
}

/* An observation has the order of its shape, whatever that is. */
static void add_obs(struct rewrite *rewrite, int value)
{
    const struct hd_net_input *input = &rewrite->net->base.list.inputs[value];
    struct hd_form form = hd_form_make_rows(&input->shape);
    form.ld = hd_gpu_fill_up(form.ld);
    form.bf16 = is_bf16(rewrite);
    for (int i = 0; i < rewrite->from->n_ops; i++)
        if (rewrite->from->ops[i].in == value && reads_floats(rewrite, &rewrite->from->ops[i]))
            form.bf16 = false;
    rewrite->made[value] = hd_walk_add_value(rewrite->to, &form);
    rewrite->to->values[value].is_obs = true;
}

/* -- Rules ------------------------------------------------------------------------------------- */

static bool is_product(const struct op *op)
{
    return op->layer->type == &hd_layer_conv || op->layer->type == &hd_layer_dense;
}

static bool activates(const struct rewrite *rewrite, const struct op *op, const struct op *next)
{
    return is_product(op) && !hd_rewrite_ends_stream(rewrite, op) &&
           next->layer->type == &hd_layer_relu;
}

/* Returns whether an op is a ReLU that the convolution behind it computes as it reads. */
static bool is_read_rectified(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *next = op ? hd_rewrite_find_reader(rewrite, op->out) : NULL;
    const struct op *before = op ? hd_walk_find_writer(rewrite->from, op->in) : NULL;
    return next && before && op->layer->type == &hd_layer_relu && next->skip == NO_VALUE &&
           next->layer->type == &hd_layer_conv && hd_rewrite_find_activation(rewrite, before) != op;
}

/* Returns whether output layers alone read a dense layer's result, which then is floats. */
static bool is_read_by_outputs(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *activation = hd_rewrite_find_activation(rewrite, op);
    const int value = activation ? activation->out : op->out;
    for (int i = 0; i < rewrite->from->n_ops; i++) {
        const struct op *reader = &rewrite->from->ops[i];
        if (reader->skip == value ||
            (reader->in == value &&
             !(reader->layer->type == &hd_layer_dense && hd_rewrite_ends_stream(rewrite, reader))))
            return false;
    }
    return true;
}

static const struct gpu_impl_type *find_type(const struct op *op)
{
    return op->skip != NO_VALUE                 ? &hd_gpu_residuals
           : op->layer->type == &hd_layer_conv  ? &hd_gpu_columns
           : op->layer->type == &hd_layer_dense ? &hd_gpu_dense
                                                : &hd_gpu_layers;
}

/* -- Forms ------------------------------------------------------------------------------------- */

/* Returns the form of values of a shape: images as NHWC. */
static struct hd_form make_form(const struct hd_shape *shape, bool bf16)
{
    struct hd_form form = hd_form_make_rows(shape);
    form.layout = shape->dims == 3 ? HD_NHWC : HD_NCHW;
    form.ld =
        shape->dims == 3 ? form.plane * hd_gpu_fill_up(form.channels) : hd_gpu_fill_up(form.ld);
    form.bf16 = bf16;
    return form;
}

/* Returns the form that an op takes its input in. */
static struct hd_form choose_in(const struct rewrite *rewrite, const struct op *op)
{
    const struct value *is = &rewrite->to->values[rewrite->made[op->in]];
    struct hd_form form = is->form;
    if (op->layer->type == &hd_layer_conv && is->is_obs)
        return form;
    if (op->layer->in.dims == 3)
        form = make_form(&op->layer->in, false);
    form.bf16 = op->layer->type != &hd_layer_embedding && is_bf16(rewrite);
    return form;
}

/* An elementwise layer keeps the order of what it reads. */
static struct hd_form choose_out(const struct rewrite *rewrite, const struct op *op,
                                 const struct hd_form *in)
{
    const bool floats = op->layer->type == &hd_layer_dense && is_read_by_outputs(rewrite, op);
    if (op->layer->type != &hd_layer_conv && op->layer->type != &hd_layer_dense &&
        hd_shape_is_equal(&op->layer->in, &op->layer->out))
        return *in;
    return make_form(&op->layer->out, is_bf16(rewrite) && !floats);
}

/* -- Ops --------------------------------------------------------------------------------------- */

static struct gpu_impl *make_impl(const struct gpu_impl_type *type, struct op *op)
{
    struct gpu_impl *impl = hd_alloc(1, sizeof *impl);
    if (impl)
        impl->base = (struct hd_impl){.type = &type->base, .layer = op->layer, .blocks = 1};
    op->impl = &impl->base;
    return impl;
}

static void add_made(struct rewrite *rewrite, const struct op *made)
{
    rewrite->to->ops[rewrite->to->n_ops++] = *made;
}

/* Gives the conversions from op number `first` on their implementations. */
static int complete_conversions(struct rewrite *rewrite, int first)
{
    for (int i = first; i < rewrite->to->n_ops; i++)
        if (!make_impl(&hd_gpu_conversions, &rewrite->to->ops[i]))
            return HD_ERR_NOMEM;
    return HD_OK;
}

/* Two hidden layers side by side are one product. */
static void size_dense(const struct hd_layer *joined, int64_t ld, struct hd_form *out,
                       struct gpu_impl *impl)
{
    impl->base.joined = joined;
    if (joined) {
        out->channels += joined->out.size[0];
        out->ld = hd_gpu_fill_up(out->channels);
    }
    impl->in = ld;
    impl->out = out->ld;
    impl->pixels = 1;
}

/* Chooses between first convolutions without columns, where first_conv.h supports them, and those
 * with columns. Neither way has been measured on a GPU. */
enum { DIRECT_FIRST_CONV = 1 };

static bool is_direct(const struct rewrite *rewrite, const struct op *op,
                      const struct gpu_impl *impl)
{
    const struct hd_net *base = &rewrite->net->base;
    return DIRECT_FIRST_CONV && is_bf16(rewrite) && base->obs_u8 && rewrite->readers[op->in] == 1 &&
           hd_rewrite_find_activation(rewrite, op) && hd_gpu_first_conv_supports(&impl->window);
}

static void size_op(const struct rewrite *rewrite, const struct op *op,
                    const struct hd_layer *joined, const struct hd_form *in, struct hd_form *out,
                    struct gpu_impl *impl)
{
    const struct value *value = &rewrite->to->values[rewrite->made[op->in]];
    if (op->layer->type == &hd_layer_dense)
        size_dense(joined, in->ld, out, impl);
    if (op->layer->type != &hd_layer_conv)
        return;
    hd_gpu_size_conv(in, value->is_obs, out, impl);
    impl->relu_in = is_read_rectified(rewrite, hd_walk_find_writer(rewrite->from, op->in));
    if (value->is_obs && is_direct(rewrite, op, impl))
        impl->base.type = &hd_gpu_direct.base;
}

/* Adds an op whose input is of this form, and perhaps the first layer of another stream to it. */
static int add_layer(struct rewrite *rewrite, const struct op *op, const struct op *joined)
{
    struct walk *to = rewrite->to;
    const bool actions_last = joined && hd_rewrite_is_of_actions(rewrite, joined);
    const struct op *first = actions_last ? joined : op, *second = actions_last ? op : joined;
    const struct hd_form in = choose_in(rewrite, op);
    struct hd_form out = choose_out(rewrite, first, &in);
    struct op made = *first;
    const int conversions = to->n_ops;
    struct gpu_impl *impl = make_impl(find_type(op), &made);
    if (!impl)
        return HD_ERR_NOMEM;
    size_op(rewrite, op, second ? second->layer : NULL, &in, &out, impl);
    made.in = hd_rewrite_convert(rewrite, rewrite->made[op->in], in, op->level);
    if (op->skip != NO_VALUE)
        made.skip = hd_rewrite_convert(rewrite, rewrite->made[op->skip], in, op->level);
    impl->base.in = in;
    impl->base.out = out;
    made.out = hd_walk_add_value(to, &out);
    made.activation = hd_rewrite_note_made(rewrite, op, made.out);
    impl->base.relu = made.activation != NULL;
    if (joined)
        hd_rewrite_note_made(rewrite, joined, made.out);
    const int status = complete_conversions(rewrite, conversions);
    add_made(rewrite, &made);
    return status;
}

static int add_op(struct rewrite *rewrite, const struct op *op)
{
    if (op->layer->type == &hd_layer_log_std ||
        (op->layer->type == &hd_layer_dense && hd_rewrite_ends_stream(rewrite, op)))
        return HD_OK; /* of the last op */
    if (is_read_rectified(rewrite, op)) {
        rewrite->made[op->out] = rewrite->made[op->in];
        return HD_OK;
    }
    const bool dense = op->layer->type == &hd_layer_dense;
    return add_layer(rewrite, op, dense ? hd_rewrite_find_joined(rewrite, op) : NULL);
}

/* -- Output layers ----------------------------------------------------------------------------- */

/* Adds the last layer of the stream that ends in a value. Stores what it reads, in `made`. */
static void add_stream(struct rewrite *rewrite, int value, struct op *made, struct gpu_impl *impl)
{
    const struct op *op = hd_walk_find_writer(rewrite->from, value);
    struct gpu_stream *stream = &impl->streams[impl->base.biases > 0];
    if (op->layer->type == &hd_layer_log_std) {
        impl->log_std = op->layer;
        op = hd_walk_find_writer(rewrite->from, op->in);
    }
    struct hd_form form = rewrite->to->values[rewrite->made[op->in]].form;
    form.bf16 = false;
    made->in = hd_rewrite_convert(rewrite, rewrite->made[op->in], form, op->level);
    made->offset = 0;
    made->part = false;
    hd_rewrite_find_part(rewrite, op, made);
    *stream = (struct gpu_stream){.layer = op->layer,
                                  .value = made->in,
                                  .from = made->offset,
                                  .width = made->part ? op->layer->in.size[0] : form.ld,
                                  .first = (int32_t)impl->base.biases};
    stream->end = stream->first + (int32_t)op->layer->out.size[0];
    impl->base.biases += op->layer->out.size[0] * (impl->log_std && stream->first == 0 ? 2 : 1);
    made->layer = op->layer;
}

static int add_outputs(struct rewrite *rewrite)
{
    const struct walk *from = rewrite->from;
    const int conversions = rewrite->to->n_ops;
    struct op made = {.skip = NO_VALUE, .out = NO_VALUE};
    struct gpu_impl *impl = make_impl(&hd_gpu_output_layers, &made);
    if (!impl)
        return HD_ERR_NOMEM;
    add_stream(rewrite, from->of_actions, &made, impl);
    if (from->of_value != NO_VALUE) {
        const struct op actions = made;
        add_stream(rewrite, from->of_value, &made, impl);
        made.skip = made.in;
        made.in = actions.in;
    }
    const int status = complete_conversions(rewrite, conversions);
    impl->base.layer = made.layer;
    add_made(rewrite, &made);
    return status;
}

int hd_list_rewrite_cuda(struct list_net *net)
{
    static const struct rewrite_rules rules = {
        .activates = activates, .add_obs = add_obs, .add_op = add_op, .end = add_outputs};
    if (hd_net_find_cpu_layer(&net->base))
        return HD_OK;
    HD_TRY(hd_rewrite_make(net, &rules, &net->on_gpu));
    hd_gpu_take_places(net);
    return HD_OK;
}
