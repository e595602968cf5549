/* SPDX-License-Identifier: Apache-2.0 */
/* Nets with batch norm: training passes, in one item or distributed over several, against a naive
 * net in double and its differences; names, initial values, running statistics. */
#include "kernels/net/net.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/golden_net.h"

#include <stdio.h>
#include <string.h>

enum { MAX_LAYERS = 8, MAX_ITEMS = 4, MAX_ROWS = 64, MAX_LEVELS = 5, MAX_WIDTH = 40 };

static const struct {
    int64_t obs, widths[3], n_hidden, actions;
    enum hd_heads heads;
    int64_t rows, unused, items; /* of each item */
} cases[] = {
    {3, {5, 7, 3}, 3, 2, HD_HEADS_Q, 12, 0, 1},
    {4, {17}, 1, 1, HD_HEADS_DUELING, 9, 2, 2},
    {6, {8, 33}, 2, 3, HD_HEADS_ACTOR_CRITIC, 7, 3, 4},
    {2, {4, 4, 4}, 3, 5, HD_HEADS_DUELING, 17, 1, 3},
    {5, {16, 6}, 2, 2, HD_HEADS_Q, 16, 0, 4},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static struct hd_net *make_net(int c, enum hd_norm norm)
{
    const struct hd_net_fields fields = {.obs_dims = 1,
                                         .obs_shape = &cases[c].obs,
                                         .actions = cases[c].actions,
                                         .hidden = cases[c].widths,
                                         .n_hidden = cases[c].n_hidden,
                                         .heads = cases[c].heads,
                                         .norm = norm};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

/* -- A batch distributed over items ------------------------------------------------------------ */

struct item {
    float *obs, *q, *dq, *grad;
    void *work;
    struct hd_training_pass pass;
};

struct batch {
    struct hd_net *net;
    int64_t rows, used, items, obs, outputs;
    float *params;
    struct item item[MAX_ITEMS];
};

/* Sample s is row s % used of item s / used, whatever the number of items. */
static struct batch make_batch(int c, int64_t items, int64_t rows, int64_t used)
{
    struct batch batch = {.net = make_net(c, HD_NORM_SYNC_BATCH),
                          .rows = rows,
                          .used = used,
                          .items = items,
                          .obs = cases[c].obs};
    struct hd_net *net = batch.net;
    struct hd_rng rng = hd_rng_make(5, (uint64_t)c, 0, 0, 0);
    batch.outputs = hd_net_count_outputs(net);
    batch.params = guarded(hd_net_get_params_bytes(net));
    ck_assert_int_eq(hd_net_init(net, &rng, batch.params), HD_OK);
    for (int64_t j = 0; j < hd_net_count_params(net); j++) /* norms that do change something */
        batch.params[j] += (float)(0.4 * fill(1, (uint64_t)j) - 0.2);
    for (int64_t k = 0; k < items; k++) {
        struct item *item = &batch.item[k];
        item->obs = test_alloc(rows * batch.obs, 4);
        item->q = guarded(rows * batch.outputs * 4);
        item->dq = test_alloc(rows * batch.outputs, 4);
        item->grad = guarded(hd_net_count_params(net) * 4);
        item->work = guarded(hd_net_get_training_bytes(net, rows));
        memset(item->work, 0xFF, (size_t)hd_net_get_training_bytes(net, rows));
        const uint64_t first = (uint64_t)(k * used);
        for (int64_t i = 0; i < rows * batch.obs; i++)
            item->obs[i] = i < used * batch.obs
                               ? (float)(3 * fill(2, first * (uint64_t)batch.obs + (uint64_t)i) - 1)
                               : 7;
        for (int64_t i = 0; i < used * batch.outputs; i++)
            item->dq[i] = (float)(fill(3, first * (uint64_t)batch.outputs + (uint64_t)i) - 0.5);
        item->pass = (struct hd_training_pass){.params = batch.params,
                                               .obs = item->obs,
                                               .batch = rows,
                                               .used = used,
                                               .work = item->work,
                                               .q = item->q,
                                               .dq = item->dq,
                                               .grad = item->grad};
    }
    return batch;
}

/* Runs one stage of all items in either direction, and adds the sums that they leave. */
static void run_stage(struct batch *batch, bool back, int stage, const double *total_sums,
                      double *all)
{
    const int levels = hd_net_count_levels(batch->net);
    const int number = stage + (back ? levels : 0);
    const int64_t n = stage < levels ? hd_net_count_training_sums(batch->net, number) : 0;
    double *own = guarded(n * 8);
    for (int64_t k = 0; k < batch->items; k++) {
        (back ? hd_net_training_backward : hd_net_training_forward)(
            batch->net, &batch->item[k].pass, stage, stage > 0 ? total_sums : NULL, n ? own : NULL);
        for (int64_t i = 0; i < n; i++)
            all[i] = (k > 0 ? all[i] : 0) + own[i];
        check_guard(own, n * 8);
    }
}

static void run(struct batch *batch)
{
    enum { MAX_SUMS = 1 + 4 * MAX_WIDTH };
    const int levels = hd_net_count_levels(batch->net);
    double sums[2][MAX_SUMS];
    for (int back = 0; back < 2; back++)
        for (int stage = 0; stage <= levels; stage++)
            run_stage(batch, back == 1, stage, sums[(stage + 1) % 2], sums[stage % 2]);
    for (int64_t k = 0; k < batch->items; k++) {
        check_guard(batch->item[k].q, batch->rows * batch->outputs * 4);
        check_guard(batch->item[k].grad, hd_net_count_params(batch->net) * 4);
        check_guard(batch->item[k].work, hd_net_get_training_bytes(batch->net, batch->rows));
    }
}

/* -- The naive net, all samples at once -------------------------------------------------------- */

struct naive {
    const struct batch *batch;
    double *params; /* in order of the tensors */
    int64_t n;      /* samples */
    double mean[MAX_LAYERS][MAX_WIDTH], variance[MAX_LAYERS][MAX_WIDTH];
    double x[MAX_LAYERS + 1][MAX_ROWS][MAX_WIDTH]; /* the observations, then every layer's output */
    int layers;
    const float *running; /* NULL: by the batch's own statistics */
};

/* Computes layer `to` from layer `from`, with its parameters at *at_p. */
static void naive_layer(struct naive *naive, int from, int64_t in, int64_t out, bool hidden,
                        int64_t *at_p)
{
    const double *w = naive->params + *at_p, *b = w + in * out, *gain = b + out,
                 *shift = gain + out;
    const int to = ++naive->layers;
    *at_p += in * out + (hidden ? 3 : 1) * out;
    for (int64_t o = 0; o < out; o++) {
        double mean = 0, variance = 0;
        for (int64_t r = 0; r < naive->n; r++) {
            double y = b[o];
            for (int64_t i = 0; i < in; i++)
                y += w[o * in + i] * naive->x[from][r][i];
            naive->x[to][r][o] = y;
            mean += y / (double)naive->n;
        }
        for (int64_t r = 0; r < naive->n; r++)
            variance += pow(naive->x[to][r][o] - mean, 2) / (double)naive->n;
        naive->mean[to - 1][o] = mean;
        naive->variance[to - 1][o] = variance;
        if (naive->running && hidden) {
            mean = naive->running[o];
            variance = naive->running[out + o];
        }
        for (int64_t r = 0; r < naive->n && hidden; r++)
            naive->x[to][r][o] =
                fmax(0, (naive->x[to][r][o] - mean) / sqrt(variance + 1e-5) * gain[o] + shift[o]);
    }
    if (naive->running && hidden)
        naive->running += 2 * out;
}

/* Computes q[n][outputs]. */
static void naive_forward(struct naive *naive, int c, double *q)
{
    const int64_t *widths = cases[c].widths, actions = cases[c].actions;
    const int64_t wide = widths[cases[c].n_hidden - 1], outputs = naive->batch->outputs;
    const enum hd_heads heads = cases[c].heads;
    int64_t at = 0;
    int streams[2] = {0}, n = heads == HD_HEADS_Q ? 1 : 2;
    naive->layers = 0;
    for (int64_t i = 0; i < cases[c].n_hidden; i++)
        naive_layer(naive, (int)i, i > 0 ? widths[i - 1] : cases[c].obs, widths[i], true, &at);
    for (int s = 0; s < n; s++) {
        const bool value = s == (heads == HD_HEADS_ACTOR_CRITIC ? 0 : 1);
        naive_layer(naive, (int)cases[c].n_hidden, wide, wide, true, &at);
        naive_layer(naive, naive->layers, wide, value ? 1 : actions, false, &at);
        streams[value] = naive->layers;
    }
    for (int64_t r = 0; r < naive->n; r++) {
        const double *a = naive->x[streams[0]][r], v = naive->x[streams[1]][r][0];
        double mean = 0;
        for (int64_t i = 0; i < actions; i++)
            mean += a[i] / (double)actions;
        for (int64_t i = 0; i < actions; i++)
            q[r * outputs + i] = a[i] + (heads == HD_HEADS_DUELING ? v - mean : 0);
        if (heads == HD_HEADS_ACTOR_CRITIC)
            q[r * outputs + actions] = v;
    }
}

static struct naive *make_naive(const struct batch *batch)
{
    struct naive *naive = test_alloc(1, sizeof *naive);
    const int64_t n = hd_net_count_params(batch->net);
    *naive = (struct naive){.batch = batch, .n = batch->items * batch->used};
    ck_assert_int_le(naive->n, MAX_ROWS);
    naive->params = test_alloc(n, sizeof *naive->params);
    for (int64_t j = 0; j < n; j++)
        naive->params[j] = batch->params[j];
    for (int64_t r = 0; r < naive->n; r++)
        for (int64_t i = 0; i < batch->obs; i++)
            naive->x[0][r][i] = batch->item[r / batch->used].obs[r % batch->used * batch->obs + i];
    return naive;
}

static double naive_loss(struct naive *naive, int c, double *q)
{
    const int64_t outputs = naive->batch->outputs, used = naive->batch->used;
    double loss = 0;
    naive_forward(naive, c, q);
    for (int64_t r = 0; r < naive->n; r++)
        for (int64_t i = 0; i < outputs; i++)
            loss += q[r * outputs + i] * naive->batch->item[r / used].dq[r % used * outputs + i];
    return loss;
}

/* -- Tests ------------------------------------------------------------------------------------- */

/* Returns how many of an item's rows count. */
static int64_t used_of(int c)
{
    return cases[c].rows - cases[c].unused;
}

static double off_by(double found, double wanted, double *norm)
{
    *norm += wanted * wanted;
    return isnan(found) ? INFINITY : (found - wanted) * (found - wanted);
}

static void check_gradients(const struct batch *batch, struct naive *naive, int c, double *q)
{
    const double step = 1e-5;
    for (int t = 0; t < hd_net_count_tensors(batch->net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(batch->net, t);
        /* A bias before a norm has none: what it adds to the mean is taken off again. */
        double off = 0, norm = 1e-8;
        for (int64_t j = tensor->offset; j < tensor->offset + tensor->count; j++) {
            const double kept = naive->params[j];
            double sum = 0;
            for (int64_t k = 0; k < batch->items; k++)
                sum += batch->item[k].grad[j];
            naive->params[j] = kept + step;
            const double up = naive_loss(naive, c, q);
            naive->params[j] = kept - step;
            const double down = naive_loss(naive, c, q);
            naive->params[j] = kept;
            off += off_by(sum, (up - down) / (2 * step), &norm);
        }
        ck_assert_msg(sqrt(off / norm) < 2e-5 || sqrt(off) < 2e-6, "net %d: %s off by %.1e of %.1e",
                      c, tensor->name, sqrt(off), sqrt(norm));
    }
}

TEST(passes_are_those_of_a_naive_net, .runs = N_CASES)
{
    const int c = _i;
    struct batch batch = make_batch(c, cases[c].items, cases[c].rows, used_of(c));
    struct naive *naive = make_naive(&batch);
    double *q = test_alloc(naive->n * batch.outputs, sizeof *q), off = 0, norm = 0;
    run(&batch);
    naive_forward(naive, c, q);
    for (int64_t r = 0; r < naive->n; r++)
        for (int64_t i = 0; i < batch.outputs; i++)
            off += off_by(batch.item[r / batch.used].q[r % batch.used * batch.outputs + i],
                          q[r * batch.outputs + i], &norm);
    ck_assert_msg(sqrt(off / norm) < 2e-6, "net %d: outputs off by %.1e", c, sqrt(off / norm));
    check_gradients(&batch, naive, c, q);
    hd_net_destroy(batch.net);
}

TEST(rows_that_do_not_count_change_no_bit, .runs = N_CASES)
{
    const int c = _i;
    struct batch batch = make_batch(c, cases[c].items, cases[c].rows, used_of(c));
    struct batch other = make_batch(c, cases[c].items, cases[c].rows, used_of(c));
    struct batch short_one = make_batch(c, cases[c].items, used_of(c), used_of(c));
    const size_t bytes = (size_t)hd_net_count_params(batch.net) * sizeof(float);
    for (int64_t k = 0; k < other.items; k++)
        for (int64_t i = other.used * other.obs; i < other.rows * other.obs; i++)
            other.item[k].obs[i] = (float)i;
    run(&batch);
    run(&other);
    run(&short_one);
    for (int64_t k = 0; k < other.items; k++) {
        ck_assert_mem_eq(batch.item[k].grad, other.item[k].grad, bytes);
        ck_assert_mem_eq(batch.item[k].grad, short_one.item[k].grad, bytes);
        ck_assert_mem_eq(batch.item[k].q, short_one.item[k].q,
                         (size_t)(batch.used * batch.outputs) * sizeof(float));
    }
    hd_net_destroy(short_one.net);
    hd_net_destroy(other.net);
    hd_net_destroy(batch.net);
}

/* The same samples give the same result in one item and in four. */
TEST(a_batch_spread_over_items_is_one_batch, .runs = N_CASES)
{
    struct batch one = make_batch(_i, 1, 24, 24), four = make_batch(_i, 4, 6, 6);
    const int64_t n = hd_net_count_params(one.net), outputs = one.outputs;
    double off = 0, norm = 0;
    run(&one);
    run(&four);
    for (int64_t r = 0; r < 24; r++)
        for (int64_t i = 0; i < outputs; i++)
            off += off_by(four.item[r / 6].q[r % 6 * outputs + i], one.item[0].q[r * outputs + i],
                          &norm);
    ck_assert_msg(sqrt(off / norm) < 1e-6, "outputs off by %.1e", sqrt(off / norm));
    off = norm = 0;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int k = 0; k < 4; k++)
            sum += four.item[k].grad[j];
        off += off_by(sum, one.item[0].grad[j], &norm);
    }
    ck_assert_msg(sqrt(off / norm) < 3e-6, "gradients off by %.1e", sqrt(off / norm));
    hd_net_destroy(four.net);
    hd_net_destroy(one.net);
}

TEST(running_statistics_are_what_acting_goes_by, .runs = N_CASES)
{
    const int c = _i;
    struct batch batch = make_batch(c, cases[c].items, cases[c].rows, used_of(c));
    struct hd_net *net = batch.net;
    struct naive *naive = make_naive(&batch);
    const int64_t floats = hd_net_count_running(net), outputs = batch.outputs;
    float *running = guarded(floats * 4), *other = guarded(floats * 4);
    double *q = test_alloc(naive->n * outputs, sizeof *q);
    hd_net_init_running(net, running);
    hd_net_init_running(net, other);
    run(&batch);
    ck_assert(hd_net_update_running(net, &batch.item[0].pass, running));
    ck_assert(hd_net_update_running(net, &batch.item[batch.items - 1].pass, other));
    ck_assert_mem_eq(running, other, (size_t)floats * sizeof(float));
    naive_forward(naive, c, q);
    for (int i = 0, layer = 0; i < hd_net_count_norms(net); i++, layer++) {
        const struct hd_net_norm *norm = hd_net_get_norm(net, i);
        const double n = (double)naive->n;
        layer += i > cases[c].n_hidden; /* an output layer before it */
        for (int64_t j = 0; j < norm->features; j++) {
            CHECK_CLOSE(running[norm->mean + j], 0.1 * naive->mean[layer][j], 1.0, 1e-6,
                        norm->name);
            CHECK_CLOSE(running[norm->var + j], 0.9 + 0.1 * naive->variance[layer][j] * n / (n - 1),
                        1.0, 1e-6, norm->name);
        }
    }
    check_guard(running, floats * 4);

    /* When acting, each row is computed by itself, as in the naive net with the same statistics. */
    float *all = guarded(batch.rows * outputs * 4), *alone = guarded(outputs * 4);
    void *work = guarded(hd_net_get_forward_bytes(net, batch.rows, 1));
    naive->running = running;
    naive_forward(naive, c, q);
    hd_net_forward(net,
                   &(struct hd_net_pass){.params = batch.params,
                                         .running = running,
                                         .obs = batch.item[0].obs,
                                         .rows = batch.rows,
                                         .work = work},
                   all);
    for (int64_t i = 0; i < batch.used * outputs; i++)
        CHECK_CLOSE(all[i], q[i], 1.0, 1e-5, "acting");
    for (int64_t r = 0; r < batch.rows; r++) {
        hd_net_forward(net,
                       &(struct hd_net_pass){.params = batch.params,
                                             .running = running,
                                             .obs = batch.item[0].obs + r * batch.obs,
                                             .rows = 1,
                                             .work = work},
                       alone);
        ck_assert_mem_eq(alone, all + r * outputs, (size_t)outputs * sizeof(float));
    }
    check_guard(work, hd_net_get_forward_bytes(net, batch.rows, 1));
    forward_rows(net, batch.params, NULL, batch.item[0].obs, 1, work, alone);
    ck_assert(isnan(alone[0]));
    hd_net_destroy(net);
}

/* -- Names of tensors, with and without norms -------------------------------------------------- */

TEST(names_are_those_of_blocks, .runs = 3)
{
    static const char *const q[] = {"encoder.init.0", "encoder.init.1", "encoder.main.0",
                                    "encoder.main.1", "encoder.main.3", "encoder.main.4",
                                    "head.Q.0.0",     "head.Q.0.1",     "head.Q.1.0"};
    static const char *const dueling[] = {"encoder.init.0", "encoder.init.1", "head.A.0.0",
                                          "head.A.0.1",     "head.A.1.0",     "head.V.0.0",
                                          "head.V.0.1",     "head.V.1.0"};
    static const char *const critic[] = {
        "encoder.init.0",     "encoder.init.1",     "encoder.main.0",   "encoder.main.1",
        "critic_head.main.0", "critic_head.main.1", "critic_head.last", "actor_head.Q.0.0",
        "actor_head.Q.0.1",   "actor_head.Q.1.0"};
    static const struct {
        const char *const *names;
        int n;
    } wanted[] = {{q, 9}, {dueling, 8}, {critic, 10}};
    struct hd_net *net = make_net(_i, HD_NORM_SYNC_BATCH);
    struct hd_rng rng = hd_rng_make(1, 2, 0, 0, 0);
    float *params = test_alloc(hd_net_get_params_bytes(net), 1);
    int64_t offset = 0;
    int norms = 0;
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    ck_assert_int_eq(hd_net_count_tensors(net), 2 * wanted[_i].n);
    ck_assert_int_eq(hd_net_count_levels(net), hd_net_count_norms(net));
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        char name[HD_TENSOR_NAME];
        snprintf(name, sizeof name, "%s.%s", wanted[_i].names[t / 2], t % 2 ? "bias" : "weight");
        ck_assert_str_eq(tensor->name, name);
        ck_assert_int_eq(tensor->offset, offset);
        offset += tensor->count;
        if (tensor->fan_in > 0)
            continue;
        for (int64_t j = 0; j < tensor->count; j++)
            ck_assert(params[tensor->offset + j] == (t % 2 ? 0 : 1));
        ck_assert_int_eq(tensor->dims, 1);
        ck_assert_str_eq(hd_net_get_norm(net, norms / 2)->name, wanted[_i].names[t / 2]);
        ck_assert_int_eq(hd_net_get_norm(net, norms++ / 2)->features, tensor->count);
    }
    ck_assert_int_eq(offset, hd_net_count_params(net));
    ck_assert_int_eq(hd_net_count_norms(net), norms / 2);
    hd_net_destroy(net);
}

TEST(nets_without_norms_have_none, .runs = N_CASES)
{
    struct hd_net *net = make_net(_i, HD_NORM_NONE);
    ck_assert_int_eq(hd_net_count_levels(net), 0);
    ck_assert_int_eq(hd_net_count_norms(net), 0);
    ck_assert_int_eq(hd_net_count_running(net), 0);
    ck_assert_int_eq(hd_net_count_training_sums(net, 0), 0);
    hd_net_destroy(net);
}

TEST(convolutional_nets_take_none)
{
    static const int64_t shape[] = {4, 84, 84}, hidden[] = {32, 64, 64, 128};
    const struct hd_net_fields fields = {.obs_dims = 3,
                                         .obs_shape = shape,
                                         .obs_u8 = true,
                                         .actions = 6,
                                         .hidden = hidden,
                                         .n_hidden = 4,
                                         .norm = HD_NORM_SYNC_BATCH};
    struct hd_net_mistake mistake;
    struct hd_net *net;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "norm");
    ck_assert_ptr_nonnull(strstr(mistake.message, "dense nets"));
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_ERR_INPUT);
}
