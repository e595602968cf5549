/* SPDX-License-Identifier: Apache-2.0 */
/* Index tables between the flat array of parameters and a GPU's shadow weights and gradients. Only
 * the CPU code knows the layout of the flat array, so it is asked: an export of an array whose
 * floats are their own indices shows where each parameter lies. */
#include "kernels/common/cuda_check.h"
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* The tables on the host, before they are copied. */
struct tables {
    int32_t *from, *gradient_at;
    struct hd_gpu_matrix matrices[2 * HD_GPU_LAYERS + 2];
    int n_matrices;
    int64_t n_from, elements, tiles;
    int64_t lowest[HD_GPU_LAYERS]; /* lowest index in the flat array of a layer's floats */
};

/* -- Floats that are their own indices, in two halves, since floats are exact up to 2^24 only -- */

enum { LOW_BITS = 12 };

struct ramp {
    float *low, *high;                     /* the flat array */
    float *row_major_low, *row_major_high; /* a tensor of it */
};

static void free_ramp(struct ramp *ramp)
{
    hd_free(ramp->low);
    hd_free(ramp->high);
    hd_free(ramp->row_major_low);
    hd_free(ramp->row_major_high);
}

static int make_ramp(const struct hd_net *net, struct ramp *ramp)
{
    int64_t largest = 0;
    for (int t = 0; t < net->n_tensors; t++)
        largest = net->tensors[t].count > largest ? net->tensors[t].count : largest;
    ramp->low = hd_alloc(net->elements, sizeof(float));
    ramp->high = hd_alloc(net->elements, sizeof(float));
    ramp->row_major_low = hd_alloc(largest, sizeof(float));
    ramp->row_major_high = hd_alloc(largest, sizeof(float));
    if (!ramp->low || !ramp->high || !ramp->row_major_low || !ramp->row_major_high)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < net->elements; i++) {
        ramp->low[i] = (float)(i & ((1 << LOW_BITS) - 1));
        ramp->high[i] = (float)(i >> LOW_BITS);
    }
    return HD_OK;
}

static int map_tensor(const struct hd_gpu_plan *plan, int t, const struct ramp *ramp,
                      struct tables *tables)
{
    int64_t *lowest = &tables->lowest[hd_gpu_find_layer(plan, t)];
    HD_TRY(hd_net_export_tensor(plan->net, ramp->low, t, ramp->row_major_low));
    HD_TRY(hd_net_export_tensor(plan->net, ramp->high, t, ramp->row_major_high));
    for (int64_t j = 0; j < plan->net->tensors[t].count; j++) {
        const int64_t flat =
            ((int64_t)ramp->row_major_high[j] << LOW_BITS) + (int64_t)ramp->row_major_low[j];
        const struct hd_gpu_offsets offsets = hd_gpu_find_element(plan, t, j);
        tables->from[offsets.shadow] = (int32_t)flat;
        tables->gradient_at[flat] = (int32_t)offsets.gradient;
        *lowest = flat < *lowest ? flat : *lowest;
    }
    return HD_OK;
}

static int map_tensors(const struct hd_gpu_plan *plan, struct tables *tables)
{
    struct ramp ramp = {0};
    int status = make_ramp(plan->net, &ramp);
    for (int t = 0; t < plan->net->n_tensors && status == HD_OK; t++)
        status = map_tensor(plan, t, &ramp, tables);
    free_ramp(&ramp);
    return status;
}

/* -- The shadow's matrices --------------------------------------------------------------------- */

static void add_matrix(struct tables *tables, int64_t at, int64_t rows, int64_t columns)
{
    const int64_t down = (rows + HD_GPU_TILE - 1) / HD_GPU_TILE;
    const int64_t across = (columns + HD_GPU_TILE - 1) / HD_GPU_TILE;
    tables->matrices[tables->n_matrices++] =
        (struct hd_gpu_matrix){at, rows, columns, tables->tiles};
    tables->tiles += down * across;
}

