/* SPDX-License-Identifier: Apache-2.0 */
/* Wide dense layers: every pass against sums in double, in floats and in bf16, in plain C, by
 * products of pairs and on matrix registers; ranges and rows on their own give the same bits;
 * nothing is written outside the outputs. */
#include "kernels/common/amx.h"
#include "kernels/common/shadow.h"
#include "kernels/dense/packed_linear_internal.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "tests/kernels/common/guarded.h"

#include <stdio.h>
#include <string.h>

static const struct hd_packed sizes[] = {{1, 1},   {31, 15}, {32, 16}, {33, 17},  {100, 40},
                                         {96, 48}, {64, 81}, {257, 7}, {160, 64}, {256, 300}};
static const int64_t row_counts[] = {1, 3, 16, 17, 32, 33, 50, 64};
enum { N_SIZES = sizeof sizes / sizeof *sizes, N_ROWS = sizeof row_counts / sizeof *row_counts };

enum way { FLOATS, PAIRS_BF16, AMX_BF16, WAYS };

/* A layer with its activations, as floats that bf16 holds exactly, and as bf16. */
struct layer {
    struct hd_packed p;
    enum way way;
    const struct hd_packed_bf16 *bf16;
    int64_t rows, ldx, ldy;
    float *w, *bias, *x, *dy, *y, *dx, *dw;
    hd_bf16 *shadow, *x_bf16, *dy_bf16, *dx_bf16;
    void *scratch;
};

static int64_t whole(int64_t n)
{
    return (n + HD_PACK_IN - 1) / HD_PACK_IN * HD_PACK_IN;
}

/* Every seventh is zero. */
static float number(struct hd_rng *rng, uint32_t i)
{
    return i % 7 == 0
               ? 0
               : hd_bf16_to_float(hd_bf16_from_float((float)hd_rng_draw_uniform(rng, i) - 0.5f));
}

static struct layer make_layer(int size, int64_t rows, enum way way)
{
    struct layer l = {.p = sizes[size], .way = way, .rows = rows};
    struct hd_rng rng = hd_rng_make(1, (uint64_t)size, 0, 0, 0);
    const int64_t n = hd_packed_count_weights(&l.p), outputs = hd_packed_count_outputs(&l.p);
    uint32_t item = 0;
    l.bf16 = way == AMX_BF16 ? &hd_packed_amx : &hd_packed_pairs;
    l.ldx = whole(l.p.in) + 32;
    l.ldy = whole(l.p.out);
    l.w = guarded(n * 4), l.dw = guarded(n * 4), l.bias = guarded(outputs * 4);
    l.x = guarded(rows * l.ldx * 4), l.dx = guarded(rows * l.ldx * 4);
    l.dy = guarded(rows * l.ldy * 4), l.y = guarded(rows * l.ldy * 4);
    l.shadow = guarded(n * 2), l.x_bf16 = guarded(rows * l.ldx * 2);
    l.dy_bf16 = guarded(rows * l.ldy * 2), l.dx_bf16 = guarded(rows * l.ldx * 2);
    l.scratch = guarded(hd_packed_get_scratch_bytes(&l.p, rows));
    for (int64_t o = 0; o < l.p.out; o++) {
        l.bias[o] = number(&rng, item++);
        for (int64_t i = 0; i < l.p.in; i++)
            l.w[hd_packed_get_index(&l.p, o, i)] = number(&rng, item++);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < l.p.in; i++)
            l.x[r * l.ldx + i] = number(&rng, item++);
        for (int64_t o = 0; o < l.p.out; o++)
            l.dy[r * l.ldy + o] = number(&rng, item++);
    }
    hd_shadow_refresh(NULL, l.w, 0, n, l.shadow);
    hd_bf16_round(l.x, rows * l.ldx, l.x_bf16);
    hd_bf16_round(l.dy, rows * l.ldy, l.dy_bf16);
    memset(l.dw, 0xFF, (size_t)n * 4);
    memset(l.scratch, 0xFF, (size_t)hd_packed_get_scratch_bytes(&l.p, rows));
    return l;
}

static void check_guards(const struct layer *l)
{
    const int64_t n = hd_packed_count_weights(&l->p);
    check_guard(l->dw, n * 4);
    check_guard(l->dx, l->rows * l->ldx * 4);
    check_guard(l->dx_bf16, l->rows * l->ldx * 2);
    check_guard(l->y, l->rows * l->ldy * 4);
    check_guard(l->scratch, hd_packed_get_scratch_bytes(&l->p, l->rows));
}

