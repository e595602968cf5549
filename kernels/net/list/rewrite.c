/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the walk of a device by its rules: computes activations in place of what they read, joins
 * the first layers of streams, and puts an op that converts a value before one that reads it in
 * another form. Called when a net is made. */
#include "kernels/net/list/rewrite_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

bool hd_rewrite_is_output(const struct rewrite *rewrite, int value)
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

const struct op *hd_rewrite_find_reader(const struct rewrite *rewrite, int value)
{
    const struct op *op = rewrite->from->ops;
    if (rewrite->readers[value] != 1 || hd_rewrite_is_output(rewrite, value))
        return NULL;
    while (op->in != value && op->skip != value)
        op++;
    return op;
}

/* -- Values ------------------------------------------------------------------------------------ */

static int find_conversion(const struct walk *to, int value, const struct hd_form *form)
{
    for (int i = 0; i < to->n_ops; i++)
        if (!to->ops[i].layer && to->ops[i].in == value &&
            hd_form_is_equal(&to->values[to->ops[i].out].form, form))
            return to->ops[i].out;
    return NO_VALUE;
}

int hd_rewrite_convert(struct rewrite *rewrite, int value, struct hd_form form, int level)
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
    other = hd_walk_add_value(to, &form);
    to->values[other].is_obs = to->values[value].is_obs;
    to->ops[to->n_ops++] = (struct op){.in = value, .skip = NO_VALUE, .out = other, .level = level};
    return other;
}

/* -- Streams ----------------------------------------------------------------------------------- */

bool hd_rewrite_ends_stream(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *next = hd_rewrite_find_reader(rewrite, op->out);
    return hd_rewrite_is_output(rewrite, op->out) ||
           (next && next->layer->type == &hd_layer_log_std &&
            hd_rewrite_is_output(rewrite, next->out));
}

const struct op *hd_rewrite_find_activation(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *next = hd_rewrite_find_reader(rewrite, op->out);
    const bool one = next && next->skip == NO_VALUE && next->layer->type->activate;
    return one && rewrite->rules->activates(rewrite, op, next) ? next : NULL;
}

/* Returns the last layer of a stream that begins with this op and has one hidden layer, which ends
 * in the same activation as `like`, or in any if that is NULL. */
static const struct op *find_end(const struct rewrite *rewrite, const struct op *op,
                                 const struct op *like)
{
    const struct op *activation = hd_rewrite_find_activation(rewrite, op);
    const struct op *end = hd_rewrite_find_reader(rewrite, activation ? activation->out : op->out);
    if (!end || end->layer->type != &hd_layer_dense || !hd_rewrite_ends_stream(rewrite, end))
        return NULL;
    const struct op *other = like ? hd_rewrite_find_activation(rewrite, like) : activation;
    const bool same =
        activation && other ? activation->layer->type == other->layer->type : !activation && !other;
    return same ? end : NULL;
}

bool hd_rewrite_is_of_actions(const struct rewrite *rewrite, const struct op *op)
{
    const struct op *end = find_end(rewrite, op, NULL);
    const struct op *next = hd_rewrite_find_reader(rewrite, end->out);
    return (next ? next : end)->out == rewrite->from->of_actions;
}

const struct op *hd_rewrite_find_joined(const struct rewrite *rewrite, const struct op *op)
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

/* -- Ops --------------------------------------------------------------------------------------- */

const struct hd_layer_type *hd_rewrite_note_made(struct rewrite *rewrite, const struct op *op,
                                                 int value)
{
    const struct op *activation = hd_rewrite_find_activation(rewrite, op);
    rewrite->made[op->out] = value;
    rewrite->done[op - rewrite->from->ops] = true;
    if (!activation)
        return NULL;
    rewrite->made[activation->out] = value;
    rewrite->done[activation - rewrite->from->ops] = true;
    return activation->layer->type;
}

void hd_rewrite_find_part(const struct rewrite *rewrite, const struct op *op, struct op *made)
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

/* -- All of it --------------------------------------------------------------------------------- */

static int rewrite_all(struct rewrite *rewrite)
{
    const struct walk *from = rewrite->from;
    count_readers(rewrite);
    for (int i = 0; i < rewrite->net->base.list.n_inputs; i++)
        rewrite->rules->add_obs(rewrite, i);
    for (int i = 0; i < from->n_ops; i++)
        if (!rewrite->done[i])
            HD_TRY(rewrite->rules->add_op(rewrite, &from->ops[i]));
    HD_TRY(rewrite->rules->end(rewrite));
    return hd_walk_find_added(rewrite->to);
}

int hd_rewrite_make(struct list_net *net, const struct rewrite_rules *rules, struct walk *to)
{
    const struct walk *from = &net->plain;
    const int64_t most = 3 * (int64_t)from->n_values + 2; /* an op may convert two values */
    struct rewrite rewrite = {.net = net,
                              .rules = rules,
                              .from = from,
                              .to = to,
                              .readers = hd_alloc(from->n_values, sizeof *rewrite.readers),
                              .made = hd_alloc(from->n_values, sizeof *rewrite.made),
                              .done = hd_alloc(from->n_values, sizeof *rewrite.done)};
    int status = hd_walk_allocate(to, most, most);
    if (!rewrite.readers || !rewrite.made || !rewrite.done)
        status = HD_ERR_NOMEM;
    if (status == HD_OK)
        status = rewrite_all(&rewrite);
    hd_free(rewrite.readers);
    hd_free(rewrite.made);
    hd_free(rewrite.done);
    return status;
}
