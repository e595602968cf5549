/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/greedy.h"

#include "kernels/dqn_loss.h"
#include "runtime/base/alloc.h"

int64_t hd_greedy_bytes(const struct hd_net *net, int64_t batch)
{
    int64_t q_bytes = batch * hd_net_outputs(net) * (int64_t)sizeof(float);
    return hd_net_forward_bytes(net, batch) + hd_padded(q_bytes);
}

void hd_greedy(const struct hd_net *net, const void *params, const struct hd_obs_norm *norm,
               const void *obs, int64_t batch, void *scratch, int32_t *action)
{
    const int64_t actions = hd_net_actions(net), outputs = hd_net_outputs(net);
    float *q = (float *)((char *)scratch + hd_net_forward_bytes(net, batch));
    hd_net_forward(net, params, norm, obs, batch, scratch, q);
    for (int64_t b = 0; b < batch; b++)
        action[b] = (int32_t)hd_argmax(q + b * outputs, actions);
}
