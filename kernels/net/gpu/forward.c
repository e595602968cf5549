/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass on a GPU. */
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/status.h"

int hd_gpu_multiply(const struct hd_gpu_pass *pass, const struct hd_gemm *gemm, const void *a,
                    const void *b, const void *bias, void *c)
{
    if (pass->dry_run)
        return hd_gemm_prepare_cuda(gemm);
    return hd_gemm_multiply_cuda(gemm, a, b, bias, c, pass->workspace, pass->stream);
}

/* Computes y[rows * pixels][out] from x[rows * pixels][in]. */
static int run_layer(const struct hd_gpu_pass *pass, int i, int64_t rows, const void *x, void *y)
{
    const struct hd_gpu_plan *plan = pass->plan;
    const struct hd_gpu_layer *layer = &plan->layers[i];
    const enum hd_gemm_type type = plan->bf16 ? HD_GEMM_BF16 : HD_GEMM_F32;
    const struct hd_gemm gemm = {.m = rows * layer->pixels,
                                 .n = layer->out,
                                 .k = layer->in,
                                 .ld_a = layer->in,
                                 .ld_b = layer->in,
                                 .ld_c = layer->out,
                                 .transpose_b = true,
                                 .from = type,
                                 .to = layer->wide ? HD_GEMM_F32 : type,
                                 .tf32 = plan->tf32,
                                 .epilogue = layer->relu ? HD_GEMM_BIAS_RELU : HD_GEMM_BIAS};
    return hd_gpu_multiply(pass, &gemm, x, hd_gpu_find_shadow(plan, pass->params, layer->weight),
                           hd_gpu_find_shadow(plan, pass->params, layer->bias), y);
}

/* Computes the first convolution from the bytes themselves, which are kept. */
static int run_first_conv(const struct hd_gpu_pass *pass, const struct hd_gpu_obs *obs,
                          int64_t rows, const struct hd_gpu_work *work)
{
    const struct hd_gpu_plan *plan = pass->plan;
    const struct hd_gpu_layer *layer = &plan->layers[0];
    const struct hd_gpu_first_conv conv = hd_gpu_get_first_conv(plan, rows);
    HD_GPU_RUN(pass, hd_gpu_first_conv_forward(
                         &conv, obs, hd_gpu_find_shadow(plan, pass->params, layer->weight),
                         hd_gpu_find_shadow(plan, pass->params, layer->bias), work->act[0],
                         &work->obs, pass->stream));
    return HD_OK;
}

/* Computes convolution i part by part. */
static int run_conv(const struct hd_gpu_pass *pass, int i, const struct hd_gpu_obs *obs,
                    int64_t rows, const struct hd_gpu_work *work)
{
    const struct hd_gpu_plan *plan = pass->plan;
    const struct hd_gpu_layer *layer = &plan->layers[i];
    const int64_t part = hd_gpu_count_part_rows(layer, hd_gpu_get_element_bytes(plan), rows);
    for (int64_t first = 0; first < rows; first += part) {
        const int64_t some = rows - first < part ? rows - first : part;
        if (i == 0)
            HD_GPU_RUN(pass, hd_gpu_im2col_obs(obs, first, &layer->window, some, plan->bf16,
                                               work->columns[i], pass->stream));
        else
            HD_GPU_RUN(pass, hd_gpu_im2col(hd_gpu_find_row(plan, i - 1, work->act[i - 1], first),
                                           &layer->window, some, plan->bf16, work->columns[i],
                                           pass->stream));
        HD_TRY(run_layer(pass, i, some, work->columns[i],
                         hd_gpu_find_row(plan, i, work->act[i], first)));
    }
    return HD_OK;
}

/* Converts the observations, if they are kept in the net's type; `obs` then means the converted
 * ones. */
static int take_obs(const struct hd_gpu_pass *pass, int64_t rows, const struct hd_gpu_work *work,
                    struct hd_gpu_obs *obs)
{
    const struct hd_gpu_plan *plan = pass->plan;
    if (!work->input)
        return HD_OK;
    HD_GPU_RUN(pass,
               hd_gpu_take_obs(obs, rows, plan->obs_ld, plan->bf16, work->input, pass->stream));
    *obs = hd_gpu_get_kept_obs(plan, rows, work);
    return HD_OK;
}

struct hd_gpu_obs hd_gpu_get_kept_obs(const struct hd_gpu_plan *plan, int64_t rows,
                                      const struct hd_gpu_work *work)
{
    return (struct hd_gpu_obs){.first = work->input,
                               .n_first = rows,
                               .elements = plan->obs_ld,
                               .type = plan->bf16 ? HD_GPU_BF16 : HD_GPU_FLOATS};
}

int hd_gpu_forward(const struct hd_gpu_pass *pass, const struct hd_gpu_obs *obs, int64_t rows,
                   const struct hd_gpu_work *work, float *q)
{
    const struct hd_gpu_plan *plan = pass->plan;
    struct hd_gpu_obs taken = *obs;
    HD_TRY(take_obs(pass, rows, work, &taken));
    if (plan->direct)
        HD_TRY(run_first_conv(pass, obs, rows, work));
    for (int i = hd_gpu_get_first_with_columns(plan); i < plan->convs; i++)
        HD_TRY(run_conv(pass, i, &taken, rows, work));
    for (int i = plan->convs; i < plan->n_layers; i++)
        HD_TRY(run_layer(pass, i, rows, i > 0 ? work->act[i - 1] : work->input, work->act[i]));
    HD_GPU_RUN(pass,
               hd_gpu_heads_forward(&plan->heads, rows, work->act[plan->n_layers - 1],
                                    hd_gpu_find_shadow(plan, pass->params, plan->output.weight),
                                    hd_gpu_find_shadow(plan, pass->params, plan->output.bias), q,
                                    pass->stream));
    return HD_OK;
}
