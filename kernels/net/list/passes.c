/* SPDX-License-Identifier: Apache-2.0 */
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

float *hd_list_get_value(const struct list_net *net, struct list_memory memory, int value)
{
    return memory.values + memory.rows * net->values[value].before + (int64_t)value * GAP;
}

static int64_t count_floats(const struct list_net *net, int64_t rows)
{
    return rows * net->elements + (int64_t)net->n_values * GAP;
}

static int64_t count_kept(const struct op *op, int64_t rows, int64_t steps)
{
    const struct hd_layer_type *type = op->layer->type;
    return type->count_kept ? type->count_kept(op->layer, rows, steps) : 0;
}

/* Returns the floats of all values, which in recurrent nets are a multiple of HEADER. */
static int64_t find_header(const struct list_net *net, int64_t rows)
{
    const int64_t floats = count_floats(net, rows);
    return net->base.state > 0 ? (floats + HEADER - 1) / HEADER * HEADER : floats;
}

/* Returns the floats before what op number `end` keeps. */
static int64_t find_kept(const struct list_net *net, int64_t rows, int64_t steps, int end)
{
    int64_t floats = find_header(net, rows);
    if (net->base.state == 0)
        return floats;
    for (int i = 0; i < end; i++)
        floats += count_kept(&net->ops[i], rows, steps);
    return floats + HEADER;
}

static float *get_end(const struct list_net *net, struct list_memory memory)
{
    return memory.values + find_kept(net, memory.rows, memory.steps, net->n_ops);
}

/* The number of steps lies before what layers keep, so that a backward pass finds it. */
static int64_t read_steps(const struct list_net *net, const float *values, int64_t rows)
{
    int64_t steps = 1;
    if (net->base.state > 0)
        memcpy(&steps, values + find_header(net, rows), sizeof steps);
    return steps;
}

static void write_steps(const struct list_net *net, struct list_memory memory)
{
    if (net->base.state > 0)
        memcpy(memory.values + find_header(net, memory.rows), &memory.steps, sizeof memory.steps);
}

static int64_t count_scratch(const struct list_net *net, int64_t rows)
{
    int64_t max = 0;
    for (int i = 0; i < net->n_ops; i++) {
        const struct hd_layer *layer = net->ops[i].layer;
        const int64_t n = layer->type->count_scratch ? layer->type->count_scratch(layer, rows) : 0;
        max = n > max ? n : max;
    }
    return max;
}

