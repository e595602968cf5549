/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

int hd_walk_allocate(struct walk *walk, int64_t ops, int64_t values)
{
    walk->ops = hd_alloc(ops, sizeof *walk->ops);
    walk->values = hd_alloc(values, sizeof *walk->values);
    walk->of_value = NO_VALUE;
    return walk->ops && walk->values ? HD_OK : HD_ERR_NOMEM;
}

void hd_walk_release(struct walk *walk)
{
    for (int i = 0; i < walk->n_ops; i++)
        hd_impl_destroy(walk->ops[i].impl);
    hd_free(walk->ops);
    hd_free(walk->values);
    hd_free(walk->stages);
}

int hd_walk_add_value(struct walk *walk, const struct hd_form *form)
{
    const int64_t elements = form->columns ? hd_form_count(form) : form->ld;
    const int64_t bytes = elements * hd_form_get_element_bytes(form);
    walk->values[walk->n_values] =
        (struct value){.form = *form, .before_rows = walk->rows, .before_columns = walk->columns};
    int64_t *widest = form->columns ? &walk->widest_columns : &walk->widest_rows;
    *widest = bytes > *widest ? bytes : *widest;
    *(form->columns ? &walk->columns : &walk->rows) += bytes;
    return walk->n_values++;
}

const struct op *hd_walk_find_writer(const struct walk *walk, int value)
{
    for (int i = 0; i < walk->n_ops; i++)
        if (walk->ops[i].out == value)
            return &walk->ops[i];
    return NULL;
}

/* Values follow one another in memory, so that all have new places. */
void hd_walk_change_form(struct walk *walk, int value, const struct hd_form *form)
{
    const int n = walk->n_values;
    walk->values[value].form = *form;
    walk->n_values = 0;
    walk->rows = walk->columns = walk->widest_rows = walk->widest_columns = 0;
    for (int i = 0; i < n; i++) {
        const struct value is = walk->values[i];
        hd_walk_add_value(walk, &is.form);
        walk->values[i].is_obs = is.is_obs;
    }
}

/* The last op that reads a value writes the derivatives by it; the others, which come later in the
 * backward pass, add. */
int hd_walk_find_added(struct walk *walk)
{
    bool *begun = hd_alloc(walk->n_values, sizeof *begun);
    if (!begun)
        return HD_ERR_NOMEM;
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        struct op *op = &walk->ops[i];
        op->adds = begun[op->in] && !op->part;
        begun[op->in] = true;
        if (op->skip == NO_VALUE)
            continue;
        op->adds_skip = begun[op->skip];
        begun[op->skip] = true;
    }
    hd_free(begun);
    return HD_OK;
}

/* -- Stages ------------------------------------------------------------------------------------ */

static void add_stage(struct walk *walk, struct stage *stage)
{
    walk->stages[walk->n_stages++] = *stage;
    *stage = (struct stage){
        .first = stage->first, .last = stage->first, .lo = stage->hi, .hi = stage->hi};
}

/* Cuts a large layer by blocks of its inputs. Its bias comes first, and so do later ops that have
 * no floats. */
static void cut_op(const struct op *op, int number, struct walk *walk, struct stage *stage)
{
    const int64_t blocks = op->impl->blocks, block = op->impl->weights / blocks;
    const int64_t parts = (op->impl->weights + MOST_STAGE_FLOATS - 1) / MOST_STAGE_FLOATS;
    const int64_t step = (blocks + parts - 1) / parts;
    for (int64_t first = 0; first < blocks; first += step) {
        stage->first = number;
        stage->last = first == 0 ? stage->last : number + 1;
        stage->first_block = first;
        stage->last_block = first + step < blocks ? first + step : blocks;
        stage->hi = stage->last_block < blocks ? op->weight + stage->last_block * block : op->end;
        add_stage(walk, stage);
    }
}

static bool is_cut(const struct op *op)
{
    return op->impl && op->impl->blocks > 1 && op->impl->weights > MOST_STAGE_FLOATS && !op->adds;
}

/* Returns the most stages that ops can need. */
static int64_t count_most_stages(const struct list_net *net, const struct walk *walk)
{
    return walk->n_ops + 1 + net->base.elements / MOST_STAGE_FLOATS + 1;
}

