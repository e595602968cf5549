/* SPDX-License-Identifier: Apache-2.0 */
/* Only the CPU code knows the layout of the flat array, so it is asked: an export of an array whose
 * floats are their own indices shows where each parameter lies. */
#include "kernels/common/cuda_check.h"
#include "kernels/net/list/gpu/index_tables_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

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

/* -- Tables on the host, before they are copied ------------------------------------------------ */

struct tables {
    const struct hd_net *net;
    struct hd_gpu_matrix *matrices; /* by tensor */
    int *stage;                     /* as in struct hd_net_on_gpu */
    int64_t *element_at;            /* by place in the flat array: its place in tiles, of which each
                                       has HD_TILE_ELEMENTS; -1 for padding of the flat array */
    int32_t *gradient_at;           /* this and the others are those of struct hd_tiles */
    struct hd_tile *tiles;
    int32_t *flat;
    uint16_t *local;
    int64_t n_tiles, n_patterns;
};

static void free_tables(struct tables *tables)
{
    hd_free(tables->matrices);
    hd_free(tables->stage);
    hd_free(tables->element_at);
    hd_free(tables->gradient_at);
    hd_free(tables->tiles);
    hd_free(tables->flat);
    hd_free(tables->local);
}

static int32_t *get_flat(const struct tables *tables, int64_t t)
{
    return tables->flat + t * HD_TILE_ELEMENTS;
}

static uint16_t *get_local(const struct tables *tables, int64_t t)
{
    return tables->local + t * HD_TILE_ELEMENTS;
}

/* Returns the tiles along a side, and those of a matrix. */
static int64_t count_along(int64_t n)
{
    return (n + HD_TILE - 1) / HD_TILE;
}

static int64_t count_tiles(const struct hd_gpu_matrix *m)
{
    return count_along(m->rows) * count_along(m->columns);
}

static int allocate(struct tables *tables)
{
    const int64_t n = tables->net->elements;
    for (int t = 0; t < tables->net->n_tensors; t++)
        tables->n_tiles += count_tiles(&tables->matrices[t]);
    tables->stage = hd_alloc(tables->net->n_tensors + 1, sizeof *tables->stage);
    tables->element_at = hd_alloc(n, sizeof *tables->element_at);
    tables->gradient_at = hd_alloc(n, sizeof *tables->gradient_at);
    tables->tiles = hd_alloc(tables->n_tiles, sizeof *tables->tiles);
    tables->flat = hd_alloc(tables->n_tiles, HD_TILE_ELEMENTS * sizeof *tables->flat);
    tables->local = hd_alloc(tables->n_tiles, HD_TILE_ELEMENTS * sizeof *tables->local);
    if (!tables->stage || !tables->element_at || !tables->gradient_at || !tables->tiles ||
        !tables->flat || !tables->local)
        return HD_ERR_NOMEM;
    memset(tables->element_at, 0xFF, (size_t)n * sizeof *tables->element_at); /* -1 */
    memset(tables->gradient_at, 0xFF, (size_t)n * sizeof *tables->gradient_at);
    return HD_OK;
}

static void cut_matrix(const struct hd_gpu_matrix *m, struct hd_tile *tile)
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

/* Returns the stage in which a float of the flat array is computed. */
static int find_stage(const struct hd_net *net, int64_t at)
{
    int64_t lo, hi;
    int stage = hd_net_count_stages(net);
    do
        hd_net_get_stage_range(net, --stage, &lo, &hi);
    while (lo > at);
    return stage;
}

/* Finds where the elements of tensor t lie, whose first tile has this number. */
static int map_tensor(struct tables *tables, int t, const struct ramp *ramp, int64_t first_tile)
{
    const struct hd_net *net = tables->net;
    const struct hd_gpu_matrix *m = &tables->matrices[t];
    int64_t lowest = net->elements;
    HD_TRY(hd_net_export_tensor(net, ramp->low, t, ramp->row_major_low));
    HD_TRY(hd_net_export_tensor(net, ramp->high, t, ramp->row_major_high));
    for (int64_t j = 0; j < net->tensors[t].count; j++) {
        const int64_t flat =
            ((int64_t)ramp->row_major_high[j] << LOW_BITS) + (int64_t)ramp->row_major_low[j];
        const int64_t row = j / m->inputs, i = j % m->inputs;
        const int64_t column = i % m->plane * m->channels + i / m->plane;
        const int64_t tile =
            first_tile + row / HD_TILE * count_along(m->columns) + column / HD_TILE;
        tables->element_at[flat] =
            tile * HD_TILE_ELEMENTS + row % HD_TILE * HD_TILE + column % HD_TILE;
        tables->gradient_at[flat] = (int32_t)(m->gradient + row * m->gradient_ld + column);
        lowest = flat < lowest ? flat : lowest;
    }
    const int stage = find_stage(net, lowest);
    tables->stage[t + 1] = stage < tables->stage[t] ? stage : tables->stage[t];
    return HD_OK;
}

