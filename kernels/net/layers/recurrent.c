/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/linear.h"
#include "kernels/net/layers/recurrent_internal.h"

#include <stdio.h>
#include <string.h>

/* -- The type ---------------------------------------------------------------------------------- */

bool hd_recurrent_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    layer->out = (struct hd_shape){1, {layer->fields[HD_RECURRENT_HIDDEN]}};
    snprintf(message, HD_LAYER_MESSAGE, "takes an input of one dimension, which flatten makes");
    return layer->in.dims == 1;
}

int hd_recurrent_list_tensors(const struct hd_layer *layer,
                              struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    const int64_t in = layer->in.size[0], hidden = layer->out.size[0];
    for (int i = 0; i < HD_LAYER_TENSORS; i++) {
        const int64_t shape[] = {layer->type->cell->gates * hidden, i == 0 ? in : hidden};
        tensors[i] = hd_layer_make_tensor(i < 2 ? 2 : 1, shape, HD_TENSOR_ALWAYS_UNIFORM, hidden);
        snprintf(tensors[i].name, sizeof tensors[i].name, "%s", names[i]);
    }
    return HD_LAYER_TENSORS;
}

/* -- Memory ------------------------------------------------------------------------------------ */

struct sizes {
    int64_t in, hidden, gates, states;
    int64_t steps, sequences;
    int64_t ld, columns; /* columns of a step, and of all steps */
};

static struct sizes measure(const struct hd_layer *layer, int64_t rows, int64_t steps)
{
    struct sizes sizes = {.in = layer->in.size[0],
                          .hidden = layer->out.size[0],
                          .gates = layer->type->cell->gates * layer->out.size[0],
                          .states = layer->type->states,
                          .steps = steps,
                          .sequences = rows / steps};
    sizes.ld = hd_linear_get_ld(sizes.sequences);
    sizes.columns = steps * sizes.ld;
    return sizes;
}

/* The arrays of `kept`, and the derivatives by them in `dkept`. */
struct arrays {
    float *x;              /* [in] */
    float *a, *b;          /* [gates]: as in struct hd_cell_step */
    float *before, *after; /* [states hidden] */
    float *goes_on;        /* [1]: 0 where an episode begins, else 1 */
    float *rows;           /* [columns][in or hidden] */
};

static int64_t take(float **array, float *memory, int64_t used, int64_t floats)
{
    *array = memory ? memory + used : NULL;
    return used + floats;
}

/* Returns the floats; memory NULL: only counts. */
static int64_t lay_out(const struct sizes *s, float *memory, struct arrays *arrays)
{
    const int64_t n = s->columns;
    int64_t used = take(&arrays->x, memory, 0, s->in * n);
    used = take(&arrays->a, memory, used, s->gates * n);
    used = take(&arrays->b, memory, used, s->gates * n);
    used = take(&arrays->before, memory, used, s->states * s->hidden * n);
    used = take(&arrays->after, memory, used, s->states * s->hidden * n);
    used = take(&arrays->goes_on, memory, used, n);
    return take(&arrays->rows, memory, used, (s->in > s->hidden ? s->in : s->hidden) * n);
}

int64_t hd_recurrent_count_kept(const struct hd_layer *layer, int64_t rows, int64_t steps)
{
    const struct sizes sizes = measure(layer, rows, steps);
    struct arrays unused;
    return lay_out(&sizes, NULL, &unused);
}

/* The tensors lie one behind another. */
struct tensors {
    int64_t weight_hh, bias_ih, bias_hh; /* offsets from weight_ih */
};

static struct tensors find_tensors(const struct sizes *s)
{
    struct tensors tensors = {.weight_hh = s->gates * s->in};
    tensors.bias_ih = tensors.weight_hh + s->gates * s->hidden;
    tensors.bias_hh = tensors.bias_ih + s->gates;
    return tensors;
}

static struct hd_cell_step make_step(const struct sizes *s, const struct arrays *kept,
                                     const struct arrays *derivatives, int64_t t)
{
    const int64_t at = t * s->ld;
    struct hd_cell_step step = {.hidden = s->hidden,
                                .columns = s->ld,
                                .ld = s->columns,
                                .a = kept->a + at,
                                .b = kept->b + at};
    for (int64_t i = 0; i < s->states; i++) {
        const int64_t state = i * s->hidden * s->columns + at;
        step.before[i] = kept->before + state;
        step.after[i] = kept->after + state;
        step.dbefore[i] = derivatives ? derivatives->before + state : NULL;
        step.dafter[i] = derivatives ? derivatives->after + state : NULL;
    }
    step.da = derivatives ? derivatives->a + at : NULL;
    step.db = derivatives ? derivatives->b + at : NULL;
    return step;
}

/* -- Rows and columns -------------------------------------------------------------------------- */

/* Copies step t of rows[rows][n] to columns[n]. */
static void gather(const struct sizes *s, int64_t n, const float *rows, int64_t t, float *columns)
{
    hd_transpose(s->sequences, n, rows + t * n, s->steps * n, columns + t * s->ld, s->columns);
}

static void scatter(const struct sizes *s, int64_t n, const float *columns, int64_t t, float *rows)
{
    for (int64_t q = 0; q < s->sequences; q++)
        for (int64_t i = 0; i < n; i++)
            rows[(q * s->steps + t) * n + i] = columns[i * s->columns + t * s->ld + q];
}

/* -- Forward ----------------------------------------------------------------------------------- */

