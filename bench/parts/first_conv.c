/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the first convolution of nets in bf16 on a GPU, on images of 4 x 84 x 84 bytes: straight
 * from the bytes, and by columns in memory, which a library multiplies. */
#include "kernels/net/gpu/first_conv.h"

#include "bench/parts/on_gpu.h"
#include "bench/parts/parts.h"
#include "kernels/net/gpu/gemm.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <string.h>

#if HD_CUDA

enum { ELEMENTS = 4 * 84 * 84, PIXELS = 20 * 20, DEPTH = 4 * 8 * 8, BF16 = 2 };

struct layer {
    struct hd_gpu_first_conv conv;
    struct hd_gpu_obs obs;
    struct hd_gpu_kept_obs kept;
    void *weight, *bias, *y; /* y is also the gradient of the output */
    void *columns, *workspace;
    float *partials, *gradient;
    int64_t part; /* rows whose columns are in memory at a time: 32 MiB, as nets do */
    void *stream;
};

static int forward(const void *arg)
{
    const struct layer *l = arg;
    return hd_gpu_first_conv_forward(&l->conv, &l->obs, l->weight, l->bias, l->y, &l->kept,
                                     l->stream);
}

static int gradient(const void *arg)
{
    const struct layer *l = arg;
    return hd_gpu_first_conv_gradient(&l->conv, &l->kept, l->y, l->partials, l->gradient,
                                      l->stream);
}

/* Makes the columns of part after part and calls multiply(l, y of the part, rows, first row). */
static int by_columns(const struct layer *l,
                      int (*multiply)(const struct layer *l, char *y, int64_t rows, int64_t first))
{
    for (int64_t first = 0; first < l->conv.rows; first += l->part) {
        const int64_t left = l->conv.rows - first, rows = left < l->part ? left : l->part;
        HD_TRY(
            hd_gpu_im2col_obs(&l->obs, first, &l->conv.window, rows, true, l->columns, l->stream));
        HD_TRY(multiply(l, (char *)l->y + first * PIXELS * l->conv.out * BF16, rows, first));
    }
    return HD_OK;
}

static int multiply_forward(const struct layer *l, char *y, int64_t rows, int64_t first)
{
    const struct hd_gemm gemm = {.m = rows * PIXELS,
                                 .n = l->conv.out,
                                 .k = DEPTH,
                                 .ld_a = DEPTH,
                                 .ld_b = DEPTH,
                                 .ld_c = l->conv.out,
                                 .transpose_b = true,
                                 .from = HD_GEMM_BF16,
                                 .to = HD_GEMM_BF16,
                                 .epilogue = HD_GEMM_BIAS_RELU};
    (void)first;
    return hd_gemm_multiply_cuda(&gemm, l->columns, l->weight, l->bias, y, l->workspace, l->stream);
}

static int multiply_gradient(const struct layer *l, char *y, int64_t rows, int64_t first)
{
    const struct hd_gemm gemm = {.m = l->conv.out,
                                 .n = DEPTH,
                                 .k = rows * PIXELS,
                                 .ld_a = l->conv.out,
                                 .ld_b = DEPTH,
                                 .ld_c = DEPTH,
                                 .transpose_a = true,
                                 .from = HD_GEMM_BF16,
                                 .to = HD_GEMM_F32,
                                 .add = first > 0};
    return hd_gemm_multiply_cuda(&gemm, y, l->columns, NULL, l->gradient, l->workspace, l->stream);
}

static int forward_by_columns(const void *arg)
{
    return by_columns(arg, multiply_forward);
}

static int gradient_by_columns(const void *arg)
{
    return by_columns(arg, multiply_gradient);
}

static int allocate(struct layer *l)
{
    const int64_t rows = l->conv.rows, out = l->conv.out;
    l->obs = (struct hd_gpu_obs){.first = hd_part_make_on_gpu(rows * ELEMENTS),
                                 .n_first = rows,
                                 .elements = ELEMENTS,
                                 .type = HD_GPU_BYTES};
    l->kept.bytes = hd_part_make_on_gpu(rows * ELEMENTS);
    l->kept.norm = hd_part_make_on_gpu(hd_gpu_first_conv_count_norm(&l->conv.window) * 4);
    l->weight = hd_part_make_on_gpu(out * DEPTH * BF16);
    l->bias = hd_part_make_on_gpu(out * BF16);
    l->y = hd_part_make_on_gpu(rows * PIXELS * out * BF16);
    l->columns = hd_part_make_on_gpu(l->part * PIXELS * DEPTH * BF16);
    l->workspace = hd_part_make_on_gpu(HD_GEMM_WORKSPACE);
    l->partials = hd_part_make_on_gpu(hd_gpu_first_conv_count_partials(&l->conv) * 4);
    l->gradient = hd_part_make_on_gpu(out * DEPTH * 4);
    if (!l->obs.first || !l->kept.bytes || !l->kept.norm || !l->weight || !l->bias || !l->y ||
        !l->columns || !l->workspace || !l->partials || !l->gradient)
        return hd_fail(HD_ERR_NOMEM, "the GPU has too little memory for this layer");
    return HD_OK;
}

/* Fills the observations with bytes at random and the weights with one small number. */
static int fill(const struct layer *l)
{
    const struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    const int64_t bytes = l->conv.rows * ELEMENTS, of_weight = l->conv.out * DEPTH * BF16;
    uint8_t *obs = hd_alloc(bytes, 1), *weight = hd_alloc(of_weight, 1);
    if (!obs || !weight)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < bytes; i++)
        obs[i] = (uint8_t)hd_rng_draw_below(&rng, (uint32_t)i, 256);
    memset(weight, 0x3C, (size_t)of_weight);
    HD_TRY(hd_part_put_on_gpu((void *)l->obs.first, obs, bytes));
    HD_TRY(hd_part_put_on_gpu(l->weight, weight, of_weight));
    hd_free(obs);
    hd_free(weight);
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    const struct hd_gpu_window window = {4, 84, 84, 8, 4, 20, 20};
    const int64_t rows = hd_part_parse_number(argc, argv, 0, 256);
    const int64_t out = hd_part_parse_number(argc, argv, 1, 32);
    const int64_t part = (32 << 20) / (PIXELS * DEPTH * BF16);
    struct layer l = {.conv = {window, rows, out}, .part = rows < part ? rows : part};
    if (rows == 0 || out == 0 || out % HD_VECTOR != 0)
        return HD_ERR_INPUT;
    HD_TRY(hd_part_open_gpu(&l.stream));
    HD_TRY(allocate(&l));
    HD_TRY(fill(&l));
    HD_TRY(hd_part_measure_on_gpu("forward", forward, &l, true, l.stream));
    HD_TRY(hd_part_measure_on_gpu("forward_columns", forward_by_columns, &l, true, l.stream));
    HD_TRY(hd_part_measure_on_gpu("gradient", gradient, &l, true, l.stream));
    return hd_part_measure_on_gpu("gradient_columns", gradient_by_columns, &l, true, l.stream);
}

#else

static int measure(int argc, char **argv)
{
    (void)argc, (void)argv;
    return hd_fail(HD_ERR_UNSUPPORTED, "this program was built without CUDA");
}

#endif

const struct hd_bench_part hd_part_first_conv = {
    "[BATCH [CHANNELS]]",
    "the first convolution on a GPU in bf16: from bytes, and by columns in memory", measure};
