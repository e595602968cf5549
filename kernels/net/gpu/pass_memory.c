/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of passes on a GPU: how many rows a part has, and where each array lies. */
#include "kernels/net/gpu/plan_internal.h"

#include <stddef.h>

int64_t hd_gpu_count_part_rows(const struct hd_gpu_layer *layer, int64_t element, int64_t rows)
{
    const int64_t some = 32 << 20, max_rows = some / (layer->pixels * layer->in * element);
    const int64_t parts = max_rows > 0 ? (rows + max_rows - 1) / max_rows : rows;
    return parts > 0 ? (rows + parts - 1) / parts : rows;
}

/* Cuts memory into blocks with the alignment that the library prefers, whatever the alignment of
 * its start. */
struct cut {
    char *at;
    int64_t used;
};

static struct cut start_cut(void *memory)
{
    const uintptr_t unit = HD_GEMM_WORKSPACE_ALIGNMENT, at = (uintptr_t)memory;
    return (struct cut){memory ? (char *)memory + (unit - at % unit) % unit : NULL, 0};
}

static void *take_block(struct cut *cut, int64_t elements, int64_t size)
{
    const int64_t unit = HD_GEMM_WORKSPACE_ALIGNMENT;
    void *start = cut->at ? cut->at + cut->used : NULL;
    cut->used += (elements * size + unit - 1) / unit * unit;
    return start;
}

static int64_t cut_bytes(const struct cut *cut)
{
    return cut->used + HD_GEMM_WORKSPACE_ALIGNMENT;
}

static int64_t column_elements(const struct hd_gpu_plan *plan, int i, int64_t rows)
{
    const struct hd_gpu_layer *layer = &plan->layers[i];
    return hd_gpu_count_part_rows(layer, hd_gpu_get_element_bytes(plan), rows) * layer->pixels *
           layer->in;
}

int64_t hd_gpu_lay_out_work(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                            struct hd_gpu_work *work)
{
    struct cut cut = start_cut(memory);
    const int64_t element = hd_gpu_get_element_bytes(plan);
    *work = (struct hd_gpu_work){0};
    work->workspace = take_block(&cut, HD_GEMM_WORKSPACE, 1);
    if (plan->direct) {
        const struct hd_gpu_first_conv conv = hd_gpu_get_first_conv(plan, rows);
        work->obs.bytes = take_block(&cut, rows * plan->net->obs, 1);
        work->obs.norm =
            take_block(&cut, hd_gpu_first_conv_count_norm(&conv.window), sizeof(float));
    } else if (plan->convs == 0 || hd_gpu_count_part_rows(&plan->layers[0], element, rows) < rows) {
        work->input = take_block(&cut, rows * plan->obs_ld, element);
    }
    for (int i = hd_gpu_get_first_with_columns(plan); i < plan->convs; i++)
        work->columns[i] = take_block(&cut, column_elements(plan, i, rows), element);
    for (int i = 0; i < plan->n_layers; i++) {
        const struct hd_gpu_layer *layer = &plan->layers[i];
        work->act[i] = take_block(&cut, rows * layer->pixels * layer->out,
                                  layer->wide ? (int64_t)sizeof(float) : element);
    }
    return cut_bytes(&cut);
}

int64_t hd_gpu_lay_out_scratch(const struct hd_gpu_plan *plan, int64_t rows, void *memory,
                               struct hd_gpu_scratch *scratch)
{
    struct cut cut = start_cut(memory);
    const int64_t element = hd_gpu_get_element_bytes(plan);
    int64_t columns = 0;
    *scratch = (struct hd_gpu_scratch){0};
    scratch->workspace = take_block(&cut, HD_GEMM_WORKSPACE, 1);
    for (int i = 0; i < plan->n_layers; i++)
        scratch->delta[i] =
            take_block(&cut, rows * plan->layers[i].pixels * plan->layers[i].out, element);
    for (int i = hd_gpu_get_first_with_columns(plan); i < plan->convs; i++) {
        const int64_t of_layer = column_elements(plan, i, rows);
        columns = of_layer > columns ? of_layer : columns;
    }
    scratch->columns = take_block(&cut, columns, element);
    if (plan->direct) {
        const struct hd_gpu_first_conv conv = hd_gpu_get_first_conv(plan, rows);
        scratch->partials =
            take_block(&cut, hd_gpu_first_conv_count_partials(&conv), sizeof(float));
    }
    scratch->dout = take_block(&cut, rows * plan->heads.ld_out, sizeof(float));
    scratch->sums = take_block(&cut, HD_GPU_ROW_BLOCKS * plan->sums, sizeof(float));
    return cut_bytes(&cut);
}
