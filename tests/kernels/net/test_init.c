/* SPDX-License-Identifier: Apache-2.0 */
/* Initial parameters of nets: orthogonal matrices, and which tensors are orthogonal. */
#include "kernels/net/net.h"
#include "kernels/net/orthogonal.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/bf16_here.h"
#include "tests/kernels/common/check_close.h"

#include <string.h>

/* Returns the largest deviation of w[rows][columns] from orthonormal rows (or columns) times
 * gain. */
static double deviation(const float *w, int64_t rows, int64_t columns, double gain)
{
    const bool wide = columns >= rows;
    const int64_t vectors = wide ? rows : columns, length = wide ? columns : rows;
    double max = 0;
    for (int64_t a = 0; a < vectors; a++)
        for (int64_t b = a; b < vectors; b++) {
            double sum = 0;
            for (int64_t i = 0; i < length; i++)
                sum += wide ? (double)w[a * columns + i] * w[b * columns + i]
                            : (double)w[i * columns + a] * w[i * columns + b];
            max = fmax(max, residual(sum / (gain * gain), a == b, 1));
        }
    return max;
}

/* -- One matrix -------------------------------------------------------------------------------- */

TEST(rows_or_columns_are_orthonormal)
{
    static const int64_t sizes[][2] = {{1, 1},  {1, 17},   {9, 1},    {5, 5},
                                       {16, 7}, {33, 100}, {100, 33}, {128, 128}};
    static const double gains[] = {1, 0.01, 1.4142135623730951};
    for (int k = 0; k < (int)(sizeof sizes / sizeof *sizes); k++) {
        const int64_t rows = sizes[k][0], columns = sizes[k][1];
        struct hd_rng rng = hd_rng_make(3, (uint64_t)k, 0, 0, 0);
        float *w = test_alloc(rows * columns, sizeof *w);
        ck_assert_int_eq(hd_orthogonal_init(&rng, 11, rows, columns, gains[k % 3], w), HD_OK);
        /* The numbers are floats: each is off by up to 2^-24 of itself. */
        ck_assert_double_le(deviation(w, rows, columns, gains[k % 3]), 1e-6);
    }
}

/* Q of a QR decomposition with a positive diagonal: the first vectors do not depend on those that
 * follow, and the first one is the first draws themselves, made as long as one. */
TEST(first_vectors_do_not_depend_on_later_ones)
{
    enum { FEW = 5, MANY = 19, LENGTH = 40 };
    struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    float one[LENGTH], few[FEW * LENGTH], many[MANY * LENGTH], next[LENGTH];
    ck_assert_int_eq(hd_orthogonal_init(&rng, 0, 1, LENGTH, 1, one), HD_OK);
    ck_assert_int_eq(hd_orthogonal_init(&rng, 0, FEW, LENGTH, 1, few), HD_OK);
    ck_assert_int_eq(hd_orthogonal_init(&rng, 0, MANY, LENGTH, 1, many), HD_OK);
    ck_assert_mem_eq(few, one, sizeof one);
    ck_assert_mem_eq(many, few, sizeof few);
    /* The second vector is what its draws have beyond the first, in their direction. */
    double along = 0, of_draws = 0;
    ck_assert_int_eq(hd_orthogonal_init(&rng, LENGTH, 1, LENGTH, 1, next), HD_OK);
    for (int i = 0; i < LENGTH; i++)
        along += (double)next[i] * one[i];
    for (int i = 0; i < LENGTH; i++)
        of_draws += (next[i] - along * one[i]) * (next[i] - along * one[i]);
    for (int i = 0; i < LENGTH; i++)
        CHECK_CLOSE(few[LENGTH + i], (next[i] - along * one[i]) / sqrt(of_draws), 1, 1e-6,
                    "second vector");
}

TEST(draws_are_normal)
{
    enum { N = 40000 };
    struct hd_rng rng = hd_rng_make(8, 0, 0, 0, 0);
    float *w = test_alloc(N, sizeof *w);
    double moment[5] = {0};
    ck_assert_int_eq(hd_orthogonal_init(&rng, 0, 1, N, sqrt(N), w), HD_OK);
    for (int i = 0; i < N; i++)
        for (int k = 1; k <= 4; k++)
            moment[k] += pow(w[i], k) / N;
    /* Five standard deviations of each moment's estimate: sqrt(1, 15, 96 / N). */
    ck_assert_double_le(fabs(moment[1]), 5 / sqrt(N));
    ck_assert_double_le(fabs(moment[3]), 5 * sqrt(15.0 / N));
    ck_assert_double_le(fabs(moment[4] - 3), 5 * sqrt(96.0 / N));
}

