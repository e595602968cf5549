/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the walk of CPUs: chooses for each layer an implementation and for each value a form,
 * computes activations in place of what they read, joins the first layers of streams, and puts an
 * op that converts a value before one that reads it in another form. Called when a net is made. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

struct rewrite {
    struct list_net *net;
    const struct walk *from;
    struct walk *to;
    int *readers; /* [values of `from`]: ops and streams that read them */
    int *made;    /* [values of `from`]: their numbers in `to` */
    bool *done;   /* [ops of `from`]: they are a part of an op that is made */
};

static bool is_output(const struct rewrite *rewrite, int value)
{
    return value == rewrite->from->of_actions || value == rewrite->from->of_value;
}

static void count_readers(struct rewrite *rewrite)
{
    const struct walk *from = rewrite->from;
    for (int i = 0; i < from->n_ops; i++) {
        rewrite->readers[from->ops[i].in]++;
        if (from->ops[i].skip != NO_VALUE)
            rewrite->readers[from->ops[i].skip]++;
    }
    rewrite->readers[from->of_actions]++;
    if (from->of_value != NO_VALUE)
        rewrite->readers[from->of_value]++;
}

/* Returns the only op that reads a value; NULL: there are more, or a stream ends in it. */
static const struct op *find_reader(const struct rewrite *rewrite, int value)
{
    const struct op *op = rewrite->from->ops;
    if (rewrite->readers[value] != 1 || is_output(rewrite, value))
        return NULL;
    while (op->in != value && op->skip != value)
        op++;
    return op;
}

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
        form.columns = type->form == HD_FORM_COLUMNS && op->layer->in.dims == 1;
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

static int add_value(struct rewrite *rewrite, const struct hd_form *form)
{
    return hd_walk_add_value(rewrite->to, form);
}

static int find_conversion(const struct walk *to, int value, const struct hd_form *form)
{
    for (int i = 0; i < to->n_ops; i++)
        if (!to->ops[i].layer && to->ops[i].in == value &&
            hd_form_is_equal(&to->values[to->ops[i].out].form, form))
            return to->ops[i].out;
    return NO_VALUE;
}