int hd_walk_cut_stages(const struct list_net *net, struct walk *walk)
{
    const int64_t elements = net->base.elements;
    struct stage stage = {.first = walk->n_ops, .last = walk->n_ops};
    walk->stages = hd_alloc(count_most_stages(net, walk), sizeof *walk->stages);
    if (!walk->stages)
        return HD_ERR_NOMEM;
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        const struct op *op = &walk->ops[i];
        if (is_cut(op)) {
            if (stage.lo < stage.hi)
                add_stage(walk, &stage);
            cut_op(op, i, walk, &stage);
            continue;
        }
        stage.first = i;
        stage.hi = net->in_list_order ? elements : op->end;
        if (stage.hi - stage.lo >= STAGE_FLOATS && stage.hi < elements && i >= walk->front)
            add_stage(walk, &stage);
    }
    stage.hi = elements;
    if (stage.lo < elements || walk->n_stages == 0) /* else the rest has no weights */
        add_stage(walk, &stage);
    return HD_OK;
}

int hd_net_count_stages(const struct hd_net *net)
{
    return as_list(net)->on_cpu.n_stages;
}

void hd_net_get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = as_list(net)->on_cpu.stages[stage].lo;
    *hi_p = as_list(net)->on_cpu.stages[stage].hi;
}

/* -- The front --------------------------------------------------------------------------------- */

/* Parts of fewer rows cost more in passes that begin and end than reading from the cache saves. */
enum { LARGE_BYTES = 12 << 10, CACHE_BYTES = 1 << 20, LEAST_ROWS = 4, LEAST_ROWS_F32 = 16 };

/* Returns whether an op may go through rows part by part. */
static bool takes_parts(const struct walk *walk, const struct op *op)
{
    const struct hd_form *in = &walk->values[op->in].form;
    if (in->columns || walk->values[op->out].form.columns || (op->impl && op->impl->blocks > 1))
        return false;
    if (op->layer && !op->impl && (op->layer->type->list_tensors || op->layer->type->states > 0))
        return false;
    return !op->impl || hd_form_get_bytes(in, 1) >= LARGE_BYTES;
}

/* Returns whether the ops from `front` on read no other value of the ops before than the last. */
static bool is_closed(const struct walk *walk, int front)
{
    const int last = walk->ops[front - 1].out;
    for (int i = front; i < walk->n_ops; i++) {
        const int reads[] = {walk->ops[i].in, walk->ops[i].skip};
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < front; k++)
                if (walk->ops[k].out == reads[j] && reads[j] != last)
                    return false;
    }
    return true;
}

/* Returns the bytes of a row of the front: of the observation, and of its outputs, counted `times`
 * times. */
static int64_t count_row_bytes(const struct walk *walk, int times)
{
    int64_t bytes = 0;
    for (int i = 0; walk->values[i].is_obs && i < walk->n_values; i++)
        bytes += hd_form_get_bytes(&walk->values[i].form, 1);
    for (int i = 0; i < walk->front; i++)
        bytes += times * hd_form_get_bytes(&walk->values[walk->ops[i].out].form, 1);
    return bytes;
}

static int64_t count_part_rows(const struct list_net *net, const struct walk *walk, int times)
{
    const int64_t rows = CACHE_BYTES / count_row_bytes(walk, times);
    const int64_t least = net->base.bf16 ? LEAST_ROWS : LEAST_ROWS_F32;
    return rows > least ? rows : least;
}

/* Products of floats take so long that reading activations again does not matter, unless those of a
 * sample alone fill the cache, as in IMPALA's net. */
static bool is_worth_cutting(const struct list_net *net, const struct walk *walk)
{
    return walk->front > 0 && (net->base.bf16 || count_row_bytes(walk, 1) > CACHE_BYTES);
}

void hd_walk_choose_front(const struct list_net *net, struct walk *walk)
{
    walk->forward_part = walk->backward_part = INT64_MAX;
    if (net->base.batch_norm)
        return;
    for (int i = 0; i < walk->n_ops && takes_parts(walk, &walk->ops[i]); i++)
        if (is_closed(walk, i + 1))
            walk->front = i + 1;
    if (!is_worth_cutting(net, walk)) {
        walk->front = 0;
        return;
    }
    walk->forward_part = count_part_rows(net, walk, 1);
    walk->backward_part = count_part_rows(net, walk, 2);
}
