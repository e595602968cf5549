/* SPDX-License-Identifier: Apache-2.0 */
/* tanh, exp, the sigmoid and the normal distribution of floats of all sizes against the C library's
 * doubles; numbers at their limits; and layers, which compute vectors, have the bits of single
 * numbers. */
#include "kernels/net/layers/layer.h"
#include "kernels/net/layers/smooth.h"
#include "runtime/base/hash.h"
#include "tests/kernels/common/guarded.h"

enum { STEP = 9973 /* of the bits of a float */, ODD = 1003 };

/* Returns the error in units of the last place of a normal float of wanted's size. */
static double count_ulp(float found, double wanted)
{
    const int exponent = wanted == 0 ? -126 : ilogb(wanted);
    return fabs(found - wanted) / ldexp(1, (exponent < -126 ? -126 : exponent) - 23);
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Returns the largest error over floats of all sizes between 2^-126 and `end`, and their negatives.
 */
static double find_max_error(float end, float (*compute)(float), double (*reference)(double))
{
    double max = 0;
    for (uint32_t bits = 0x00800000; from_bits(bits) < end; bits += STEP)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = from_bits(bits | sign << 31);
            const double ulp = count_ulp(compute(x), reference(x));
            ck_assert_msg(ulp >= 0, "%a yields NaN", (double)x);
            max = fmax(max, ulp);
        }
    return max;
}

static float exp_of(float x)
{
    return hd_exp_compute(x, 0);
}

static float sigmoid_of(float x)
{
    return hd_reg_sigmoid(hd_reg_fill(x))[0];
}

static double find_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static float distribution_of(float x)
{
    return hd_gauss_compute(x).distribution;
}

static double find_distribution(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

static float density_of(float x)
{
    return hd_gauss_compute(x).density;
}

static double find_density(double x)
{
    return exp(-0.5 * x * x) / sqrt(2 * M_PI);
}

static const struct {
    float end;
    float (*compute)(float);
    double (*reference)(double);
    double ulp;
} functions[] = {{87, exp_of, exp, 1},
                 {INFINITY, hd_tanh_compute, tanh, 2},
                 {87, sigmoid_of, find_sigmoid, 2},
                 {12.9f, distribution_of, find_distribution, 7},
                 {12.9f, density_of, find_density, 2}};

TEST(errors_are_a_few_ulp, .runs = COUNT(functions))
{
    const double ulp =
        find_max_error(functions[_i].end, functions[_i].compute, functions[_i].reference);
    printf("function %d: %.2f ulp\n", _i, ulp);
    ck_assert_double_le(ulp, functions[_i].ulp);
}

TEST(a_small_rest_counts)
{
    for (float x = -80; x < 80; x += 0.37f)
        for (float rest = -0.01f; rest < 0.01f; rest += 0.0013f)
            ck_assert_double_le(count_ulp(hd_exp_compute(x, rest), exp((double)x + (double)rest)),
                                1);
}

TEST(vectors_have_the_bits_of_single_numbers)
{
    for (uint32_t bits = 0; bits < 0x7F800001; bits += STEP)
        for (uint32_t sign = 0; sign < 2; sign++) {
            const float x = from_bits(bits | sign << 31), y = hd_reg_tanh(hd_reg_fill(x))[0];
            ck_assert(y == hd_tanh_compute(x) && signbit(y) == signbit(x));
            ck_assert(fabsf(x) > 87 || hd_reg_exp(hd_reg_fill(x))[0] == exp_of(x));
        }
    ck_assert(isnan(hd_reg_tanh(hd_reg_fill(NAN))[0]) && isnan(hd_reg_exp(hd_reg_fill(NAN))[0]));
}

TEST(limits)
{
    ck_assert(hd_tanh_compute(INFINITY) == 1 && hd_tanh_compute(-INFINITY) == -1);
    ck_assert(hd_tanh_compute(-0.0f) == 0 && signbit(hd_tanh_compute(-0.0f)));
    ck_assert(isnan(hd_tanh_compute(NAN)) && isnan(hd_exp_compute(NAN, 0)));
    ck_assert(sigmoid_of(INFINITY) == 1 && sigmoid_of(-INFINITY) == 0);
    ck_assert(sigmoid_of(-87.01f) == 0 && sigmoid_of(-87) > 0x1p-126f);
    ck_assert(sigmoid_of(0) == 0.5f && isnan(sigmoid_of(NAN)));
    ck_assert(distribution_of(INFINITY) == 1 && distribution_of(-INFINITY) == 0);
    ck_assert(distribution_of(12.9f) == 1 && distribution_of(-12.9f) == 0);
    ck_assert(density_of(INFINITY) == 0 && density_of(-12.9f) == 0);
    ck_assert(distribution_of(-12.89f) > 0x1p-126f && density_of(12.89f) > 0x1p-126f);
}

/* -- Layers ------------------------------------------------------------------------------------ */

struct arrays {
    float x[ODD], y[ODD], dy[ODD], dx[ODD];
};

static void run_layer(const struct hd_layer_type *type, struct arrays *a)
{
    const struct hd_layer layer = {.type = type, .in = {1, {ODD}}, .out = {1, {ODD}}};
    struct hd_layer_run run = {
        .layer = &layer, .rows = 1, .lines = 1, .length = ODD, .x = a->x, .to = a->y};
    type->forward(&run);
    run.y = a->y, run.dy = a->dy, run.to = a->dx;
    type->backward_data(&run);
}

static struct arrays *make_arrays(void)
{
    struct arrays *a = guarded(sizeof *a);
    for (int i = 0; i < ODD; i++) {
        a->x[i] = (float)(i - ODD / 2) * 0.03f;
        a->dy[i] = (float)(i % 17) - 8;
    }
    a->x[5] = NAN;
    return a;
}

TEST(layers_have_the_bits_of_single_numbers)
{
    struct arrays *tanh_layer = make_arrays(), *gelu_layer = make_arrays();
    run_layer(&hd_layer_tanh, tanh_layer);
    run_layer(&hd_layer_gelu, gelu_layer);
    ck_assert(isnan(tanh_layer->y[5]) && isnan(gelu_layer->y[5]) && isnan(gelu_layer->dx[5]));
    for (int i = 6; i < ODD; i++) {
        const float x = gelu_layer->x[i], dy = gelu_layer->dy[i], y = hd_tanh_compute(x);
        const struct hd_gauss gauss = hd_gauss_compute(x);
        ck_assert(tanh_layer->y[i] == y && tanh_layer->dx[i] == dy * (1 - y * y));
        ck_assert(gelu_layer->y[i] == x * gauss.distribution);
        ck_assert(gelu_layer->dx[i] == dy * (gauss.distribution + x * gauss.density));
    }
    check_guard(tanh_layer, sizeof *tanh_layer);
    check_guard(gelu_layer, sizeof *gelu_layer);
}

TEST(bits_are_the_same_everywhere)
{
    struct arrays *a = make_arrays(), *b = make_arrays();
    a->x[5] = b->x[5] = 0;
    run_layer(&hd_layer_tanh, a);
    run_layer(&hd_layer_gelu, b);
    ck_assert_uint_eq(hd_hash_bytes(a->y, sizeof a->y), 0xa3c3fbed3f8d16e9);
    ck_assert_uint_eq(hd_hash_bytes(b->y, sizeof b->y), 0x83752d0dfaa06c0d);
}
