/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/linear.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Forward ----------------------------------------------------------------------------------- */

/* Returns the bytes of an observation as it comes. */
static int64_t count_row_bytes(const struct list_net *net, const struct hd_net_pass *pass)
{
    return pass->floats ? net->base.obs * (int64_t)sizeof(float) : hd_net_get_obs_bytes(&net->base);
}

static void convert(const struct list_net *net, const struct hd_net_pass *pass, int value,
                    const void *from, int64_t n, void *to)
{
    if (pass->floats || !net->base.list.inputs[value].u8)
        hd_frames_convert_floats(&net->frames[value], pass->norm, n, from, to);
    else
        hd_frames_convert_bytes(&net->frames[value], pass->norm, n, from, to);
}

/* Finds the array of an input in an observation: there, or in `room`, where its frames are brought
 * together. */
static const void *find_array(const struct list_net *net, int value, const char *obs, char *room)
{
    const struct hd_layer_list *list = &net->base.list;
    const int64_t bytes = hd_list_count_array_bytes(net, value) / list->frames;
    obs += list->inputs[value].offset;
    for (int64_t k = 0; k < list->frames && list->frames > 1; k++)
        memcpy(room + k * bytes, obs + k * list->frame_bytes, (size_t)bytes);
    return list->frames > 1 ? room : obs;
}

/* Converts n observations, of several inputs one after the other. */
static void convert_rows(const struct list_net *net, const struct hd_net_pass *pass, int value,
                         const char *from, int64_t n, char *room, char *to, int64_t row)
{
    if (!net->base.list.joined) {
        convert(net, pass, value, from, n, to);
        return;
    }
    for (int64_t r = 0; r < n; r++, from += count_row_bytes(net, pass), to += row)
        convert(net, pass, value, find_array(net, value, from, room), 1, to);
}

/* The samples may be of either of the two arrays. */
static void take_rows(const struct list_net *net, const struct hd_net_pass *pass, int value,
                      struct list_memory memory)
{
    const int64_t bytes = count_row_bytes(net, pass);
    const int64_t row = hd_form_get_bytes(&memory.walk->values[value].form, 1);
    char *to = hd_list_get_value(memory, value), *room = hd_list_find_scratch(net, memory, false);
    for (int64_t at = memory.first, last = at + memory.count; at < last;) {
        const bool in_first = at < pass->rows;
        const int64_t left = pass->rows - at, n = in_first && left < last - at ? left : last - at;
        const char *from = in_first ? (const char *)pass->obs + at * bytes
                                    : (const char *)pass->next_obs - left * bytes;
        convert_rows(net, pass, value, from, n, room, to, row);
        to += n * row;
        at += n;
    }
}

/* Writes columns [first, first + n), and zeros after them; rows of obs are ld_obs apart. */
static void append_columns(int64_t n, int64_t elements, const float *obs, int64_t ld_obs,
                           int64_t first, float *to, int64_t ld)
{
    for (int64_t j = 0; j < elements; j++) {
        for (int64_t i = 0; i < n; i++)
            to[j * ld + first + i] = obs[i * ld_obs + j];
        for (int64_t i = first + n; i < ld; i++)
            to[j * ld + i] = 0;
    }
}

static void take_columns(const struct list_net *net, const struct hd_net_pass *pass, int value,
                         float *to)
{
    const struct hd_layer_list *list = &net->base.list;
    const int64_t n = hd_net_count_pass_rows(pass), ld = hd_linear_get_ld(n);
    const int64_t row = count_row_bytes(net, pass) / (int64_t)sizeof(float);
    const int64_t each = hd_shape_count(&list->inputs[value].shape) / list->frames;
    for (int64_t k = 0; k < list->frames; k++, to += each * ld) {
        const int64_t at =
            (k * list->frame_bytes + list->inputs[value].offset) / (int64_t)sizeof(float);
        hd_transpose(pass->rows, each, (const float *)pass->obs + at, row, to, ld);
        if (pass->next_obs)
            append_columns(pass->rows, each, (const float *)pass->next_obs + at, row, pass->rows,
                           to, ld);
        for (int64_t j = 0; j < each && pass->norm; j++)
            for (int64_t i = 0; i < n; i++)
                to[j * ld + i] = hd_obs_normalise(pass->norm, j, to[j * ld + i]);
    }
}

void hd_list_take_obs(const struct list_net *net, const struct hd_net_pass *pass,
                      struct list_memory memory)
{
    for (int value = 0; value < net->base.list.n_inputs; value++)
        if (memory.walk->values[value].form.columns)
            take_columns(net, pass, value, hd_list_get_value(memory, value));
        else
            take_rows(net, pass, value, memory);
}

