/* SPDX-License-Identifier: Apache-2.0 */
/* Nets with states: passes through sequences against a naive net in double and its differences,
 * steps that make a sequence, and tensors. */
#include "kernels/net/net.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/list/list_passes.h"

#include <string.h>

static double *make_state(int64_t n)
{
    double *state = test_alloc(n, sizeof *state);
    for (int64_t i = 0; i < n; i++)
        state[i] = (float)(fill(7, (uint64_t)i) - 0.5);
    return state;
}

/* The memory of a pass through all sequences of a case. */
struct pass {
    const struct list_case *list;
    struct hd_net *net;
    int64_t rows, states, outputs, params_bytes, work_bytes, scratch_bytes;
    float *params, *q, *grad, *dq, *state, *begins;
    void *work, *scratch;
    double *naive_state;
};

static struct pass make_pass(const struct list_case *list, enum hd_precision precision)
{
    struct pass p = {.list = list, .net = make_in(list, precision), .rows = list->rows};
    p.states = p.rows / STEPS * hd_net_count_state(p.net);
    p.outputs = p.rows * hd_net_count_outputs(p.net);
    p.params_bytes = hd_net_count_params(p.net) * 4;
    p.work_bytes = hd_net_get_forward_bytes(p.net, p.rows, STEPS);
    p.scratch_bytes = hd_net_get_backward_bytes(p.net, p.rows, STEPS);
    p.params = make_params(p.net);
    p.q = guarded(p.outputs * 4);
    p.grad = memset(guarded(p.params_bytes), 0xFF, (size_t)p.params_bytes);
    p.dq = make_dq(0, p.outputs);
    p.work = memset(guarded(p.work_bytes), 0xFF, (size_t)p.work_bytes);
    p.scratch = memset(guarded(p.scratch_bytes), 0xFF, (size_t)p.scratch_bytes);
    p.naive_state = make_state(p.states);
    p.state = guarded(p.states * 4);
    p.begins = guarded(p.rows * 4);
    for (int64_t i = 0; i < p.states; i++)
        p.state[i] = (float)p.naive_state[i];
    for (int64_t i = 0; i < p.rows; i++)
        p.begins[i] = i % 11 == 9 || i == STEPS;
    return p;
}

static void close_pass(struct pass *p)
{
    check_guard(p->q, p->outputs * 4);
    check_guard(p->grad, p->params_bytes);
    check_guard(p->work, p->work_bytes);
    check_guard(p->scratch, p->scratch_bytes);
    check_guard(p->state, p->states * 4);
    hd_net_destroy(p->net);
}

/* Half of the cases begin from zeros and have no episodes that begin later. */
TEST(sequences_are_those_of_a_naive_net, .runs = 2 * N_RECURRENT)
{
    struct pass p = make_pass(&recurrent[_i / 2], HD_F32);
    const bool zeros = _i % 2 == 1;
    const struct hd_net_fields fields = list_fields(p.list);
    const struct hd_net_sequences sequences = {.steps = STEPS,
                                               .state = zeros ? NULL : p.state,
                                               .begins = zeros ? NULL : p.begins,
                                               .next_state = p.state};
    double *next = test_alloc(p.states, sizeof *next),
           *wanted = test_alloc(p.outputs, sizeof *wanted);
    double *doubles = naive_params(p.net, p.params), *obs = naive_obs(p.list, p.net, p.rows);
    naive_sequences.steps = STEPS;
    naive_sequences.ld = hd_net_count_state(p.net);
    naive_sequences.state = zeros ? NULL : p.naive_state;
    naive_sequences.begins = sequences.begins;
    naive_sequences.next = next;
    hd_net_forward(p.net,
                   &(struct hd_net_pass){.params = p.params,
                                         .obs = make_obs(p.list, p.net, 0, p.rows),
                                         .rows = p.rows,
                                         .sequences = &sequences,
                                         .work = p.work},
                   p.q);
    naive_forward(&fields, doubles, NULL, obs, p.rows, wanted);
    check_q(p.outputs, p.q, wanted, 3e-6, p.list->name);
    check_q(p.states, p.state, next, 3e-6, "next state");
    for (int stage = 0; stage < hd_net_count_stages(p.net); stage++)
        hd_net_backward(p.net, p.params, p.rows, p.rows, p.work, p.dq, p.scratch, stage, p.grad);
    check_differences(p.list, p.net, doubles, obs, p.rows, p.dq, by_tensors(p.net, p.grad));
    close_pass(&p);
}

