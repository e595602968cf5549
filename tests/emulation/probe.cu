/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/gpu/mma_internal.cuh"

extern "C" {
#include "tests/emulation/probe.h"
}

static const unsigned ALL = 0xFFFFFFFF;

static __device__ float prefix(float value)
{
    const unsigned lane = threadIdx.x % 32;
    for (unsigned step = 1; step < 32; step *= 2) {
        const float before = __shfl_up_sync(ALL, value, step);
        if (lane >= step)
            value += before;
    }
    return value;
}

static __device__ float sum(float value)
{
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(ALL, value, step);
    return value;
}

/* Returns an element of the running lane's part of A B, both of which begin with the same
 * numbers. */
static __device__ float multiply(const float *from, unsigned element)
{
    const unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t a[4];
    uint2 b[1];
    float c[1][4] = {};
    for (unsigned i = 0; i < 4; i++) {
        const float *pair = from + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
        a[i] = hd_pack(pair[0], pair[1]);
    }
    b[0].x = hd_pack(from[2 * t * 8 + g], from[(2 * t + 1) * 8 + g]);
    b[0].y = hd_pack(from[(2 * t + 8) * 8 + g], from[(2 * t + 9) * 8 + g]);
    hd_multiply_tiles<1>(c, a, b);
    return c[0][element];
}

static __global__ void run(enum probe probe, const float *from, float *to)
{
    __shared__ float shared[1024];
    const int64_t i = HD_ELEMENT;
    const unsigned t = threadIdx.x;
    switch (probe) {
    case PROBE_REVERSE:
    case PROBE_NO_BARRIER:
        shared[t] = from[i];
        if (probe == PROBE_REVERSE)
            __syncthreads();
        to[i] = shared[blockDim.x - 1 - t];
        break;
    case PROBE_PREFIX:
        to[i] = prefix(from[i]);
        break;
    case PROBE_SUM:
        to[i] = sum(from[i]);
        break;
    case PROBE_BALLOT:
        to[i] = (float)__popc(__ballot_sync(ALL, from[i] > 0));
        break;
    case PROBE_FEW:
        if (t % 32 < 4)
            to[i] = __shfl_sync(ALL, from[i], 1);
        break;
    case PROBE_TILES:
    case PROBE_FEW_TILES:
        if (probe == PROBE_TILES || t % 32 > 0)
            to[i] = multiply(from, (blockIdx.x + t / 32) % 4);
        break;
    case PROBE_LEAVE:
        if (t < blockDim.x / 2)
            return;
        __syncthreads();
        break;
    case PROBE_DIVERGE:
        if (t % 2)
            __syncthreads();
        else
            to[i] = __shfl_sync(ALL, from[i], 0);
        break;
    case PROBE_UNINITIALISED:
        to[i] = shared[t];
        shared[t] = 1;
        break;
    case PROBE_OVERWRITE:
        if (to[i - t] > 0 || t == blockDim.x - 1)
            to[i - t] = from[i];
        break;
    case PROBE_ONE_PLACE:
        to[t] = from[i];
        break;
    case PROBE_BYTES:
        ((char *)shared)[t] = 0;
        __syncthreads();
        ((char *)to)[i] = ((char *)shared)[t];
        break;
    }
}

extern "C" int hd_probe(enum probe probe, unsigned blocks, unsigned threads, const float *from,
                        float *to, void *stream)
{
    return HD_LAUNCH(run, blocks, threads, stream, probe, from, to);
}

static __global__ void note_order(int64_t *count, int64_t *to)
{
    const int64_t i = HD_ELEMENT, n = (int64_t)gridDim.x * blockDim.x;
    to[i] = (*count)++;
    __syncthreads();
    to[n + i] = (*count)++;
}

extern "C" int hd_probe_order(unsigned blocks, unsigned threads, int64_t *count, int64_t *to,
                              void *stream)
{
    return HD_LAUNCH(note_order, blocks, threads, stream, count, to);
}

static __global__ void increment(int64_t *to)
{
    *to += 1;
}

extern "C" int hd_probe_increment(int64_t *to, void *stream)
{
    return HD_LAUNCH(increment, 1, 1, stream, to);
}
