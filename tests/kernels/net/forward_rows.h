/* SPDX-License-Identifier: Apache-2.0 */
/* The usual forward pass of tests. */
#pragma once

#include "kernels/net/net.h"

static inline void forward_rows(const struct hd_net *net, const void *params,
                                const struct hd_obs_norm *norm, const void *obs, int64_t rows,
                                void *work, float *q)
{
    const struct hd_net_pass pass = {
        .params = params, .norm = norm, .obs = obs, .rows = rows, .work = work};
    hd_net_forward(net, &pass, q);
}
