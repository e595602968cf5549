/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses how gradients travel between the GPUs of ranks, by what the loaded NCCL can do. Thread
 * safe, except hd_nccl_share_gpus. */
#pragma once

#include <stddef.h>

enum {
    HD_GPU_TEXT_BYTES = 256,   /* room for every line of hd_gpu_path_choose */
    HD_NCCL_VERSION_BYTES = 24 /* "2.28.9" */
};

enum hd_gpu_path {
    HD_GPU_PATH_NCCL,
    HD_GPU_PATH_NCCL_SHARED, /* after hd_nccl_share_gpus */
    HD_GPU_PATH_HOST         /* through shared memory of the host */
};

/* Chooses the path for `ranks_on_gpu` ranks on a GPU with the loaded NCCL's `version` (22809 is
 * 2.28.9), and writes the line to log to text[bytes], "" when there is nothing to say. NCCL lets
 * several ranks share a GPU since 2.30, but more than two hang when their channels do not fit the
 * GPU together. Returns HD_OK, or HD_ERR_INPUT (not logged) with the sentence in text. */
int hd_gpu_path_choose(int ranks_on_gpu, int version, enum hd_gpu_path *path_p, char *text,
                       size_t bytes);

/* Tells NCCL, through this process's environment, that ranks share GPUs. Call it before NCCL's
 * first call and before other threads exist. It also turns off NVLS, which such ranks cannot use:
 * NCCL itself does so only when the last pair of ranks that it looks at shares a GPU. */
void hd_nccl_share_gpus(void);

/* Formats a version of NCCL for people: "2.28.9". */
void hd_nccl_format_version(int version, char text[HD_NCCL_VERSION_BYTES]);
