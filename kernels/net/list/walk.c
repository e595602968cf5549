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
    hd_free(walk->ops);
    hd_free(walk->values);
    hd_free(walk->stages);
}

int hd_walk_add_value(struct walk *walk, int64_t elements, bool columns)
{
    walk->values[walk->n_values] = (struct value){.elements = elements,
                                                  .columns = columns,
                                                  .before_rows = walk->rows,
                                                  .before_columns = walk->columns};
    int64_t *widest = columns ? &walk->widest_columns : &walk->widest_rows;
    *widest = elements > *widest ? elements : *widest;
    *(columns ? &walk->columns : &walk->rows) += elements;
    return walk->n_values++;
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
        op->adds = begun[op->in];
        begun[op->in] = true;
        if (op->skip == NO_VALUE)
            continue;
        op->adds_skip = begun[op->skip];
        begun[op->skip] = true;
    }
    hd_free(begun);
    return HD_OK;
}

int hd_walk_cut_stages(const struct hd_net *base, struct walk *walk)
{
    struct stage stage = {.first = walk->n_ops, .last = walk->n_ops};
    walk->stages = hd_alloc(walk->n_ops + 1, sizeof *walk->stages);
    if (!walk->stages)
        return HD_ERR_NOMEM;
    for (int i = walk->n_ops - 1; i >= 0; i--) {
        stage.first = i;
        stage.hi = base->in_list_order ? base->elements : walk->ops[i].end;
        if (stage.hi - stage.lo < STAGE_FLOATS || stage.hi == base->elements)
            continue;
        walk->stages[walk->n_stages++] = stage;
        stage = (struct stage){.first = i, .last = i, .lo = stage.hi, .hi = stage.hi};
    }
    walk->stages[walk->n_stages++] = stage;
    return HD_OK;
}
