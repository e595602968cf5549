/* SPDX-License-Identifier: Apache-2.0 */
/* Type `moments`: count, mean and squared deviations of a number, or of each element of an
 * observation, and beside them a scale and a shift for each element, by which observations are
 * normalised. The moments of shards combine into those of all their samples. Thread safe. */
#pragma once

#include "kernels/common/moments.h"
#include "kernels/net/obs_norm.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_moments;

/* Give `spec` its shape, from a verb's `declare`: the moments of one number, of observations as the
 * run file describes them, or of whatever `other` holds; `normalises` says whether the number is
 * normalised by them. Do nothing when spec is NULL. Return
 * HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT (in setup->diag) when the value already has another shape.
 */
int hd_moments_declare_number(const struct hd_setup *setup, struct hd_spec *spec, bool normalises);
int hd_moments_declare_obs(const struct hd_setup *setup, struct hd_spec *spec);
int hd_moments_declare_like(const struct hd_setup *setup, struct hd_spec *spec,
                            const struct hd_spec *other);

/* Return the number of elements of a sample, and the arrays of an instance. */
int64_t hd_moments_count_elements(const struct hd_spec *spec);
struct hd_moments hd_moments_get(const struct hd_spec *spec, void *data);

/* Adds the samples of `other` to the instance `data`. Before its first samples an instance takes a
 * prior of mean 0 and variance 1 with the weight of 1e-4 samples (DI-engine's RunningMeanStd,
 * docs/di-engine.md 3.4). */
void hd_moments_join(const struct hd_spec *spec, void *data, const void *other);

/* Queues hd_moments_join on `stream`, of instances in that GPU's memory. Returns HD_OK or
 * HD_ERR_DEVICE (logged). Exists in builds with CUDA. */
int hd_moments_join_on_gpu(const struct hd_spec *spec, void *data, const void *other, void *stream);

/* Returns the deviation of a number, sqrt(variance + epsilon); the variance is 1 before the first
 * samples. */
double hd_moments_get_deviation(const struct hd_spec *spec, const void *data);

/* Returns that epsilon: 1e-8, or 1 for bytes. */
double hd_moments_get_epsilon(const struct hd_spec *spec);

/* Gives the scales and shifts [elements] of an instance, to be read or to be set from a file. */
void hd_moments_get_scales(const struct hd_spec *spec, void *data, float **scale_p,
                           float **shift_p);

/* Returns the largest absolute value of a normalised number: policy.collect.clip_obs or
 * clip_reward.
 */
float hd_moments_get_clip(const struct hd_spec *spec);

/* Fills *norm_p with the normalisation of observations by a view's instance and returns norm_p.
 * Returns NULL if the view is absent: observations are not normalised. */
const struct hd_obs_norm *hd_moments_get_obs_norm(const struct hd_view *view,
                                                  struct hd_obs_norm *norm_p);

/* Declare what normalises observations and rewards, and check, from a verb's `prepare`, that
 * ports[obs] and ports[rewards] have values if policy.collect.normalize_obs and normalize_reward
 * are on. Return HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT (in setup->diag). */
int hd_moments_declare_norms(const struct hd_setup *setup, struct hd_spec *obs,
                             struct hd_spec *rewards);
int hd_moments_check_norms(const struct hd_setup *setup, const struct hd_port *ports, int obs,
                           int rewards);
