/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which GPUs a rank drives. The decision is a pure function of the list of GPUs and the
 * request, so that tests need no GPU, and every rank of a host computes it for all of them with the
 * same result. Thread safe. */
#pragma once

#include "runtime/machine/gpu_list.h"

#include <stdbool.h>

struct hd_gpu_request {
    int local_world;
    int per_rank;   /* GPUs of every rank; 0: all there are, in equal blocks */
    const int *map; /* `cuda_devices`, those of local rank 0 first; or NULL: by locality */
    int n_map;
    bool may_share; /* several ranks may have the same GPU */
};

/* The GPUs of one rank. */
struct hd_gpu_share {
    int n; /* >= 1 */
    int devices[HD_GPUS_MAX];
    int ranks_on_gpu; /* the most ranks that any GPU of this host has; the same for all ranks */
};

/* Stores the GPUs of local rank `local_rank` out of gpus[n_gpus]. Without a map, ranks get equal
 * contiguous blocks of the GPUs in the order of their nearest cores, as they get blocks of cores
 * (hd_topology_assign_cores); when there are fewer GPUs than ranks, neighbours share one. Returns
 * HD_OK, or HD_ERR_INPUT (logged, with what to do) when the map has the wrong length, names a GPU
 * that does not exist or one twice, and when there are too few GPUs. */
int hd_gpus_assign(const struct hd_gpu *gpus, int n_gpus, const struct hd_gpu_request *request,
                   int local_rank, struct hd_gpu_share *share_p);
