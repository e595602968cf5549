/* SPDX-License-Identifier: Apache-2.0 */
/* Nets of any layers: passes against a naive net in double and its differences, rows that do not
 * depend on their batch, stages, batch norm over several items, DI-engine's nets as lists, and
 * mistakes. */
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/forward_rows.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/list/list_passes.h"

#include <string.h>

enum { MAX_ITEMS = 3 };

TEST(passes_are_those_of_a_naive_net, .runs = N_LISTS)
{
    const struct list_case *list = &lists[_i];
    const struct hd_net_fields fields = list_fields(list);
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, outputs = hd_net_count_outputs(net);
    const int64_t work_bytes = hd_net_get_forward_bytes(net, 2 * rows, 1);
    const int64_t scratch_bytes = hd_net_get_backward_bytes(net, rows, 1);
    float *params = make_params(net), *q = guarded(2 * rows * outputs * 4);
    float *grad = guarded(hd_net_count_params(net) * 4), *dq = make_dq(0, rows * outputs);
    char *obs = make_obs(list, net, 0, 2 * rows), *work = guarded(work_bytes);
    void *scratch = guarded(scratch_bytes);
    double *wanted = test_alloc(2 * rows * outputs, sizeof *wanted);
    double *doubles = naive_params(net, params), *naive = naive_obs(list, net, 2 * rows);
    ck_assert(!hd_net_is_short_form(net));
    memset(work, 0xFF, (size_t)work_bytes);
    memset(scratch, 0xFF, (size_t)scratch_bytes);
    memset(grad, 0xFF, (size_t)hd_net_count_params(net) * 4);
    hd_net_forward(net,
                   &(struct hd_net_pass){.params = params,
                                         .obs = obs,
                                         .next_obs = obs + rows * hd_net_get_obs_bytes(net),
                                         .rows = rows,
                                         .work = work},
                   q);
    naive_forward(&fields, doubles, NULL, naive, 2 * rows, wanted);
    check_q(2 * rows * outputs, q, wanted, 3e-6, list->name);
    int64_t end = 0;
    for (int stage = 0; stage < hd_net_count_stages(net); stage++) {
        int64_t lo, hi;
        hd_net_get_stage_range(net, stage, &lo, &hi);
        ck_assert_int_eq(lo, end);
        end = hi;
        hd_net_backward(net, params, rows, 2 * rows, work, dq, scratch, stage, grad);
    }
    ck_assert_int_eq(end, hd_net_count_params(net));
    check_differences(list, net, doubles, naive, rows, dq, by_tensors(net, grad));
    check_guard(q, 2 * rows * outputs * 4);
    check_guard(grad, hd_net_count_params(net) * 4);
    check_guard(work, work_bytes);
    check_guard(scratch, scratch_bytes);
    hd_net_destroy(net);
}

