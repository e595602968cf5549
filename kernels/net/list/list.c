/* SPDX-License-Identifier: Apache-2.0 */
/* Makes nets of any layers: their ops, values, stages and the order of the flat array. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* A stage has at least so many floats, so that tasks and messages are not too short. */
enum { STAGE_FLOATS = 1 << 18 };

/* -- Ops --------------------------------------------------------------------------------------- */

static int add_value(struct list_net *net, const struct hd_shape *shape)
{
    const int64_t n = hd_shape_count(shape);
    net->values[net->n_values] = (struct value){.elements = n, .before = net->elements};
    net->elements += n;
    net->widest = n > net->widest ? n : net->widest;
    return net->n_values++;
}

static int add_op(struct list_net *net, const struct hd_layer *layer, int in, int skip)
{
    struct op *op = &net->ops[net->n_ops++];
    *op = (struct op){.layer = layer, .in = in, .skip = skip, .level = net->base.levels};
    op->out = add_value(net, &layer->out);
    if (layer->type->batch) {
        op->feature = net->features;
        net->features += layer->in.size[0];
        net->base.levels++;
    }
    return op->out;
}

/* Adds the ops of layers [first, first + n), the first of which reads `value`. Returns the value
 * that the last one writes. */
static int add_ops(struct list_net *net, int64_t first, int64_t n, int value)
{
    const struct hd_layer *layers = net->base.list.layers;
    for (int64_t i = first; i < first + n; i += 1 + layers[i].body)
        if (layers[i].type->has_body)
            value = add_op(net, &layers[i], add_ops(net, i + 1, layers[i].body, value), value);
        else if (layers[i].type->forward)
            value = add_op(net, &layers[i], value, NO_VALUE);
    return value;
}

static void add_all(struct list_net *net)
{
    const struct hd_layer_list *list = &net->base.list;
    const int trunk = add_ops(net, 0, list->trunk, add_value(net, &list->obs));
    net->of_value = NO_VALUE;
    for (int i = 0; i < list->n_streams; i++) {
        const int last =
            add_ops(net, hd_layer_list_find_stream(list, i), list->streams[i].layers, trunk);
        *(list->streams[i].output == HD_OUTPUT_VALUE ? &net->of_value : &net->of_actions) = last;
    }
}

/* The last op that reads a value writes the derivatives by it; the others, which come later in the
 * backward pass, add. */
static int find_added(struct list_net *net)
{
    bool *begun = hd_alloc(net->n_values, sizeof *begun);
    if (!begun)
        return HD_ERR_NOMEM;
    for (int i = net->n_ops - 1; i >= 0; i--) {
        struct op *op = &net->ops[i];
        op->adds = begun[op->in];
        begun[op->in] = true;
        if (op->skip == NO_VALUE)
            continue;
        op->adds_skip = begun[op->skip];
        begun[op->skip] = true;
    }
    hd_free(begun);
    return HD_OK;
}

/* -- The flat array ---------------------------------------------------------------------------- */

static int count_tensors(const struct op *op)
{
    struct hd_tensor unused[HD_LAYER_TENSORS];
    return op->layer->type->list_tensors ? op->layer->type->list_tensors(op->layer, unused) : 0;
}

static void assign_offsets(struct list_net *net)
{
    for (int i = 0; i < net->n_ops; i++) {
        struct op *op = &net->ops[net->base.in_list_order ? i : net->n_ops - 1 - i];
        const struct hd_tensor *tensors = &net->base.tensors[op->layer->tensor];
        const int n = count_tensors(op);
        op->weight = net->base.elements;
        op->bias = op->weight + (n > 0 ? tensors[0].count : 0);
        op->end = op->weight;
        for (int t = 0; t < n; t++)
            op->end += tensors[t].count;
        net->base.elements = op->end;
    }
}

static void cut_stages(struct list_net *net)
{
    struct stage stage = {.first = net->n_ops, .last = net->n_ops};
    for (int i = net->n_ops - 1; i >= 0; i--) {
        stage.first = i;
        stage.hi = net->base.in_list_order ? net->base.elements : net->ops[i].end;
        if (stage.hi - stage.lo < STAGE_FLOATS || stage.hi == net->base.elements)
            continue;
        net->stages[net->n_stages++] = stage;
        stage = (struct stage){.first = i, .last = i, .lo = stage.hi, .hi = stage.hi};
    }
    net->stages[net->n_stages++] = stage;
}

/* Returns the offset of a tensor of the list in the flat array. */
static int64_t find_offset(const struct list_net *net, int tensor)
{
    int i = 0;
    while (net->ops[i].layer->tensor + count_tensors(&net->ops[i]) <= tensor ||
           net->ops[i].layer->tensor > tensor)
        i++;
    int64_t offset = net->ops[i].weight;
    for (int t = net->ops[i].layer->tensor; t < tensor; t++)
        offset += net->base.tensors[t].count;
    return offset;
}

static int export(const struct hd_net *net, const float *params, int i, float *row_major)
{
    memcpy(row_major, params + find_offset(as_list(net), i),
           (size_t)net->tensors[i].count * sizeof *row_major);
    return HD_OK;
}

static int import(const struct hd_net *net, const float *row_major, int i, float *params)
{
    memcpy(params + find_offset(as_list(net), i), row_major,
           (size_t)net->tensors[i].count * sizeof *row_major);
    return HD_OK;
}

static int count_stages(const struct hd_net *net)
{
    return as_list(net)->n_stages;
}

static void get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = as_list(net)->stages[stage].lo;
    *hi_p = as_list(net)->stages[stage].hi;
}

/* -- Creating a net ---------------------------------------------------------------------------- */

static void list_destroy(struct hd_net *base)
{
    struct list_net *net = (struct list_net *)base;
    hd_free(net->ops);
    hd_free(net->values);
    hd_free(net->stages);
}

static const struct hd_net_ops ops = {
    .destroy = list_destroy,
    .export_tensor = export,
    .import_tensor = import,
    .forward_bytes = hd_list_get_forward_bytes,
    .forward = hd_list_forward,
    .stages = count_stages,
    .stage_range = get_stage_range,
    .backward_bytes = hd_list_get_backward_bytes,
    .backward = hd_list_backward,
    .backward_obs = hd_list_backward_obs,
    .sequences_forward_bytes = hd_list_get_sequences_forward_bytes,
    .sequences_backward_bytes = hd_list_get_sequences_backward_bytes,
    .training_bytes = hd_list_get_training_bytes,
    .training_sums = hd_list_count_training_sums,
    .training_forward = hd_list_training_forward,
    .training_backward = hd_list_training_backward,
    .update_running = hd_list_update_running,
};

static int list_build(struct hd_net *base)
{
    struct list_net *net = (struct list_net *)base;
    const int64_t n = net->base.list.n;
    net->ops = hd_alloc(n, sizeof *net->ops);
    net->values = hd_alloc(n + 1, sizeof *net->values);
    net->stages = hd_alloc(n + 1, sizeof *net->stages);
    if (!net->ops || !net->values || !net->stages)
        return HD_ERR_NOMEM;
    add_all(net);
    HD_TRY(find_added(net));
    assign_offsets(net);
    cut_stages(net);
    return HD_OK;
}

static bool fits(const struct hd_layer_list *list)
{
    (void)list;
    return true;
}

const struct hd_net_kind hd_list_net_kind = {
    .fits = fits, .ops = &ops, .bytes = sizeof(struct list_net), .build = list_build};
