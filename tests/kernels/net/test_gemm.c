/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices on a GPU against sums in double: every layout, every type. */
#include "kernels/common/bf16.h"
#include "kernels/net/gpu/gemm.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#if HD_CUDA

static float number(uint64_t i)
{
    return (float)((double)(i * 2654435761u % 2001) / 1000 - 1);
}

/* A matrix stored as [rows][ld] with different numbers in all elements, on the host and on the
 * GPU. */
struct matrix {
    int64_t rows, ld;
    enum hd_gemm_type type;
    float *floats;
    void *device;
};

static struct matrix make_matrix(int64_t rows, int64_t ld, enum hd_gemm_type type, uint64_t seed)
{
    struct matrix m = {rows, ld, type, test_alloc(rows * ld, sizeof(float)), NULL};
    hd_bf16 *narrow = test_alloc(rows * ld, sizeof *narrow);
    for (int64_t i = 0; i < rows * ld; i++) {
        m.floats[i] = number(seed + (uint64_t)i);
        narrow[i] = hd_bf16_from_float(m.floats[i]);
        if (type == HD_GEMM_BF16)
            m.floats[i] = hd_bf16_to_float(narrow[i]);
    }
    m.device = type == HD_GEMM_BF16 ? device_make(narrow, rows * ld * 2)
                                    : device_make(m.floats, rows * ld * 4);
    return m;
}

static float *get_matrix(const struct matrix *m)
{
    const int64_t n = m->rows * m->ld;
    float *floats = test_alloc(n, sizeof *floats);
    hd_bf16 *narrow = test_alloc(n, sizeof *narrow);
    if (m->type == HD_GEMM_F32) {
        device_get(floats, m->device, n * 4);
        return floats;
    }
    device_get(narrow, m->device, n * 2);
    for (int64_t i = 0; i < n; i++)
        floats[i] = hd_bf16_to_float(narrow[i]);
    return floats;
}

static double wanted(const struct hd_gemm *g, const struct matrix *a, const struct matrix *b,
                     const struct matrix *bias, const struct matrix *c, int64_t i, int64_t j)
{
    double sum = g->add ? c->floats[i * g->ld_c + j] : 0;
    for (int64_t k = 0; k < g->k; k++)
        sum += (double)a->floats[g->transpose_a ? k * g->ld_a + i : i * g->ld_a + k] *
               b->floats[g->transpose_b ? j * g->ld_b + k : k * g->ld_b + j];
    if (g->epilogue != HD_GEMM_NO_EPILOGUE)
        sum += bias->floats[j];
    return g->epilogue == HD_GEMM_BIAS_RELU && sum < 0 ? 0 : sum;
}

/* Sums have some dozen products of numbers up to 1: f32 rounds them at 2^-24 of a few; tf32 rounds
 * factors to 11 bits; results in bf16 are off by half of 2^-8 of themselves. */
static void check(const struct hd_gemm *g)
{
    static const char *const types[] = {[HD_GEMM_F32] = "f32", [HD_GEMM_BF16] = "bf16"};
    static char what[96];
    snprintf(what, sizeof what, "%s to %s%s%s%s%s", types[g->from], types[g->to],
             g->tf32 ? " by tf32" : "", g->transpose_a ? ", a transposed" : "",
             g->transpose_b ? ", b transposed" : "", g->add ? ", added" : "");
    const struct matrix a = make_matrix(g->transpose_a ? g->k : g->m, g->ld_a, g->from, 1);
    const struct matrix b = make_matrix(g->transpose_b ? g->n : g->k, g->ld_b, g->from, 7777);
    const struct matrix bias = make_matrix(1, g->n, g->to, 99);
    const struct matrix c = make_matrix(g->m, g->ld_c, g->to, 555);
    void *workspace = device_make(NULL, HD_GEMM_WORKSPACE);
    ck_assert_int_eq(hd_gemm_multiply_cuda(g, a.device, b.device,
                                           g->epilogue == HD_GEMM_NO_EPILOGUE ? NULL : bias.device,
                                           c.device, workspace, device_stream()),
                     HD_OK);
    const float *found = get_matrix(&c);
    const double may = g->to == HD_GEMM_BF16 ? 0x1p-8 : g->tf32 ? 4e-3 : 4e-6;
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->ld_c; j++) {
            if (j >= g->n) { /* between the rows nothing is written */
                ck_assert(found[i * g->ld_c + j] == c.floats[i * g->ld_c + j]);
                continue;
            }
            const double want = wanted(g, &a, &b, &bias, &c, i, j);
            CHECK_CLOSE(found[i * g->ld_c + j], want, fmax(1, fabs(want)), may, what);
        }
}