/* Derivatives by the observations against differences, after a pass of more rows. */
TEST(derivatives_by_observations_are_those_of_a_naive_net, .runs = N_LISTS)
{
    const struct list_case *list = &lists[_i];
    const struct hd_net_fields fields = list_fields(list);
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, obs = hd_net_count_obs(net), n = hd_net_count_outputs(net);
    const int64_t scratch_bytes = hd_net_get_backward_bytes(net, rows, 1);
    float *params = make_params(net), *dq = make_dq(0, rows * n), *q = guarded(2 * rows * n * 4);
    float *dobs = guarded(rows * obs * 4);
    void *work = guarded(hd_net_get_forward_bytes(net, 2 * rows, 1)),
         *scratch = guarded(scratch_bytes);
    double *doubles = naive_params(net, params), *wanted = test_alloc(rows * n, sizeof *wanted);
    double *naive = naive_obs(list, net, rows), scale = 0.05;
    ck_assert(hd_net_has_obs_gradient(net) ==
              (list->layers[0].type != &hd_layer_embedding && list->n_inputs == 0));
    if (hd_net_has_obs_gradient(net)) {
        memset(scratch, 0xFF, (size_t)scratch_bytes);
        memset(dobs, 0xFF, (size_t)(rows * obs) * 4);
        forward_rows(net, params, NULL, make_obs(list, net, 0, 2 * rows), 2 * rows, work, q);
        hd_net_backward_obs(net, params, rows, 2 * rows, work, dq, scratch, dobs);
        for (int64_t i = 0; i < rows * obs; i++)
            scale = fmax(scale, fabs(dobs[i]));
        for (int64_t i = 0; i < rows * obs; i += 1 + rows * obs / CHECKED) {
            double sum[2] = {0};
            const double before = naive[i], step = 1e-6;
            for (int side = 0; side < 2; side++) {
                naive[i] = before + (side == 0 ? -step : step);
                naive_forward(&fields, doubles, NULL, naive, rows, wanted);
                for (int64_t j = 0; j < rows * n; j++)
                    sum[side] += dq[j] * wanted[j];
            }
            naive[i] = before;
            CHECK_CLOSE(dobs[i], (sum[1] - sum[0]) / (2 * step), scale, 2e-5, list->name);
        }
        check_guard(dobs, rows * obs * 4);
        check_guard(scratch, scratch_bytes);
    }
    hd_net_destroy(net);
}

TEST(a_wide_net_has_several_stages)
{
    struct hd_net *net = make(&lists[WIDE_LIST]);
    ck_assert_int_eq(hd_net_count_stages(net), 2);
    hd_net_destroy(net);
    net = make(&lists[0]);
    ck_assert_int_eq(hd_net_count_stages(net), 1);
    hd_net_destroy(net);
}

TEST(rows_do_not_depend_on_their_batch, .runs = N_LISTS)
{
    const struct list_case *list = &lists[_i];
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, outputs = hd_net_count_outputs(net);
    float *params = make_params(net), *all = guarded(rows * outputs * 4),
          *one = guarded(outputs * 4);
    void *work = guarded(hd_net_get_forward_bytes(net, rows, 1));
    const char *obs = make_obs(list, net, 0, rows);
    forward_rows(net, params, NULL, obs, rows, work, all);
    for (int64_t r = 0; r < rows; r++) {
        forward_rows(net, params, NULL, obs + r * hd_net_get_obs_bytes(net), 1, work, one);
        ck_assert_mem_eq(one, all + r * outputs, (size_t)outputs * 4);
    }
    hd_net_destroy(net);
}

TEST(numbers_that_are_no_value_of_an_embedding_yield_nan)
{
    static const float bad[] = {-1, 6, 0.5f, NAN, INFINITY};
    struct hd_net *net = make(&lists[2]);
    float *params = make_params(net), obs[4] = {0, 1, 2, 5}, q[5];
    void *work = guarded(hd_net_get_forward_bytes(net, 1, 1));
    forward_rows(net, params, NULL, obs, 1, work, q);
    ck_assert(isfinite(q[0]));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        obs[1] = bad[i];
        forward_rows(net, params, NULL, obs, 1, work, q);
        ck_assert(isnan(q[0]));
    }
    hd_net_destroy(net);
}

/* -- bf16 -------------------------------------------------------------------------------------- */

/* What a net yields, by the order of the tensors. */
struct results {
    float *q, *grad;
    int64_t outputs, params; /* elements */
};

