/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of collectives on GPUs fork ranks with a GPU each; the emulation has four. The test itself
 * touches no GPU, or its children could not. */
#pragma once

#if HD_CUDA
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "tests/emulation/emulation.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>

enum { MAX_RANKS = 4, SECOND_NS = 1000000000 };

#pragma weak hd_emulated_launches
#pragma weak hd_emulated_synchronous_calls

static inline bool emulated(void)
{
    return hd_emulated_launches != NULL;
}

/* Ends the rank if a condition does not hold. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static struct shared {
    char log[MAX_RANKS][1024], text[MAX_RANKS][1024];
    atomic_int flag;
} * shared;

static inline void make_shared(void)
{
    setenv("HD_EMULATED_DEVICES", "4", 0);
    shared = share_memory(sizeof *shared);
}

/* -- Ranks ------------------------------------------------------------------------------------- */

struct rank {
    const struct hd_world *world;
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_device_comm *device_comm;
    int device;
    float *staging; /* pinned, of the adds */
};

static int rank_number;

static inline void keep_log(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    snprintf(shared->log[rank_number], sizeof shared->log[0], "%s", line);
}

static inline void join_ranks(struct rank *rank, const struct hd_world *world)
{
    rank->world = world;
    rank->device = world->rank;
    rank_number = world->rank;
    hd_log_set_sink(keep_log, NULL);
    struct hd_rendezvous_options options = {.world = world,
                                            .fingerprint = "f",
                                            .one_host = true,
                                            .timeout_ns = 20 * (int64_t)SECOND_NS};
    REQUIRE(hd_rendezvous_create(&options, &rank->rendezvous) == HD_OK);
    REQUIRE(hd_comm_create(world, rank->rendezvous, &(struct hd_comm_sizes){1, 64, 0},
                           &rank->comm) == HD_OK);
}

static inline int join(struct rank *rank, int64_t timeout_ns)
{
    const struct hd_nccl_options options = {.rank = rank->world->rank,
                                            .ranks = rank->world->world,
                                            .devices = &rank->device,
                                            .n_devices = 1,
                                            .timeout_ns = timeout_ns,
                                            .comm = rank->comm};
    return hd_nccl_join(&options, rank->rendezvous, &rank->device_comm);
}

static inline struct rank start(const struct hd_world *world)
{
    struct rank rank = {0};
    join_ranks(&rank, world);
    if (join(&rank, 0) != HD_OK) {
        fprintf(stderr, "%s\n", shared->log[world->rank]);
        _exit(90);
    }
    return rank;
}

static inline void stop(struct rank *rank)
{
    hd_device_comm_destroy(rank->device_comm);
    hd_comm_destroy(rank->comm);
    hd_rendezvous_destroy(rank->rendezvous);
    if (rank->staging)
        cudaFreeHost(rank->staging);
}

static inline int count_gpus(void)
{
    fflush(NULL);
    const pid_t child = fork();
    int n = 0;
    if (child == 0)
        _exit(cudaGetDeviceCount(&n) == cudaSuccess ? n : 0);
    return ranks_wait(child);
}

/* Returns whether there are so many GPUs; otherwise the case counts as left out. */
static inline bool require_gpus(int wanted)
{
    const bool enough = count_gpus() >= wanted;
    if (!enough)
        test_leave_out("for want of GPUs");
    return enough;
}

/* A case with a GPU for each rank. */
static inline void run_case(int ranks, int (*body)(const struct hd_world *, void *))
{
    if (require_gpus(ranks))
        ranks_run(ranks, body, NULL, "");
}

static inline bool wait_for(struct rank *rank, int64_t sequence)
{
    return hd_device_comm_wait(rank->device_comm, sequence, 20 * (int64_t)SECOND_NS, NULL, NULL) ==
           HD_OK;
}

static inline void *device_copy_of(const void *content, int64_t bytes)
{
    void *memory;
    REQUIRE(cudaMalloc(&memory, (size_t)bytes + 64) == cudaSuccess);
    REQUIRE(cudaMemset(memory, 0xFF, (size_t)bytes + 64) == cudaSuccess);
    if (content)
        REQUIRE(cudaMemcpy(memory, content, (size_t)bytes, cudaMemcpyHostToDevice) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    return memory;
}

#endif
