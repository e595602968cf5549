/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/dense/linear.h"
#include "kernels/net/layers/recurrent/recurrent_internal.h"
#include "kernels/net/layers/smooth.h"

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
    bool bf16;
    int64_t in, hidden, states;
    int64_t gates, summed, apart; /* floats of a row of all gates, the summed ones and the other */
    int64_t rows, steps, sequences;
};

static struct sizes measure(const struct hd_layer *layer, int64_t rows, int64_t steps)
{
    const struct hd_cell *cell = layer->type->cell;
    const int64_t hidden = layer->out.size[0];
    return (struct sizes){.bf16 = layer->bf16,
                          .in = layer->in.size[0],
                          .hidden = hidden,
                          .states = layer->type->states * hidden,
                          .gates = cell->gates * hidden,
                          .summed = cell->summed * hidden,
                          .apart = (cell->gates - cell->summed) * hidden,
                          .rows = rows,
                          .steps = steps,
                          .sequences = rows / steps};
}

/* The arrays of `kept`, by rows. */
struct kept {
    float *gates, *more; /* [gates], [hidden]: as in struct hd_cell_row */
    float *before;       /* [states] */
    float *after;        /* [states]: the second state, after the row */
    float *goes_on;      /* [1]: 0 where an episode begins, else 1 */
};

/* The arrays of `dkept`. */
struct derivatives {
    float *gates, *apart; /* [rows][gates], [rows][apart]: as in struct hd_cell_row */
    float *states;        /* [sequences][states] */
};

/* Hands out `floats` of the memory, which stays aligned. */
static float *take(float *memory, int64_t *used, int64_t floats)
{
    float *array = memory ? memory + *used : NULL;
    *used += hd_linear_round_up(floats);
    return array;
}

/* Returns the floats; memory NULL: only counts. Products may read a vector beyond `before`. */
static int64_t lay_out(const struct sizes *s, float *memory, struct kept *kept)
{
    int64_t used = 0;
    kept->gates = take(memory, &used, s->rows * s->gates);
    kept->more = take(memory, &used, s->rows * s->hidden);
    kept->before = take(memory, &used, s->rows * s->states);
    kept->after = take(memory, &used, s->rows * (s->states - s->hidden));
    kept->goes_on = take(memory, &used, s->rows);
    return used;
}

/* They take no more than what lay_out counts. */
static struct derivatives lay_out_derivatives(const struct sizes *s, float *memory)
{
    int64_t used = 0;
    struct derivatives derivatives;
    derivatives.gates = take(memory, &used, s->rows * s->gates);
    derivatives.apart = take(memory, &used, s->rows * s->apart);
    derivatives.states = take(memory, &used, s->sequences * s->states);
    return derivatives;
}

int64_t hd_recurrent_count_kept(const struct hd_layer *layer, int64_t rows, int64_t steps)
{
    const struct sizes sizes = measure(layer, rows, steps);
    struct kept unused;
    return lay_out(&sizes, NULL, &unused);
}

/* Forward both weights and the products of a step; backward one weight. */
static int64_t count_memory(const struct sizes *s, bool backward)
{
    const int64_t widest = s->in > s->hidden ? s->in : s->hidden;
    if (backward)
        return hd_factor_count(s->bf16, s->gates, widest);
    return hd_factor_count(s->bf16, s->in, s->gates) +
           hd_factor_count(s->bf16, s->hidden, s->gates) + s->rows * hd_linear_get_ld(s->gates);
}

