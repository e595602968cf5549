/* SPDX-License-Identifier: Apache-2.0 */
/* Products of small matrices by the tensor cores of GPUs since sm_80, in bf16 with sums in f32. A
 * tensor core adds in an order of its own, which is the same in every run. A lane of a warp holds
 * pairs of neighbours along the summed index: with g = lane / 4 and t = lane % 4, of A[16][16] the
 * pairs (row g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); of B[16][8] the pairs (2t, column
 * g), (2t + 8, g); and of C[16][8] the elements (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
 */
#pragma once

#include "kernels/net/gpu/vector_internal.cuh"

/* Rounds two floats to a pair. */
static inline __device__ uint32_t hd_pack(float low, float high)
{
#ifdef __CUDACC__
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint32_t)hd_bf16_from_float(high) << 16 | hd_bf16_from_float(low);
#endif
}

/* Computes C[j] += A B[j] of N tiles. All lanes of the warp call it. */
template <int N>
static inline __device__ void hd_multiply_tiles(float (&c)[N][4], const uint32_t (&a)[4],
                                                const uint2 (&b)[N])
{
#ifdef __CUDACC__
#pragma unroll
    for (int j = 0; j < N; j++)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[j].x), "r"(b[j].y));
#else
    hd_emulated_multiply_tiles(N, a, b, &c[0][0]);
#endif
}