static struct results run_in(const struct list_case *list, enum hd_precision precision)
{
    struct hd_net *net = make_in(list, precision), *plain = make(list);
    const int64_t rows = list->rows;
    struct results results = {.outputs = rows * hd_net_count_outputs(net)};
    const float *all = by_tensors(plain, make_params(plain));
    float *params = guarded(hd_net_get_params_bytes(net)), *dq = make_dq(0, results.outputs);
    const int64_t work_bytes = hd_net_get_forward_bytes(net, rows, 1);
    const int64_t scratch_bytes = hd_net_get_backward_bytes(net, rows, 1);
    void *work = memset(guarded(work_bytes), 0xFF, (size_t)work_bytes);
    void *scratch = memset(guarded(scratch_bytes), 0xFF, (size_t)scratch_bytes);
    float *grad = guarded(hd_net_count_params(net) * 4);
    memset(params, 0, (size_t)hd_net_get_params_bytes(net));
    memset(grad, 0xFF, (size_t)hd_net_count_params(net) * 4);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        ck_assert_int_eq(hd_net_import_tensor(net, all + tensor->offset, t, params), HD_OK);
        results.params += tensor->count;
    }
    hd_net_refresh(net, params, 0, hd_net_count_params(net));
    results.q = guarded(results.outputs * 4);
    forward_rows(net, params, NULL, make_obs(list, net, 0, rows), rows, work, results.q);
    for (int stage = 0; stage < hd_net_count_stages(net); stage++)
        hd_net_backward(net, params, rows, rows, work, dq, scratch, stage, grad);
    for (int64_t i = 0; i < hd_net_count_params(net); i++)
        ck_assert_msg(isfinite(grad[i]), "%s: float %lld", list->name, (long long)i);
    results.grad = by_tensors(net, grad);
    check_guard(work, work_bytes);
    check_guard(scratch, scratch_bytes);
    check_guard(grad, hd_net_count_params(net) * 4);
    hd_net_destroy(net);
    hd_net_destroy(plain);
    return results;
}

/* A number of bf16 is rounded by up to 1/256 of it, and where a ReLU is near zero it may switch. */
TEST(bf16_is_close_to_floats, .runs = N_LISTS + 1)
{
    const struct list_case *list = _i < N_LISTS ? &lists[_i] : &impala;
    const struct results narrow = run_in(list, HD_BF16), floats = run_in(list, HD_F32);
    check_distance(floats.outputs, narrow.q, floats.q, 0.02, list->name);
    check_distance(floats.params, narrow.grad, floats.grad, 0.1, list->name);
}

/* -- Batch norm -------------------------------------------------------------------------------- */

struct batch {
    struct hd_net *net;
    struct hd_training_pass item[MAX_ITEMS];
    int items;
};

/* Distributes `rows` samples over items, each with `unused` rows behind them. */
static struct batch make_batch(const struct list_case *list, void *params, int items, int64_t rows,
                               int64_t unused)
{
    struct batch batch = {.net = make(list), .items = items};
    const int64_t outputs = hd_net_count_outputs(batch.net);
    for (int k = 0; k < items; k++) {
        const int64_t first = rows * k / items, used = rows * (k + 1) / items - first;
        float *dq = test_alloc((used + unused) * outputs, 4);
        memcpy(dq, make_dq(first * outputs, used * outputs), (size_t)(used * outputs) * 4);
        const int64_t bytes = hd_net_get_training_bytes(batch.net, used + unused);
        batch.item[k] =
            (struct hd_training_pass){.params = params,
                                      .obs = make_obs(list, batch.net, first, used + unused),
                                      .batch = used + unused,
                                      .used = used,
                                      .work = memset(guarded(bytes), 0xFF, (size_t)bytes),
                                      .q = guarded((used + unused) * outputs * 4),
                                      .dq = dq,
                                      .grad = guarded(hd_net_count_params(batch.net) * 4)};
    }
    return batch;
}