TEST(products_are_sums_of_products, .runs = HD_GEMM_BIAS_RELU + 1, .cuda = true)
{
    static const struct {
        enum hd_gemm_type from, to;
        bool tf32;
    } types[] = {{HD_GEMM_F32, HD_GEMM_F32, false},
                 {HD_GEMM_F32, HD_GEMM_F32, true},
                 {HD_GEMM_BF16, HD_GEMM_BF16, false},
                 {HD_GEMM_BF16, HD_GEMM_F32, false}};
    for (int t = 0; t < (int)(sizeof types / sizeof *types); t++)
        for (int how = 0; how < 4; how++) {
            const bool ta = how & 1, tb = how & 2;
            const struct hd_gemm gemm = {.m = 5,
                                         .n = 24,
                                         .k = 40,
                                         .ld_a = ta ? 8 : 48,
                                         .ld_b = tb ? 40 : 32,
                                         .ld_c = 32,
                                         .transpose_a = ta,
                                         .transpose_b = tb,
                                         .from = types[t].from,
                                         .to = types[t].to,
                                         .tf32 = types[t].tf32,
                                         .epilogue = (enum hd_gemm_epilogue)_i,
                                         .add = _i == HD_GEMM_NO_EPILOGUE && how > 1 &&
                                                types[t].to == HD_GEMM_F32};
            check(&gemm);
        }
}

/* cuBLASLt rounds the product before it adds (an H200: off by 0.85 of the last place). */
TEST(products_are_not_added_to_bf16, .cuda = true)
{
    const struct hd_gemm gemm = {.m = 8,
                                 .n = 8,
                                 .k = 8,
                                 .ld_a = 8,
                                 .ld_b = 8,
                                 .ld_c = 8,
                                 .from = HD_GEMM_BF16,
                                 .to = HD_GEMM_BF16,
                                 .add = true};
    ck_assert_int_eq(hd_gemm_prepare_cuda(&gemm), HD_ERR_UNSUPPORTED);
}

/* A prepared GEMM is the one that is computed, and each call uses its own bias. */
TEST(a_bias_belongs_to_its_call, .cuda = true)
{
    const struct hd_gemm gemm = {.m = 3,
                                 .n = 8,
                                 .k = 8,
                                 .ld_a = 8,
                                 .ld_b = 8,
                                 .ld_c = 8,
                                 .transpose_b = true,
                                 .epilogue = HD_GEMM_BIAS};
    const struct matrix a = make_matrix(3, 8, HD_GEMM_F32, 1),
                        b = make_matrix(8, 8, HD_GEMM_F32, 2);
    void *workspace = device_make(NULL, HD_GEMM_WORKSPACE);
    ck_assert_int_eq(hd_gemm_prepare_cuda(&gemm), HD_OK);
    struct matrix bias[2], c[2];
    for (int i = 0; i < 2; i++) {
        bias[i] = make_matrix(1, 8, HD_GEMM_F32, 100 + (uint64_t)i);
        c[i] = make_matrix(3, 8, HD_GEMM_F32, 5);
        ck_assert_int_eq(hd_gemm_multiply_cuda(&gemm, a.device, b.device, bias[i].device,
                                               c[i].device, workspace, device_stream()),
                         HD_OK);
    }
    for (int k = 0; k < 2; k++) {
        const float *found = get_matrix(&c[k]);
        for (int64_t i = 0; i < 3; i++)
            for (int64_t j = 0; j < 8; j++)
                CHECK_CLOSE(found[i * 8 + j], wanted(&gemm, &a, &b, &bias[k], &c[k], i, j), 1, 4e-6,
                            "element");
    }
}

#endif