static int map_tensors(struct tables *tables)
{
    struct ramp ramp = {0};
    int64_t tile = 0;
    int status = make_ramp(tables->net, &ramp);
    tables->stage[0] = hd_net_count_stages(tables->net) - 1;
    for (int t = 0; t < tables->net->n_tensors && status == HD_OK; t++) {
        cut_matrix(&tables->matrices[t], tables->tiles + tile);
        status = map_tensor(tables, t, &ramp, tile);
        tile += count_tiles(&tables->matrices[t]);
    }
    free_ramp(&ramp);
    return status;
}

/* Appends the elements of tiles in the order of the flat array; n[tiles] counts them. */
static void list_elements(struct tables *tables, int32_t *n)
{
    for (int64_t i = 0; i < tables->net->elements; i++) {
        if (tables->element_at[i] < 0)
            continue;
        const int64_t t = tables->element_at[i] / HD_TILE_ELEMENTS;
        const int64_t at = t * HD_TILE_ELEMENTS + n[t];
        tables->tiles[t].lo = n[t]++ > 0 ? tables->tiles[t].lo : (int32_t)i;
        tables->tiles[t].hi = (int32_t)i + 1;
        tables->flat[at] = (int32_t)i;
        tables->local[at] = (uint16_t)(tables->element_at[i] % HD_TILE_ELEMENTS);
    }
}

/* Appends a tile's padding to its n elements. A tile of padding alone is written with float 0. */
static void list_padding(struct hd_tile *tile, int32_t n, int32_t *flat, uint16_t *local)
{
    bool used[HD_TILE_ELEMENTS] = {false};
    tile->hi = n > 0 ? tile->hi : 1;
    for (int32_t k = 0; k < n; k++)
        used[local[k]] = true;
    for (int i = 0; i < tile->rows * HD_TILE; i++)
        if (i % HD_TILE < tile->columns && !used[i]) {
            flat[n] = -1;
            local[n++] = (uint16_t)i;
        }
}

static int list_all(struct tables *tables)
{
    int32_t *counts = hd_alloc(tables->n_tiles, sizeof *counts);
    if (!counts)
        return HD_ERR_NOMEM;
    list_elements(tables, counts);
    for (int64_t t = 0; t < tables->n_tiles; t++)
        list_padding(&tables->tiles[t], counts[t], get_flat(tables, t), get_local(tables, t));
    hd_free(counts);
    return HD_OK;
}

/* -- Patterns ---------------------------------------------------------------------------------- */

static uint64_t hash_pattern(const struct tables *tables, int64_t t)
{
    return hd_hash_mix(
        hd_hash_bytes(get_flat(tables, t), HD_TILE_ELEMENTS * (int64_t)sizeof *tables->flat),
        hd_hash_bytes(get_local(tables, t), HD_TILE_ELEMENTS * (int64_t)sizeof *tables->local));
}

static bool is_same(const struct tables *tables, int64_t a, int64_t b)
{
    return memcmp(get_flat(tables, a), get_flat(tables, b),
                  HD_TILE_ELEMENTS * sizeof *tables->flat) == 0 &&
           memcmp(get_local(tables, a), get_local(tables, b),
                  HD_TILE_ELEMENTS * sizeof *tables->local) == 0;
}

/* Returns the pattern of tile t, whose list becomes a new one if there is none like it. */
static int64_t find_pattern(struct tables *tables, uint64_t *hashes, int64_t t)
{
    const uint64_t hash = hash_pattern(tables, t);
    for (int64_t p = tables->n_patterns - 1; p >= 0; p--)
        if (hashes[p] == hash && is_same(tables, p, t))
            return p;
    const int64_t p = tables->n_patterns++;
    hashes[p] = hash;
    if (p < t) {
        memcpy(get_flat(tables, p), get_flat(tables, t), HD_TILE_ELEMENTS * sizeof *tables->flat);
        memcpy(get_local(tables, p), get_local(tables, t),
               HD_TILE_ELEMENTS * sizeof *tables->local);
    }
    return p;
}