static void run_training(struct batch *batch)
{
    enum { MAX_SUMS = 64 };
    double sums[2][MAX_SUMS] = {{0}};
    const int levels = hd_net_count_levels(batch->net);
    for (int number = 0; number <= 2 * levels + 1; number++) {
        const bool back = number > levels;
        const int stage = back ? number - levels - 1 : number;
        const int64_t n = stage < levels
                              ? hd_net_count_training_sums(batch->net, stage + (back ? levels : 0))
                              : 0;
        double *total = sums[number % 2];
        memset(total, 0, sizeof *sums);
        ck_assert_int_le(n, MAX_SUMS);
        for (int k = 0; k < batch->items; k++) {
            double own[MAX_SUMS];
            (back ? hd_net_training_backward : hd_net_training_forward)(
                batch->net, &batch->item[k], stage, stage > 0 ? sums[(number + 1) % 2] : NULL, own);
            for (int64_t i = 0; i < n; i++)
                total[i] += own[i];
        }
    }
    for (int k = 0; k < batch->items; k++)
        check_guard(batch->item[k].work,
                    hd_net_get_training_bytes(batch->net, batch->item[k].batch));
}

TEST(batch_norm_is_over_all_items, .runs = N_NORMED * MAX_ITEMS)
{
    const struct list_case *list = &normed[_i / MAX_ITEMS];
    const int items = _i % MAX_ITEMS + 1;
    const struct hd_net_fields fields = list_fields(list);
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, outputs = hd_net_count_outputs(net);
    float *params = make_params(net), *grad = test_alloc(hd_net_count_params(net), 4);
    double *doubles = naive_params(net, params), *naive = naive_obs(list, net, rows);
    double *wanted = test_alloc(rows * outputs, sizeof *wanted);
    struct batch batch = make_batch(list, params, items, rows, items - 1);
    run_training(&batch);
    naive_forward(&fields, doubles, NULL, naive, rows, wanted);
    for (int k = 0; k < items; k++) {
        check_q(batch.item[k].used * outputs, batch.item[k].q, wanted + rows * k / items * outputs,
                3e-6, list->name);
        for (int64_t j = 0; j < hd_net_count_params(net); j++)
            grad[j] += batch.item[k].grad[j];
    }
    check_differences(list, net, doubles, naive, rows, make_dq(0, rows * outputs),
                      by_tensors(net, grad));
    hd_net_destroy(batch.net);
    hd_net_destroy(net);
}

TEST(acting_goes_by_running_statistics, .runs = N_NORMED)
{
    const struct list_case *list = &normed[_i];
    const struct hd_net_fields fields = list_fields(list);
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, outputs = hd_net_count_outputs(net),
                  n = hd_net_count_running(net);
    float *params = make_params(net), *q = guarded(rows * outputs * 4);
    float *running = test_alloc(n, sizeof *running);
    double *doubles = test_alloc(n, sizeof *doubles);
    double *wanted = test_alloc(rows * outputs, sizeof *wanted);
    void *work = guarded(hd_net_get_forward_bytes(net, rows, 1)),
         *obs = make_obs(list, net, 0, rows);
    struct batch batch = make_batch(list, params, 1, rows, 0);
    run_training(&batch);
    hd_net_init_running(net, running);
    ck_assert(hd_net_update_running(batch.net, &batch.item[0], running));
    for (int64_t i = 0; i < n; i++)
        doubles[i] = running[i];
    hd_net_forward(
        net,
        &(struct hd_net_pass){
            .params = params, .running = running, .obs = obs, .rows = rows, .work = work},
        q);
    naive_forward(&fields, naive_params(net, params), doubles, naive_obs(list, net, rows), rows,
                  wanted);
    check_q(rows * outputs, q, wanted, 3e-6, list->name);
    forward_rows(net, params, NULL, obs, rows, work, q);
    ck_assert(isnan(q[0]));
    hd_net_destroy(batch.net);
    hd_net_destroy(net);
}

