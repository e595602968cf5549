/* SPDX-License-Identifier: Apache-2.0 */
/* Tells of the steps of a pass on CPUs, for people who want to know what computes a net. */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/status.h"

#include <stdio.h>

/* Adds a layer's floats, and the products of a sample with its matrices: in convolutions those of
 * every pixel. */
static void add_layer(const struct hd_layer *layer, struct hd_net_step *step)
{
    struct hd_tensor tensors[HD_LAYER_TENSORS];
    const int n = hd_layer_list_tensors(layer, tensors);
    for (int t = 0; t < n; t++) {
        step->weight_bytes += tensors[t].count * (int64_t)sizeof(float);
        if (tensors[t].dims >= 2 && tensors[t].fan_in > 0)
            step->multiply_adds += tensors[t].count * hd_shape_count_plane(&layer->out);
    }
}

static void describe_form(const struct hd_form *form, char *text, size_t bytes)
{
    static const char *const layouts[] = {
        [HD_NCHW] = "rows", [HD_NHWC] = "NHWC", [HD_NCHW16] = "NCHW16"};
    const char *layout = form->columns     ? "columns"
                         : form->plane > 1 ? layouts[form->layout]
                                           : "rows";
    snprintf(text, bytes, "%s %s", form->bf16 ? "bf16" : "f32", layout);
}

static void describe_impl(const struct op *op, int64_t rows, char *text, size_t bytes)
{
    const struct hd_impl_type *type = op->impl ? op->impl->type : NULL;
    if (!type)
        snprintf(text, bytes, "%s", op->layer->type == &hd_layer_dense ? "linear" : "loops");
    else if (type->get_name)
        snprintf(text, bytes, "%s", type->get_name(op->impl, HD_CONV_FORWARD, rows));
    else
        snprintf(text, bytes, "%s", type->name);
}

int hd_net_count_steps(const struct hd_net *net)
{
    return as_list(net)->on_cpu.n_ops;
}

void hd_net_describe_step(const struct hd_net *net, int i, int64_t rows, struct hd_net_step *step)
{
    const struct walk *walk = &as_list(net)->on_cpu;
    const struct op *op = &walk->ops[i];
    *step = (struct hd_net_step){.layer = op->layer ? op->layer->type->name : "convert",
                                 .activation = op->activation ? op->activation->name : NULL,
                                 .module = op->layer ? op->layer->module : ""};
    describe_form(&walk->values[op->out].form, step->form, sizeof step->form);
    if (op->layer)
        describe_impl(op, rows, step->implementation, sizeof step->implementation);
    step->output_bytes = hd_form_get_bytes(&walk->values[op->out].form, rows) / rows;
    add_layer(op->layer, step);
    add_layer(op->impl ? op->impl->joined : NULL, step);
}

int hd_net_run_step(const struct hd_net *base, int i, const void *params, int64_t rows,
                    bool backward, void *work, void *scratch, float *grad)
{
    const struct list_net *net = as_list(base);
    const struct op *op = &net->on_cpu.ops[i];
    const struct list_memory values = hd_list_make_memory(&net->on_cpu, work, rows, 1);
    const struct list_memory deltas = hd_list_make_memory(&net->on_cpu, scratch, rows, 1);
    if (base->batch_norm)
        return HD_ERR_INPUT;
    if (!backward)
        return hd_list_forward_op(net, op, params, NULL, values);
    hd_list_differentiate(op, values, deltas);
    HD_TRY(hd_list_backward_weights(net, op, NULL, params, values, deltas, grad));
    return hd_list_backward_data(net, op, NULL, params, values, deltas, false);
}
