/* SPDX-License-Identifier: Apache-2.0 */
/* Adam: the numbers of docs/di-engine.md 9.4, a naive version in double, bits independent of how a
 * range is cut. */
#include "kernels/common/bf16.h"
#include "kernels/learn/adam.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tests/kernels/common/device.h"

#include <string.h>

TEST(two_steps_are_the_spec_s)
{
    /* The first gradient after clipping its norm to 0.5, as docs/di-engine.md gives it. */
    static const float first[] = {.11538453f, -.15384604f, .46153814f}, second[] = {.1f, .1f, -.1f};
    static const double after1[] = {.99900001, -1.999, 2.9990001};
    static const double after2[] = {.99800628, -1.9988439, 2.998503};
    struct hd_adam adam = hd_adam_make(1e-3);
    float p[] = {1, -2, 3}, m[3] = {0}, v[3] = {0};
    hd_adam_step(&adam, 1, 3, first, 1, 1, m, v, p);
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(p[i], after1[i], 1.0, 2e-7, "after one step");
    hd_adam_step(&adam, 2, 3, second, 1, 1, m, v, p);
    for (int i = 0; i < 3; i++)
        CHECK_CLOSE(p[i], after2[i], 1.0, 3e-7, "after two steps");
}

enum { N = 1003, STEPS = 20 };

static void gradient(int t, float *g)
{
    struct hd_rng rng = hd_rng_make(3, (uint64_t)t, 0, 0, 0);
    for (int i = 0; i < N; i++)
        g[i] = (float)(hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5) * (float)(i % 7);
}

struct naive {
    double m[N], v[N], p[N];
};

/* Checks that parameters after step t are the naive version's, which does the step too. */
static void check_step(struct naive *naive, int t, const float *g, const float *p)
{
    for (int i = 0; i < N; i++) {
        naive->m[i] = 0.9 * naive->m[i] + 0.1 * g[i];
        naive->v[i] = 0.999 * naive->v[i] + 0.001 * (double)g[i] * g[i];
        double mean = naive->m[i] / (1 - pow(0.9, t));
        double square = naive->v[i] / (1 - pow(0.999, t));
        naive->p[i] -= 1e-2 * mean / (sqrt(square) + 1e-8);
        CHECK_CLOSE(p[i], naive->p[i], 1e-2 * t, 1e-5, "parameter");
    }
}

TEST(many_steps_are_those_of_a_naive_version)
{
    struct hd_adam adam = hd_adam_make(1e-2);
    static float p[N], m[N], v[N], g[N];
    static struct naive naive;
    for (int t = 1; t <= STEPS; t++) {
        gradient(t, g);
        hd_adam_step(&adam, t, N, g, 1, 1, m, v, p);
        check_step(&naive, t, g, p);
    }
}

TEST(cutting_a_range_changes_no_bit)
{
    static const int cuts[] = {1, 15, 16, 17, 64, 500, 1002};
    struct hd_adam adam = hd_adam_make(1e-2);
    static float p[N], m[N], v[N], g[N], cp[N], cm[N], cv[N];
    for (int k = 0; k < (int)(sizeof cuts / sizeof *cuts); k++) {
        memset(p, 0, sizeof p), memset(m, 0, sizeof m), memset(v, 0, sizeof v);
        memset(cp, 0, sizeof cp), memset(cm, 0, sizeof cm), memset(cv, 0, sizeof cv);
        for (int t = 1; t <= 3; t++) {
            int c = cuts[k];
            gradient(t, g);
            hd_adam_step(&adam, t, N, g, 1, 1, m, v, p);
            hd_adam_step(&adam, t, c, g, 1, 1, cm, cv, cp);
            hd_adam_step(&adam, t, N - c, g + c, 1, 1, cm + c, cv + c, cp + c);
        }
        ck_assert(memcmp(p, cp, sizeof p) == 0 && memcmp(m, cm, sizeof m) == 0 &&
                  memcmp(v, cv, sizeof v) == 0);
    }
}

