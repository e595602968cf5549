/* SPDX-License-Identifier: Apache-2.0 */
/* Intel's matrix registers (AMX): eight tiles of 16 rows of 64 bytes. One instruction computes
 * C[16][16] += A[16][32] B[16][16][2] on bf16 with sums in float; a row of B holds pairs of the
 * summed index. Tiles belong to a thread; every function here concerns the calling thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Returns whether this program was built for AMX, the processor has it, and the system grants it.
 * Thread safe. */
bool hd_amx_is_ready(void);

#if defined __AMX_BF16__ && defined __AVX512BF16__
#define HD_AMX 1

#include "kernels/common/vector.h"

#include <immintrin.h>

enum { HD_TILE_ROWS = 16, HD_TILE_BYTES = 1024 };

/* The configuration of the tiles in the processor's format. */
struct hd_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

/* Configures all tiles with 16 rows, except those in the mask `short_tiles`, which get
 * `short_rows`. */
static inline void hd_tiles_load(unsigned short_tiles, int short_rows)
{
    struct hd_tiles tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = 64;
        tiles.rows[i] = (uint8_t)(short_tiles >> i & 1 ? short_rows : HD_TILE_ROWS);
    }
    /* The operand tells the compiler that all bytes are read, not only the first. */
    __asm__ volatile("" ::"r"(&tiles) : "memory");
    _tile_loadconfig(&tiles);
}

/* Keeps the compiler from moving accesses to memory across the first and last use of that memory by
 * tiles, which it does not know of. */
static inline void hd_tiles_settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Zeroes tiles 0 to 3, to which products are added. */
HD_ALWAYS void hd_tiles_begin(void)
{
    hd_tiles_settle();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Collects the first of each pair of 16-bit words in two vectors of 16 pairs. */
HD_ALWAYS __m512i hd_pairs_take_first(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, a, _mm512_slli_epi32(b, 16));
}

/* Collects the second of each pair. */
HD_ALWAYS __m512i hd_pairs_take_second(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
}

#endif
