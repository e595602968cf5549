/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy actions of a net. Thread safe, no allocation. */
#ifndef HD_KERNELS_GREEDY_H
#define HD_KERNELS_GREEDY_H

#include "kernels/net.h"

/* Bytes of scratch for `batch` observations, a multiple of 64. */
int64_t hd_greedy_bytes(const struct hd_net *net, int64_t batch);

/* action[batch]: the index of the action with the largest value or logit for each of
 * obs[batch][hd_net_obs_bytes], which enter as `norm` says (hd_net_forward), the lowest on ties.
 * `params` is an instance, `scratch` is 64-byte aligned. */
void hd_greedy(const struct hd_net *net, const void *params, const struct hd_obs_norm *norm,
               const void *obs, int64_t batch, void *scratch, int32_t *action);

#endif
