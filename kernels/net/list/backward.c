/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/activation.h"
#include "kernels/dense/linear.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/status.h"

#include <string.h>

/* dL/dA = dq - mean dq and dL/dV = sum dq (dueling); else dq itself. Columns beyond the samples are
 * zero. */
void hd_list_split_heads(const struct list_net *net, const float *dq, struct list_memory deltas)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs, rows = deltas.rows;
    const int64_t ld = hd_linear_get_ld(rows);
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    const int of_value = deltas.walk->of_value;
    float *da = hd_list_get_value(deltas, deltas.walk->of_actions);
    float *dv = of_value == NO_VALUE ? NULL : hd_list_get_value(deltas, of_value);
    for (int64_t b = 0; b < ld; b++, dq += outputs) {
        float sum = 0;
        for (int64_t i = 0; i < actions && b < rows && dueling; i++)
            sum += dq[i];
        const float shift = sum / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            da[i * ld + b] = b < rows ? dq[i] - shift : 0;
        if (dv)
            dv[b] = dueling ? sum : b < rows ? dq[actions] : 0;
    }
}

struct hd_layer_run hd_list_make_backward(const struct list_net *net, const struct op *op,
                                          const float *params, struct list_memory values,
                                          struct list_memory deltas)
{
    struct hd_layer_run run = hd_list_make_forward(net, op, params, values);
    const bool adds = op->layer && op->skip == NO_VALUE && op->layer->type->adds;
    run.rows = deltas.count;
    run.y = run.to;
    run.dy = hd_list_get_value(deltas, op->out);
    run.to = op->adds && !adds ? (void *)hd_list_find_end(net, deltas)
                               : hd_list_get_value(deltas, op->in);
    run.add = op->adds && adds;
    run.mask = op->masks;
    run.scratch = hd_list_find_scratch(net, deltas, true);
    run.ld = hd_linear_get_ld(deltas.count);
    run.length = run.form->columns ? run.ld : deltas.count * run.form->ld;
    if (op->layer && op->layer->type->states > 0)
        run.dkept = hd_list_get_kept(net, op, deltas);
    return run;
}

/* Zeroes what lies behind the elements of rows. */
static void clear_tails(struct list_memory deltas, int value)
{
    const struct hd_form *form = &deltas.walk->values[value].form;
    const int64_t size = hd_form_get_element_bytes(form), used = hd_form_count(form) * size,
                  row = form->ld * size;
    char *at = hd_list_get_value(deltas, value);
    for (int64_t r = 0; r < deltas.count && !form->columns && used < row; r++)
        memset(at + r * row + used, 0, (size_t)(row - used));
}

void hd_list_differentiate(const struct op *op, struct list_memory values,
                           struct list_memory deltas)
{
    const struct hd_form *out = &deltas.walk->values[op->out].form;
    const int64_t x_ld = hd_linear_get_ld(values.rows), ld = hd_linear_get_ld(deltas.rows);
    const int64_t lines = out->columns ? hd_form_count(out) : 1;
    const void *y = hd_list_get_value(values, op->out);
    void *dy = hd_list_get_value(deltas, op->out);
    clear_tails(deltas, op->out);
    if (!op->activation || op->masked)
        return;
    if (out->bf16)
        hd_relu_backward_bf16(deltas.count * out->ld, y, dy);
    else
        for (int64_t line = 0; line < lines; line++)
            op->activation->differentiate(out->columns ? ld : deltas.count * out->ld,
                                          (const float *)y + line * x_ld, (float *)dy + line * ld);
}

/* Passes derivatives on to a value, in addition to what is there if `adds`. */
static void pass_on(struct list_memory deltas, int value, bool adds, const void *from)
{
    void *to = hd_list_get_value(deltas, value);
    if (adds)
        hd_list_add(deltas, value, to, from, to);
    else
        memcpy(to, from, (size_t)hd_form_get_bytes(&deltas.walk->values[value].form, deltas.count));
}

static bool is_wanted(struct list_memory deltas, int value, bool obs)
{
    return !deltas.walk->values[value].is_obs || obs;
}