/* Returns a value in the wanted form; `level` is that of the op that wants it. */
static int convert(struct rewrite *rewrite, int value, struct hd_form form, int level)
{
    struct walk *to = rewrite->to;
    const struct hd_form *is = &to->values[value].form;
    form.channels = is->channels; /* a flattened image has its own */
    form.plane = is->plane;
    if (hd_form_is_equal(is, &form))
        return value;
    int other = find_conversion(to, value, &form);
    if (other != NO_VALUE)
        return other;
    other = add_value(rewrite, &form);
    to->values[other].is_obs = to->values[value].is_obs;
    to->ops[to->n_ops++] = (struct op){.in = value, .skip = NO_VALUE, .out = other, .level = level};
    return other;
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
    rewrite->made[value] = add_value(rewrite, &form);
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

/* Returns whether a layer is the last one of a stream, but for standard deviations. */
static bool ends_stream(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *next = find_reader(rewrite, op->out);
    return is_output(rewrite, op->out) ||
           (next && next->layer->type == &hd_layer_log_std && is_output(rewrite, next->out));
}

/* Returns whether an op may write bf16, in whose place no activation is computed. */
static bool is_narrow(const struct rewrite *rewrite, const struct op *op)
{
    const struct hd_layer_type *type = op->layer->type;
    return rewrite->net->base.bf16 &&
           (op->skip != NO_VALUE || type->takes_bf16 || type == &hd_layer_conv);
}

/* Returns the activation that is computed in place of the op's output; convolutions have ReLUs of
 * their own. */
static const struct op *find_activation(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *next = find_reader(rewrite, op->out);
    if (!next || next->skip != NO_VALUE || !next->layer->type->activate ||
        op->layer->type == &hd_layer_concat) /* which may not be the last that writes its output */
        return NULL;
    const bool own = op->layer->type == &hd_layer_conv && next->layer->type == &hd_layer_relu;
    return own || !is_narrow(rewrite, op) ? next : NULL;
}

/* Returns the last layer of a stream that begins with this op and has one hidden layer, which ends
 * in the same activation as `like`, or in any if that is NULL. */
static const struct op *find_end(const struct rewrite *rewrite, const struct op *op,
                                 const struct op *like)
{
    const struct op *activation = find_activation(rewrite, op);
    const struct op *end = find_reader(rewrite, activation ? activation->out : op->out);
    if (!end || end->layer->type != &hd_layer_dense || !ends_stream(rewrite, end))
        return NULL;
    const struct op *other = like ? find_activation(rewrite, like) : activation;
    const bool same =
        activation && other ? activation->layer->type == other->layer->type : !activation && !other;
    return same ? end : NULL;
}

static bool is_of_actions(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *end = find_end(rewrite, op, NULL);
    const struct op *next = find_reader(rewrite, end->out);
    return (next ? next : end)->out == rewrite->from->of_actions;
}

/* Returns the first layer of the other stream if both are computed as one. */
static const struct op *find_joined(const struct rewrite *rewrite, const struct op *op)
{
    if (!find_end(rewrite, op, NULL))
        return NULL;
    for (int i = (int)(op - rewrite->from->ops) + 1; i < rewrite->from->n_ops; i++) {
        const struct op *other = &rewrite->from->ops[i];
        if (other->in == op->in && other->layer->type == &hd_layer_dense &&
            find_end(rewrite, other, op))
            return other;
    }
    return NULL;
}

static struct hd_impl_fields describe(const struct rewrite *rewrite, const struct op *op)
{
    const int in = rewrite->made[op->in];
    const struct op *activation = find_activation(rewrite, op);
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
    return ends_stream(rewrite, op) ? make_output(&fields, impl_p)
                                    : hd_impl_create_packed(&fields, impl_p);
}

/* An array of the observation is made as its only reader wants it. */
static void take_frames(struct rewrite *rewrite, int value, const struct hd_impl *impl)
{
    rewrite->net->frames[value] = impl->frames;
    hd_walk_change_form(rewrite->to, value, &impl->in);
}

/* -- Ops --------------------------------------------------------------------------------------- */

/* Notes that an op is made, and the activation behind it, in the value that they write. Returns the
 * activation's type; NULL: there is none. */
static const struct hd_layer_type *note_made(struct rewrite *rewrite, const struct op *op,
                                             int value)
{
    const struct op *activation = find_activation(rewrite, op);
    rewrite->made[op->out] = value;
    rewrite->done[op - rewrite->from->ops] = true;
    if (!activation)
        return NULL;
    rewrite->made[activation->out] = value;
    rewrite->done[activation - rewrite->from->ops] = true;
    return activation->layer->type;
}

/* Finds the part of a joined value that an op reads. */
static void find_part(const struct rewrite *rewrite, const struct op *op, struct op *made)
{
    const struct walk *to = rewrite->to;
    for (int i = 0; i < to->n_ops; i++) {
        const struct hd_impl *impl = to->ops[i].impl;
        if (to->ops[i].out != made->in || !impl || !impl->joined)
            continue;
        made->part = true;
        const struct op *before = rewrite->from->ops;
        while (before->layer != impl->joined)
            before++;
        if (find_end(rewrite, before, NULL) == op)
            made->offset = impl->layer->out.size[0];
    }
}

/* Inputs that are joined write one value, which the first of them makes. */
static int find_out(struct rewrite *rewrite, const struct op *op, const struct hd_form *form)
{
    const struct hd_layer *layer = op->layer;
    const bool more = layer->type == &hd_layer_concat && layer->fields[HD_CONCAT_FIRST] > 0;
    return more ? rewrite->made[op->out] : add_value(rewrite, form);
}

static int add_op(struct rewrite *rewrite, const struct op *op)
{
    struct walk *to = rewrite->to;
    struct op made = *op;
    const bool hidden = reads_rows(rewrite, op) && !ends_stream(rewrite, op);
    const struct op *joined = hidden ? find_joined(rewrite, op) : NULL;
    const struct op *first = joined && is_of_actions(rewrite, joined) ? joined : op;
    HD_TRY(make_impl(rewrite, first, joined == first ? op : joined, &made.impl));
    made.layer = first->layer;
    if (made.impl && made.impl->frames.channels > 0)
        take_frames(rewrite, rewrite->made[op->in], made.impl);
    const struct hd_form *is = &to->values[rewrite->made[op->in]].form;
    const struct hd_form in = made.impl ? made.impl->in : choose_form(op, is);
    const struct hd_form out = made.impl ? made.impl->out : choose_out(op, &in);
    made.in = convert(rewrite, rewrite->made[op->in], in, op->level);
    if (op->skip != NO_VALUE)
        made.skip = convert(rewrite, rewrite->made[op->skip], in, op->level);
    made.out = find_out(rewrite, op, &out);
    find_part(rewrite, op, &made);
    made.activation = note_made(rewrite, op, made.out);
    if (joined)
        note_made(rewrite, joined, made.out);
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
    return convert(rewrite, rewrite->made[value], form, rewrite->net->base.levels);
}

static int rewrite_all(struct rewrite *rewrite)
{
    const struct walk *from = rewrite->from;
    struct walk *to = rewrite->to;
    count_readers(rewrite);
    for (int i = 0; i < rewrite->net->base.list.n_inputs; i++)
        add_obs(rewrite, i);
    for (int i = 0; i < from->n_ops; i++)
        if (!rewrite->done[i])
            HD_TRY(add_op(rewrite, &from->ops[i]));
    to->of_actions = convert_output(rewrite, from->of_actions);
    to->of_value = convert_output(rewrite, from->of_value);
    choose_masks(to);
    return HD_OK;
}

int hd_list_rewrite(struct list_net *net)
{
    const struct walk *from = &net->plain;
    const int64_t most = 3 * (int64_t)from->n_values + 2; /* an op may convert two values */
    struct rewrite rewrite = {.net = net,
                              .from = from,
                              .to = &net->on_cpu,
                              .readers = hd_alloc(from->n_values, sizeof *rewrite.readers),
                              .made = hd_alloc(from->n_values, sizeof *rewrite.made),
                              .done = hd_alloc(from->n_values, sizeof *rewrite.done)};
    int status = hd_walk_allocate(&net->on_cpu, most, most);
    if (!rewrite.readers || !rewrite.made || !rewrite.done)
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        status = rewrite_all(&rewrite);
    hd_free(rewrite.readers);
    hd_free(rewrite.made);
    hd_free(rewrite.done);
    return status;
}
