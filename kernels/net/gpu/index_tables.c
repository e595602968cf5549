/* SPDX-License-Identifier: Apache-2.0 */
/* Tables between the flat array of parameters and a GPU's shadow weights and gradients. Only
 * the CPU code knows the layout of the flat array, so it is asked: an export of an array whose
 * floats are their own indices shows where each parameter lies. */
#include "kernels/common/cuda_check.h"
#include "kernels/net/gpu/plan_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* A matrix [rows][columns] of the shadow weights, whose gradient has rows of gradient_ld floats.
 * Offsets count from the start of all of either. */
struct matrix {
    int64_t shadow, gradient, rows, columns, gradient_ld;
    int64_t first_tile;
};

/* The tables on the host, before they are copied. */
struct tables {
    struct matrix matrices[2 * HD_GPU_LAYERS + 3];
    int n_matrices;
    int32_t *shadow_at, *gradient_at; /* by place in the flat array; -1 for its padding */
    int64_t elements;
    struct hd_tile *tiles;
    int32_t *flat;
    uint16_t *local;
    int64_t n_tiles;
    int64_t lowest[HD_GPU_LAYERS]; /* lowest place in the flat array of a layer's floats */
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
        tables->shadow_at[flat] = (int32_t)offsets.shadow;
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

/* -- Matrices and their tiles -------------------------------------------------------------------
 */

static int64_t count_tiles(int64_t n)
{
    return (n + HD_TILE - 1) / HD_TILE;
}

static void add_matrix(struct tables *tables, struct matrix matrix)
{
    matrix.first_tile = tables->n_tiles;
    tables->matrices[tables->n_matrices++] = matrix;
    tables->n_tiles += count_tiles(matrix.rows) * count_tiles(matrix.columns);
}

static void add_bias(const struct hd_gpu_plan *plan, const struct hd_gpu_layer *layer,
                     int64_t columns, struct tables *tables)
{
    add_matrix(tables, (struct matrix){.shadow = layer->bias,
                                       .gradient = plan->gradients + layer->sums,
                                       .rows = 1,
                                       .columns = columns,
                                       .gradient_ld = columns});
}

/* The rows of either stream's outputs have gradients in columns of their own. */
static void add_output_weights(const struct hd_gpu_plan *plan, struct tables *tables)
{
    const struct hd_gpu_heads *heads = &plan->heads;
    for (int stream = 0; stream < heads->streams; stream++) {
        const int64_t row = stream * heads->actions;
        add_matrix(tables,
                   (struct matrix){.shadow = plan->output.weight + row * heads->ld_weight,
                                   .gradient = plan->output.gradient + row * heads->ld_hidden +
                                               stream * heads->width,
                                   .rows = stream == 0 ? heads->actions : 1,
                                   .columns = heads->ld_weight,
                                   .gradient_ld = heads->ld_hidden});
    }
}

static void list_matrices(const struct hd_gpu_plan *plan, struct tables *tables)
{
    for (int i = 0; i < plan->n_layers; i++) {
        const struct hd_gpu_layer *layer = &plan->layers[i];
        add_matrix(tables, (struct matrix){.shadow = layer->weight,
                                           .gradient = layer->gradient,
                                           .rows = layer->out,
                                           .columns = layer->in,
                                           .gradient_ld = layer->in});
        add_bias(plan, layer, layer->out, tables);
    }
    add_output_weights(plan, tables);
    add_bias(plan, &plan->output, hd_gpu_count_head_outputs(&plan->heads), tables);
}

static void cut_matrix(const struct matrix *m, struct hd_tile *tile)
{
    for (int64_t row = 0; row < m->rows; row += HD_TILE)
        for (int64_t column = 0; column < m->columns; column += HD_TILE, tile++)
            *tile = (struct hd_tile){
                .shadow = m->shadow + row * m->columns + column,
                .gradient = m->gradient + row * m->gradient_ld + column,
                .ld = (int32_t)m->columns,
                .gradient_ld = (int32_t)m->gradient_ld,
                .rows = (int32_t)(m->rows - row < HD_TILE ? m->rows - row : HD_TILE),
                .columns =
                    (int32_t)(m->columns - column < HD_TILE ? m->columns - column : HD_TILE)};
}

/* -- The elements of tiles ----------------------------------------------------------------------
 */

static const struct matrix *find_matrix(const struct tables *tables, int64_t shadow)
{
    const struct matrix *m = tables->matrices;
    while (shadow < m->shadow || shadow >= m->shadow + m->rows * m->columns)
        m++;
    return m;
}

/* Appends the elements of tiles in the order of the flat array; n[tiles] counts them. */
static void list_elements(struct tables *tables, int32_t *n)
{
    const struct matrix *m = tables->matrices;
    for (int64_t i = 0; i < tables->elements; i++) {
        const int64_t shadow = tables->shadow_at[i];
        if (shadow < 0)
            continue;
        if (shadow < m->shadow || shadow >= m->shadow + m->rows * m->columns)
            m = find_matrix(tables, shadow);
        const int64_t row = (shadow - m->shadow) / m->columns;
        const int64_t column = (shadow - m->shadow) % m->columns;
        const int64_t t =
            m->first_tile + row / HD_TILE * count_tiles(m->columns) + column / HD_TILE;
        const int64_t at = t * HD_TILE_ELEMENTS + n[t];
        tables->tiles[t].lo = n[t]++ > 0 ? tables->tiles[t].lo : (int32_t)i;
        tables->tiles[t].hi = (int32_t)i + 1;
        tables->flat[at] = (int32_t)i;
        tables->local[at] = (uint16_t)(row % HD_TILE * HD_TILE + column % HD_TILE);
    }
}

/* Appends a tile's padding to its n elements. */
static void list_padding(const struct hd_tile *tile, int32_t n, int32_t *flat, uint16_t *local)
{
    bool used[HD_TILE_ELEMENTS] = {false};
    for (int32_t k = 0; k < n; k++)
        used[local[k]] = true;
    for (int i = 0; i < tile->rows * HD_TILE; i++)
        if (i % HD_TILE < tile->columns && !used[i]) {
            flat[n] = -1;
            local[n++] = (uint16_t)i;
        }
}

static int make_tiles(struct tables *tables)
{
    const int64_t n = tables->n_tiles;
    int32_t *counts = hd_alloc(n, sizeof *counts);
    tables->tiles = hd_alloc(n, sizeof *tables->tiles);
    tables->flat = hd_alloc(n, HD_TILE_ELEMENTS * sizeof *tables->flat);
    tables->local = hd_alloc(n, HD_TILE_ELEMENTS * sizeof *tables->local);
    if (!counts || !tables->tiles || !tables->flat || !tables->local) {
        hd_free(counts);
        return HD_ERR_NOMEM;
    }
    for (int i = 0; i < tables->n_matrices; i++)
        cut_matrix(&tables->matrices[i], tables->tiles + tables->matrices[i].first_tile);
    list_elements(tables, counts);
    for (int64_t t = 0; t < n; t++)
        list_padding(&tables->tiles[t], counts[t], tables->flat + t * HD_TILE_ELEMENTS,
                     tables->local + t * HD_TILE_ELEMENTS);
    hd_free(counts);
    return HD_OK;
}

static int make_tables(const struct hd_gpu_plan *plan, struct tables *tables)
{
    const int64_t n = plan->net->elements;
    tables->elements = n;
    tables->shadow_at = hd_alloc(n, sizeof *tables->shadow_at);
    tables->gradient_at = hd_alloc(n, sizeof *tables->gradient_at);
    if (!tables->shadow_at || !tables->gradient_at)
        return HD_ERR_NOMEM;
    memset(tables->shadow_at, 0xFF, (size_t)n * sizeof *tables->shadow_at); /* -1 */
    memset(tables->gradient_at, 0xFF, (size_t)n * sizeof *tables->gradient_at);
    for (int i = 0; i < plan->n_layers; i++)
        tables->lowest[i] = INT64_MAX;
    HD_TRY(map_tensors(plan, tables));
    list_matrices(plan, tables);
    return make_tiles(tables);
}

static void free_tables(struct tables *tables)
{
    hd_free(tables->shadow_at);
    hd_free(tables->gradient_at);
    hd_free(tables->tiles);
    hd_free(tables->flat);
    hd_free(tables->local);
}

/* -- To the GPU -------------------------------------------------------------------------------- */

/* Copies an array of the host to memory + *used and stores its address there. */
static int copy_part(char *memory, int64_t *used, const void *from, int64_t bytes, const void **at)
{
    *at = memory + *used;
    *used += hd_align_up(bytes);
    return hd_cuda_check(cudaMemcpy((void *)*at, from, (size_t)bytes, cudaMemcpyHostToDevice),
                         "cudaMemcpy");
}

static int copy_tables(const struct tables *tables, struct hd_net_on_gpu *on)
{
    const int64_t elements = tables->n_tiles * HD_TILE_ELEMENTS;
    const int64_t tiles = tables->n_tiles * (int64_t)sizeof *tables->tiles;
    const int64_t flat = elements * (int64_t)sizeof *tables->flat;
    const int64_t local = elements * (int64_t)sizeof *tables->local;
    const int64_t gradient_at = tables->elements * (int64_t)sizeof *tables->gradient_at;
    int64_t used = 0;
    HD_TRY(hd_cuda_check(
        cudaMalloc(&on->memory, (size_t)(hd_align_up(tiles) + hd_align_up(flat) +
                                         hd_align_up(local) + hd_align_up(gradient_at))),
        "cudaMalloc"));
    HD_TRY(copy_part(on->memory, &used, tables->tiles, tiles, (const void **)&on->tiles.tiles));
    HD_TRY(copy_part(on->memory, &used, tables->flat, flat, (const void **)&on->tiles.flat));
    HD_TRY(copy_part(on->memory, &used, tables->local, local, (const void **)&on->tiles.local));
    HD_TRY(copy_part(on->memory, &used, tables->gradient_at, gradient_at,
                     (const void **)&on->tiles.gradient_at));
    /* cudaMemcpy returns when it has read pageable memory; streams that do not block do not wait
     * for the rest. */
    return hd_cuda_check(cudaStreamSynchronize(NULL), "copies of tables to the GPU");
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
    free_tables(&tables);
    if (status != HD_OK) {
        hd_net_on_gpu_destroy(on);
        return status;
    }
    on->tiles.n = tables.n_tiles;
    on->tiles.n_narrow = plan->narrow;
    on->tiles.bf16 = plan->bf16;
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