int64_t hd_recurrent_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    const struct sizes s = measure(layer, rows, 1);
    const int64_t widest = s.in > s.hidden ? s.in : s.hidden;
    const int64_t counts[] = {
        count_memory(&s, false) + hd_factor_count_scratch(s.bf16, rows, widest, s.gates),
        count_memory(&s, true) + hd_factor_count_scratch(s.bf16, rows, s.gates, widest),
        count_memory(&s, true) + hd_rows_count_scratch(s.bf16, rows, s.gates, widest)};
    int64_t most = 0;
    for (int i = 0; i < 3; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
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

/* Sequences are taken in parts: rows [first, end) of all arrays, which the caches hold. */
struct part {
    int64_t first, end;
};

enum { PART_FLOATS = 1 << 15, PART_SEQUENCES = 12 /* products take 6 or 3 rows at a time */ };

/* Returns the part after the rows before `first`. */
static struct part make_part(const struct sizes *s, int64_t first)
{
    const int64_t sequence = s->steps * (s->gates + s->in + 3 * s->hidden);
    const int64_t fit = PART_FLOATS / sequence / PART_SEQUENCES;
    const int64_t rows = (fit > 1 ? fit : 1) * PART_SEQUENCES * s->steps;
    return (struct part){first, s->rows - first < rows ? s->rows : first + rows};
}

/* -- Forward ----------------------------------------------------------------------------------- */

static void mark_begins(const struct sizes *s, const float *begins, float *goes_on)
{
    for (int64_t r = 0; r < s->rows; r++)
        goes_on[r] = begins && begins[r] != 0 ? 0 : 1;
}

/* Copies n floats, or zeros if there are none. */
static void copy(int64_t n, const float *from, float *to)
{
    if (from)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

/* The state before a row is the one that the pass begins with, or that after the row before, or
 * zero where an episode begins. */
static void begin_row(const struct sizes *s, const struct hd_layer_run *run,
                      const struct kept *kept, int64_t row)
{
    const int64_t h = s->hidden, others = s->states - h;
    const float *state = run->state ? run->state + row / s->steps * run->state_ld : NULL;
    const float *first = state, *second = state ? state + h : NULL;
    if (row % s->steps > 0)
        first = run->to + (row - 1) * h, second = kept->after + (row - 1) * others;
    if (kept->goes_on[row] == 0)
        first = second = NULL;
    copy(h, first, kept->before + row * s->states);
    copy(others, second, kept->before + row * s->states + h);
}

static struct hd_cell_row make_row(const struct sizes *s, const struct hd_layer_run *run,
                                   const struct kept *kept, int64_t row)
{
    const struct tensors tensors = find_tensors(s);
    const int64_t h = s->hidden;
    float *before = kept->before + row * s->states;
    return (struct hd_cell_row){
        .gates = kept->gates + row * s->gates,
        .more = kept->more + row * h,
        .bias_ih = run->weight + tensors.bias_ih,
        .bias_hh = run->weight + tensors.bias_hh,
        .before = {before, before + h},
        .after = {run->to + row * h, kept->after + row * (s->states - h)},
    };
}

/* The weights that products of a pass are taken with, and the memory that these need. */
struct factors {
    struct hd_factor ih, hh;
    float *products; /* [sequences of a part][hd_linear_get_ld of the gates]: W_hh h of a step */
    float *scratch;
};

static struct factors make_factors(const struct sizes *s, const struct hd_layer_run *run)
{
    float *hh = (float *)run->scratch + hd_factor_count(s->bf16, s->in, s->gates);
    float *products = hh + hd_factor_count(s->bf16, s->hidden, s->gates);
    const float *weight_hh = run->weight + find_tensors(s).weight_hh;
    return (struct factors){
        .ih = hd_factor_make(s->bf16, s->in, s->gates, run->weight, true, run->scratch),
        .hh = hd_factor_make(s->bf16, s->hidden, s->gates, weight_hh, true, hh),
        .products = products,
        .scratch = (float *)run->scratch + count_memory(s, false)};
}

/* Computes W_ih x of all gates. */
static void multiply_inputs(const struct sizes *s, const struct hd_layer_run *run,
                            const struct kept *kept, const struct factors *factors,
                            struct part part)
{
    const struct hd_rows x = {part.end - part.first, run->x + part.first * s->in, s->in};
    hd_factor_multiply(&factors->ih, &x, false, kept->gates + part.first * s->gates, s->gates,
                       factors->scratch);
}

/* Computes W_hh h of a step, which begins with row `first` of the part. */
static void multiply_states(const struct sizes *s, const struct kept *kept,
                            const struct factors *factors, struct part part)
{
    const struct hd_rows before = {(part.end - part.first + s->steps - 1) / s->steps,
                                   kept->before + part.first * s->states, s->steps * s->states};
    hd_factor_multiply(&factors->hh, &before, false, factors->products, hd_linear_get_ld(s->gates),
                       factors->scratch);
}

HD_ALWAYS void open_gates(int64_t at, int64_t count, const float *bias_ih, const float *bias_hh,
                          const float *products, float *gates)
{
    const hd_reg bias =
        hd_reg_load_some(bias_ih + at, count) + hd_reg_load_some(bias_hh + at, count);
    const hd_reg sum = hd_reg_load_some(gates + at, count) + hd_reg_load_some(products + at, count);
    hd_reg_store_some(gates + at, hd_reg_sigmoid(sum + bias), count);
}

void hd_recurrent_open_gates(int64_t n, const float *bias_ih, const float *bias_hh,
                             const float *products, float *gates)
{
    HD_FOR_REGS(n, open_gates, bias_ih, bias_hh, products, gates);
}

static void forward_step(const struct sizes *s, const struct hd_layer_run *run,
                         const struct kept *kept, const struct factors *factors, struct part part)
{
    const float *products = factors->products;
    for (int64_t row = part.first; row < part.end; row += s->steps)
        begin_row(s, run, kept, row);
    multiply_states(s, kept, factors, part);
    for (int64_t row = part.first; row < part.end; row += s->steps) {
        struct hd_cell_row cell = make_row(s, run, kept, row);
        cell.products = products;
        run->layer->type->cell->forward(s->hidden, &cell);
        products += hd_linear_get_ld(s->gates);
    }
}

static void give_state(const struct sizes *s, const struct hd_layer_run *run,
                       const struct kept *kept)
{
    const int64_t h = s->hidden, others = s->states - h;
    for (int64_t q = 0; q < s->sequences && run->next_state; q++) {
        const int64_t last = (q + 1) * s->steps - 1;
        float *to = run->next_state + q * run->state_ld;
        copy(h, run->to + last * h, to);
        copy(others, kept->after + last * others, to + h);
    }
}

void hd_recurrent_forward(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    const struct factors factors = make_factors(&s, run);
    struct kept kept;
    lay_out(&s, run->kept, &kept);
    mark_begins(&s, run->begins, kept.goes_on);
    for (struct part part = make_part(&s, 0); part.first < s.rows; part = make_part(&s, part.end)) {
        multiply_inputs(&s, run, &kept, &factors, part);
        for (int64_t t = 0; t < s.steps; t++)
            forward_step(&s, run, &kept, &factors, (struct part){part.first + t, part.end});
    }
    give_state(&s, run, &kept);
}

/* -- Backward ---------------------------------------------------------------------------------- */

static void add_to(int64_t n, const float *restrict from, float *restrict to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* Goes back through a row, given the derivatives by the states before the row that follows. */
static void differentiate_row(const struct sizes *s, const struct hd_layer_run *run,
                              const struct kept *kept, const struct derivatives *derivatives,
                              int64_t row)
{
    const bool last = (row + 1) % s->steps == 0;
    struct hd_cell_row cell = make_row(s, run, kept, row);
    cell.dstates[0] = derivatives->states + row / s->steps * s->states;
    cell.dstates[1] = cell.dstates[0] + s->hidden;
    cell.dgates = derivatives->gates + row * s->gates;
    cell.dapart = derivatives->apart + row * s->apart;
    if (last || kept->goes_on[row + 1] == 0)
        copy(s->states, NULL, cell.dstates[0]);
    add_to(s->hidden, run->dy + row * s->hidden, cell.dstates[0]);
    run->layer->type->cell->backward(s->hidden, &cell);
    add_to(s->gates, cell.dgates, run->dweight + find_tensors(s).bias_hh);
    add_to(s->apart, cell.dapart, run->dweight + find_tensors(s).bias_ih + s->summed);
}

/* Computes the derivatives by the outputs of all products, and adds those by the biases. */
static void differentiate(const struct sizes *s, const struct hd_layer_run *run,
                          const struct kept *kept, const struct derivatives *derivatives,
                          const struct hd_factor *hh, struct part part)
{
    float *states = derivatives->states + part.first / s->steps * s->states;
    struct hd_rows gates = {(part.end - part.first) / s->steps, NULL, s->steps * s->gates};
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        for (int64_t row = part.first + t; row < part.end; row += s->steps)
            differentiate_row(s, run, kept, derivatives, row);
        gates.at = derivatives->gates + (part.first + t) * s->gates;
        if (t > 0)
            hd_factor_multiply(hh, &gates, true, states, s->states,
                               (float *)run->scratch + count_memory(s, true));
    }
}

/* Computes the derivatives by the weights, or adds those of a part that is not the first one. */
static void differentiate_weights(const struct sizes *s, const struct hd_layer_run *run,
                                  const struct kept *kept, const struct derivatives *derivatives,
                                  struct part part)
{
    const int64_t rows = part.end - part.first;
    const struct hd_rows x = {rows, run->x + part.first * s->in, s->in};
    const struct hd_rows before = {rows, kept->before + part.first * s->states, s->states};
    const struct hd_rows gates = {rows, derivatives->gates + part.first * s->gates, s->gates};
    const struct hd_rows apart = {rows, derivatives->apart + part.first * s->apart, s->apart};
    float *scratch = (float *)run->scratch + count_memory(s, true);
    const bool add = part.first > 0;
    hd_rows_multiply(s->bf16, s->summed, &gates, s->in, &x, add, run->dweight, scratch);
    if (s->apart > 0)
        hd_rows_multiply(s->bf16, s->apart, &apart, s->in, &x, add,
                         run->dweight + s->summed * s->in, scratch);
    hd_rows_multiply(s->bf16, s->gates, &gates, s->hidden, &before, add,
                     run->dweight + find_tensors(s).weight_hh, scratch);
}

/* Products of bf16 are added over all parts at once. */
void hd_recurrent_backward_weights(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    const struct tensors tensors = find_tensors(&s);
    const struct derivatives derivatives = lay_out_derivatives(&s, run->dkept);
    const struct hd_factor hh = hd_factor_make(
        s.bf16, s.gates, s.hidden, run->weight + tensors.weight_hh, false, run->scratch);
    float *dbias_ih = run->dweight + tensors.bias_ih, *dbias_hh = run->dweight + tensors.bias_hh;
    struct kept kept;
    lay_out(&s, run->kept, &kept);
    copy(2 * s.gates, NULL, dbias_ih);
    for (struct part part = make_part(&s, 0); part.first < s.rows; part = make_part(&s, part.end)) {
        differentiate(&s, run, &kept, &derivatives, &hh, part);
        if (!s.bf16)
            differentiate_weights(&s, run, &kept, &derivatives, part);
    }
    if (s.bf16)
        differentiate_weights(&s, run, &kept, &derivatives, (struct part){0, s.rows});
    copy(s.summed, dbias_hh, dbias_ih);
}

void hd_recurrent_backward_data(const struct hd_layer_run *run)
{
    const struct sizes s = measure(run->layer, run->rows, run->steps);
    const struct derivatives derivatives = lay_out_derivatives(&s, run->dkept);
    const struct hd_rows gates = {s.rows, derivatives.gates, s.gates};
    const struct hd_rows apart = {s.rows, derivatives.apart, s.apart};
    float *scratch = (float *)run->scratch + count_memory(&s, true);
    const struct hd_factor summed =
        hd_factor_make(s.bf16, s.summed, s.in, run->weight, false, run->scratch);
    hd_factor_multiply(&summed, &gates, false, run->to, s.in, scratch);
    if (s.apart == 0)
        return;
    const struct hd_factor other =
        hd_factor_make(s.bf16, s.apart, s.in, run->weight + s.summed * s.in, false, run->scratch);
    hd_factor_multiply(&other, &apart, true, run->to, s.in, scratch);
}