static void backward_skip(const struct op *op, struct list_memory deltas, bool obs)
{
    const void *dy = hd_list_get_value(deltas, op->out);
    if (is_wanted(deltas, op->in, obs))
        pass_on(deltas, op->in, op->adds, dy);
    if (is_wanted(deltas, op->skip, obs))
        pass_on(deltas, op->skip, op->adds_skip, dy);
}

/* Computes what an implementation leaves in the derivatives by its input, or in the spare room. */
static int impl_data(const struct list_net *net, const struct op *op, struct hd_impl_run *run,
                     struct list_memory values, struct list_memory deltas)
{
    void *to = op->adds ? (void *)hd_list_find_end(net, deltas) : hd_list_find_input(deltas, op);
    HD_TRY(op->impl->type->backward_data(run, deltas.count, hd_list_find_input(values, op),
                                         op->masks, hd_list_get_value(deltas, op->out), to));
    if (op->adds)
        pass_on(deltas, op->in, true, to);
    return HD_OK;
}

/* Begins a pass of an implementation over the blocks of a stage that cuts it, or all. */
static int begin_backward(const struct list_net *net, const struct op *op,
                          const struct stage *stage, enum hd_conv_pass pass, const float *params,
                          struct list_memory deltas, float *grad, struct hd_impl_run *run)
{
    *run = hd_list_make_run(net, op, params, pass, deltas.count,
                            hd_list_find_scratch(net, deltas, true));
    run->dweights = grad ? grad + op->weight : NULL;
    run->dbias = grad ? grad + op->bias : NULL;
    if (stage && stage->last_block > 0) {
        run->first = stage->first_block;
        run->last = stage->last_block;
    }
    return hd_impl_begin(run);
}

static int backward_impl_data(const struct list_net *net, const struct op *op,
                              const struct stage *stage, const float *params,
                              struct list_memory values, struct list_memory deltas)
{
    struct hd_impl_run run;
    HD_TRY(begin_backward(net, op, stage, HD_CONV_DATA, params, deltas, NULL, &run));
    HD_TRY(impl_data(net, op, &run, values, deltas));
    return hd_impl_end(&run);
}

static void backward_layer_data(const struct list_net *net, const struct op *op,
                                const float *params, struct list_memory values,
                                struct list_memory deltas)
{
    const struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    const struct value *all = deltas.walk->values;
    if (op->layer)
        op->layer->type->backward_data(&run);
    else
        hd_form_convert(&all[op->out].form, &all[op->in].form, deltas.count, run.dy, run.to);
    if (op->adds && !run.add)
        pass_on(deltas, op->in, true, run.to);
}

int hd_list_backward_data(const struct list_net *net, const struct op *op,
                          const struct stage *stage, const float *params, struct list_memory values,
                          struct list_memory deltas, bool obs)
{
    if (op->skip != NO_VALUE)
        backward_skip(op, deltas, obs);
    else if (is_wanted(deltas, op->in, obs) && op->impl)
        return backward_impl_data(net, op, stage, params, values, deltas);
    else if (is_wanted(deltas, op->in, obs))
        backward_layer_data(net, op, params, values, deltas);
    return HD_OK;
}

static int backward_impl_weights(const struct list_net *net, const struct op *op,
                                 const struct stage *stage, const float *params,
                                 struct list_memory values, struct list_memory deltas, float *grad)
{
    struct hd_impl_run run;
    HD_TRY(begin_backward(net, op, stage, HD_CONV_WEIGHTS, params, deltas, grad, &run));
    HD_TRY(op->impl->type->backward_weights(&run, deltas.count, hd_list_find_input(values, op),
                                            hd_list_get_value(deltas, op->out)));
    return hd_impl_end(&run);
}

int hd_list_backward_weights(const struct list_net *net, const struct op *op,
                             const struct stage *stage, const float *params,
                             struct list_memory values, struct list_memory deltas, float *grad)
{
    if (op->impl)
        return backward_impl_weights(net, op, stage, params, values, deltas, grad);
    if (!op->layer || !op->layer->type->backward_weights)
        return HD_OK;
    struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    run.dweight = grad + op->weight;
    run.dbias = grad + op->bias;
    op->layer->type->backward_weights(&run);
    return HD_OK;
}

/* Goes back through the front with some of the samples. What an op will read next is fetched while
 * the one before computes. */
