/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/machine/gpu_path.h"

#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { SHARING_SINCE = 23000, SHARING_RANKS_MAX = 2 };

void hd_nccl_format_version(int version, char text[HD_NCCL_VERSION_BYTES])
{
    snprintf(text, HD_NCCL_VERSION_BYTES, "%d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
}

int hd_gpu_path_choose(int ranks_on_gpu, int version, enum hd_gpu_path *path_p, char *text,
                       size_t bytes)
{
    char loaded[HD_NCCL_VERSION_BYTES];
    hd_nccl_format_version(version, loaded);
    if (bytes > 0)
        text[0] = '\0';
    if (ranks_on_gpu <= 1) {
        *path_p = HD_GPU_PATH_NCCL;
    } else if (version < SHARING_SINCE) {
        *path_p = HD_GPU_PATH_HOST;
        snprintf(text, bytes,
                 "%d ranks share a GPU, which NCCL %s cannot do (2.30 can): gradients travel "
                 "through host memory",
                 ranks_on_gpu, loaded);
    } else if (ranks_on_gpu <= SHARING_RANKS_MAX) {
        *path_p = HD_GPU_PATH_NCCL_SHARED;
        snprintf(text, bytes,
                 "%d ranks share a GPU: NCCL %s runs with NCCL_MULTI_RANK_GPU_ENABLE=1",
                 ranks_on_gpu, loaded);
    } else {
        snprintf(text, bytes,
                 "%d ranks share a GPU: NCCL %s may hang with more than %d; start at most %d ranks "
                 "for every GPU",
                 ranks_on_gpu, loaded, SHARING_RANKS_MAX, SHARING_RANKS_MAX);
        return HD_ERR_INPUT;
    }
    return HD_OK;
}

void hd_nccl_share_gpus(void)
{
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1);
}
