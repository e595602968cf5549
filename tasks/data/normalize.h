/* SPDX-License-Identifier: Apache-2.0 */
/* Brings what is learned from on the scale of its running statistics (policy.collect.normalize_obs
 * and normalize_reward). Thread safe on different memory. */
#pragma once

#include "tasks/base/registry.h"

/* Normalises obs[rows][elements] by moments of observations (kernels/net/obs_norm.h), as the passes
 * of nets do. Does nothing where `norm` has no data. */
void hd_normalize_obs(const struct hd_view *norm, int64_t rows, int64_t elements, float *obs);

/* Divides reward[n] by the deviation of discounted returns and clips them
 * (policy.collect.clip_reward). Does nothing where `norm` has no data. */
void hd_normalize_rewards(const struct hd_view *norm, int64_t n, float *reward);