static void mark_begins(const struct sizes *s, const float *begins, float *goes_on)
{
    for (int64_t t = 0; t < s->steps; t++)
        for (int64_t q = 0; q < s->ld; q++)
            goes_on[t * s->ld + q] =
                begins && q < s->sequences && begins[q * s->steps + t] != 0 ? 0 : 1;
}

static void take_state(const struct sizes *s, const struct hd_layer_run *run, float *before)
{
    for (int64_t i = 0; i < s->states * s->hidden; i++)
        for (int64_t q = 0; q < s->ld; q++)
            before[i * s->columns + q] =
                run->state && q < s->sequences ? run->state[q * run->state_ld + i] : 0;
}

static void give_state(const struct sizes *s, const struct hd_layer_run *run, const float *after)
{
    const float *last = after + (s->steps - 1) * s->ld;
    for (int64_t i = 0; i < s->states * s->hidden && run->next_state; i++)
        for (int64_t q = 0; q < s->sequences; q++)
            run->next_state[q * run->state_ld + i] = last[i * s->columns + q];
}

/* The state before a step is that after the step before, or zero where an episode begins. */
static void begin_step(const struct sizes *s, const struct arrays *kept, int64_t t)
{
    const int64_t at = t * s->ld;
    for (int64_t i = 0; i < s->states * s->hidden; i++)
        for (int64_t q = 0; q < s->ld; q++) {
            float *before = kept->before + i * s->columns + at + q;
            if (t > 0)
                *before = kept->after[i * s->columns + at - s->ld + q];
            if (kept->goes_on[at + q] == 0)
                *before = 0;
        }
}

void hd_recurrent_forward(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    const struct tensors tensors = find_tensors(&s);
    const float *w = run->weight;
    struct arrays kept;
    lay_out(&s, run->kept, &kept);
    mark_begins(&s, run->begins, kept.goes_on);
    take_state(&s, run, kept.before);
    for (int64_t t = 0; t < s.steps; t++)
        gather(&s, s.in, run->x, t, kept.x);
    hd_linear_forward(s.gates, s.in, s.columns, w, w + tensors.bias_ih, false, kept.x, s.columns,
                      kept.a, s.columns);
    for (int64_t t = 0; t < s.steps; t++) {
        const struct hd_cell_step step = make_step(&s, &kept, NULL, t);
        begin_step(&s, &kept, t);
        hd_linear_forward(s.gates, s.hidden, s.ld, w + tensors.weight_hh, w + tensors.bias_hh,
                          false, step.before[0], s.columns, step.b, s.columns);
        run->layer->type->cell->forward(&step);
        scatter(&s, s.hidden, kept.after, t, run->to);
    }
    give_state(&s, run, kept.after);
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* The derivatives by the states after step t: that by the output, and what comes from step t + 1.
 */
static void begin_backward_step(const struct sizes *s, const struct hd_layer_run *run,
                                const struct arrays *kept, const struct arrays *derivatives,
                                int64_t t)
{
    const int64_t at = t * s->ld, next = at + s->ld;
    for (int64_t i = s->hidden; i < s->states * s->hidden; i++)
        memset(derivatives->after + i * s->columns + at, 0, (size_t)s->ld * sizeof(float));
    gather(s, s->hidden, run->dy, t, derivatives->after);
    for (int64_t i = 0; i < s->states * s->hidden && t + 1 < s->steps; i++)
        for (int64_t q = 0; q < s->ld; q++)
            if (kept->goes_on[next + q] != 0)
                derivatives->after[i * s->columns + at + q] +=
                    derivatives->before[i * s->columns + next + q];
}

/* Computes the derivatives by a weight and its bias from those by their product, and from the
 * factor[n] as columns, which is copied to rows. */
static void multiply_weights(const struct sizes *s, const float *derivative, const float *factor,
                             int64_t n, float *rows, float *dweight, float *dbias)
{
    for (int64_t at = 0; at < s->columns; at++)
        for (int64_t i = 0; i < n; i++)
            rows[at * n + i] = factor[i * s->columns + at];
    hd_linear_backward_weights(s->gates, n, s->columns, derivative, s->columns, rows, n, dweight,
                               dbias);
}

void hd_recurrent_backward_weights(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    const struct tensors tensors = find_tensors(&s);
    struct arrays kept, derivatives;
    lay_out(&s, run->kept, &kept);
    lay_out(&s, run->dkept, &derivatives);
    for (int64_t t = s.steps - 1; t >= 0; t--) {
        const struct hd_cell_step step = make_step(&s, &kept, &derivatives, t);
        begin_backward_step(&s, run, &kept, &derivatives, t);
        run->layer->type->cell->backward(&step);
        hd_linear_backward_data(s.gates, s.hidden, s.ld, run->weight + tensors.weight_hh, step.db,
                                s.columns, true, NULL, 0, step.dbefore[0], s.columns);
    }
    multiply_weights(&s, derivatives.a, kept.x, s.in, derivatives.rows, run->dweight,
                     run->dweight + tensors.bias_ih);
    multiply_weights(&s, derivatives.b, kept.before, s.hidden, derivatives.rows,
                     run->dweight + tensors.weight_hh, run->dweight + tensors.bias_hh);
}

void hd_recurrent_backward_data(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    struct arrays derivatives;
    lay_out(&s, run->dkept, &derivatives);
    hd_linear_backward_data(s.gates, s.in, s.columns, run->weight, derivatives.a, s.columns, false,
                            NULL, 0, derivatives.x, s.columns);
    for (int64_t t = 0; t < s.steps; t++)
        scatter(&s, s.in, derivatives.x, t, run->to);
}