static void list_matrices(const struct hd_gpu_plan *plan, struct tables *tables)
{
    const int64_t outputs = hd_gpu_count_head_outputs(&plan->heads);
    for (int i = 0; i < plan->n_layers; i++) {
        const struct hd_gpu_layer *layer = &plan->layers[i];
        add_matrix(tables, layer->weight, layer->out, layer->in);
        add_matrix(tables, layer->bias, 1, layer->out);
    }
    add_matrix(tables, plan->output.weight, outputs, plan->heads.ld_weight);
    add_matrix(tables, plan->output.bias, 1, outputs);
}

static int make_tables(const struct hd_gpu_plan *plan, struct tables *tables)
{
    tables->n_from = plan->narrow + plan->wide;
    tables->elements = plan->net->elements;
    tables->from = hd_alloc(tables->n_from, sizeof *tables->from);
    tables->gradient_at = hd_alloc(tables->elements, sizeof *tables->gradient_at);
    if (!tables->from || !tables->gradient_at)
        return HD_ERR_NOMEM;
    memset(tables->from, 0xFF, (size_t)tables->n_from * sizeof *tables->from); /* -1 */
    memset(tables->gradient_at, 0xFF, (size_t)tables->elements * sizeof *tables->gradient_at);
    for (int i = 0; i < plan->n_layers; i++)
        tables->lowest[i] = INT64_MAX;
    list_matrices(plan, tables);
    return map_tensors(plan, tables);
}

/* -- To the GPU -------------------------------------------------------------------------------- */

static int copy_part(char *memory, int64_t *used, const void *from, int64_t bytes, const void **at)
{
    *at = memory + *used;
    *used += hd_align_up(bytes);
    return hd_cuda_check(cudaMemcpy((void *)*at, from, (size_t)bytes, cudaMemcpyHostToDevice),
                         "cudaMemcpy");
}

static int copy_tables(const struct tables *tables, struct hd_net_on_gpu *on)
{
    const int64_t matrices = tables->n_matrices * (int64_t)sizeof *tables->matrices;
    const int64_t from = tables->n_from * (int64_t)sizeof *tables->from;
    const int64_t gradient_at = tables->elements * (int64_t)sizeof *tables->gradient_at;
    const int64_t bytes = hd_align_up(matrices) + hd_align_up(from) + hd_align_up(gradient_at);
    int64_t used = 0;
    HD_TRY(hd_cuda_check(cudaMalloc(&on->memory, (size_t)bytes), "cudaMalloc"));
    HD_TRY(copy_part(on->memory, &used, tables->matrices, matrices,
                     (const void **)&on->shadow.matrices));
    HD_TRY(copy_part(on->memory, &used, tables->from, from, (const void **)&on->shadow.from));
    return copy_part(on->memory, &used, tables->gradient_at, gradient_at,
                     (const void **)&on->gradient_at);
}

/* Returns the stage in which a float of the flat array is computed. */
static int stage_of(const struct hd_net *net, int64_t at)
{
    int64_t lo, hi;
    int stage = hd_net_count_stages(net);
    do
        hd_net_get_stage_range(net, --stage, &lo, &hi);
    while (lo > at);
    return stage;
}

int hd_net_on_gpu_create(const struct hd_gpu_plan *plan, struct hd_net_on_gpu **on_p)
{
    struct tables tables = {0};
    struct hd_net_on_gpu *on = hd_alloc(1, sizeof *on);
    int status = on ? make_tables(plan, &tables) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = copy_tables(&tables, on);
    hd_free(tables.from);
    hd_free(tables.gradient_at);
    if (status != HD_OK) {
        hd_net_on_gpu_destroy(on);
        return status;
    }
    on->shadow.n_matrices = tables.n_matrices;
    on->shadow.tiles = tables.tiles;
    on->shadow.narrow = plan->narrow;
    for (int i = 0; i < plan->n_layers; i++)
        on->stage[i] = stage_of(plan->net, tables.lowest[i]);
    *on_p = on;
    return HD_OK;
}

void hd_net_on_gpu_destroy(struct hd_net_on_gpu *on)
{
    if (!on)
        return;
    cudaFree(on->memory);
    hd_free(on);
}
