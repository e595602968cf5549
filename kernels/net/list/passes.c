/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/linear.h"
#include "kernels/net/frames.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Memory ------------------------------------------------------------------------------------ */

enum {
    GAP = 16,   /* floats between values, which vectors may read but not write */
    HEADER = 16 /* floats, of 64 bytes */
};

int64_t hd_list_count_value(const struct value *value, int64_t rows)
{
    return value->elements * (value->columns ? hd_linear_get_ld(rows) : rows);
}

float *hd_list_get_value(struct list_memory memory, int value)
{
    const struct value *of = &memory.walk->values[value];
    return memory.values + memory.rows * of->before_rows +
           hd_linear_get_ld(memory.rows) * of->before_columns + (int64_t)value * GAP;
}

int64_t hd_list_count_values(const struct walk *walk, int64_t rows)
{
    return rows * walk->rows + hd_linear_get_ld(rows) * walk->columns +
           (int64_t)walk->n_values * GAP;
}

/* Returns the floats of the largest value. */
static int64_t count_widest(const struct walk *walk, int64_t rows)
{
    const int64_t as_rows = rows * walk->widest_rows;
    const int64_t as_columns = hd_linear_get_ld(rows) * walk->widest_columns;
    return as_rows > as_columns ? as_rows : as_columns;
}

int64_t hd_list_count_deltas(const struct walk *walk, int64_t rows)
{
    return hd_list_count_values(walk, rows) + count_widest(walk, rows) + GAP;
}

static int64_t count_kept(const struct op *op, int64_t rows, int64_t steps)
{
    const struct hd_layer *layer = op->layer;
    return layer && layer->type->count_kept ? layer->type->count_kept(layer, rows, steps) : 0;
}

/* Returns the floats of all values, which in recurrent nets are a multiple of HEADER. */
static int64_t find_header(const struct list_net *net, const struct walk *walk, int64_t rows)
{
    const int64_t floats = hd_list_count_values(walk, rows);
    return net->base.state > 0 ? (floats + HEADER - 1) / HEADER * HEADER : floats;
}

/* Returns the floats before what op number `end` keeps. */
static int64_t find_kept(const struct list_net *net, const struct walk *walk, int64_t rows,
                         int64_t steps, int end)
{
    int64_t floats = find_header(net, walk, rows);
    if (net->base.state == 0)
        return floats;
    for (int i = 0; i < end; i++)
        floats += count_kept(&walk->ops[i], rows, steps);
    return floats + HEADER;
}

static float *get_end(const struct list_net *net, struct list_memory memory)
{
    const struct walk *walk = memory.walk;
    return memory.values + find_kept(net, walk, memory.rows, memory.steps, walk->n_ops);
}

/* The number of steps lies before what layers keep, so that a backward pass finds it. */
static int64_t read_steps(const struct list_net *net, const float *values, int64_t rows)
{
    int64_t steps = 1;
    if (net->base.state > 0)
        memcpy(&steps, values + find_header(net, &net->on_cpu, rows), sizeof steps);
    return steps;
}

static void write_steps(const struct list_net *net, struct list_memory memory)
{
    if (net->base.state > 0)
        memcpy(memory.values + find_header(net, memory.walk, memory.rows), &memory.steps,
               sizeof memory.steps);
}

static int64_t count_scratch(const struct walk *walk, int64_t rows)
{
    int64_t max = 0;
    for (int i = 0; i < walk->n_ops; i++) {
        const struct hd_layer *layer = walk->ops[i].layer;
        const int64_t n =
            layer && layer->type->count_scratch ? layer->type->count_scratch(layer, rows) : 0;
        max = n > max ? n : max;
    }
    return max;
}

int64_t hd_list_get_sequences_forward_bytes(const struct hd_net *base, int64_t batch, int64_t steps)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    return hd_align_up(
        (find_kept(net, walk, batch, steps, walk->n_ops) + count_scratch(walk, batch)) *
        (int64_t)sizeof(float));
}