/* Computes the formula literally, every division a division. */
static void reference_step(double rate, int t, float count, const float *g, float *m, float *v,
                           float *p)
{
    const float step = (float)(rate / (1 - pow(0.9, t))), root = (float)sqrt(1 - pow(0.999, t));
    for (int i = 0; i < N; i++) {
        volatile float grad = g[i] / count, part = 0.9f * m[i], square;
        m[i] = part + (float)(1 - 0.9) * grad;
        part = 0.999f * v[i];
        square = (float)(1 - 0.999) * grad;
        square = square * grad;
        v[i] = part + square;
        square = sqrtf(v[i]);
        square = square / root;
        square = m[i] / (square + 1e-8f);
        square = step * square;
        p[i] -= square;
    }
}

TEST(a_step_by_a_sum_is_the_formula_to_the_bit)
{
    static const float counts[] = {1, 2, 32, 96, 3, 1000};
    struct hd_adam adam = hd_adam_make(1e-2);
    static float p[N], m[N], v[N], g[N], pp[N], pm[N], pv[N];
    for (int k = 0; k < (int)(sizeof counts / sizeof *counts); k++) {
        memset(p, 0, sizeof p), memset(m, 0, sizeof m), memset(v, 0, sizeof v);
        memset(pp, 0, sizeof p), memset(pm, 0, sizeof m), memset(pv, 0, sizeof v);
        for (int t = 1; t <= 600; t++) {
            gradient(t, g);
            for (int i = 0; i < N; i++)
                g[i] *= ldexpf(1, i % 40 - 30); /* from ordinary down to squares that vanish */
            hd_adam_step(&adam, t, N, g, counts[k], 1, m, v, p);
            reference_step(1e-2, t, counts[k], g, pm, pv, pp);
        }
        ck_assert(memcmp(p, pp, sizeof p) == 0 && memcmp(m, pm, sizeof m) == 0 &&
                  memcmp(v, pv, sizeof v) == 0);
    }
}

#if HD_CUDA

enum { ROWS = 17, COLUMNS = N / ROWS, ROWS_PADDED = 24, LD = 64, TILES = LD / HD_TILE };

/* Returns where element i of the flat array stands in the matrix: the flat array is its transpose.
 */
static int matrix_at(int i)
{
    return i % ROWS * LD + i / ROWS;
}

/* Returns tables of a matrix whose last rows and columns are padding, for these arrays. */
static struct hd_tiles make_tiles(bool bf16, float *floats, void *narrow)
{
    static struct hd_tile tiles[TILES];
    static int32_t flat[TILES][HD_TILE_ELEMENTS];
    static uint16_t local[TILES][HD_TILE_ELEMENTS];
    _Static_assert(ROWS * COLUMNS == N, "a matrix");
    for (int t = 0; t < TILES; t++) {
        const int before = ROWS * HD_TILE * t, end = before + ROWS * HD_TILE;
        int n = 0;
        tiles[t] = (struct hd_tile){t * HD_TILE, t * HD_TILE,       LD, LD, ROWS_PADDED, HD_TILE,
                                    before,      end < N ? end : N, t};
        for (int column = 0; column < HD_TILE; column++)
            for (int row = 0; row < ROWS && before + n < N; row++, n++) {
                flat[t][n] = n;
                local[t][n] = (uint16_t)(row * HD_TILE + column);
            }
        for (int i = 0; i < ROWS_PADDED * HD_TILE; i++)
            if (i / HD_TILE >= ROWS || t * HD_TILE + i % HD_TILE >= COLUMNS) {
                flat[t][n] = -1;
                local[t][n++] = (uint16_t)i;
            }
        ck_assert_int_eq(n, ROWS_PADDED * HD_TILE);
    }
    return (struct hd_tiles){.tiles = device_make(tiles, sizeof tiles),
                             .n = TILES,
                             .n_patterns = TILES,
                             .flat = device_make(flat, sizeof flat),
                             .local = device_make(local, sizeof local),
                             .floats = floats,
                             .bf16 = bf16,
                             .narrow = narrow,
                             .n_narrow = ROWS_PADDED * LD};
}

