/* SPDX-License-Identifier: Apache-2.0 */
/* The rules by which CPUs' walks are made: chooses for each layer an implementation and for each
 * value a form. */
#include "kernels/net/list/rewrite_internal.h"
#include "runtime/base/status.h"

/* -- Forms ------------------------------------------------------------------------------------- */

/* Returns the form that an op without an implementation takes its input in. */
static struct hd_form choose_form(const struct op *op, const struct hd_form *in)
{
    const struct hd_layer_type *type = op->layer->type;
    struct hd_form form = hd_form_make_rows(&op->layer->in);
    if (op->skip != NO_VALUE || type->form == HD_FORM_ANY)
        form = *in;
    else if (type->takes_layouts && !in->columns && !hd_form_is_in_order(in))
        form = *in;
    else if (type->takes_layouts)
        form.layout = HD_NHWC;
    else
        form.columns = type->form == HD_FORM_COLUMNS && op->layer->in.dims == 1 &&
                       !(type->keeps_rows && op->layer->bf16 && !in->columns);
    if (op->skip == NO_VALUE && !type->takes_bf16)
        form.bf16 = false;
    return form;
}

/* Returns the form of what it makes of that. */
static struct hd_form choose_out(const struct op *op, const struct hd_form *in)
{
    struct hd_form out = *in;
    const struct hd_form rows = hd_form_make_rows(&op->layer->out);
    if (op->skip != NO_VALUE || hd_shape_is_equal(&op->layer->in, &op->layer->out))
        return out;
    out.channels = rows.channels;
    out.plane = rows.plane;
    out.ld = hd_form_count(&out);
    return out;
}

/* An array of the observation is taken as columns if every reader can have it so. */
static bool takes_columns(const struct rewrite *rewrite, int value)
{
    const struct hd_net *base = &rewrite->net->base;
    const struct hd_net_input *input = &base->list.inputs[value];
    struct hd_form columns = hd_form_make_rows(&input->shape);
    bool all = input->shape.dims == 1 && !input->u8 && !base->bf16;
    columns.columns = true;
    for (int i = 0; i < rewrite->from->n_ops; i++)
        if (rewrite->from->ops[i].in == value)
            all &= choose_form(&rewrite->from->ops[i], &columns).columns;
    return all;
}

static void add_obs(struct rewrite *rewrite, int value)
{
    const struct hd_shape *obs = &rewrite->net->base.list.inputs[value].shape;
    struct hd_form form = hd_form_make_rows(obs);
    form.columns = takes_columns(rewrite, value);
    rewrite->net->frames[value] = (struct hd_frames){.channels = obs->size[0],
                                                     .height = obs->dims == 3 ? obs->size[1] : 1,
                                                     .width = obs->dims == 3 ? obs->size[2] : 1,
                                                     .block = 1,
                                                     .layout = HD_NCHW};
    rewrite->made[value] = hd_walk_add_value(rewrite->to, &form);
    rewrite->to->values[value].is_obs = true;
}

/* -- Implementations --------------------------------------------------------------------------- */

/* Returns whether a value comes from a layer with an implementation that writes rows, perhaps
 * through layers that keep the form. */
static bool is_packed(const struct rewrite *rewrite, int value)
{
    const struct walk *to = rewrite->to;
    for (int i = to->n_ops - 1; i >= 0; i--)
        if (to->ops[i].out == value)
            return to->ops[i].impl ||
                   (to->ops[i].layer && to->ops[i].layer->type->form == HD_FORM_ANY &&
                    is_packed(rewrite, to->ops[i].in));
    return false;
}

/* Returns whether a dense layer reads rows: of an image, of another such layer, or in bf16. */
static bool reads_rows(const struct rewrite *rewrite, const struct op *op)
{
    const int in = rewrite->made[op->in];
    const struct hd_form *form = &rewrite->to->values[in].form;
    if (op->layer->type != &hd_layer_dense)
        return false;
    if (rewrite->net->base.bf16)
        return true;
    return !form->columns && (!hd_form_is_in_order(form) || is_packed(rewrite, in));
}

/* Returns whether an op may write bf16, in whose place no activation is computed. */
static bool is_narrow(const struct rewrite *rewrite, const struct op *op)
{
    const struct hd_layer_type *type = op->layer->type;
    return rewrite->net->base.bf16 &&
           (op->skip != NO_VALUE || type->takes_bf16 || type == &hd_layer_conv);
}

/* Convolutions have ReLUs of their own. A concat may not be the last that writes its output. */
static bool activates(const struct rewrite *rewrite, const struct op *op, const struct op *next)
{
    const bool own = op->layer->type == &hd_layer_conv && next->layer->type == &hd_layer_relu;
    return op->layer->type != &hd_layer_concat && (own || !is_narrow(rewrite, op));
}

static struct hd_impl_fields describe(const struct rewrite *rewrite, const struct op *op)
{
    const int in = rewrite->made[op->in];
    const struct op *activation = hd_rewrite_find_activation(rewrite, op);
    return (struct hd_impl_fields){.layer = op->layer,
                                   .in = rewrite->to->values[in].form,
                                   .obs = in < rewrite->net->base.list.n_inputs &&
                                          rewrite->readers[in] == 1,
                                   .relu = activation && activation->layer->type == &hd_layer_relu,
                                   .bf16 = rewrite->net->base.bf16};
}

