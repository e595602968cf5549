/* SPDX-License-Identifier: Apache-2.0 */
/* Training passes of lists with batch norm. Each batch norm is a level: the pass stops there for
 * sums over all samples, in both directions. The derivatives by parameters are computed in the last
 * stage, when the gradient is there to be written. */
#include "kernels/dense/batch_norm.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* The work memory: that of the forward and the backward pass, and moments of the whole batch. */
struct training {
    struct list_memory values, deltas;
    double *mean, *variance; /* [features] */
    double *own;             /* [2 features]: this item's backward sums of each norm */
    double *count;           /* [1]: number of samples of the whole batch */
};

static void *take(void *work, int64_t *used, int64_t bytes)
{
    void *at = work ? (char *)work + *used : NULL;
    *used += hd_align_up(bytes);
    return at;
}

/* Assigns addresses in `work` (NULL: only counts) and returns the bytes. */
static int64_t lay_out(const struct list_net *net, int64_t batch, void *work, struct training *t)
{
    const int64_t doubles = net->features * (int64_t)sizeof(double);
    int64_t used = 0;
    void *values = take(work, &used, hd_net_get_forward_bytes(&net->base, batch, 1));
    void *deltas = take(work, &used, hd_net_get_backward_bytes(&net->base, batch, 1));
    t->values = hd_list_make_memory(&net->on_cpu, values, batch, 1);
    t->deltas = hd_list_make_memory(&net->on_cpu, deltas, batch, 1);
    t->mean = take(work, &used, doubles);
    t->variance = take(work, &used, doubles);
    t->own = take(work, &used, 2 * doubles);
    t->count = take(work, &used, sizeof *t->count);
    return used;
}

int64_t hd_net_get_training_bytes(const struct hd_net *base, int64_t batch)
{
    struct training unused;
    return lay_out(as_list(base), batch, NULL, &unused);
}

/* Returns the number of the op that is the batch norm of a level; that of the end for the level
 * behind the last one. */
static int find_norm(const struct list_net *net, int level)
{
    const struct walk *walk = &net->on_cpu;
    int i = 0;
    while (i < walk->n_ops &&
           !(walk->ops[i].layer && walk->ops[i].layer->type->batch && walk->ops[i].level == level))
        i++;
    return i;
}

/* The first sums begin with the count of samples. */
int64_t hd_net_count_training_sums(const struct hd_net *base, int number)
{
    const struct list_net *net = as_list(base);
    if (base->levels == 0)
        return 0;
    const int level = number < base->levels ? number : 2 * base->levels - 1 - number;
    const int i = level < 0 ? net->on_cpu.n_ops : find_norm(net, level);
    return (number == 0) + (i < net->on_cpu.n_ops ? 2 * net->on_cpu.ops[i].layer->in.size[0] : 0);
}

/* -- Forward ----------------------------------------------------------------------------------- */

/* Returns how many elements of a channel the batch has. */
static double count_elements(const struct op *op, const struct training *t)
{
    return *t->count * (double)hd_shape_count_plane(&op->layer->in);
}

static void normalise(const struct list_net *net, const struct hd_training_pass *pass,
                      const struct training *t, const struct op *op, const double *total_sums)
{
    const struct hd_layer_run run = hd_list_make_forward(net, op, pass->params, t->values);
    double *mean = t->mean + op->feature, *variance = t->variance + op->feature;
    if (op->level == 0)
        *t->count = *total_sums++;
    hd_batch_norm_compute_moments(op->layer->in.size[0], count_elements(op, t), total_sums, mean,
                                  variance);
    op->layer->type->batch->forward(&run, mean, variance);
    hd_list_activate(op, t->values);
}

int hd_list_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                             int stage, const double *total_sums, double *sums)
{
    const struct list_net *net = as_list(base);
    const int norm = find_norm(net, stage);
    struct training t;
    int i = 0;
    lay_out(net, pass->batch, pass->work, &t);
    if (stage == 0) {
        const struct hd_net_pass rows = {.norm = pass->norm, .obs = pass->obs, .rows = pass->batch};
        hd_list_take_obs(net, &rows, t.values);
        *sums++ = (double)pass->used;
    } else {
        i = find_norm(net, stage - 1);
        normalise(net, pass, &t, &net->on_cpu.ops[i++], total_sums);
    }
    for (; i < norm; i++)
        HD_TRY(hd_list_forward_op(net, &net->on_cpu.ops[i], pass->params, NULL, t.values));
    if (stage == base->levels) {
        hd_list_combine_heads(net, t.values, pass->q);
        return HD_OK;
    }
    struct hd_layer_run run =
        hd_list_make_forward(net, &net->on_cpu.ops[norm], pass->params, t.values);
    run.rows = pass->used;
    run.layer->type->batch->add_up(&run, sums);
    return HD_OK;
}

