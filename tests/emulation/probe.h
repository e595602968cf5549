/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that probe the emulation: what GPUs do, and what is undefined there. All return the
 * status of their launch. */
#pragma once

#include <stdint.h>

enum probe {
    PROBE_REVERSE,       /* to[b][i] = from[b][last - i] by way of shared memory */
    PROBE_NO_BARRIER,    /* the same without the barrier */
    PROBE_PREFIX,        /* to[b][i] = sum over j <= i of the warp of from[b][j], by shuffles */
    PROBE_SUM,           /* to[b][i] = sum over the warp, by exclusive or */
    PROBE_BALLOT,        /* to[b][i] = lanes of the warp with from > 0 */
    PROBE_FEW,           /* to[b][i] = value of lane 1 for lanes 0 to 3; the others have ended */
    PROBE_TILES,         /* to[b][i] = element (b + warp) % 4 of the lane's part of C = A B, where
                            A[16][16] and B[16][8] are rows of from[b'][i'] from its start on */
    PROBE_FEW_TILES,     /* the same after some lanes have ended */
    PROBE_LEAVE,         /* half of the block ends before a barrier */
    PROBE_DIVERGE,       /* half of a warp waits for lanes that wait at a barrier */
    PROBE_UNINITIALISED, /* to[b][i] = shared memory that nobody wrote */
    PROBE_OVERWRITE,     /* a thread writes to[b][0], which others read with no barrier between */
    PROBE_ONE_PLACE,     /* to[0][i] = from[b][i]: blocks write what others write */
    PROBE_BYTES          /* neighbouring threads and blocks write neighbouring bytes */
};

int hd_probe(enum probe probe, unsigned blocks, unsigned threads, const float *from, float *to,
             void *stream);

/* Notes in which order the threads of a launch run: to[0][i] and to[1][i] = how many threads have
 * come before thread i to the stretch before a barrier, and to the one after it. *count is 0. */
int hd_probe_order(unsigned blocks, unsigned threads, int64_t *count, int64_t *to, void *stream);

/* *to += 1, by one thread. */
int hd_probe_increment(int64_t *to, void *stream);