int64_t hd_list_get_forward_bytes(const struct hd_net *base, int64_t batch)
{
    return hd_list_get_sequences_forward_bytes(base, batch, 1);
}

int64_t hd_list_get_sequences_backward_bytes(const struct hd_net *base, int64_t batch,
                                             int64_t steps)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    return hd_align_up((find_kept(net, walk, batch, steps, walk->n_ops) +
                        count_widest(walk, batch) + GAP + count_scratch(walk, batch)) *
                       (int64_t)sizeof(float));
}

int64_t hd_list_get_backward_bytes(const struct hd_net *base, int64_t batch)
{
    return hd_list_get_sequences_backward_bytes(base, batch, 1);
}

/* -- Forward ----------------------------------------------------------------------------------- */

static void convert(const struct hd_frames *frames, const struct hd_net_rows *rows,
                    const void *from, int64_t n, float *to)
{
    if (rows->floats)
        hd_frames_convert_floats(frames, rows->norm, n, from, to);
    else
        hd_frames_convert_bytes(frames, rows->norm, n, from, to);
}

static void take_rows(const struct list_net *net, const struct hd_net_rows *rows, float *to)
{
    const struct hd_shape *shape = &net->base.list.obs;
    const struct hd_frames frames = {.channels = shape->size[0],
                                     .height = shape->dims == 3 ? shape->size[1] : 1,
                                     .width = shape->dims == 3 ? shape->size[2] : 1,
                                     .block = 1,
                                     .layout = HD_NCHW};
    convert(&frames, rows, rows->first, rows->n_first, to);
    if (rows->n_second > 0)
        convert(&frames, rows, rows->second, rows->n_second, to + rows->n_first * net->base.obs);
}

/* Writes columns [first, first + n), and zeros after them. */
static void append_columns(int64_t n, int64_t elements, const float *obs, int64_t first, float *to,
                           int64_t ld)
{
    for (int64_t j = 0; j < elements; j++) {
        for (int64_t i = 0; i < n; i++)
            to[j * ld + first + i] = obs[i * elements + j];
        for (int64_t i = first + n; i < ld; i++)
            to[j * ld + i] = 0;
    }
}

static void take_columns(const struct list_net *net, const struct hd_net_rows *rows, float *to)
{
    const int64_t obs = net->base.obs, n = rows->n_first + rows->n_second;
    const int64_t ld = hd_linear_get_ld(n);
    hd_transpose(rows->n_first, obs, rows->first, obs, to, ld);
    if (rows->n_second > 0)
        append_columns(rows->n_second, obs, rows->second, rows->n_first, to, ld);
    for (int64_t j = 0; j < obs && rows->norm; j++)
        for (int64_t i = 0; i < n; i++)
            to[j * ld + i] = hd_obs_normalise(rows->norm, j, to[j * ld + i]);
}

void hd_list_take_obs(const struct list_net *net, const struct hd_net_rows *rows,
                      struct list_memory memory)
{
    float *to = hd_list_get_value(memory, OBS);
    if (memory.walk->values[OBS].columns)
        take_columns(net, rows, to);
    else
        take_rows(net, rows, to);
}

static float *get_kept(const struct list_net *net, const struct op *op, struct list_memory memory)
{
    return memory.values +
           find_kept(net, memory.walk, memory.rows, memory.steps, (int)(op - memory.walk->ops));
}

static void set_sequences(const struct list_net *net, const struct op *op,
                          struct list_memory memory, struct hd_layer_run *run)
{
    const struct hd_net_sequences *sequences = memory.sequences;
    if (!op->layer || op->layer->type->states == 0)
        return;
    const int64_t offset = op->layer->state;
    run->steps = memory.steps;
    run->state_ld = net->base.state;
    run->kept = get_kept(net, op, memory);
    if (!sequences)
        return;
    run->state = sequences->state ? sequences->state + offset : NULL;
    run->next_state = sequences->next_state ? sequences->next_state + offset : NULL;
    run->begins = sequences->begins;
}

