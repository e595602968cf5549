/* SPDX-License-Identifier: Apache-2.0 */
/* Between kernels compiled for the host and what runs them (block.cpp). A kernel's threads are
 * fibres of the one thread of the host that serves all streams: only a thread that waits for others
 * of its block gives way. */
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <stdint.h>
#include <vector>

/* Where the running thread is. */
extern "C" {
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
}

struct hd_emulated_kernel {
    const char *name;
    dim3 grid, block;
    std::function<void()> thread; /* what each thread runs */
};

/* Ends the program if the current device cannot address what a kernel's argument points to. */
void hd_emulated_check(const char *kernel, int argument, const void *pointer);

/* Enqueues on the stream. Like a launch on a GPU it tells its error through cudaGetLastError. */
void hd_emulated_launch(hd_emulated_kernel kernel, cudaStream_t stream);

/* The same for other work; on an error, which it returns, nothing is enqueued. */
cudaError_t hd_emulated_enqueue(cudaStream_t stream, std::function<void()> work);

/* Puts the numbers from 0 to n - 1 in the order that HD_EMULATED_ORDER asks for (emulation.h). A
 * random one depends on seed and key. */
void hd_emulated_put_in_order(std::vector<uint32_t> &order, size_t n, uint64_t key);
bool hd_emulated_order_is_random();

/* What blocks share, set to NaN before every block. */
void hd_emulated_shared_at(char *begin, char *end);

/* Runs all threads of all blocks to their end. */
void hd_emulated_run(const hd_emulated_kernel &kernel);

/* Returns when every thread of the block has called it: for how many the predicate holds. `place`
 * is "file:line". */
int hd_emulated_barrier(const char *place, bool predicate);

/* Whether the barrier at this place is to be left out: HD_EMULATED_WITHOUT_BARRIER names it. */
bool hd_emulated_leaves_out(const char *place);

/* This thread's place in its warp. */
static inline int hd_emulated_lane(void)
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

/* What a lane gets of an exchange: its source's value, all ones where that takes no part; and bit l
 * where lane l's predicate holds. */
struct hd_emulated_exchanged {
    uint64_t value;
    uint32_t ballot;
};

/* Returns when all lanes in `mask` that still run have called it with the same `what` and mask. */
hd_emulated_exchanged hd_emulated_exchange(const char *what, unsigned mask, int source,
                                           uint64_t value, bool predicate);

/* A lane's part in products of tiles (kernels/net/gpu/mma_internal.cuh): A's four pairs, two pairs
 * of B and four elements of C for each of n tiles. */
struct hd_emulated_tiles {
    int n;
    const uint32_t *a;
    const uint2 *b;
    float *c;
};

/* Returns when all lanes of the warp have called it with the same n: their products are added to
 * C. */
void hd_emulated_multiply_tiles(int n, const uint32_t *a, const uint2 *b, float *c);

/* Computes the products of a whole warp. */
void hd_emulated_compute_tiles(const hd_emulated_tiles *const lanes[32]);