bool hd_net_update_running(const struct hd_net *base, const struct hd_training_pass *pass,
                           float *running)
{
    const struct list_net *net = as_list(base);
    struct training t;
    lay_out(net, pass->batch, pass->work, &t);
    for (int level = 0; level < base->levels; level++) {
        const struct op *op = &net->on_cpu.ops[find_norm(net, level)];
        const struct hd_net_norm *norm = &base->norms[op->layer->norm];
        if (*t.count >= 2)
            hd_batch_norm_update_running(norm->features, count_elements(op, &t),
                                         t.mean + op->feature, t.variance + op->feature,
                                         running + norm->mean, running + norm->var);
    }
    return *t.count >= 2;
}

/* -- Backward ---------------------------------------------------------------------------------- */

static void go_back(const struct list_net *net, const struct hd_training_pass *pass,
                    const struct training *t, const struct op *op, const double *total_sums)
{
    struct hd_layer_run run = hd_list_make_backward(net, op, pass->params, t->values, t->deltas);
    const struct value *in = &net->on_cpu.values[op->in];
    const int64_t n = in->form.ld;
    if (in->is_obs)
        return;
    run.rows = pass->used;
    op->layer->type->batch->backward(&run, t->mean + op->feature, t->variance + op->feature,
                                     count_elements(op, t), total_sums);
    if (!in->form.columns)
        memset(run.to + pass->used * n, 0,
               (size_t)((pass->batch - pass->used) * n) * sizeof(float));
    void *to = hd_list_get_value(t->deltas, op->in);
    if (op->adds)
        hd_list_add(t->deltas, op->in, to, run.to, to);
}

static void add_up(const struct list_net *net, const struct hd_training_pass *pass,
                   const struct training *t, const struct op *op, double *sums)
{
    struct hd_layer_run run = hd_list_make_backward(net, op, pass->params, t->values, t->deltas);
    hd_list_differentiate(op, t->values, t->deltas);
    run.rows = pass->used;
    op->layer->type->batch->add_up_backward(&run, t->mean + op->feature, t->variance + op->feature,
                                            sums);
    memcpy(t->own + 2 * op->feature, sums, (size_t)(2 * op->layer->in.size[0]) * sizeof *sums);
}

static int write_gradients(const struct list_net *net, const struct hd_training_pass *pass,
                           const struct training *t)
{
    hd_list_clear_gaps(net, 0, net->base.elements, pass->grad);
    for (int i = net->on_cpu.n_ops - 1; i >= 0; i--) {
        const struct op *op = &net->on_cpu.ops[i];
        const double *own = t->own + 2 * op->feature;
        HD_TRY(hd_list_backward_weights(net, op, NULL, pass->params, t->values, t->deltas,
                                        pass->grad));
        if (!op->layer || !op->layer->type->batch)
            continue;
        const int64_t features = op->layer->in.size[0];
        for (int64_t c = 0; c < features; c++) {
            pass->grad[op->bias + c] = (float)own[c];
            pass->grad[op->weight + c] = (float)own[features + c];
        }
    }
    return HD_OK;
}

int hd_list_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums)
{
    const struct list_net *net = as_list(base);
    const int norm = stage == base->levels ? -1 : find_norm(net, base->levels - 1 - stage);
    struct training t;
    int i = net->on_cpu.n_ops - 1;
    lay_out(net, pass->batch, pass->work, &t);
    if (stage == 0) {
        hd_list_split_heads(net, pass->dq, t.deltas);
    } else {
        i = find_norm(net, base->levels - stage);
        go_back(net, pass, &t, &net->on_cpu.ops[i--], total_sums);
    }
    for (; i > norm; i--) {
        hd_list_differentiate(&net->on_cpu.ops[i], t.values, t.deltas);
        HD_TRY(hd_list_backward_data(net, &net->on_cpu.ops[i], NULL, pass->params, t.values,
                                     t.deltas, false));
    }
    if (stage == base->levels)
        return write_gradients(net, pass, &t);
    add_up(net, pass, &t, &net->on_cpu.ops[norm], sums);
    return HD_OK;
}