static void set_sequences(const struct list_net *net, const struct op *op,
                          struct list_memory memory, struct hd_layer_run *run)
{
    const struct hd_net_sequences *sequences = memory.sequences;
    if (!op->layer || !op->layer->type->count_kept)
        return;
    const int64_t offset = op->layer->state;
    run->steps = memory.steps;
    run->state_ld = net->base.state;
    run->kept = hd_list_get_kept(net, op, memory);
    if (!sequences || op->layer->type->states == 0)
        return;
    run->state = sequences->state ? sequences->state + offset : NULL;
    run->next_state = sequences->next_state ? sequences->next_state + offset : NULL;
    run->begins = sequences->begins;
}

static void set_lines(const struct hd_form *in, int64_t rows, struct hd_layer_run *run)
{
    run->form = in;
    run->lines = in->columns ? hd_form_count(in) : 1;
    run->x_ld = run->ld = hd_linear_get_ld(rows);
    run->length = in->columns ? run->ld : rows * in->ld;
}

struct hd_layer_run hd_list_make_forward(const struct list_net *net, const struct op *op,
                                         const float *params, struct list_memory memory)
{
    struct hd_layer_run run = {.layer = op->layer,
                               .rows = memory.count,
                               .weight = params + op->weight,
                               .bias = params + op->bias,
                               .x = hd_list_get_value(memory, op->in),
                               .to = hd_list_get_value(memory, op->out),
                               .scratch = hd_list_find_scratch(net, memory, false)};
    set_lines(&memory.walk->values[op->in].form, memory.count, &run);
    set_sequences(net, op, memory, &run);
    return run;
}

/* -- Elements ---------------------------------------------------------------------------------- */

/* Returns the elements of the samples that are meant. */
static int64_t count_elements(struct list_memory memory, int value)
{
    const struct hd_form *form = &memory.walk->values[value].form;
    return hd_form_get_bytes(form, memory.count) / hd_form_get_element_bytes(form);
}

static void add_floats(int64_t n, const float *a, const float *b, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

static void add_bf16(int64_t n, const hd_bf16 *a, const hd_bf16 *b, hd_bf16 *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hd_bf16_from_float(hd_bf16_to_float(a[i]) + hd_bf16_to_float(b[i]));
}

/* Adds arrays that are in the form of a value. */
void hd_list_add(struct list_memory memory, int value, const void *a, const void *b, void *to)
{
    const int64_t n = count_elements(memory, value);
    if (memory.walk->values[value].form.bf16)
        add_bf16(n, a, b, to);
    else
        add_floats(n, a, b, to);
}

/* In bf16 there are ReLUs alone, which implementations compute themselves. */
void hd_list_activate(const struct op *op, struct list_memory memory)
{
    if (op->activation && !(op->impl && op->impl->relu))
        op->activation->activate(count_elements(memory, op->out),
                                 hd_list_get_value(memory, op->out));
}

static void add_skip(const struct op *op, struct list_memory memory)
{
    hd_list_add(memory, op->out, hd_list_get_value(memory, op->skip),
                hd_list_get_value(memory, op->in), hd_list_get_value(memory, op->out));
}

static int forward_impl(const struct list_net *net, const struct op *op, const float *params,
                        struct list_memory memory)
{
    struct hd_impl_run run = hd_list_make_run(net, op, params, HD_CONV_FORWARD, memory.count,
                                              hd_list_find_scratch(net, memory, false));
    HD_TRY(hd_impl_begin(&run));
    HD_TRY(op->impl->type->forward(&run, memory.count, hd_list_find_input(memory, op),
                                   hd_list_get_value(memory, op->out)));
    return hd_impl_end(&run);
}

static void forward_layer(const struct list_net *net, const struct op *op, const float *params,
                          const float *running, struct list_memory memory)
{
    struct hd_layer_run run = hd_list_make_forward(net, op, params, memory);
    if (op->layer->type->batch) {
        const struct hd_net_norm *norm = &net->base.norms[op->layer->norm];
        run.mean = running + norm->mean;
        run.var = running + norm->var;
    }
    run.relu = op->layer->type->has_relu && op->activation == &hd_layer_relu;
    op->layer->type->forward(&run);
    if (!run.relu)
        hd_list_activate(op, memory);
}

int hd_list_forward_op(const struct list_net *net, const struct op *op, const float *params,
                       const float *running, struct list_memory memory)
{
    const struct value *values = memory.walk->values;
    if (!op->layer) {
        hd_form_convert(&values[op->in].form, &values[op->out].form, memory.count,
                        hd_list_get_value(memory, op->in), hd_list_get_value(memory, op->out));
    } else if (op->skip != NO_VALUE) {
        add_skip(op, memory);
        hd_list_activate(op, memory);
    } else if (op->impl) {
        HD_TRY(forward_impl(net, op, params, memory));
        hd_list_activate(op, memory);
    } else {
        forward_layer(net, op, params, running, memory);
    }
    return HD_OK;
}

/* -- The front --------------------------------------------------------------------------------- */

/* While an op runs, the memory is fetched that the next part will write in place of its input. */
static int forward_part(const struct list_net *net, const struct hd_net_pass *pass,
                        struct list_memory memory, struct hd_impl_run *runs)
{
    const int64_t next = memory.first + memory.count;
    const int64_t left = memory.rows - next, n = left < memory.count ? left : memory.count;
    hd_list_take_obs(net, pass, memory);
    for (int i = 0; i < memory.walk->front; i++) {
        const struct op *op = &memory.walk->ops[i];
        if (!op->impl) {
            HD_TRY(hd_list_forward_op(net, op, pass->params, NULL, memory));
            continue;
        }
        runs[i].prefetch = hd_list_prefetch(memory, op->in, next, n, true);
        HD_TRY(op->impl->type->forward(&runs[i], memory.count, hd_list_find_input(memory, op),
                                       hd_list_get_value(memory, op->out)));
    }
    return HD_OK;
}

static int forward_front(const struct list_net *net, const struct hd_net_pass *pass,
                         struct list_memory memory)
{
    const int64_t part = hd_list_clip_part(memory.walk->forward_part, memory.rows);
    char *scratch;
    struct hd_impl_run *runs = hd_list_find_front(net, memory, false, &scratch);
    HD_TRY(hd_list_begin_front(net, pass->params, HD_CONV_FORWARD, part, NULL, &scratch, runs));
    for (memory.first = 0; memory.first < memory.rows; memory.first += memory.count) {
        memory.count = hd_list_clip_part(part, memory.rows - memory.first);
        HD_TRY(forward_part(net, pass, memory, runs));
    }
    return hd_list_end_front(memory.walk, runs);
}

/* q = A - mean A + V (dueling); else the outputs of the streams side by side. Streams end in
 * columns. */
void hd_list_combine_heads(const struct list_net *net, struct list_memory memory, float *q)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs;
    const int64_t ld = hd_linear_get_ld(memory.rows);
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    const int of_value = memory.walk->of_value;
    const float *a = hd_list_get_value(memory, memory.walk->of_actions);
    const float *v = of_value == NO_VALUE ? NULL : hd_list_get_value(memory, of_value);
    for (int64_t r = 0; r < memory.rows; r++) {
        float shift = 0;
        for (int64_t i = 0; i < actions && dueling; i++)
            shift += a[i * ld + r];
        if (dueling)
            shift = v[r] - shift / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            q[r * outputs + i] = a[i * ld + r] + shift;
        if (outputs > actions)
            q[r * outputs + actions] = v[r];
    }
}

