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
    const struct hd_form rows = hd_form_make_rows(&layer->out);
    op->out = hd_walk_add_value(&net->plain, &rows);
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
        else if (hd_layer_type_computes(layers[i].type))
            value = add_op(net, &layers[i], value, NO_VALUE);
    return value;
}

static void add_all(struct list_net *net)
{
    const struct hd_layer_list *list = &net->base.list;
    const struct hd_form rows = hd_form_make_rows(&list->obs);
    const int obs = hd_walk_add_value(&net->plain, &rows);
    net->plain.values[obs].is_obs = true;
    const int trunk = add_ops(net, 0, list->trunk, obs);
    for (int i = 0; i < list->n_streams; i++) {
        const int last =
            add_ops(net, hd_layer_list_find_stream(list, i), list->streams[i].layers, trunk);
        *(list->streams[i].output == HD_OUTPUT_VALUE ? &net->plain.of_value
                                                     : &net->plain.of_actions) = last;
    }
}

/* -- Stages ------------------------------------------------------------------------------------ */

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
    hd_free(net->gaps);
}

static const struct hd_net_ops ops = {
    .destroy = list_destroy,
    .export_tensor = hd_list_export,
    .import_tensor = hd_list_import,
    .refresh = hd_list_refresh,
    .prepare = hd_list_prepare,
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

/* Small nets without implementations of their own layout, and those of DI-engine's dense form, have
 * the order of the list, and one stage. */
static void choose_order(struct list_net *net)
{
    for (int i = 0; i < net->on_cpu.n_ops; i++)
        net->aligned |= net->on_cpu.ops[i].impl != NULL;
    net->in_list_order =
        !net->aligned && (net->base.fused || net->base.row_major_elements < STAGE_FLOATS);
}

static int list_build(struct hd_net *base)
{
    struct list_net *net = (struct list_net *)base;
    HD_TRY(hd_walk_allocate(&net->plain, base->list.n, base->list.n + 1));
    add_all(net);
    HD_TRY(hd_walk_find_added(&net->plain));
    HD_TRY(hd_list_rewrite(net));
    HD_TRY(hd_walk_find_added(&net->on_cpu));
    choose_order(net);
    HD_TRY(hd_list_assign_offsets(net));
    hd_walk_choose_front(net, &net->on_cpu);
    return hd_walk_cut_stages(net, &net->on_cpu);
}

const struct hd_net_kind hd_list_net_kind = {
    .ops = &ops, .bytes = sizeof(struct list_net), .build = list_build};
