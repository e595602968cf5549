/* SPDX-License-Identifier: Apache-2.0 */
/* The episodes of an evaluation on a GPU that acts and steps the envs, all of an instance together.
 * Thread safe. */
#pragma once

#include "kernels/envs/played.h"
#include "kernels/net/net.h"
#include "tasks/types/collect/envs.h"

/* Three stages: the host writes what the envs are to play into the header; the GPU starts their
 * first episodes; it plays some steps, and is called again until the header says that all have
 * ended. */
enum { HD_EVALUATE_PREPARE, HD_EVALUATE_BEGIN, HD_EVALUATE_PLAY, HD_EVALUATE_STAGES };

struct hd_evaluate_on_gpu {
    const struct hd_net *net;
    const struct hd_envs_shape *envs;
    int64_t max_steps;
    int64_t played_bytes; /* of one env */
};

/* The header, of hd_evaluate_get_header_bytes bytes. */
struct hd_evaluate_header {
    char *played; /* [E][played_bytes]: a struct hd_played of each env; those of envs that a shard
                     has fewer than others have no episodes */
    void *games;  /* as they are before the first episode */
};
struct hd_evaluate_header hd_evaluate_get_header(const struct hd_evaluate_on_gpu *evaluate,
                                                 void *header);

/* Return the bytes of the header, of the work memory and of the scratch on the GPU. */
int64_t hd_evaluate_get_header_bytes(const struct hd_evaluate_on_gpu *evaluate);
int64_t hd_evaluate_get_work_bytes(const struct hd_evaluate_on_gpu *evaluate);
int64_t hd_evaluate_get_scratch_bytes(const struct hd_evaluate_on_gpu *evaluate);

/* Queues the stage of `context` on its stream; the views show the GPU's memory, obs_norm perhaps
 * none. What it queues depends on addresses alone. Returns HD_OK or HD_ERR_DEVICE (logged). This
 * and the functions that count the GPU's memory exist in builds with CUDA. */
int hd_evaluate_on_gpu(const struct hd_evaluate_on_gpu *evaluate, const struct hd_view *policy,
                       const struct hd_view *obs_norm, const struct hd_context *context);
