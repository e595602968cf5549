/* SPDX-License-Identifier: Apache-2.0 */
/* Intel's matrix registers: eight tiles of 16 rows of 64 bytes; C[16][16] += A[16][32] B[16][16][2]
 * multiplies bf16, where a row of B holds pairs of the summed index, and adds in float. */
#ifndef HD_KERNELS_COMMON_AMX_H
#define HD_KERNELS_COMMON_AMX_H

#include <stdbool.h>
#include <stdint.h>

/* Whether this program was built for them, the processor has them, and the system lets us. Thread
 * safe. */
bool hd_amx_is_ready(void);

#if defined __AMX_BF16__ && defined __AVX512BF16__
#define HD_AMX 1

#include "kernels/common/vector.h"

#include <immintrin.h>

enum { HD_TILE_ROWS = 16, HD_TILE_BYTES = 1024 };

/* Shapes of the tiles, as the processor wants them. */
struct hd_tiles {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64)));

/* All tiles with 16 rows, but `short_rows` for those in the mask. */
static inline void hd_tiles_load(unsigned short_tiles, int short_rows)
{
    struct hd_tiles tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = 64;
        tiles.rows[i] = (uint8_t)(short_tiles >> i & 1 ? short_rows : HD_TILE_ROWS);
    }
    /* The compiler thinks that only the first bytes are read. */
    __asm__ volatile("" ::"r"(&tiles) : "memory");
    _tile_loadconfig(&tiles);
}

/* Before the first and after the last use of memory by tiles: the compiler does not know that they
 * read and write it. */
static inline void hd_tiles_settle(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Tiles 0 to 3 become zero, to be added to. */
HD_ALWAYS void hd_tiles_begin(void)
{
    hd_tiles_settle();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Words of two vectors of 16 pairs: the first and the second of each pair. */
HD_ALWAYS __m512i hd_pairs_take_first(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, a, _mm512_slli_epi32(b, 16));
}

/* Likewise. */
HD_ALWAYS __m512i hd_pairs_take_second(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
}

#endif

#endif
