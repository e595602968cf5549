/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of passes: where values, what layers keep, and scratch lie. */
#include "kernels/dense/linear.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- Memory ------------------------------------------------------------------------------------ */

enum {
    GAP = 256,  /* bytes between values, which vectors may read but not write */
    HEADER = 64 /* bytes */
};

/* Values begin at multiples of 64 bytes. */
static int64_t find_value(const struct walk *walk, int64_t rows, int value)
{
    const struct value *of = &walk->values[value];
    return hd_align_up(rows * of->before_rows) +
           hd_align_up(hd_linear_get_ld(rows) * of->before_columns) + (int64_t)value * GAP;
}

struct list_memory hd_list_make_memory(const struct walk *walk, void *values, int64_t rows,
                                       int64_t steps)
{
    return (struct list_memory){
        .walk = walk, .values = values, .rows = rows, .count = rows, .steps = steps};
}

/* Returns whether a value is written and read in the front alone. */
static bool is_inside(const struct walk *walk, int value)
{
    for (int i = 0; i + 1 < walk->front; i++)
        if (walk->ops[i].out == value)
            return true;
    return false;
}

void *hd_list_get_value(struct list_memory memory, int value)
{
    char *at = (char *)memory.values + find_value(memory.walk, memory.rows, value);
    if (memory.first == 0 || (memory.derivatives && is_inside(memory.walk, value)))
        return at;
    return at + hd_form_get_bytes(&memory.walk->values[value].form, memory.first);
}

static int64_t get_values_bytes(const struct walk *walk, int64_t rows)
{
    return hd_align_up(rows * walk->rows) + hd_align_up(hd_linear_get_ld(rows) * walk->columns) +
           (int64_t)walk->n_values * GAP;
}

/* Returns the bytes of the largest value. */
static int64_t get_widest_bytes(const struct walk *walk, int64_t rows)
{
    const int64_t as_rows = rows * walk->widest_rows;
    const int64_t as_columns = hd_linear_get_ld(rows) * walk->widest_columns;
    return hd_align_up(as_rows > as_columns ? as_rows : as_columns);
}

static int64_t get_kept_bytes(const struct op *op, int64_t rows, int64_t steps)
{
    const struct hd_layer *layer = op->layer;
    if (!layer || !layer->type->count_kept)
        return 0;
    return hd_align_up(layer->type->count_kept(layer, rows, steps) * (int64_t)sizeof(float));
}

/* Returns the bytes before what op number `end` keeps. */
static int64_t find_kept(const struct list_net *net, const struct walk *walk, int64_t rows,
                         int64_t steps, int end)
{
    int64_t bytes = get_values_bytes(walk, rows) + (net->base.state > 0 ? HEADER : 0);
    for (int i = 0; i < end; i++)
        bytes += get_kept_bytes(&walk->ops[i], rows, steps);
    return bytes;
}

char *hd_list_find_end(const struct list_net *net, struct list_memory memory)
{
    const struct walk *walk = memory.walk;
    return (char *)memory.values + find_kept(net, walk, memory.rows, memory.steps, walk->n_ops);
}

/* The number of steps lies before what layers keep, so that a backward pass finds it. */
int64_t hd_list_read_steps(const struct list_net *net, const void *values, int64_t rows)
{
    int64_t steps = 1;
    if (net->base.state > 0)
        memcpy(&steps, (const char *)values + get_values_bytes(&net->on_cpu, rows), sizeof steps);
    return steps;
}

void hd_list_write_steps(const struct list_net *net, struct list_memory memory)
{
    if (net->base.state > 0)
        memcpy((char *)memory.values + get_values_bytes(memory.walk, memory.rows), &memory.steps,
               sizeof memory.steps);
}

/* -- Scratch: that of one op after another, then that of the front's implementations side by side
 */

int64_t hd_list_clip_part(int64_t part, int64_t rows)
{
    return rows < part ? rows : part;
}

int64_t hd_list_get_impl_bytes(const struct op *op, enum hd_conv_pass pass, int64_t rows)
{
    if (!op->impl || !op->impl->type->get_scratch_bytes)
        return 0;
    return hd_align_up(op->impl->type->get_scratch_bytes(op->impl, pass, rows));
}

static int64_t get_layer_bytes(const struct op *op, int64_t rows)
{
    const struct hd_layer *layer = op->layer;
    if (op->impl || !layer || !layer->type->count_scratch)
        return 0;
    return hd_align_up(layer->type->count_scratch(layer, rows) * (int64_t)sizeof(float));
}

static int64_t get_runs_bytes(const struct walk *walk)
{
    return hd_align_up(HD_CONV_PASSES * walk->front * (int64_t)sizeof(struct hd_impl_run));
}

/* Returns the bytes of passes [first, last] of the front, in parts of `part` rows. */
static int64_t get_front_bytes(const struct walk *walk, enum hd_conv_pass first,
                               enum hd_conv_pass last, int64_t part)
{
    int64_t bytes = get_runs_bytes(walk);
    for (int i = 0; i < walk->front; i++)
        for (int pass = first; pass <= (int)last; pass++)
            bytes += hd_list_get_impl_bytes(&walk->ops[i], (enum hd_conv_pass)pass, part);
    return bytes;
}

int64_t hd_list_count_array_bytes(const struct list_net *net, int value)
{
    const struct hd_net_input *input = &net->base.list.inputs[value];
    return hd_shape_count(&input->shape) * (int64_t)(input->u8 ? 1 : sizeof(float));
}

