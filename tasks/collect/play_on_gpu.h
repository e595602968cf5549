/* SPDX-License-Identifier: Apache-2.0 */
/* A whole on-policy collect on a GPU that acts and steps the envs, without the host in between.
 * Thread safe. Only the header is for builds without CUDA. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

/* The values of such a collect, as views that a body for GPUs gets. */
struct hd_play_on_gpu {
    const struct hd_net *net;
    const struct hd_view *policy, *obs_norm, *envs, *trajectories;
};

/* Returns the bytes of context->scratch on the GPU. */
int64_t hd_play_on_gpu_get_scratch(const struct hd_net *net, const struct hd_spec *trajectories);

/* The header of a collect: the random stream, which the host writes before, and what trajectories
 * begin with, counters and ended episodes, which the GPU leaves. */
struct hd_play_header {
    struct hd_rng *rng;
    char *counters; /* [hd_trajectories_get_counter_bytes] */
};

/* Lays the header out in `memory` and returns its bytes (memory NULL: counts only). */
int64_t hd_play_header_lay_out(const struct hd_spec *trajectories, void *memory,
                               struct hd_play_header *header_p);

/* Queues the collect on context->stream: all envs (hd_envs_shape.on_gpu) step together, and each
 * makes one fragment. What it queues depends on addresses alone. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_play_on_gpu(const struct hd_play_on_gpu *play, const struct hd_context *context);