/* The first batch norm of the last case sees the observations themselves. */
TEST(running_statistics_are_pytorch_s)
{
    const struct list_case *list = &normed[2];
    struct hd_net *net = make(list);
    const int64_t rows = list->rows, features = list->shape[0];
    float *running = test_alloc(hd_net_count_running(net), sizeof *running);
    const double *obs = naive_obs(list, net, rows);
    struct batch batch = make_batch(list, make_params(net), 2, rows, 1);
    run_training(&batch);
    hd_net_init_running(net, running);
    ck_assert(hd_net_update_running(batch.net, &batch.item[1], running));
    for (int64_t i = 0; i < features; i++) {
        double mean = 0, variance = 0;
        for (int64_t r = 0; r < rows; r++)
            mean += obs[r * features + i] / (double)rows;
        for (int64_t r = 0; r < rows; r++)
            variance += pow(obs[r * features + i] - mean, 2) / (double)(rows - 1);
        CHECK_CLOSE(running[i], 0.1 * mean, 1.0, 1e-6, "running mean");
        CHECK_CLOSE(running[features + i], 0.9 + 0.1 * variance, 1.0, 1e-6, "running variance");
    }
    hd_net_destroy(batch.net);
    hd_net_destroy(net);
}

/* -- DI-engine's nets as lists ----------------------------------------------------------------- */

static struct hd_net *make_of(const struct hd_net_fields *fields)
{
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(fields, &net), HD_OK);
    return net;
}

TEST(a_list_of_di_engine_s_form_has_its_bits, .runs = 2)
{
    static const int64_t flat[] = {5}, image[] = {3, 44, 36}, widths[] = {8, 12, 10, 9};
    static const struct hd_layer dense[] = {L(dense, 8),  L(relu), L(dense, 12), L(relu),
                                            L(dense, 12), L(relu), L(dense, 4)};
    static const struct hd_layer conv[] = {
        L(conv, 8, 8, 4), L(relu),     L(conv, 12, 4, 2), L(relu), L(conv, 10, 3, 1), L(relu),
        L(flatten),       L(dense, 9), L(dense, 9),       L(relu), L(dense, 4)};
    struct hd_net_fields fields = {.obs_dims = _i == 0 ? 1 : 3,
                                   .obs_shape = _i == 0 ? flat : image,
                                   .obs_u8 = _i == 1,
                                   .actions = 4,
                                   .hidden = widths,
                                   .n_hidden = _i == 0 ? 2 : 4};
    struct hd_net *short_form = make_of(&fields);
    fields.layers = _i == 0 ? dense : conv;
    fields.trunk = _i == 0 ? 4 : 8;
    fields.n_streams = 1;
    fields.streams[0] = (struct hd_stream){HD_OUTPUT_ACTIONS, 3};
    struct hd_net *list = make_of(&fields);
    float *params[] = {guarded(hd_net_get_params_bytes(list)),
                       guarded(hd_net_get_params_bytes(list))};
    const struct hd_rng rng = hd_rng_make(9, 0, 0, 0, 0);
    ck_assert(hd_net_is_short_form(list) && hd_net_is_short_form(short_form));
    ck_assert_int_eq(hd_net_init(short_form, &rng, params[0]), HD_OK);
    ck_assert_int_eq(hd_net_init(list, &rng, params[1]), HD_OK);
    ck_assert_int_eq(hd_net_get_params_bytes(list), hd_net_get_params_bytes(short_form));
    ck_assert_mem_eq(params[0], params[1], (size_t)hd_net_get_params_bytes(list));
    hd_net_destroy(short_form);
    hd_net_destroy(list);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static const struct {
    int dims;
    int64_t shape[3], trunk;
    struct hd_layer layers[4];
    int64_t stream, at; /* layer that is to blame */
    const char *said[2];
} mistakes[] = {
    {3, {4, 9, 8}, 1, {L(dense, 5), L(dense, 3)}, 1, 0, {"flatten", "[4, 9, 8] from the obs"}},
    {3, {4, 9, 8}, 1, {L(conv, 5, 10, 1, 0), L(dense, 3)}, 1, 0, {"10 x 10", "[4, 9, 8]"}},
    {3, {4, 9, 8}, 2, {L(conv, 5, 3, 2, 0), L(dense, 7), L(dense, 3)}, 1, 1, {"[5, 4, 3]", "conv"}},
    {1, {6}, 1, {L(max_pool, 2, 2, 0), L(dense, 3)}, 1, 0, {"[channels", "[6]"}},
    {3, {4, 9, 8}, 2, {L(max_pool, 2, 2, 2), L(flatten), L(dense, 3)}, 1, 0, {"half", "2"}},
    {1, {6}, 2, {RESIDUAL(1), L(dense, 5), L(dense, 3)}, 1, 0, {"[6]", "[5]"}},
    {1, {6}, 1, {RESIDUAL(0), L(dense, 3)}, 1, 0, {"no layers", ""}},
    {1, {6}, 2, {L(relu), L(embedding, 4, 2), L(dense, 3)}, 1, 1, {"observation alone", "relu"}},
    {1, {6}, 1, {L(dense, 5), L(dense, 4)}, 1, 1, {"[3]", "[4]"}},
    {1, {6}, 2, {RESIDUAL(1), L(gru, 6), L(dense, 3)}, 1, 1, {"gru cannot", "residual"}},
    {1, {6}, 2, {L(batch_norm), L(lstm, 4), L(dense, 3)}, 1, 1, {"batch_norm", "lstm"}},
    {3, {4, 9, 8}, 1, {L(gru, 5), L(dense, 3)}, 1, 0, {"flatten", "[4, 9, 8] from the obs"}},
    {1, {6}, 1, {L(dense, 5), L(dense, 3), L(tanh)}, 2, 2, {"[3]", "tanh"}},
};

TEST(mistakes_name_their_layer_and_both_shapes, .runs = COUNT(mistakes))
{
    struct hd_layer layers[4];
    struct hd_net_mistake mistake;
    struct hd_net *net;
    memcpy(layers, mistakes[_i].layers, sizeof layers);
    const struct hd_net_fields fields = {.obs_dims = mistakes[_i].dims,
                                         .obs_shape = mistakes[_i].shape,
                                         .actions = 3,
                                         .layers = layers,
                                         .trunk = mistakes[_i].trunk,
                                         .streams = {{HD_OUTPUT_ACTIONS, mistakes[_i].stream}},
                                         .n_streams = 1};
    for (int i = 0; i < 4; i++)
        layers[i].source = &layers[i];
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "layers");
    ck_assert_msg(mistake.source == &layers[mistakes[_i].at], "%s", mistake.message);
    for (int i = 0; i < 2; i++)
        ck_assert_msg(strstr(mistake.message, mistakes[_i].said[i]), "%s", mistake.message);
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_ERR_INPUT);
}

