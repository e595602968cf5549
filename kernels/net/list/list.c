/* SPDX-License-Identifier: Apache-2.0 */
/* Makes nets of any layers: their ops, values, stages and the order of the flat array. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- The plain one ----------------------------------------------------------------------------- */

static int add_op(struct list_net *net, const struct hd_layer *layer, int in, int skip)
{
    struct op *op = &net->plain.ops[net->plain.n_ops++];
    *op = (struct op){.layer = layer, .in = in, .skip = skip, .level = net->base.levels};
    op->out = hd_walk_add_value(&net->plain, hd_shape_count(&layer->out), false);
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
    const int obs = hd_walk_add_value(&net->plain, hd_shape_count(&list->obs), false);
    net->plain.values[obs].is_obs = true;
    const int trunk = add_ops(net, 0, list->trunk, obs);
    for (int i = 0; i < list->n_streams; i++) {
        const int last =
            add_ops(net, hd_layer_list_find_stream(list, i), list->streams[i].layers, trunk);
        *(list->streams[i].output == HD_OUTPUT_VALUE ? &net->plain.of_value
                                                     : &net->plain.of_actions) = last;
    }
}

/* -- The flat array ---------------------------------------------------------------------------- */

static int count_tensors(const struct op *op)
{
    struct hd_tensor unused[HD_LAYER_TENSORS];
    return op->layer->type->list_tensors ? op->layer->type->list_tensors(op->layer, unused) : 0;
}

static void assign_offsets(struct list_net *net)
{
    const struct walk *walk = &net->plain;
    for (int i = 0; i < walk->n_ops; i++) {
        struct op *op = &walk->ops[net->base.in_list_order ? i : walk->n_ops - 1 - i];
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

/* Returns the offset of a tensor of the list in the flat array. */
static int64_t find_offset(const struct list_net *net, int tensor)
{
    const struct op *op = net->plain.ops;
    while (op->layer->tensor + count_tensors(op) <= tensor || op->layer->tensor > tensor)
        op++;
    int64_t offset = op->weight;
    for (int t = op->layer->tensor; t < tensor; t++)
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
    return as_list(net)->on_cpu.n_stages;
}

static void get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = as_list(net)->on_cpu.stages[stage].lo;
    *hi_p = as_list(net)->on_cpu.stages[stage].hi;
}

/* -- Creating a net ---------------------------------------------------------------------------- */

static void list_destroy(struct hd_net *base)
{
    struct list_net *net = (struct list_net *)base;
    hd_walk_release(&net->plain);
    hd_walk_release(&net->on_cpu);
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
    base->in_list_order = base->fused || base->row_major_elements < STAGE_FLOATS;
    HD_TRY(hd_walk_allocate(&net->plain, base->list.n, base->list.n + 1));
    add_all(net);
    assign_offsets(net);
    HD_TRY(hd_walk_find_added(&net->plain));
    return hd_list_rewrite(net);
}

const struct hd_net_kind hd_list_net_kind = {
    .ops = &ops, .bytes = sizeof(struct list_net), .build = list_build};
