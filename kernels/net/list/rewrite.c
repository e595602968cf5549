/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the walk of CPUs: activations are computed in place of what they read, vectors are columns,
 * and where a layer needs the other form of a value, an op makes it. Called when a net is made. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

struct rewrite {
    const struct walk *from;
    struct walk *to;
    int *readers; /* [values of `from`]: ops and streams that read them */
    int *made;    /* [values of `from`]: their numbers in `to` */
    int *other;   /* [values of `to`]: the same in the other form, or NO_VALUE */
};

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

/* -- Forms ------------------------------------------------------------------------------------- */

/* Returns whether an op takes columns, given that its input is as it is. */
static bool wants_columns(const struct op *op, bool columns)
{
    const enum hd_layer_form form = op->layer->type->form;
    if (op->skip != NO_VALUE || form == HD_FORM_ANY)
        return columns;
    return form == HD_FORM_COLUMNS && op->layer->in.dims == 1;
}

/* Observations are taken as columns if every reader can have them so. */
static bool takes_columns(const struct hd_net *base, const struct walk *from)
{
    bool all = base->list.obs.dims == 1 && !base->obs_u8;
    for (int i = 0; i < from->n_ops; i++)
        if (from->ops[i].in == OBS)
            all &= wants_columns(&from->ops[i], true);
    return all;
}

static int add_value(struct rewrite *rewrite, int64_t elements, bool columns)
{
    const int value = hd_walk_add_value(rewrite->to, elements, columns);
    rewrite->other[value] = NO_VALUE;
    return value;
}

/* Returns a value in the wanted form, for an op that begins in the flat array where `before` does.
 */
static int convert(struct rewrite *rewrite, int value, bool columns, const struct op *before)
{
    struct walk *to = rewrite->to;
    if (to->values[value].columns == columns)
        return value;
    if (rewrite->other[value] != NO_VALUE)
        return rewrite->other[value];
    const int other = add_value(rewrite, to->values[value].elements, columns);
    to->values[other].is_obs = to->values[value].is_obs;
    to->ops[to->n_ops++] = (struct op){.in = value,
                                       .skip = NO_VALUE,
                                       .out = other,
                                       .weight = before->end,
                                       .end = before->end,
                                       .level = before->level};
    rewrite->other[value] = other;
    return other;
}

/* -- Ops --------------------------------------------------------------------------------------- */

/* Puts an activation behind the op that wrote what it reads, if nobody else reads that. */
static bool fuse(struct rewrite *rewrite, const struct op *op)
{
    struct walk *to = rewrite->to;
    const int in = rewrite->made[op->in];
    if (!op->layer->type->activate || rewrite->readers[op->in] > 1)
        return false;
    for (int i = to->n_ops - 1; i >= 0; i--) {
        if (to->ops[i].out != in)
            continue;
        if (!to->ops[i].layer || to->ops[i].activation)
            return false;
        to->ops[i].activation = op->layer->type;
        rewrite->made[op->out] = in;
        return true;
    }
    return false;
}

static void add_op(struct rewrite *rewrite, const struct op *op)
{
    struct walk *to = rewrite->to;
    struct op made = *op;
    const bool columns = wants_columns(op, to->values[rewrite->made[op->in]].columns);
    made.in = convert(rewrite, rewrite->made[op->in], columns, op);
    if (op->skip != NO_VALUE)
        made.skip = convert(rewrite, rewrite->made[op->skip], columns, op);
    made.out = add_value(rewrite, rewrite->from->values[op->out].elements, columns);
    rewrite->made[op->out] = made.out;
    to->ops[to->n_ops++] = made;
}

/* Returns whether all ops that read a value can mask by it, and streams do not. */
static bool is_masked_by_readers(const struct walk *walk, int value)
{
    if (value == walk->of_actions || value == walk->of_value)
        return false;
    for (int i = 0; i < walk->n_ops; i++)
        if (walk->ops[i].skip == value ||
            (walk->ops[i].in == value && (!walk->ops[i].layer || !walk->ops[i].layer->type->adds)))
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

static void rewrite_all(const struct hd_net *base, struct rewrite *rewrite)
{
    const struct walk *from = rewrite->from;
    struct walk *to = rewrite->to;
    count_readers(rewrite);
    rewrite->made[OBS] = add_value(rewrite, from->values[OBS].elements, takes_columns(base, from));
    to->values[OBS].is_obs = true;
    for (int i = 0; i < from->n_ops; i++)
        if (!fuse(rewrite, &from->ops[i]))
            add_op(rewrite, &from->ops[i]);
    to->of_actions = rewrite->made[from->of_actions];
    to->of_value = from->of_value == NO_VALUE ? NO_VALUE : rewrite->made[from->of_value];
    choose_masks(to);
}

int hd_list_rewrite(struct list_net *net)
{
    const struct walk *from = &net->plain;
    const int64_t most = 3 * (int64_t)from->n_values; /* two of its values may be converted */
    struct rewrite rewrite = {.from = from,
                              .to = &net->on_cpu,
                              .readers = hd_alloc(from->n_values, sizeof *rewrite.readers),
                              .made = hd_alloc(from->n_values, sizeof *rewrite.made),
                              .other = hd_alloc(most, sizeof *rewrite.other)};
    int status = hd_walk_allocate(&net->on_cpu, most, most);
    if (!rewrite.readers || !rewrite.made || !rewrite.other)
        status = HD_ERR_NOMEM;
    if (status == HD_OK) {
        rewrite_all(&net->base, &rewrite);
        status = hd_walk_find_added(&net->on_cpu);
    }
    if (status == HD_OK)
        status = hd_walk_cut_stages(&net->base, &net->on_cpu);
    hd_free(rewrite.readers);
    hd_free(rewrite.made);
    hd_free(rewrite.other);
    return status;
}
