/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a net on a GPU in two orders: in the flat array, and in the matrices that the
 * GPU multiplies, its shadow weights, which are cut in tiles. A gradient may be in either: in GPU
 * order it is what the matrix products leave. The tables are made by kernels/net/gpu/, for kernels
 * that turn one order into the other (tiles.cuh). They are read-only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HD_TILE = 32, HD_TILE_ELEMENTS = HD_TILE * HD_TILE };

/* A part of a matrix, of at most HD_TILE rows and columns. */
struct hd_tile {
    int64_t shadow, gradient; /* offset of its first element among shadow weights, and in a
                                 gradient in GPU order */
    int32_t ld, gradient_ld;  /* elements from one row to the next of either */
    int32_t rows, columns;
    int32_t lo, hi; /* its elements' places in the flat array lie in [lo, hi) */
    int32_t pattern;
};

/* All arrays are device memory. An element of a tile that is padding has no place in the flat array
 * and is zero. */
struct hd_tiles {
    const struct hd_tile *tiles; /* [n] */
    int64_t n;
    /* [n_patterns][HD_TILE_ELEMENTS], of which a tile uses as many of its pattern as it has
     * elements: where they are in the flat array from `lo` on, in ascending order, then -1 for
     * padding; and their row * HD_TILE + column. Tiles of a matrix have few patterns, which stay in
     * a GPU's cache. */
    int64_t n_patterns;
    const int32_t *flat;
    const uint16_t *local;
    const int32_t *gradient_at; /* by place in the flat array: that in a gradient in GPU order, or
                                   -1 for padding of the flat array */
    float *floats;              /* the flat array */
    bool bf16;
    void *narrow; /* the first n_narrow shadow weights: bf16 or floats */
    int64_t n_narrow;
    float *wide; /* the others */
};
