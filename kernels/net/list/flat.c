/* SPDX-License-Identifier: Apache-2.0 */
/* The flat array of a net and its shadow weights: where tensors lie, and how they are converted. */
#include "kernels/dense/packed_linear.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Places ------------------------------------------------------------------------------------ */

static int count_tensors(const struct hd_layer *layer)
{
    struct hd_tensor unused[HD_LAYER_TENSORS];
    return hd_layer_list_tensors(layer, unused);
}

static int64_t round_up(int64_t n)
{
    return (n + HD_PACK_BLOCK - 1) / HD_PACK_BLOCK * HD_PACK_BLOCK;
}

static int64_t take(struct list_net *net, int64_t floats)
{
    const int64_t used = net->base.elements, at = net->aligned ? round_up(used) : used;
    if (at > used)
        net->gaps[net->n_gaps++] = (struct gap){used, at};
    net->base.elements = at + floats;
    return at;
}

/* The bias of a layer that may be cut comes first, so that it is in the first of its stages. */
static bool has_bias_first(const struct op *op)
{
    return op->impl->blocks > 1 &&
           (!hd_form_is_in_order(&op->impl->in) || op->impl->weights > MOST_STAGE_FLOATS);
}

static void assign_impl(struct list_net *net, struct op *op)
{
    if (has_bias_first(op))
        op->bias = take(net, op->impl->biases);
    op->weight = take(net, op->impl->weights);
    if (!has_bias_first(op))
        op->bias = take(net, op->impl->biases);
    op->shadow = net->shadow;
    net->shadow += round_up(op->impl->shadow);
}

static void assign_layer(struct list_net *net, struct op *op)
{
    const int n = count_tensors(op->layer);
    int64_t floats = 0;
    for (int t = 0; t < n; t++)
        floats += net->base.tensors[op->layer->tensor + t].count;
    op->weight = n > 0 ? take(net, floats) : net->base.elements;
    op->bias = op->weight + (n > 0 ? net->base.tensors[op->layer->tensor].count : 0);
}

/* Returns whether two ops are the last ones of two streams whose weights may lie side by side. */
static bool are_outputs(const struct op *op, const struct op *next)
{
    return op->impl && next->impl && op->impl->out.columns && next->impl->out.columns;
}

/* The weights of both outputs follow one another, the actions' first, and then their biases. */
static void assign_outputs(struct list_net *net, struct op *one, struct op *two)
{
    struct op *first = one->out == net->on_cpu.of_actions ? one : two;
    struct op *second = first == one ? two : one;
    first->weight = take(net, first->impl->weights + second->impl->weights);
    second->weight = first->weight + first->impl->weights;
    first->bias = take(net, first->impl->biases + second->impl->biases);
    second->bias = first->bias + first->impl->biases;
    first->end = second->end = net->base.elements;
}

int hd_list_assign_offsets(struct list_net *net)
{
    struct walk *walk = &net->on_cpu;
    net->gaps = hd_alloc(2 * (int64_t)walk->n_ops, sizeof *net->gaps);
    if (!net->gaps)
        return HD_ERR_NOMEM;
    for (int i = 0; i < walk->n_ops; i++) {
        struct op *op = &walk->ops[net->in_list_order ? i : walk->n_ops - 1 - i];
        if (!net->in_list_order && i + 1 < walk->n_ops && are_outputs(op, op - 1)) {
            assign_outputs(net, op, op - 1);
            i++;
            continue;
        }
        if (op->impl)
            assign_impl(net, op);
        else
            assign_layer(net, op);
        op->end = net->base.elements;
    }
    const int64_t floats = net->base.elements * (int64_t)sizeof(float);
    net->base.params_bytes =
        hd_align_up(floats) + hd_align_up(net->shadow * (int64_t)sizeof(hd_bf16));
    return HD_OK;
}

/* -- Tensors ----------------------------------------------------------------------------------- */

static bool has_tensor(const struct hd_layer *layer, int tensor)
{
    return layer && tensor >= layer->tensor && tensor < layer->tensor + count_tensors(layer);
}

static int copy_tensor(const struct list_net *net, int tensor, float *row_major, float *params,
                       bool import)
{
    const struct op *op = net->on_cpu.ops;
    const struct hd_tensor *tensors = net->base.tensors;
    while (!has_tensor(op->layer, tensor) && !(op->impl && has_tensor(op->impl->joined, tensor)))
        op++;
    if (op->impl) {
        const bool joined = !has_tensor(op->layer, tensor);
        const int t = tensor - (joined ? op->impl->joined : op->layer)->tensor;
        return op->impl->type->copy(op->impl, joined, t, row_major,
                                    params + (t == 0 ? op->weight : op->bias), import);
    }
    int64_t offset = op->weight;
    for (int t = op->layer->tensor; t < tensor; t++)
        offset += tensors[t].count;
    memcpy(import ? params + offset : row_major, import ? row_major : params + offset,
           (size_t)tensors[tensor].count * sizeof *params);
    return HD_OK;
}

int hd_net_export_tensor(const struct hd_net *base, const float *params, int i, float *row_major)
{
    return copy_tensor(as_list(base), i, row_major, (float *)params, false);
}

int hd_net_import_tensor(const struct hd_net *base, const float *row_major, int i, float *params)
{
    return copy_tensor(as_list(base), i, (float *)row_major, params, true);
}

/* -- Shadow weights and gaps ------------------------------------------------------------------- */

const hd_bf16 *hd_list_find_shadow(const struct list_net *net, const void *params)
{
    const int64_t floats = net->base.elements * (int64_t)sizeof(float);
    return (const hd_bf16 *)((const char *)params + hd_align_up(floats));
}

void hd_net_refresh(const struct hd_net *base, void *params, int64_t lo, int64_t hi)
{
    const struct list_net *net = as_list(base);
    hd_bf16 *shadow = (hd_bf16 *)hd_list_find_shadow(net, params);
    for (int i = 0; i < net->on_cpu.n_ops && net->shadow > 0; i++) {
        const struct op *op = &net->on_cpu.ops[i];
        if (!op->impl || op->impl->shadow == 0)
            continue;
        const int64_t end = op->weight + op->impl->weights;
        const int64_t from = lo > op->weight ? lo : op->weight, to = hi < end ? hi : end;
        if (from < to)
            op->impl->type->refresh(op->impl, (const float *)params + op->weight, from - op->weight,
                                    to - op->weight, shadow + op->shadow);
    }
}

void hd_list_clear_gaps(const struct list_net *net, int64_t lo, int64_t hi, float *grad)
{
    for (int i = 0; i < net->n_gaps; i++)
        for (int64_t at = net->gaps[i].lo; at < net->gaps[i].hi; at++)
            if (at >= lo && at < hi)
                grad[at] = 0;
}
