/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which GPUs a rank drives. The decisions are pure functions of what ranks say, so that
 * tests need no GPU, and every rank computes them for all others with the same result. Thread safe.
 */
#pragma once

#include "runtime/machine/gpu_list.h"

#include <stdint.h>

/* A rank tells the others this of the GPUs that CUDA shows it. */
struct hd_gpu_view {
    uint64_t shown; /* hash of their ids in CUDA's order */
    int64_t n;
};

/* Ranks that are shown the same GPUs divide them: all ranks of a host; or a rank alone,
 * where its launcher gives each GPUs of its own (CUDA_VISIBLE_DEVICES). */
struct hd_gpu_group {
    int rank, ranks; /* 0 <= rank < ranks */
};

struct hd_gpu_request {
    int ranks;      /* that divide the GPUs */
    int per_rank;   /* GPUs of every rank; at least 1 */
    const int *map; /* `cuda_devices`, those of the first rank first; or NULL: by locality */
    int n_map;
};

/* The GPUs of one rank. */
struct hd_gpu_share {
    int n; /* >= 1 */
    int devices[HD_GPUS_MAX];
};

/* Returns the view of a rank that is shown gpus[n_gpus]. */
struct hd_gpu_view hd_gpus_view(const struct hd_gpu *gpus, int n_gpus);

/* Returns the group of rank `rank` out of views[ranks], in which ranks keep their order. */
struct hd_gpu_group hd_gpus_find_group(const struct hd_gpu_view *views, int ranks, int rank);

/* Stores the GPUs of rank `rank` of those that divide gpus[n_gpus]. Without a map, ranks get equal
 * contiguous blocks of the GPUs in the order of their nearest cores, as they get blocks of cores
 * (hd_topology_assign_cores); when there are fewer GPUs than ranks, neighbours share one. Returns
 * HD_OK, or HD_ERR_INPUT (logged, with what to do) when the map has the wrong length, names a GPU
 * that does not exist or one twice, and when there are too few GPUs. */
int hd_gpus_assign(const struct hd_gpu *gpus, int n_gpus, const struct hd_gpu_request *request,
                   int rank, struct hd_gpu_share *share_p);

/* Returns how often the id that is there most often is in ids[n], the GPUs of all ranks, which are
 * sorted on the way: the most ranks that share a GPU. */
int hd_gpus_count_sharing(uint64_t *ids, int64_t n);
