/* SPDX-License-Identifier: Apache-2.0 */
/* A whole on-policy collect on a GPU that acts and steps the envs, without the host in between.
 * Thread safe; for builds with CUDA. */
#ifndef HD_TASKS_COLLECT_PLAY_ON_GPU_H
#define HD_TASKS_COLLECT_PLAY_ON_GPU_H

#include "kernels/net/net.h"
#include "tasks/registry.h"

/* The values of such a collect, as views that a body for GPUs gets. */
struct hd_play_on_gpu {
    const struct hd_net *net;
    const struct hd_view *policy, *obs_norm, *envs, *trajectories;
};

/* Returns the bytes of context->scratch on the GPU. */
int64_t hd_play_on_gpu_get_scratch(const struct hd_net *net, const struct hd_spec *trajectories);

/* Queues the collect on context->stream: all envs (hd_envs_shape.on_gpu) step together, and each
 * makes one fragment. Leaves the counters and ended episodes, with which trajectories begin, in
 * context->header, hd_trajectories_get_counter_bytes. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_play_on_gpu(const struct hd_play_on_gpu *play, const struct hd_context *context);

#endif