static struct pass run_in(const struct list_case *list, enum hd_precision precision)
{
    struct pass p = make_pass(list, precision);
    const struct hd_net_sequences sequences = {
        .steps = STEPS, .state = p.state, .begins = p.begins, .next_state = p.state};
    hd_net_forward(p.net,
                   &(struct hd_net_pass){.params = p.params,
                                         .obs = make_obs(list, p.net, 0, p.rows),
                                         .rows = p.rows,
                                         .sequences = &sequences,
                                         .work = p.work},
                   p.q);
    for (int stage = 0; stage < hd_net_count_stages(p.net); stage++)
        hd_net_backward(p.net, p.params, p.rows, p.rows, p.work, p.dq, p.scratch, stage, p.grad);
    return p;
}

/* Products alone are rounded: states and sums are floats. */
TEST(bf16_is_close_to_floats, .runs = N_RECURRENT)
{
    struct pass narrow = run_in(&recurrent[_i], HD_BF16), floats = run_in(&recurrent[_i], HD_F32);
    const float *grad = by_tensors(narrow.net, narrow.grad);
    int64_t params = 0;
    for (int t = 0; t < hd_net_count_tensors(floats.net); t++)
        params += hd_net_get_tensor(floats.net, t)->count;
    check_distance(floats.outputs, narrow.q, floats.q, 0.02, "outputs");
    check_distance(floats.states, narrow.state, floats.state, 0.01, "next state");
    check_distance(params, grad, by_tensors(floats.net, floats.grad), 0.05, "gradients");
    ck_assert(memcmp(narrow.state, floats.state, (size_t)floats.states * 4) != 0);
    close_pass(&narrow);
    close_pass(&floats);
}

/* Steps one by one, each sequence alone, yield the bits of all sequences at once, in f32 and, but
 * for convolutions, in bf16. */
TEST(steps_yield_the_bits_of_their_sequence, .runs = 2 * N_RECURRENT)
{
    struct pass p = make_pass(&recurrent[_i / 2], _i % 2 == 0 ? HD_F32 : HD_BF16);
    const int64_t outputs = p.outputs / p.rows, count = hd_net_count_state(p.net);
    float *next = guarded(p.states * 4), *one = guarded(outputs * 4);
    const struct hd_net_sequences whole = {.steps = STEPS, .state = p.state, .next_state = next};
    char *obs = make_obs(p.list, p.net, 0, p.rows);
    void *work = guarded(hd_net_get_forward_bytes(p.net, 1, 1));
    hd_net_forward(
        p.net,
        &(struct hd_net_pass){
            .params = p.params, .obs = obs, .rows = p.rows, .sequences = &whole, .work = p.work},
        p.q);
    for (int64_t r = 0; r < p.rows; r++) {
        float *at = p.state + r / STEPS * count;
        const struct hd_net_sequences step = {.steps = 1, .state = at, .next_state = at};
        hd_net_forward(p.net,
                       &(struct hd_net_pass){.params = p.params,
                                             .obs = obs + r * hd_net_get_obs_bytes(p.net),
                                             .rows = 1,
                                             .sequences = &step,
                                             .work = work},
                       one);
        ck_assert_mem_eq(one, p.q + r * outputs, (size_t)outputs * 4);
    }
    ck_assert_mem_eq(p.state, next, (size_t)p.states * 4);
    close_pass(&p);
}

TEST(tensors_of_recurrent_layers_are_pytorch_s)
{
    static const char *const names[] = {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"};
    const struct list_case *list = &recurrent[1];
    struct hd_net_fields fields = list_fields(list);
    struct hd_rng rng = hd_rng_make(3, 0, 0, 0, 0);
    struct hd_net *net;
    fields.init = HD_INIT_ORTHOGONAL;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    float *params = guarded(hd_net_get_params_bytes(net));
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int t = 0; t < 4; t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = test_alloc(tensor->count, sizeof *row_major);
        double largest = 0;
        ck_assert_str_eq(strchr(tensor->name, '.') + 1, names[t]);
        ck_assert_int_eq(tensor->shape[0], 4 * 20);
        ck_assert_int_eq(tensor->shape[1], t == 0 ? 3 : t == 1 ? 20 : 1);
        ck_assert_int_eq(hd_net_export_tensor(net, params, t, row_major), HD_OK);
        for (int64_t i = 0; i < tensor->count; i++)
            largest = fmax(largest, fabs(row_major[i]));
        ck_assert(largest > 0.9 / sqrt(20) && largest <= 1 / sqrt(20));
    }
    hd_net_destroy(net);
}