/* -- Nets -------------------------------------------------------------------------------------- */

static struct hd_net *make_net(int dims, enum hd_init init, enum hd_precision precision)
{
    static const int64_t cartpole[] = {4}, frames[] = {3, 52, 44};
    static const int64_t hidden[] = {24, 33, 40}, channels[] = {16, 20, 24, 40};
    const struct hd_net_fields fields = {.obs_dims = dims,
                                         .obs_shape = dims == 1 ? cartpole : frames,
                                         .obs_u8 = dims == 3,
                                         .actions = 6,
                                         .hidden = dims == 1 ? hidden : channels,
                                         .n_hidden = dims == 1 ? 3 : 4,
                                         .heads = HD_HEADS_ACTOR_CRITIC,
                                         .init = init,
                                         .precision = precision};
    struct hd_net *net;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

static float *init_params(const struct hd_net *net)
{
    struct hd_rng rng = hd_rng_make(21, 0, 0, 0, 0);
    float *params = test_alloc(hd_net_get_params_bytes(net), 1);
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    return params;
}

static double wanted_gain(enum hd_init init, const struct hd_tensor *tensor)
{
    if (init == HD_INIT_ORTHOGONAL)
        return tensor->dims == 4 ? 0 : 1;
    if (strcmp(tensor->name, "actor_head.Q.1.0.weight") == 0)
        return 0.01;
    return strcmp(tensor->name, "critic_head.last.weight") == 0 ? 1 : 1.4142135623730951;
}

/* Checks that weights are orthogonal with that gain and their biases zero; gain 0: uniform as in
 * PyTorch. */
static void check_layer(const float *weight, const float *bias, const struct hd_tensor *tensor,
                        double gain)
{
    const int64_t rows = tensor->shape[0], columns = tensor->count / rows;
    double largest_bias = 0, largest = 0, bound = 1 / sqrt((double)tensor->fan_in);
    for (int64_t i = 0; i < rows; i++)
        largest_bias = fmax(largest_bias, fabs(bias[i]));
    for (int64_t i = 0; i < tensor->count; i++)
        largest = fmax(largest, fabs(weight[i]));
    if (gain > 0) {
        double off = deviation(weight, rows, columns, gain);
        ck_assert_msg(off <= 1e-6, "%s is off by %.1e", tensor->name, off);
        ck_assert_double_eq(largest_bias, 0);
    } else {
        ck_assert_double_gt(largest_bias, 0.5 * bound);
        ck_assert_double_le(largest_bias, bound * (1 + 1e-6));
        ck_assert_double_gt(largest, 0.9 * bound);
        ck_assert_double_le(largest, bound * (1 + 1e-6));
    }
}

static void check_init(int dims, enum hd_init init)
{
    struct hd_net *net = make_net(dims, init, HD_F32);
    float *params = init_params(net);
    for (int t = 0; t < hd_net_count_tensors(net); t += 2) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *weight = test_alloc(tensor->count, sizeof *weight);
        float *bias = test_alloc(tensor->shape[0], sizeof *bias);
        ck_assert_int_eq(hd_net_export_tensor(net, params, t, weight), HD_OK);
        ck_assert_int_eq(hd_net_export_tensor(net, params, t + 1, bias), HD_OK);
        check_layer(weight, bias, tensor, wanted_gain(init, tensor));
    }
    hd_net_destroy(net);
}

TEST(dense_layers_start_orthogonal_convolutions_as_pytorch_s)
{
    check_init(1, HD_INIT_ORTHOGONAL);
    check_init(3, HD_INIT_ORTHOGONAL);
}

TEST(scaled_layers_have_their_gains)
{
    check_init(1, HD_INIT_SCALED);
    check_init(3, HD_INIT_SCALED);
}

TEST(init_does_not_depend_on_the_layout)
{
    struct hd_net *f32 = make_net(3, HD_INIT_SCALED, HD_F32);
    struct hd_net *other = make_net(3, HD_INIT_SCALED, bf16_here() ? HD_BF16 : HD_F32);
    float *params = init_params(f32), *others = init_params(other);
    for (int t = 0; t < hd_net_count_tensors(f32); t++) {
        const int64_t n = hd_net_get_tensor(f32, t)->count;
        float *a = test_alloc(n, sizeof *a), *b = test_alloc(n, sizeof *b);
        ck_assert_int_eq(hd_net_export_tensor(f32, params, t, a), HD_OK);
        ck_assert_int_eq(hd_net_export_tensor(other, others, t, b), HD_OK);
        ck_assert_mem_eq(a, b, (size_t)n * sizeof *a);
    }
    hd_net_destroy(f32);
    hd_net_destroy(other);
}
