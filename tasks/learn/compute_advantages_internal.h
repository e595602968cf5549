/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the verb compute_advantages: compute_advantages.c checks the config and computes on
 * CPUs, compute_advantages_gpu.c on GPUs. Thread safe. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

enum {
    HD_ADVANTAGES_POLICY,
    HD_ADVANTAGES_TRAJECTORIES,
    HD_ADVANTAGES_NORM,
    HD_ADVANTAGES_SCALE,
    HD_ADVANTAGES_TO,
    HD_ADVANTAGES_RETURNS
};

/* The task object. */
struct hd_compute_advantages {
    const struct hd_net *net;
    bool collected;  /* values of samples, on CPUs */
    int64_t samples; /* N */
    int64_t block;   /* observations of an item */
    int64_t blocks;  /* items of samples */
    int64_t after;   /* rows of the last item: most bootstrap values */
    int64_t
        steps; /* of a recurrent net's sequences: a fragment's and the observation after it; else
                  0 */
    float gamma, lambda;
    bool value_norm;
    bool vtrace;
    float rho_max, c_max; /* of V-trace */
};

extern const struct hd_gpu_verb hd_compute_advantages_on_gpu;
