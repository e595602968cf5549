/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a rank drives, decided before anything touches one: a CUDA context on another rank's
 * GPU costs hundreds of megabytes there. Deciding is apart from asking CUDA, so that it can be
 * looked at on any machine; every rank of a host decides for all of them and comes to the same. */
#ifndef HD_RUNTIME_MACHINE_GPU_ASSIGNMENT_H
#define HD_RUNTIME_MACHINE_GPU_ASSIGNMENT_H

#include <stdbool.h>
#include <stddef.h>

struct hd_topology;

enum {
    HD_GPUS_MAX = 64,     /* most GPUs of a host */
    HD_BUS_ID_BYTES = 16, /* "0000:3b:00.0" */
    HD_GPU_TEXT_BYTES = 256,
    HD_NCCL_VERSION_BYTES = 24 /* "2.28.9" */
};

/* A GPU of this host; its number is CUDA's, the place in the list. */
struct hd_gpu {
    char bus_id[HD_BUS_ID_BYTES];
    int core; /* the first of the cores next to it, in the machine's order; -1: not known */
};

/* Lists the GPUs that CUDA shows this process (hd_device_count) in gpus_p[HD_GPUS_MAX] and returns
 * how many there are. Makes no context. `topology` (NULL: nothing is known of cores) tells what is
 * near them. */
int hd_gpus_list(const struct hd_topology *topology, struct hd_gpu *gpus_p);

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

/* The share of local rank `local_rank`. Without a map, ranks get equal contiguous blocks of the
 * GPUs in the order of their nearest cores, as they get blocks of cores (hd_topology_assign_cores);
 * of fewer GPUs than ranks, neighbours share one. Errors: HD_ERR_INPUT (logged, with what to do)
 * for a map of the wrong length, of GPUs that are not there or that are given twice, and for too
 * few GPUs. */
int hd_gpus_assign(const struct hd_gpu *gpus, int n_gpus, const struct hd_gpu_request *request,
                   int local_rank, struct hd_gpu_share *share_p);

/* How gradients travel between the GPUs of ranks. */
enum hd_gpu_path {
    HD_GPU_PATH_NCCL,
    HD_GPU_PATH_NCCL_SHARED, /* after hd_nccl_share_gpus */
    HD_GPU_PATH_HOST         /* by shared memory */
};

/* The path for `ranks_on_gpu` ranks on a GPU with NCCL `version` (as loaded; 22809 is 2.28.9), and
 * in text[bytes] the line to log, "" if there is nothing to say. Several ranks on a GPU can be done
 * since NCCL 2.30, where more than two hang when their channels do not fit the GPU together. Errors
 * (not logged): HD_ERR_INPUT, with the sentence in text. */
int hd_gpu_path_choose(int ranks_on_gpu, int version, enum hd_gpu_path *path_p, char *text,
                       size_t bytes);

/* Tells NCCL, by this process's environment, that ranks share GPUs; before it is first called.
 * NVLS, which they cannot use, is turned off by hand: NCCL does so only where the last pair of
 * ranks that it looks at shares a GPU. */
void hd_nccl_share_gpus(void);

/* A version for people: "2.28.9". */
void hd_nccl_format_version(int version, char text[HD_NCCL_VERSION_BYTES]);

#endif
