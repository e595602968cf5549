/* SPDX-License-Identifier: Apache-2.0 */
/* Intel's tiles (AMX) in plain C. A file that is compiled with -DHD_AMX_EMULATED and this header
 * ahead of all others (-include) has these functions in place of the instructions. What an
 * instruction would refuse aborts with a message: tiles that are not configured, or whose sizes do
 * not match.
 *
 * Products have the bits of TDPBF16PS in Intel's manual (volume 2): the first numbers of all pairs
 * have a sum of their own, from zero on, and so have the second ones; each step is a fused
 * multiply-add to nearest even; both sums are added, and then added to the result. Denormal numbers
 * are zeros, before and after each operation. A processor may differ in the bits of NaN, and where
 * a number below the smallest normal one is rounded up to it, which it makes zero. Memory that the
 * compiler moves across instructions which it does not understand (hd_tiles_settle) is not shown.
 * Thread safe: each thread has its tiles. */
#pragma once

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_COLUMNS = 16 /* of 4 bytes */ };

/* The configuration as instructions read it, and the tiles. What is beyond a tile's rows and
 * columns is zero. */
struct amx_state {
    struct amx_config {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    uint16_t tile[AMX_TILES][AMX_ROWS][2 * AMX_COLUMNS];
};

/* One for all files of the program. */
__attribute__((weak)) _Thread_local struct amx_state amx;

/* Aborts with a message unless `holds`. */
static inline void amx_require(bool holds, const char *what, int tile)
{
    if (holds)
        return;
    fprintf(stderr, "emulated AMX: %s (tile %d)\n", what, tile);
    abort();
}

static inline void amx_release(void)
{
    memset(&amx, 0, sizeof amx);
}

static inline void amx_configure(const void *from)
{
    static const struct amx_config start = {.palette = 1};
    struct amx_config c;
    memcpy(&c, from, sizeof c);
    amx_require(memcmp(&c, &start, 16) == 0, "not palette 1 with zeros after it", 0);
    for (int i = 0; i < 16; i++) {
        const int most = i < AMX_TILES ? AMX_ROWS : 0;
        amx_require(c.rows[i] <= most && c.row_bytes[i] <= 4 * most, "too large", i);
        amx_require(c.row_bytes[i] % 4 == 0, "columns are not of 4 bytes", i);
        amx_require((c.rows[i] == 0) == (c.row_bytes[i] == 0), "half empty", i);
    }
    amx_release();
    amx.config = c;
}

static inline void amx_require_tile(int tile)
{
    amx_require(tile >= 0 && tile < AMX_TILES && amx.config.rows[tile] > 0, "not configured", tile);
}

static inline void amx_zero(int tile)
{
    amx_require_tile(tile);
    memset(amx.tile[tile], 0, sizeof amx.tile[tile]);
}

/* Rows lie `stride` bytes apart in memory. */
static inline void amx_load(int tile, const void *from, int64_t stride)
{
    amx_require_tile(tile);
    for (int i = 0; i < amx.config.rows[tile]; i++)
        memcpy(amx.tile[tile][i], (const char *)from + i * stride, amx.config.row_bytes[tile]);
}

static inline void amx_store(int tile, void *to, int64_t stride)
{
    amx_require_tile(tile);
    for (int i = 0; i < amx.config.rows[tile]; i++)
        memcpy((char *)to + i * stride, amx.tile[tile][i], amx.config.row_bytes[tile]);
}

static inline float amx_flush(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static inline float amx_from_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return amx_flush(value);
}

static inline void amx_add_products(uint16_t a, const float *b, float *sum)
{
    const float left = amx_from_bf16(a);
    for (int n = 0; n < AMX_COLUMNS; n++)
        sum[n] = amx_flush(fmaf(left, b[n], sum[n]));
}

/* Adds the products of one row of a to a row of c. */
static inline void amx_multiply_row(const uint16_t *a, int pairs, float b[AMX_ROWS][2][AMX_COLUMNS],
                                    float *c)
{
    float first[AMX_COLUMNS] = {0}, second[AMX_COLUMNS] = {0};
    for (int k = 0; k < pairs; k++) {
        amx_add_products(a[2 * k], b[k][0], first);
        amx_add_products(a[2 * k + 1], b[k][1], second);
    }
    for (int n = 0; n < AMX_COLUMNS; n++)
        c[n] = amx_flush(amx_flush(c[n]) + amx_flush(first[n] + second[n]));
}

/* c += a b, where a row of b holds pairs of the summed index. */
static inline void amx_multiply(int c, int a, int b)
{
    float right[AMX_ROWS][2][AMX_COLUMNS], row[AMX_COLUMNS];
    const struct amx_config *of = &amx.config;
    amx_require_tile(c);
    amx_require_tile(a);
    amx_require_tile(b);
    amx_require(a != b && a != c && b != c, "a factor or result twice", c);
    amx_require(of->rows[c] == of->rows[a] && of->row_bytes[c] == of->row_bytes[b] &&
                    of->row_bytes[a] == 4 * of->rows[b],
                "sizes do not match", c);
    for (int k = 0; k < AMX_ROWS; k++)
        for (int n = 0; n < 2 * AMX_COLUMNS; n++)
            right[k][n % 2][n / 2] = amx_from_bf16(amx.tile[b][k][n]);
    for (int i = 0; i < of->rows[c]; i++) {
        memcpy(row, amx.tile[c][i], sizeof row);
        amx_multiply_row(amx.tile[a][i], of->rows[b], right, row);
        memcpy(amx.tile[c][i], row, of->row_bytes[c]);
    }
}

#ifdef HD_AMX_EMULATED
#include <immintrin.h>
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define __AMX_BF16__ 1
#define _tile_loadconfig amx_configure
#define _tile_release amx_release
#define _tile_zero amx_zero
#define _tile_loadd amx_load
#define _tile_stored amx_store
#define _tile_dpbf16ps amx_multiply
#endif