int hd_list_forward(const struct hd_net *base, const struct hd_net_pass *pass, float *q)
{
    const struct list_net *net = as_list(base);
    struct list_memory memory =
        hd_list_make_memory(&net->on_cpu, pass->work, hd_net_count_pass_rows(pass),
                            pass->sequences ? pass->sequences->steps : 1);
    memory.sequences = pass->sequences;
    if (base->batch_norm && !pass->running)
        return HD_ERR_INPUT;
    hd_list_write_steps(net, memory);
    if (memory.walk->front > 0)
        HD_TRY(forward_front(net, pass, memory));
    else
        hd_list_take_obs(net, pass, memory);
    for (int i = memory.walk->front; i < memory.walk->n_ops; i++)
        HD_TRY(hd_list_forward_op(net, &memory.walk->ops[i], pass->params, pass->running, memory));
    hd_list_combine_heads(net, memory, q);
    return HD_OK;
}

/* Prepares passes over `rows` rows in parts of `part`. */
static int prepare_parts(const struct hd_impl *impl, enum hd_conv_pass pass, int64_t rows,
                         int64_t part)
{
    if (rows == 0)
        return HD_OK;
    HD_TRY(impl->type->prepare(impl, pass, hd_list_clip_part(part, rows)));
    return rows > part && rows % part > 0 ? impl->type->prepare(impl, pass, rows % part) : HD_OK;
}

int hd_net_prepare(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    const struct walk *walk = &as_list(base)->on_cpu;
    for (int i = 0; i < walk->n_ops; i++) {
        const struct hd_impl *impl = walk->ops[i].impl;
        if (!impl || !impl->type->prepare)
            continue;
        const int64_t forward = i < walk->front ? walk->forward_part : INT64_MAX;
        const int64_t backward = i < walk->front ? walk->backward_part : INT64_MAX;
        HD_TRY(prepare_parts(impl, HD_CONV_FORWARD, batch, forward));
        HD_TRY(prepare_parts(impl, HD_CONV_WEIGHTS, backward_batch, backward));
        if (!walk->values[walk->ops[i].in].is_obs)
            HD_TRY(prepare_parts(impl, HD_CONV_DATA, backward_batch, backward));
    }
    return HD_OK;
}