TEST(inputs_are_joined_as_vectors)
{
    static const struct hd_layer layers[] = {L(conv, 5, 2, 1, 0), L(concat), L(concat),
                                             L(dense, 3)};
    struct hd_net_mistake mistake;
    const struct hd_net_fields fields = {
        .actions = 3,
        .layers = layers,
        .trunk = 3,
        .streams = {{HD_OUTPUT_ACTIONS, 1}},
        .n_streams = 1,
        .n_inputs = 2,
        .frames = 1,
        .frame_bytes = 24,
        .inputs = {{{3, {2, 4, 2}}, true, 0, 2}, {{1, {2}}, false, 16, 1}}};
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_msg(strstr(mistake.message, "flatten") && strstr(mistake.message, "[5, 3, 1]"), "%s",
                  mistake.message);
}

TEST(heads_and_precision_are_checked)
{
    struct hd_net_mistake mistake;
    struct hd_net_fields fields = list_fields(&lists[0]);
    fields.precision = HD_TF32;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "precision");
    fields.precision = HD_F32;
    fields.heads = HD_HEADS_ACTOR_CRITIC;
    ck_assert_int_eq(hd_net_find_mistake(&fields, &mistake), HD_ERR_INPUT);
    ck_assert_str_eq(mistake.field, "heads");
}