/* The frames of an input come together in the scratch, before any op needs it. */
static int64_t get_scratch_bytes(const struct list_net *net, enum hd_conv_pass first,
                                 enum hd_conv_pass last, int64_t rows)
{
    const struct walk *walk = &net->on_cpu;
    int64_t most = 0;
    for (int i = 0; i < net->base.list.n_inputs && net->base.list.frames > 1; i++) {
        const int64_t bytes = hd_align_up(hd_list_count_array_bytes(net, i));
        most = bytes > most ? bytes : most;
    }
    for (int i = 0; i < walk->n_ops; i++) {
        const int64_t bytes = get_layer_bytes(&walk->ops[i], rows);
        most = bytes > most ? bytes : most;
        for (int pass = first; pass <= (int)last; pass++) {
            const int64_t of = hd_list_get_impl_bytes(&walk->ops[i], (enum hd_conv_pass)pass, rows);
            most = of > most ? of : most;
        }
    }
    return most;
}

/* The passes of a direction, and the rows of a part of the front. */
struct direction {
    enum hd_conv_pass first, last;
    int64_t part;
};

static struct direction describe(const struct walk *walk, bool backward, int64_t rows)
{
    const int64_t part = backward ? walk->backward_part : walk->forward_part;
    return (struct direction){.first = backward ? HD_CONV_WEIGHTS : HD_CONV_FORWARD,
                              .last = backward ? HD_CONV_DATA : HD_CONV_FORWARD,
                              .part = hd_list_clip_part(part, rows)};
}

/* A backward pass has room for one more value before the scratch. */
static int64_t get_room_bytes(const struct walk *walk, bool backward, int64_t rows)
{
    return backward ? get_widest_bytes(walk, rows) + GAP : 0;
}

static int64_t get_bytes(const struct hd_net *base, bool backward, int64_t rows, int64_t steps)
{
    const struct list_net *net = as_list(base);
    const struct walk *walk = &net->on_cpu;
    const struct direction d = describe(walk, backward, rows);
    return hd_align_up(find_kept(net, walk, rows, steps, walk->n_ops) +
                       get_room_bytes(walk, backward, rows) +
                       get_scratch_bytes(net, d.first, d.last, rows) +
                       get_front_bytes(walk, d.first, d.last, d.part));
}

int64_t hd_net_get_forward_bytes(const struct hd_net *base, int64_t rows, int64_t steps)
{
    return rows == 0 ? 0 : get_bytes(base, false, rows, steps);
}

int64_t hd_net_get_backward_bytes(const struct hd_net *base, int64_t rows, int64_t steps)
{
    return get_bytes(base, true, rows, steps);
}

void *hd_list_get_kept(const struct list_net *net, const struct op *op, struct list_memory memory)
{
    return (char *)memory.values +
           find_kept(net, memory.walk, memory.rows, memory.steps, (int)(op - memory.walk->ops));
}

char *hd_list_find_scratch(const struct list_net *net, struct list_memory memory, bool backward)
{
    return hd_list_find_end(net, memory) + get_room_bytes(memory.walk, backward, memory.rows);
}

struct hd_impl_run *hd_list_find_front(const struct list_net *net, struct list_memory memory,
                                       bool backward, char **scratch_p)
{
    const struct walk *walk = memory.walk;
    const struct direction d = describe(walk, backward, memory.rows);
    char *at = hd_list_find_scratch(net, memory, backward) +
               get_scratch_bytes(net, d.first, d.last, memory.rows);
    *scratch_p = at + get_runs_bytes(walk);
    return (struct hd_impl_run *)at;
}

/* -- Implementations --------------------------------------------------------------------------- */

struct hd_impl_run hd_list_make_run(const struct list_net *net, const struct op *op,
                                    const void *params, enum hd_conv_pass pass, int64_t max_rows,
                                    void *scratch)
{
    const float *floats = params;
    return (struct hd_impl_run){.impl = op->impl,
                                .pass = pass,
                                .max_rows = max_rows,
                                .weights = floats + op->weight,
                                .bias = floats + op->bias,
                                .shadow = hd_list_find_shadow(net, params) + op->shadow,
                                .last = op->impl->blocks,
                                .scratch = scratch};
}

/* Returns where an op finds its input, or the derivatives by it. */
void *hd_list_find_input(struct list_memory memory, const struct op *op)
{
    const int64_t size = hd_form_get_element_bytes(&memory.walk->values[op->in].form);
    return (char *)hd_list_get_value(memory, op->in) + op->offset * size;
}

/* -- The front --------------------------------------------------------------------------------- */

/* Lays the runs of a pass of the front out at *at_p, and begins them. */
int hd_list_begin_front(const struct list_net *net, const void *params, enum hd_conv_pass pass,
                        int64_t part, float *grad, char **at_p, struct hd_impl_run *runs)
{
    const struct walk *walk = &net->on_cpu;
    for (int i = 0; i < walk->front; i++) {
        const struct op *op = &walk->ops[i];
        if (!op->impl)
            continue;
        runs[i] = hd_list_make_run(net, op, params, pass, part, *at_p);
        runs[i].dweights = grad ? grad + op->weight : NULL;
        runs[i].dbias = grad ? grad + op->bias : NULL;
        *at_p += hd_list_get_impl_bytes(op, pass, part);
        HD_TRY(hd_impl_begin(&runs[i]));
    }
    return HD_OK;
}

int hd_list_end_front(const struct walk *walk, struct hd_impl_run *runs)
{
    for (int i = 0; i < walk->front; i++)
        if (walk->ops[i].impl)
            HD_TRY(hd_impl_end(&runs[i]));
    return HD_OK;
}

/* Returns a value's memory for `count` samples from `first` on. */
struct hd_conv_prefetch hd_list_prefetch(struct list_memory memory, int value, int64_t first,
                                         int64_t count, bool write)
{
    memory.first = first;
    return (struct hd_conv_prefetch){hd_list_get_value(memory, value),
                                     hd_form_get_bytes(&memory.walk->values[value].form, count),
                                     write};
}