static void forward(const struct layer *l, int64_t first, int64_t rows)
{
    float *y = l->y + first * l->ldy;
    if (l->way == FLOATS)
        hd_packed_forward(&l->p, rows, l->w, l->bias, l->x + first * l->ldx, l->ldx, y, l->ldy);
    else
        l->bf16->forward(&l->p, rows, l->shadow, l->bias, l->x_bf16 + first * l->ldx, l->ldx, y,
                         l->ldy);
}

/* x stands for the output of a ReLU before the layer. */
static void backward(const struct layer *l, int64_t first, int64_t last)
{
    if (l->way == FLOATS) {
        hd_packed_backward_data(&l->p, l->rows, l->w, l->dy, l->ldy, first, last, l->x, l->dx,
                                l->ldx, l->scratch);
        hd_packed_backward_weights(&l->p, l->rows, l->dy, l->ldy, l->x, l->ldx, first, last, l->dw,
                                   l->scratch);
    } else {
        l->bf16->backward_data(&l->p, l->rows, l->shadow, l->dy_bf16, l->ldy, first, last,
                               l->x_bf16, l->dx_bf16, l->ldx, l->scratch);
        l->bf16->backward_weights(&l->p, l->rows, l->dy_bf16, l->ldy, l->x_bf16, l->ldx, first,
                                  last, l->dw, l->scratch);
    }
}

static void check_y(const struct layer *l)
{
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t o = 0; o < hd_packed_count_outputs(&l->p); o++) {
            double sum = o < l->p.out ? l->bias[o] : 0;
            for (int64_t i = 0; i < l->p.in && o < l->p.out; i++)
                sum += (double)l->w[hd_packed_get_index(&l->p, o, i)] * l->x[r * l->ldx + i];
            CHECK_CLOSE(l->y[r * l->ldy + o], sum, 1.0 + 0.1 * (double)l->p.in, 2e-7, "y");
        }
}

static void check_dx(const struct layer *l)
{
    for (int64_t r = 0; r < l->rows; r++)
        for (int64_t i = 0; i < l->ldx; i++) {
            double sum = 0;
            for (int64_t o = 0; o < l->p.out && i < l->p.in && l->x[r * l->ldx + i] > 0; o++)
                sum += (double)l->w[hd_packed_get_index(&l->p, o, i)] * l->dy[r * l->ldy + o];
            const int64_t at = r * l->ldx + i;
            if (l->way == FLOATS)
                CHECK_CLOSE(l->dx[at], sum, 1.0 + 0.1 * (double)l->p.out, 2e-7, "dx");
            else /* rounded to 8 bits */
                CHECK_CLOSE(hd_bf16_to_float(l->dx_bf16[at]), sum, fabs(sum) + 1e-5, 4e-3,
                            "dx in bf16");
        }
}

static void check_dw(const struct layer *l)
{
    const int64_t in = hd_packed_count_in_blocks(&l->p) * HD_PACK_IN;
    for (int64_t o = 0; o < hd_packed_count_outputs(&l->p); o++)
        for (int64_t i = 0; i < in; i++) {
            double sum = 0;
            for (int64_t r = 0; r < l->rows && o < l->p.out && i < l->p.in; r++)
                sum += (double)l->x[r * l->ldx + i] * l->dy[r * l->ldy + o];
            CHECK_CLOSE(l->dw[hd_packed_get_index(&l->p, o, i)], sum, 1.0 + 0.1 * (double)l->rows,
                        2e-7, "dw");
        }
}

/* Returns whether this processor can; says so if not. */
static bool possible(enum way way)
{
    const bool tried = way != AMX_BF16 || hd_amx_is_ready();
    if (!tried)
        printf("no matrix registers here: they are not tried\n");
    return tried;
}

TEST(passes_are_sums_in_double, .runs = WAYS * N_SIZES)
{
    const enum way way = (enum way)(_i / N_SIZES);
    for (int r = 0; r < N_ROWS && possible(way); r++) {
        struct layer l = make_layer(_i % N_SIZES, row_counts[r], way);
        forward(&l, 0, l.rows);
        backward(&l, 0, hd_packed_count_in_blocks(&l.p));
        check_y(&l);
        check_dx(&l);
        check_dw(&l);
        check_guards(&l);
        free_test_blocks();
    }
}

