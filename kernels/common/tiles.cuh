/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over parameters in both of their orders (tiles.h). A thread block turns a tile: it reads
 * and writes the flat array in that array's order and matrices in theirs, so that neighbouring
 * threads touch neighbouring elements of either. */
#pragma once

#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/common/bf16.h"
#include "kernels/common/tiles.h"
}

static inline __device__ void hd_tiles_put(float *to, float x)
{
    *to = x;
}

static inline __device__ void hd_tiles_put(hd_bf16 *to, float x)
{
    *to = hd_bf16_from_float(x);
}

/* Calls action(row, column) for this thread's elements of a tile, in the order of the matrix. */
template <class Action>
static __device__ void hd_tiles_visit(const struct hd_tile &tile, Action action)
{
    const int column = (int)threadIdx.x % HD_TILE;
#pragma unroll
    for (int row = (int)threadIdx.x / HD_TILE; row < HD_TILE; row += HD_THREADS / HD_TILE)
        if (row < tile.rows && column < tile.columns)
            action(row, column);
}

/* Writes the elements of a tile that are marked to the shadow weights. */
template <class T>
static __device__ void hd_tiles_write(const struct hd_tiles &tiles, const struct hd_tile &tile,
                                      const float (&values)[HD_TILE][HD_TILE + 1],
                                      const bool (&renewed)[HD_TILE][HD_TILE])
{
    hd_tiles_visit(tile, [&](int row, int column) {
        const int64_t at = tile.shadow + (int64_t)row * tile.ld + column;
        if (renewed[row][column] && at < tiles.n_narrow)
            hd_tiles_put((T *)tiles.narrow + at, values[row][column]);
        else if (renewed[row][column])
            tiles.wide[at - tiles.n_narrow] = values[row][column];
    });
}

/* Renews the shadow weights, of which the narrow ones are of type T, that come from floats [lo, hi)
 * of the flat array, and padding beside them. One block of HD_THREADS threads for each tile calls
 * it. For an element with place i, step.read(i) returns what it needs of the flat arrays, a
 * Step::element, and step.compute(i, element, g) returns the parameter; g is the element of
 * `gradient`, which is in GPU order, or 0 if that is NULL. All reads come before all writes and
 * barriers, so that many of them are in flight. */
template <class T, class Step>
static __device__ void hd_tiles_renew(const struct hd_tiles &tiles, int64_t lo, int64_t hi,
                                      const float *gradient, const Step &step)
{
    enum { EACH = HD_TILE_ELEMENTS / HD_THREADS };
    __shared__ float values[HD_TILE][HD_TILE + 1]; /* no two of 32 rows in one bank */
    __shared__ bool renewed[HD_TILE][HD_TILE];
    const struct hd_tile tile = tiles.tiles[blockIdx.x];
    typename Step::element elements[EACH];
    int32_t places[EACH], locals[EACH]; /* locals -1: there is no element */
    if (tile.hi <= lo || tile.lo >= hi)
        return;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        const int k = j * HD_THREADS + (int)threadIdx.x;
        const int64_t at = (int64_t)tile.pattern * HD_TILE_ELEMENTS + k;
        const bool is_element = k < tile.rows * tile.columns;
        const int32_t offset = is_element ? tiles.flat[at] : -1;
        places[j] = offset < 0 ? -1 : tile.lo + offset;
        locals[j] = is_element ? tiles.local[at] : -1;
        if (places[j] >= lo && places[j] < hi)
            elements[j] = step.read(places[j]);
    }
    if (gradient) {
        hd_tiles_visit(tile, [&](int row, int column) {
            values[row][column] =
                gradient[tile.gradient + (int64_t)row * tile.gradient_ld + column];
        });
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (locals[j] < 0)
            continue;
        float &value = values[locals[j] / HD_TILE][locals[j] % HD_TILE];
        const int64_t place = places[j] < 0 ? tile.lo : places[j];
        const bool inside = place >= lo && place < hi;
        renewed[locals[j] / HD_TILE][locals[j] % HD_TILE] = inside;
        if (inside && places[j] < 0)
            value = 0;
        else if (inside)
            value = step.compute(places[j], elements[j], gradient ? value : 0.0f);
    }
    __syncthreads();
    hd_tiles_write<T>(tiles, tile, values, renewed);
}