int64_t hd_list_get_sequences_forward_bytes(const struct hd_net *base, int64_t batch, int64_t steps)
{
    const struct list_net *net = as_list(base);
    return hd_align_up((find_kept(net, batch, steps, net->n_ops) + count_scratch(net, batch)) *
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
    return hd_align_up((find_kept(net, batch, steps, net->n_ops) + batch * net->widest + GAP +
                        count_scratch(net, batch)) *
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

void hd_list_take_obs(const struct list_net *net, const struct hd_net_rows *rows,
                      struct list_memory memory)
{
    const struct hd_shape *shape = &net->base.list.obs;
    const struct hd_frames frames = {.channels = shape->size[0],
                                     .height = shape->dims == 3 ? shape->size[1] : 1,
                                     .width = shape->dims == 3 ? shape->size[2] : 1,
                                     .block = 1,
                                     .layout = HD_NCHW};
    float *to = hd_list_get_value(net, memory, OBS);
    convert(&frames, rows, rows->first, rows->n_first, to);
    if (rows->n_second > 0)
        convert(&frames, rows, rows->second, rows->n_second, to + rows->n_first * net->base.obs);
}

static float *get_kept(const struct list_net *net, const struct op *op, struct list_memory memory)
{
    return memory.values + find_kept(net, memory.rows, memory.steps, (int)(op - net->ops));
}

static void set_sequences(const struct list_net *net, const struct op *op,
                          struct list_memory memory, struct hd_layer_run *run)
{
    const struct hd_net_sequences *sequences = memory.sequences;
    const int64_t offset = op->layer->state;
    if (op->layer->type->states == 0)
        return;
    run->steps = memory.steps;
    run->state_ld = net->base.state;
    run->kept = get_kept(net, op, memory);
    if (!sequences)
        return;
    run->state = sequences->state ? sequences->state + offset : NULL;
    run->next_state = sequences->next_state ? sequences->next_state + offset : NULL;
    run->begins = sequences->begins;
}

struct hd_layer_run hd_list_make_forward(const struct list_net *net, const struct op *op,
                                         const float *params, struct list_memory memory)
{
    struct hd_layer_run run = {.layer = op->layer,
                               .rows = memory.rows,
                               .weight = params + op->weight,
                               .bias = params + op->bias,
                               .x = hd_list_get_value(net, memory, op->in),
                               .to = hd_list_get_value(net, memory, op->out),
                               .scratch = get_end(net, memory)};
    set_sequences(net, op, memory, &run);
    return run;
}

static void add_values(int64_t n, const float *a, const float *b, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + b[i];
}

void hd_list_forward_op(const struct list_net *net, const struct op *op, const float *params,
                        const float *running, struct list_memory memory)
{
    struct hd_layer_run run = hd_list_make_forward(net, op, params, memory);
    if (op->layer->type->batch) {
        const struct hd_net_norm *norm = &net->base.norms[op->layer->norm];
        run.mean = running + norm->mean;
        run.var = running + norm->var;
    }
    if (op->skip == NO_VALUE)
        op->layer->type->forward(&run);
    else
        add_values(memory.rows * net->values[op->out].elements,
                   hd_list_get_value(net, memory, op->skip), run.x, run.to);
}

/* q = A - mean A + V (dueling); else the outputs of the streams side by side. */
void hd_list_combine_heads(const struct list_net *net, struct list_memory memory, float *q)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    const float *a = hd_list_get_value(net, memory, net->of_actions);
    const float *v =
        net->of_value == NO_VALUE ? NULL : hd_list_get_value(net, memory, net->of_value);
    for (int64_t r = 0; r < memory.rows; r++, a += actions) {
        float shift = 0;
        for (int64_t i = 0; i < actions && dueling; i++)
            shift += a[i];
        if (dueling)
            shift = v[r] - shift / (float)actions;
        for (int64_t i = 0; i < actions; i++)
            q[r * outputs + i] = a[i] + shift;
        if (outputs > actions)
            q[r * outputs + actions] = v[r];
    }
}

int hd_list_forward(const struct hd_net *base, const void *params, const struct hd_net_rows *rows,
                    void *work, float *q)
{
    const struct list_net *net = as_list(base);
    const struct list_memory memory = {
        .values = work,
        .rows = rows->n_first + rows->n_second,
        .steps = rows->sequences ? rows->sequences->steps : 1,
        .sequences = rows->sequences,
    };
    if (base->batch_norm && !rows->running)
        return HD_ERR_INPUT;
    write_steps(net, memory);
    hd_list_take_obs(net, rows, memory);
    for (int i = 0; i < net->n_ops; i++)
        hd_list_forward_op(net, &net->ops[i], params, rows->running, memory);
    hd_list_combine_heads(net, memory, q);
    return HD_OK;
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* dL/dA = dq - mean dq and dL/dV = sum dq (dueling); else dq itself. */
void hd_list_split_heads(const struct list_net *net, const float *dq, struct list_memory deltas)
{
    const int64_t actions = net->base.actions, outputs = net->base.outputs;
    const bool dueling = net->base.heads == HD_HEADS_DUELING;
    float *da = hd_list_get_value(net, deltas, net->of_actions);
    float *dv = net->of_value == NO_VALUE ? NULL : hd_list_get_value(net, deltas, net->of_value);
    for (int64_t r = 0; r < deltas.rows; r++, dq += outputs) {
        float sum = 0;
        for (int64_t i = 0; i < actions && dueling; i++)
            sum += dq[i];
        for (int64_t i = 0; i < actions; i++)
            da[r * actions + i] = dq[i] - sum / (float)actions;
        if (dv)
            dv[r] = dueling ? sum : dq[actions];
    }
}

struct hd_layer_run hd_list_make_backward(const struct list_net *net, const struct op *op,
                                          const float *params, struct list_memory values,
                                          struct list_memory deltas)
{
    struct hd_layer_run run = hd_list_make_forward(net, op, params, values);
    float *spare = get_end(net, deltas);
    run.rows = deltas.rows;
    run.y = run.to;
    run.dy = hd_list_get_value(net, deltas, op->out);
    run.to = op->adds ? spare : hd_list_get_value(net, deltas, op->in);
    run.scratch = spare + deltas.rows * net->widest + GAP;
    if (op->layer->type->states > 0)
        run.dkept = get_kept(net, op, deltas);
    return run;
}

/* Passes derivatives on to a value, in addition to what is there if `adds`. */
static void pass_on(const struct list_net *net, struct list_memory deltas, int value, bool adds,
                    const float *from)
{
    float *to = hd_list_get_value(net, deltas, value);
    const int64_t n = deltas.rows * net->values[value].elements;
    if (adds)
        add_values(n, to, from, to);
    else
        memcpy(to, from, (size_t)n * sizeof *to);
}

void hd_list_backward_data(const struct list_net *net, const struct op *op, const float *params,
                           struct list_memory values, struct list_memory deltas, bool obs)
{
    const struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    const bool wanted = op->in != OBS || obs;
    if (op->skip != NO_VALUE) {
        if (wanted)
            pass_on(net, deltas, op->in, op->adds, run.dy);
        if (op->skip != OBS || obs)
            pass_on(net, deltas, op->skip, op->adds_skip, run.dy);
    } else if (wanted) {
        op->layer->type->backward_data(&run);
        if (op->adds)
            pass_on(net, deltas, op->in, true, run.to);
    }
}

void hd_list_backward_weights(const struct list_net *net, const struct op *op, const float *params,
                              struct list_memory values, struct list_memory deltas, float *grad)
{
    struct hd_layer_run run = hd_list_make_backward(net, op, params, values, deltas);
    run.dweight = grad + op->weight;
    run.dbias = grad + op->bias;
    if (op->layer->type->backward_weights)
        op->layer->type->backward_weights(&run);
}

int hd_list_backward(const struct hd_net *base, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad)
{
    const struct list_net *net = as_list(base);
    const int64_t steps = read_steps(net, work, forward_batch);
    const struct list_memory values = {
        .values = (float *)work, .rows = forward_batch, .steps = steps};
    const struct list_memory deltas = {.values = scratch, .rows = batch, .steps = steps};
    if (base->batch_norm)
        return HD_ERR_INPUT;
    if (stage == 0)
        hd_list_split_heads(net, dq, deltas);
    for (int i = net->stages[stage].last - 1; i >= net->stages[stage].first; i--) {
        hd_list_backward_weights(net, &net->ops[i], params, values, deltas, grad);
        hd_list_backward_data(net, &net->ops[i], params, values, deltas, false);
    }
    return HD_OK;
}

int hd_list_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs)
{
    const struct list_net *net = as_list(base);
    const struct list_memory values = {.values = (float *)work, .rows = forward_batch, .steps = 1};
    const struct list_memory deltas = {.values = scratch, .rows = batch, .steps = 1};
    hd_list_split_heads(net, dq, deltas);
    for (int i = net->n_ops - 1; i >= 0; i--)
        hd_list_backward_data(net, &net->ops[i], params, values, deltas, true);
    memcpy(dobs, hd_list_get_value(net, deltas, OBS), (size_t)(batch * base->obs) * sizeof *dobs);
    return HD_OK;
}
