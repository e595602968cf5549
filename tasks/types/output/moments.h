/* SPDX-License-Identifier: Apache-2.0 */
/* Type `moments`: count, mean and variance of a number, or of each element of an observation.
 * Instances combine exactly, whatever the collective's verb. What follows from them for use, a
 * scale and a shift per element, is kept beside them. */
#ifndef HD_TASKS_TYPES_OUTPUT_MOMENTS_H
#define HD_TASKS_TYPES_OUTPUT_MOMENTS_H

#include "kernels/common/moments.h"
#include "kernels/net/obs_norm.h"
#include "tasks/registry.h"

extern const struct hd_type hd_type_moments;

/* For a verb's `declare`: the value is about one number, or about observations as the run file says
 * they are, or about what another value is about. Does nothing when spec is NULL; two kinds for one
 * value are a mistake. */
int hd_moments_declare_number(const struct hd_setup *setup, struct hd_spec *spec);
int hd_moments_declare_obs(const struct hd_setup *setup, struct hd_spec *spec);
int hd_moments_declare_like(const struct hd_setup *setup, struct hd_spec *spec,
                            const struct hd_spec *other);

/* Numbers of a sample, and the arrays of an instance. */
int64_t hd_moments_count_elements(const struct hd_spec *spec);
struct hd_moments hd_moments_get(const struct hd_spec *spec, void *data);

/* Adds other's samples. The first ones join a prior of mean 0 and variance 1 that weighs 1e-4
 * samples (DI-engine's RunningMeanStd, spec 3.4). */
void hd_moments_join(const struct hd_spec *spec, void *data, const void *other);

/* The same on a GPU, which has both, queued on `stream`. For builds with CUDA. */
int hd_moments_join_on_gpu(const struct hd_spec *spec, void *data, const void *other, void *stream);

/* sqrt(variance + 1e-8) of a number; 1 before the first samples. */
double hd_moments_get_deviation(const struct hd_spec *spec, const void *data);

/* That 1e-8. */
double hd_moments_get_epsilon(const struct hd_spec *spec);

/* The scales and shifts of an instance, [elements] each: to be read, or set from a file. */
void hd_moments_get_scales(const struct hd_spec *spec, void *data, float **scale_p,
                           float **shift_p);

/* How observations enter a net by the instance of a view; stored in *norm_p, which is returned.
 * NULL where the view is absent: as they are. */
const struct hd_obs_norm *hd_moments_get_obs_norm(const struct hd_view *view,
                                                  struct hd_obs_norm *norm_p);

#endif