/* The state of Adam on the device. */
struct device_adam {
    int64_t *updates;
    float *scratch, *m, *v, *p;
    void *shadow;
    struct hd_tiles tiles;
    bool gpu_order;                /* of gradients */
    struct hd_scalar *norm, *rate; /* weight 0: none */
};

static const double longest = .5;

static struct device_adam make_device_adam(int64_t updates, bool bf16, bool gpu_order)
{
    float *zeros = test_alloc(N, sizeof *zeros);
    memset(zeros, 0, N * sizeof *zeros);
    struct device_adam d = {.updates = device_make(&updates, sizeof updates),
                            .scratch = device_make(NULL, HD_ADAM_SCRATCH * sizeof(float)),
                            .m = device_make(zeros, N * sizeof *zeros),
                            .v = device_make(zeros, N * sizeof *zeros),
                            .p = device_make(zeros, N * sizeof *zeros),
                            .shadow = device_make(NULL, ROWS_PADDED * LD * sizeof(float)),
                            .gpu_order = gpu_order,
                            .norm = device_shared(sizeof(struct hd_scalar)),
                            .rate = device_shared(sizeof(struct hd_scalar))};
    d.tiles = make_tiles(bf16, d.p, d.shadow);
    return d;
}

/* Updates elements [lo, hi) in its next step, or in the last one once more. */
static void device_step(const struct device_adam *d, const struct hd_partials *grad, int64_t lo,
                        int64_t hi, bool again)
{
    const struct hd_adam adam = hd_adam_make(1e-2);
    const struct hd_adam_inputs inputs = {.norm = d->norm, .longest = longest, .rate = d->rate};
    ck_assert_int_eq(hd_adam_step_cuda(&adam, grad, d->gpu_order, &d->tiles, lo, hi - lo, &inputs,
                                       again ? NULL : d->updates, d->scratch, d->m, d->v,
                                       device_stream()),
                     HD_OK);
}

/* Checks that the matrix holds the parameters, and zeros in its padding. */
static void check_shadow(const struct device_adam *d, const float *p)
{
    static float wide[ROWS_PADDED * LD], wanted[ROWS_PADDED * LD];
    static hd_bf16 narrow[ROWS_PADDED * LD];
    for (int i = 0; i < N; i++)
        wanted[matrix_at(i)] = p[i];
    if (!d->tiles.bf16) {
        device_get(wide, d->shadow, sizeof wide);
        ck_assert(memcmp(wide, wanted, sizeof wide) == 0);
        return;
    }
    device_get(narrow, d->shadow, sizeof narrow);
    for (int i = 0; i < ROWS_PADDED * LD; i++)
        ck_assert_int_eq(narrow[i], hd_bf16_from_float(wanted[i]));
}

static void check_updates(const struct device_adam *d, int64_t wanted)
{
    int64_t updates;
    device_get(&updates, d->updates, sizeof updates);
    ck_assert_int_eq(updates, wanted);
}

TEST(cuda_steps_are_those_of_a_naive_version, .cuda = true)
{
    const struct device_adam d = make_device_adam(0, false, false);
    static float p[N], g[N];
    static struct naive naive;
    for (int t = 1; t <= STEPS; t++) {
        gradient(t, g);
        const struct hd_partials grad = {device_make(g, sizeof g), NULL, 1, N};
        *d.norm = *d.rate = (struct hd_scalar){0};
        device_step(&d, &grad, 0, N, false);
        device_get(p, d.p, sizeof p);
        check_step(&naive, t, g, p);
    }
    check_updates(&d, STEPS);
}

enum { MAX_PARTIALS = 13, STRIDE = 1024, LONG = 150, BEFORE = 700 };