/* Lets tiles whose elements lie alike share a list of them. */
static int share_patterns(struct tables *tables)
{
    uint64_t *hashes = hd_alloc(tables->n_tiles, sizeof *hashes);
    if (!hashes)
        return HD_ERR_NOMEM;
    for (int64_t t = 0; t < tables->n_tiles; t++) {
        struct hd_tile *tile = &tables->tiles[t];
        int32_t *flat = get_flat(tables, t);
        for (int k = 0; k < tile->rows * tile->columns; k++)
            flat[k] -= flat[k] < 0 ? 0 : tile->lo;
        tile->pattern = (int32_t)find_pattern(tables, hashes, t);
    }
    hd_free(hashes);
    return HD_OK;
}

static int make_tables(struct tables *tables)
{
    const struct list_net *net = as_list(tables->net);
    tables->matrices = hd_alloc(tables->net->n_tensors, sizeof *tables->matrices);
    if (!tables->matrices)
        return HD_ERR_NOMEM;
    hd_gpu_describe(net, tables->matrices);
    if (tables->net->elements > INT32_MAX || net->places.gradients + net->places.sums > INT32_MAX)
        return hd_fail(HD_ERR_UNSUPPORTED, "a GPU computes nets of up to 2^31 parameters");
    HD_TRY(allocate(tables));
    HD_TRY(map_tensors(tables));
    HD_TRY(list_all(tables));
    return share_patterns(tables);
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
    const int64_t elements = tables->n_patterns * HD_TILE_ELEMENTS;
    const int64_t tiles = tables->n_tiles * (int64_t)sizeof *tables->tiles;
    const int64_t flat = elements * (int64_t)sizeof *tables->flat;
    const int64_t local = elements * (int64_t)sizeof *tables->local;
    const int64_t gradient_at = tables->net->elements * (int64_t)sizeof *tables->gradient_at;
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

static void destroy(struct hd_net_on_gpu *on)
{
    if (!on)
        return;
    cudaFree(on->memory);
    hd_free(on->stage);
    hd_free(on);
}

static int create(const struct hd_net *net, struct hd_net_on_gpu **on_p)
{
    struct tables tables = {.net = net};
    struct hd_net_on_gpu *on = hd_alloc(1, sizeof *on);
    int status = on ? make_tables(&tables) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = copy_tables(&tables, on);
    if (status == HD_OK) {
        on->tiles.n = tables.n_tiles;
        on->tiles.n_patterns = tables.n_patterns;
        on->tiles.n_narrow = as_list(net)->places.narrow;
        on->tiles.bf16 = net->gpu_precision == HD_BF16;
        on->stage = tables.stage;
        tables.stage = NULL;
        *on_p = on;
    } else {
        destroy(on);
    }
    free_tables(&tables);
    return status;
}

/* -- Kept in the net --------------------------------------------------------------------------- */

static pthread_mutex_t preparing = PTHREAD_MUTEX_INITIALIZER;

static int find_gpu(int *gpu_p)
{
    *gpu_p = 0;
    HD_TRY(hd_cuda_check(cudaGetDevice(gpu_p), "cudaGetDevice"));
    if (*gpu_p >= HD_NET_GPUS)
        return hd_fail(HD_ERR_UNSUPPORTED, "GPU %d: a program may use %d", *gpu_p, HD_NET_GPUS);
    return HD_OK;
}

int hd_net_on_gpu_find(const struct hd_net *net, const struct hd_net_on_gpu **on_p)
{
    int gpu;
    HD_TRY(find_gpu(&gpu));
    *on_p = atomic_load_explicit(&net->gpus->on[gpu], memory_order_acquire);
    return *on_p ? HD_OK : hd_fail(HD_ERR_INPUT, "no net was prepared for GPU %d", gpu);
}

static int put_on(const struct hd_net *net)
{
    struct hd_net_on_gpu *on;
    int gpu;
    HD_TRY(find_gpu(&gpu));
    if (net->gpus->on[gpu])
        return HD_OK;
    HD_TRY(create(net, &on));
    net->gpus->release = destroy;
    atomic_store_explicit(&net->gpus->on[gpu], on, memory_order_release);
    return HD_OK;
}

int hd_net_on_gpu_prepare(const struct hd_net *net)
{
    pthread_mutex_lock(&preparing);
    int status = put_on(net);
    pthread_mutex_unlock(&preparing);
    return status;
}