/* x has x_rows samples, dx `rows` of them. */
static void set_lines(const struct value *in, int64_t x_rows, int64_t rows,
                      struct hd_layer_run *run)
{
    run->lines = in->columns ? in->elements : 1;
    run->x_ld = hd_linear_get_ld(x_rows);
    run->ld = hd_linear_get_ld(rows);
    run->length = in->columns ? run->ld : rows * in->elements;
}

struct hd_layer_run hd_list_make_forward(const struct list_net *net, const struct op *op,
                                         const float *params, struct list_memory memory)
{
    struct hd_layer_run run = {.layer = op->layer,
                               .rows = memory.rows,
                               .weight = params + op->weight,
                               .bias = params + op->bias,
                               .x = hd_list_get_value(memory, op->in),
                               .to = hd_list_get_value(memory, op->out),
                               .scratch = get_end(net, memory)};
    set_lines(&memory.walk->values[op->in], memory.rows, memory.rows, &run);
    set_sequences(net, op, memory, &run);
    return run;
}

static void add_values(int64_t n, const float *a, const float *b, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

static int64_t count_value(struct list_memory memory, int value)
{
    return hd_list_count_value(&memory.walk->values[value], memory.rows);
}

void hd_list_activate(const struct op *op, struct list_memory memory)
{
    if (op->activation)
        op->activation->activate(count_value(memory, op->out), hd_list_get_value(memory, op->out));
}

/* Makes columns of rows, or rows of columns. */
static void change_form(bool to_columns, int64_t samples, int64_t elements, const float *from,
                        float *to)
{
    const int64_t ld = hd_linear_get_ld(samples);
    if (to_columns)
        hd_transpose(samples, elements, from, elements, to, ld);
    else
        hd_transpose(elements, samples, from, ld, to, elements);
}

void hd_list_forward_op(const struct list_net *net, const struct op *op, const float *params,
                        const float *running, struct list_memory memory)
{
    struct hd_layer_run run = hd_list_make_forward(net, op, params, memory);
    const struct value *out = &memory.walk->values[op->out];
    if (!op->layer) {
        change_form(out->columns, memory.rows, out->elements, run.x, run.to);
        return;
    }
    if (op->skip != NO_VALUE) {
        add_values(count_value(memory, op->out), hd_list_get_value(memory, op->skip), run.x,
                   run.to);
        hd_list_activate(op, memory);
        return;
    }
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

/* q = A - mean A + V (dueling); else the outputs of the streams side by side. Streams end in layers
 * with columns. */
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

int hd_list_forward(const struct hd_net *base, const void *params, const struct hd_net_rows *rows,
                    void *work, float *q)
{
    const struct list_net *net = as_list(base);
    const struct list_memory memory = {
        .walk = &net->on_cpu,
        .values = work,
        .rows = rows->n_first + rows->n_second,
        .steps = rows->sequences ? rows->sequences->steps : 1,
        .sequences = rows->sequences,
    };
    if (base->batch_norm && !rows->running)
        return HD_ERR_INPUT;
    write_steps(net, memory);
    hd_list_take_obs(net, rows, memory);
    for (int i = 0; i < memory.walk->n_ops; i++)
        hd_list_forward_op(net, &memory.walk->ops[i], params, rows->running, memory);
    hd_list_combine_heads(net, memory, q);
    return HD_OK;
}

/* -- Backward ---------------------------------------------------------------------------------- */

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
    const bool adds =
        op->layer && op->skip == NO_VALUE && op->layer->type->adds && deltas.walk == &net->on_cpu;
    float *spare = get_end(net, deltas);
    run.rows = deltas.rows;
    run.y = run.to;
    run.dy = hd_list_get_value(deltas, op->out);
    run.to = op->adds && !adds ? spare : hd_list_get_value(deltas, op->in);
    run.add = op->adds && adds;
    run.mask = op->masks;
    run.scratch = spare + count_widest(deltas.walk, deltas.rows) + GAP;
    set_lines(&deltas.walk->values[op->in], values.rows, deltas.rows, &run);
    if (op->layer && op->layer->type->states > 0)
        run.dkept = get_kept(net, op, deltas);
    return run;
}

void hd_list_differentiate(const struct op *op, struct list_memory values,
                           struct list_memory deltas)
{
    const struct value *out = &deltas.walk->values[op->out];
    const int64_t x_ld = hd_linear_get_ld(values.rows), ld = hd_linear_get_ld(deltas.rows);
    const int64_t lines = out->columns ? out->elements : 1;
    const float *y = hd_list_get_value(values, op->out);
    float *dy = hd_list_get_value(deltas, op->out);
    for (int64_t line = 0; line < lines && op->activation && !op->masked; line++)
        op->activation->differentiate(out->columns ? ld : deltas.rows * out->elements,
                                      y + line * x_ld, dy + line * ld);
}

/* Passes derivatives on to a value, in addition to what is there if `adds`. */
static void pass_on(struct list_memory deltas, int value, bool adds, const float *from)
{
    float *to = hd_list_get_value(deltas, value);
    const int64_t n = count_value(deltas, value);
    if (adds)
        add_values(n, to, from, to);
    else
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hd_list_backward_data(const struct list_net *net, const struct op *op, const float *params,
                           struct list_memory values, struct list_memory deltas, bool obs)
{
    const struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    const struct value *in = &deltas.walk->values[op->in];
    const bool wanted = !in->is_obs || obs;
    if (op->skip != NO_VALUE) {
        if (wanted)
            pass_on(deltas, op->in, op->adds, run.dy);
        if (!deltas.walk->values[op->skip].is_obs || obs)
            pass_on(deltas, op->skip, op->adds_skip, run.dy);
        return;
    }
    if (!wanted)
        return;
    if (op->layer)
        op->layer->type->backward_data(&run);
    else
        change_form(in->columns, deltas.rows, in->elements, run.dy, run.to);
    if (op->adds && !run.add)
        pass_on(deltas, op->in, true, run.to);
}

void hd_list_backward_weights(const struct list_net *net, const struct op *op, const float *params,
                              struct list_memory values, struct list_memory deltas, float *grad)
{
    if (!op->layer || !op->layer->type->backward_weights)
        return;
    struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    run.dweight = grad + op->weight;
    run.dbias = grad + op->bias;
    op->layer->type->backward_weights(&run);
}

int hd_list_backward(const struct hd_net *base, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    const int64_t steps = read_steps(net, work, forward_batch);
    const struct list_memory values = {
        .walk = walk, .values = (float *)work, .rows = forward_batch, .steps = steps};
    const struct list_memory deltas = {
        .walk = walk, .values = scratch, .rows = batch, .steps = steps};
    if (base->batch_norm)
        return HD_ERR_INPUT;
    if (stage == 0)
        hd_list_split_heads(net, dq, deltas);
    for (int i = walk->stages[stage].last - 1; i >= walk->stages[stage].first; i--) {
        hd_list_differentiate(&walk->ops[i], values, deltas);
        hd_list_backward_weights(net, &walk->ops[i], params, values, deltas, grad);
        hd_list_backward_data(net, &walk->ops[i], params, values, deltas, false);
    }
    return HD_OK;
}

int hd_list_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    const struct list_memory values = {
        .walk = walk, .values = (float *)work, .rows = forward_batch, .steps = 1};
    const struct list_memory deltas = {.walk = walk, .values = scratch, .rows = batch, .steps = 1};
    const float *from = hd_list_get_value(deltas, OBS);
    hd_list_split_heads(net, dq, deltas);
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        hd_list_differentiate(&walk->ops[i], values, deltas);
        hd_list_backward_data(net, &walk->ops[i], params, values, deltas, true);
    }
    if (walk->values[OBS].columns)
        change_form(false, batch, base->obs, from, dobs);
    else
        memcpy(dobs, from, (size_t)(batch * base->obs) * sizeof *dobs);
    return HD_OK;
}