/* Fills partials of step t with samples at their ends, and computes their sum and samples. */
static float fill_partials(int t, int partials, float *floats, float *sum)
{
    const float *all = floats, *counts = floats + N;
    float count;
    for (int l = 0; l < partials; l++) {
        gradient(t * MAX_PARTIALS + l, floats + l * STRIDE);
        for (int i = 0; i < N; i++) /* from ordinary down to squares that vanish */
            floats[l * STRIDE + i] *= ldexpf(1, i % 40 - 30);
        floats[l * STRIDE + N] = (float)((l + t) % 3);
    }
    hd_tree_add(1, &all, partials, STRIDE, 0, N, sum);
    hd_tree_add(1, &counts, partials, STRIDE, 0, 1, &count);
    return count > 0 ? count : 1;
}

/* Moments are bitwise identical. Parameters are too if the device's pow rounds as this machine's
 * does; otherwise a step's scalars may be off by a float's last bit. */
static void check_state(const struct device_adam *d, const float *m, const float *v, const float *p,
                        int updates)
{
    static float found[N];
    device_get(found, d->m, sizeof found);
    ck_assert(memcmp(found, m, sizeof found) == 0);
    device_get(found, d->v, sizeof found);
    ck_assert(memcmp(found, v, sizeof found) == 0);
    device_get(found, d->p, sizeof found);
    for (int i = 0; i < N; i++)
        CHECK_CLOSE(found[i], p[i], 1e-2 * updates, 1e-6, "parameter");
}

/* Returns the address of a gradient in GPU order, with its count behind it. */
static float *reorder(const float *flat, float *matrix)
{
    memset(matrix, 0, ROWS_PADDED * LD * sizeof *matrix);
    for (int i = 0; i < N; i++)
        matrix[matrix_at(i)] = flat[i];
    matrix[ROWS_PADDED * LD] = flat[N];
    return matrix;
}

/* There are one partial or more, cut anywhere, clipped or not, at an adapted learning rate or the
 * first one, after steps that this one does not know of; or one in GPU order. */
TEST(cuda_steps_are_the_cpu_s, .runs = 6, .cuda = true)
{
    static const int partials[] = {1, 2, 5, 8, MAX_PARTIALS, 1}, cuts[] = {0, 1, 512, 1001, N};
    static float p[N], m[N], v[N], sum[N];
    const struct device_adam d = make_device_adam(BEFORE, _i % 2, _i == 5);
    static const double norms[] = {1.3, 0, .2, NAN, .5}, rates[] = {1e-2, 3e-3};
    for (int i = 0; i < N; i++)
        p[i] = m[i] = v[i] = 0;
    float *floats = device_shared(LONG * MAX_PARTIALS * STRIDE * sizeof *floats);
    float *matrices = device_shared(LONG * (ROWS_PADDED * LD + 1) * sizeof *matrices);
    for (int t = 0; t < LONG; t++, floats += MAX_PARTIALS * STRIDE) {
        const int cut = cuts[t % 5];
        const float count = fill_partials(t, partials[_i], floats, sum);
        struct hd_partials grad = {floats, floats + N, partials[_i], STRIDE};
        if (d.gpu_order) {
            grad.floats = reorder(floats, matrices + t * (ROWS_PADDED * LD + 1));
            grad.counts = grad.floats + ROWS_PADDED * LD;
        }
        const double norm = norms[t % 5];
        const struct hd_adam adam = hd_adam_make(rates[t % 2]);
        cudaStreamSynchronize(device_stream()); /* the step before reads these */
        *d.norm = (struct hd_scalar){norm, norm != 0};
        *d.rate = (struct hd_scalar){rates[1], t % 2};
        hd_adam_step(&adam, BEFORE + t + 1, N, sum, count,
                     norm != 0 ? hd_adam_get_scale(longest, norm) : 1, m, v, p);
        device_step(&d, &grad, 0, cut, false);
        device_step(&d, &grad, cut, N, true);
    }
    check_state(&d, m, v, p, LONG);
    device_get(p, d.p, sizeof p);
    check_shadow(&d, p);
    check_updates(&d, BEFORE + LONG);
}

#endif