TEST(cutting_changes_no_bit, .runs = WAYS * N_SIZES)
{
    const enum way way = (enum way)(_i / N_SIZES);
    if (!possible(way))
        return;
    struct layer whole_layer = make_layer(_i % N_SIZES, 50, way),
                 cut = make_layer(_i % N_SIZES, 50, way);
    const int64_t blocks = hd_packed_count_in_blocks(&cut.p);
    forward(&whole_layer, 0, 50);
    backward(&whole_layer, 0, blocks);
    for (int64_t first = 0, rows; first < 50; first += rows) {
        rows = first == 0 ? 1 : first < 20 ? 19 : 30;
        forward(&cut, first, rows);
    }
    for (int64_t b = blocks - 1; b >= 0; b--)
        backward(&cut, b, b + 1);
    ck_assert(memcmp(cut.y, whole_layer.y, (size_t)(50 * cut.ldy) * 4) == 0);
    ck_assert(memcmp(cut.dx, whole_layer.dx, (size_t)(50 * cut.ldx) * 4) == 0);
    ck_assert(memcmp(cut.dx_bf16, whole_layer.dx_bf16, (size_t)(50 * cut.ldx) * 2) == 0);
    ck_assert(memcmp(cut.dw, whole_layer.dw, (size_t)hd_packed_count_weights(&cut.p) * 4) == 0);
}

/* Whoever changes the code sees whether its bits change. They do not depend on the processor. */
TEST(bits_are_as_they_were, .runs = N_SIZES)
{
    static const uint64_t bits[N_SIZES] = {
        0x640A25A466B1C483, 0x631A1ECA3B83C7A1, 0x30641A6AC39C034B, 0xBBE900BEE5C96681,
        0xF76CC14AD7934FD3, 0xCB907540B3326EC9, 0x9DBA5C3EB31C6867, 0xAF830E27B9F083E0,
        0xE3E95E92CFC6EC7E, 0x1C1105B89AEFAA40};
    if (!possible(AMX_BF16))
        return;
    struct layer l = make_layer(_i, 50, AMX_BF16);
    forward(&l, 0, 50);
    backward(&l, 0, hd_packed_count_in_blocks(&l.p));
    uint64_t hash = hd_hash_bytes(l.y, (size_t)(50 * l.ldy) * 4);
    hash = hd_hash_mix(hash, hd_hash_bytes(l.dx_bf16, (size_t)(50 * l.ldx) * 2));
    hash = hd_hash_mix(hash, hd_hash_bytes(l.dw, (size_t)hd_packed_count_weights(&l.p) * 4));
    ck_assert_msg(hash == bits[_i], "size %d: 0x%016" PRIX64, _i, hash);
}

/* -- bf16 -------------------------------------------------------------------------------------- */

TEST(rounding_is_to_nearest_even)
{
    static const struct {
        float from;
        hd_bf16 to;
    } cases[] = {
        {1.0f, 0x3F80},      {-1.0f, 0xBF80},         {0x1.01p0f, 0x3F80},
        {0x1.03p0f, 0x3F82}, {0x1.010002p0f, 0x3F81}, {0x1.fffffep127f, 0x7F80},
        {INFINITY, 0x7F80},  {-INFINITY, 0xFF80},     {0x1p-126f, 0x0080},
        {0x1.8p-127f, 0},    {-0x1.8p-127f, 0x8000},  {0.0f, 0},
        {0x1.fep0f, 0x3FFF}, {0x1.ffp0f, 0x4000},
    };
    enum { N = sizeof cases / sizeof *cases };
    float from[48] = {0};
    hd_bf16 to[64], pairs[32];
    for (int i = 0; i < N; i++) {
        from[i] = from[i + 16] = from[i + 32] = cases[i].from;
        ck_assert_uint_eq(hd_bf16_from_float(cases[i].from), cases[i].to);
    }
    for (int n = N; n <= 48; n++) { /* every mixture of vectors and single ones */
        memset(to, 0x5A, sizeof to);
        hd_bf16_round(from, n, to);
        for (int i = 0; i < n; i++)
            ck_assert_uint_eq(to[i], i % 16 < N ? cases[i % 16].to : 0);
        ck_assert_uint_eq(to[n], 0x5A5A);
    }
    hd_bf16_pair(from, from + 1, pairs);
    for (int i = 0; i < 16; i++) {
        ck_assert_uint_eq(pairs[2 * i], hd_bf16_from_float(from[i]));
        ck_assert_uint_eq(pairs[2 * i + 1], hd_bf16_from_float(from[i + 1]));
    }
    ck_assert(isnan(hd_bf16_to_float(hd_bf16_from_float(NAN))));
    from[0] = NAN;
    hd_bf16_round(from, 16, to);
    ck_assert(isnan(hd_bf16_to_float(to[0])));
}