static int backward_part(const struct list_net *net, const void *params, struct list_memory values,
                         struct list_memory deltas, struct hd_impl_run *weights,
                         struct hd_impl_run *data)
{
    const int64_t next = values.first + values.count;
    const int64_t left = deltas.rows - next, n = left < values.count ? left : values.count;
    for (int i = deltas.walk->front - 1; i >= 0; i--) {
        const struct op *op = &deltas.walk->ops[i];
        hd_list_differentiate(op, values, deltas);
        if (!op->impl) {
            HD_TRY(hd_list_backward_data(net, op, NULL, params, values, deltas, false));
            continue;
        }
        weights[i].prefetch =
            i > 0 ? hd_list_prefetch(values, deltas.walk->ops[i - 1].in, values.first, values.count,
                                     false)
                  : hd_list_prefetch(values, deltas.walk->ops[deltas.walk->front - 1].in, next, n,
                                     false);
        HD_TRY(op->impl->type->backward_weights(&weights[i], deltas.count,
                                                hd_list_find_input(values, op),
                                                hd_list_get_value(deltas, op->out)));
        if (is_wanted(deltas, op->in, false))
            HD_TRY(impl_data(net, op, &data[i], values, deltas));
    }
    return HD_OK;
}

static int backward_front(const struct list_net *net, const void *params, struct list_memory values,
                          struct list_memory deltas, float *grad)
{
    const struct walk *walk = deltas.walk;
    const int64_t part = hd_list_clip_part(walk->backward_part, deltas.rows);
    char *scratch;
    struct hd_impl_run *weights = hd_list_find_front(net, deltas, true, &scratch);
    struct hd_impl_run *data = weights + walk->front;
    HD_TRY(hd_list_begin_front(net, params, HD_CONV_WEIGHTS, part, grad, &scratch, weights));
    HD_TRY(hd_list_begin_front(net, params, HD_CONV_DATA, part, NULL, &scratch, data));
    deltas.derivatives = true;
    for (int64_t first = 0; first < deltas.rows; first += part) {
        values.first = deltas.first = first;
        values.count = deltas.count = hd_list_clip_part(part, deltas.rows - first);
        HD_TRY(backward_part(net, params, values, deltas, weights, data));
    }
    HD_TRY(hd_list_end_front(walk, weights));
    return hd_list_end_front(walk, data);
}

int hd_list_backward(const struct hd_net *base, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int number, float *grad)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    const struct stage *stage = &walk->stages[number];
    const int64_t steps = hd_list_read_steps(net, work, forward_batch);
    const struct list_memory values = hd_list_make_memory(walk, (void *)work, forward_batch, steps);
    const struct list_memory deltas = hd_list_make_memory(walk, scratch, batch, steps);
    if (base->batch_norm)
        return HD_ERR_INPUT;
    hd_list_clear_gaps(net, stage->lo, stage->hi, grad);
    if (number == 0)
        hd_list_split_heads(net, dq, deltas);
    for (int i = stage->last - 1; i >= stage->first && i >= walk->front; i--) {
        const struct op *op = &walk->ops[i];
        if (stage->first_block == 0)
            hd_list_differentiate(op, values, deltas);
        HD_TRY(hd_list_backward_weights(net, op, stage, params, values, deltas, grad));
        HD_TRY(hd_list_backward_data(net, op, stage, params, values, deltas, false));
    }
    if (stage->first == 0 && walk->front > 0)
        HD_TRY(backward_front(net, params, values, deltas, grad));
    return HD_OK;
}

int hd_list_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    const struct list_memory values = hd_list_make_memory(walk, (void *)work, forward_batch, 1);
    const struct list_memory deltas = hd_list_make_memory(walk, scratch, batch, 1);
    const struct hd_form rows = hd_form_make_rows(&base->list.obs);
    hd_list_split_heads(net, dq, deltas);
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        hd_list_differentiate(&walk->ops[i], values, deltas);
        HD_TRY(hd_list_backward_data(net, &walk->ops[i], NULL, params, values, deltas, true));
    }
    const void *from = hd_list_get_value(deltas, OBS);
    if (walk->values[OBS].form.columns)
        hd_form_convert(&walk->values[OBS].form, &rows, batch, from, dobs);
    else
        hd_frames_restore(&net->frames[OBS], batch, from, dobs);
    return HD_OK;
}