static int make_output(struct hd_impl_fields *fields, struct hd_impl **impl_p)
{
    if (fields->in.columns || !hd_form_is_in_order(&fields->in))
        fields->in = hd_form_make_rows(&fields->layer->in);
    return hd_impl_create_output(fields, impl_p);
}

/* Makes the implementation of an op that has one; else *impl_p remains NULL. */
static int make_impl(struct rewrite *rewrite, const struct op *op, const struct op *joined,
                     struct hd_impl **impl_p)
{
    struct hd_impl_fields fields = describe(rewrite, op);
    fields.joined = joined ? joined->layer : NULL;
    if (op->layer->type == &hd_layer_conv)
        return hd_impl_create_conv(&fields, impl_p);
    if (!reads_rows(rewrite, op))
        return HD_OK;
    return hd_rewrite_ends_stream(rewrite, op) ? make_output(&fields, impl_p)
                                               : hd_impl_create_packed(&fields, impl_p);
}

/* An array of the observation is made as its only reader wants it. */
static void take_frames(struct rewrite *rewrite, int value, const struct hd_impl *impl)
{
    rewrite->net->frames[value] = impl->frames;
    hd_walk_change_form(rewrite->to, value, &impl->in);
}

/* -- Ops --------------------------------------------------------------------------------------- */

/* Inputs that are joined write one value, which the first of them makes. */
static int find_out(struct rewrite *rewrite, const struct op *op, const struct hd_form *form)
{
    const struct hd_layer *layer = op->layer;
    const bool more = layer->type == &hd_layer_concat && layer->fields[HD_CONCAT_FIRST] > 0;
    return more ? rewrite->made[op->out] : hd_walk_add_value(rewrite->to, form);
}

static int add_op(struct rewrite *rewrite, const struct op *op)
{
    struct walk *to = rewrite->to;
    struct op made = *op;
    const bool hidden = reads_rows(rewrite, op) && !hd_rewrite_ends_stream(rewrite, op);
    const struct op *joined = hidden ? hd_rewrite_find_joined(rewrite, op) : NULL;
    const struct op *first = joined && hd_rewrite_is_of_actions(rewrite, joined) ? joined : op;
    HD_TRY(make_impl(rewrite, first, joined == first ? op : joined, &made.impl));
    made.layer = first->layer;
    if (made.impl && made.impl->frames.channels > 0)
        take_frames(rewrite, rewrite->made[op->in], made.impl);
    const struct hd_form *is = &to->values[rewrite->made[op->in]].form;
    const struct hd_form in = made.impl ? made.impl->in : choose_form(op, is);
    const struct hd_form out = made.impl ? made.impl->out : choose_out(op, &in);
    made.in = hd_rewrite_convert(rewrite, rewrite->made[op->in], in, op->level);
    if (op->skip != NO_VALUE)
        made.skip = hd_rewrite_convert(rewrite, rewrite->made[op->skip], in, op->level);
    made.out = find_out(rewrite, op, &out);
    hd_rewrite_find_part(rewrite, op, &made);
    made.activation = hd_rewrite_note_made(rewrite, op, made.out);
    if (joined)
        hd_rewrite_note_made(rewrite, joined, made.out);
    to->ops[to->n_ops++] = made;
    return HD_OK;
}

/* -- Masks ------------------------------------------------------------------------------------- */

static bool can_mask(const struct op *op)
{
    return op->impl || (op->layer && op->layer->type->adds);
}

/* Returns whether all ops that read a value can mask by it, and streams do not. */
static bool is_masked_by_readers(const struct walk *walk, int value)
{
    if (value == walk->of_actions || value == walk->of_value)
        return false;
    for (int i = 0; i < walk->n_ops; i++)
        if (walk->ops[i].skip == value || (walk->ops[i].in == value && !can_mask(&walk->ops[i])))
            return false;
    return true;
}

static void choose_masks(struct walk *walk)
{
    for (int i = 0; i < walk->n_ops; i++)
        walk->ops[i].masked = walk->ops[i].activation == &hd_layer_relu &&
                              is_masked_by_readers(walk, walk->ops[i].out);
    for (int i = 0; i < walk->n_ops; i++)
        for (int j = 0; j < walk->n_ops; j++)
            walk->ops[j].masks |= walk->ops[i].masked && walk->ops[j].in == walk->ops[i].out;
}

/* -- All of it --------------------------------------------------------------------------------- */

/* Streams end in columns of floats. */
static int convert_output(struct rewrite *rewrite, int value)
{
    if (value == NO_VALUE)
        return NO_VALUE;
    struct hd_form form = rewrite->to->values[rewrite->made[value]].form;
    form.columns = true;
    form.layout = HD_NCHW;
    form.bf16 = false;
    return hd_rewrite_convert(rewrite, rewrite->made[value], form, rewrite->net->base.levels);
}

static int finish(struct rewrite *rewrite)
{
    rewrite->to->of_actions = convert_output(rewrite, rewrite->from->of_actions);
    rewrite->to->of_value = convert_output(rewrite, rewrite->from->of_value);
    choose_masks(rewrite->to);
    return HD_OK;
}

int hd_list_rewrite(struct list_net *net)
{
    static const struct rewrite_rules rules = {
        .activates = activates, .add_obs = add_obs, .add_op = add_op, .end = finish};
    return hd_rewrite_make(net, &rules, &net->on_cpu);
}
