/* SPDX-License-Identifier: Apache-2.0 */
/* Makes nets of any layers: their ops, values, stages and the order of the flat array. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- The plain one ----------------------------------------------------------------------------- */

/* Inputs that are joined write one value. */
static int add_out(struct list_net *net, const struct hd_layer *layer)
{
    const struct hd_form rows = hd_form_make_rows(&layer->out);
    const bool more = layer->type == &hd_layer_concat && layer->fields[HD_CONCAT_FIRST] > 0;
    for (int i = net->plain.n_ops - 1; i >= 0 && more; i--)
        if (net->plain.ops[i].layer->type == &hd_layer_concat)
            return net->plain.ops[i].out;
    return hd_walk_add_value(&net->plain, &rows);
}

static int add_op(struct list_net *net, const struct hd_layer *layer, int in, int skip)
{
    const int out = add_out(net, layer);
    struct op *op = &net->plain.ops[net->plain.n_ops++];
    *op =
        (struct op){.layer = layer, .in = in, .skip = skip, .out = out, .level = net->base.levels};
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

static void add_obs(struct list_net *net)
{
    const struct hd_layer_list *list = &net->base.list;
    for (int i = 0; i < list->n_inputs; i++) {
        const struct hd_form rows = hd_form_make_rows(&list->inputs[i].shape);
        net->plain.values[hd_walk_add_value(&net->plain, &rows)].is_obs = true;
    }
}

static void add_all(struct list_net *net)
{
    const struct hd_layer_list *list = &net->base.list;
    const int64_t first = hd_layer_list_find_trunk(list);
    int64_t end = 0;
    int joined = OBS;
    add_obs(net);
    for (int i = 0; i < list->n_inputs; i++, end += list->inputs[i - 1].layers)
        joined = add_ops(net, end, list->inputs[i].layers, OBS + i);
    const int trunk = add_ops(net, first, list->trunk - first, joined);
    for (int i = 0; i < list->n_streams; i++) {
        const int last =
            add_ops(net, hd_layer_list_find_stream(list, i), list->streams[i].layers, trunk);
        *(list->streams[i].output == HD_OUTPUT_VALUE ? &net->plain.of_value
                                                     : &net->plain.of_actions) = last;
    }
}

/* -- Creating a net ---------------------------------------------------------------------------- */

void hd_net_destroy(struct hd_net *base)
{
    struct list_net *net = (struct list_net *)base;
    if (!net)
        return;
    hd_net_release_base(base);
    hd_walk_release(&net->plain);
    hd_walk_release(&net->on_cpu);
    hd_walk_release(&net->on_gpu);
    hd_free(net->gaps);
    hd_free(net);
}

/* Small nets without implementations of their own layout, and those of DI-engine's dense form, have
 * the order of the list, and one stage. */
static void choose_order(struct list_net *net)
{
    for (int i = 0; i < net->on_cpu.n_ops; i++)
        net->aligned |= net->on_cpu.ops[i].impl != NULL;
    net->in_list_order =
        !net->aligned && (net->base.short_form || net->base.row_major_elements < STAGE_FLOATS);
}

static int build(struct list_net *net)
{
    struct hd_net *base = &net->base;
    HD_TRY(hd_walk_allocate(&net->plain, base->list.n, base->list.n + base->list.n_inputs));
    add_all(net);
    HD_TRY(hd_list_rewrite(net));
#if HD_CUDA
    HD_TRY(hd_list_rewrite_cuda(net));
#endif

    choose_order(net);
    HD_TRY(hd_list_assign_offsets(net));
    hd_walk_choose_front(net, &net->on_cpu);
    return hd_walk_cut_stages(net, &net->on_cpu);
}

int hd_list_create(const struct hd_net_fields *fields, const struct hd_layer_list *list,
                   struct hd_net **net_p)
{
    struct list_net *net = hd_alloc(1, sizeof *net);
    if (!net) {
        hd_free(list->layers);
        return HD_ERR_NOMEM;
    }
    net->base.short_form = hd_short_form_is_conv(list) || hd_short_form_is_dense(list);
    int status = hd_net_fill_base(&net->base, fields, list);
    if (status == HD_OK)
        status = build(net);
    if (status == HD_OK) {
        net->base.gpus = hd_alloc(1, sizeof *net->base.gpus);
        status = net->base.gpus ? HD_OK : HD_ERR_NOMEM;
    }
    if (status != HD_OK)
        hd_net_destroy(&net->base);
    *net_p = status == HD_OK ? &net->base : NULL;
    return status;
}
