/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of observations: env.frame_stack frames of one env, oldest first. The type `envs`
 * checks that its environment shows such frames. Thread safe. */
#ifndef HD_TASKS_TYPES_BASE_OBS_H
#define HD_TASKS_TYPES_BASE_OBS_H

#include "runtime/base/config/config.h"
#include "runtime/io/base/safetensors.h"

struct hd_obs_shape {
    bool u8;       /* elements are bytes (pictures: three dimensions); else floats */
    int64_t stack; /* frames of an observation */
    int64_t frame_bytes, obs_bytes;
};

/* Returns the shape that policy.model.obs_shape and env.frame_stack describe. */
struct hd_obs_shape hd_obs_shape_read(const struct hd_config *config);

/* Describes rows of observations of obs_bytes as a tensor [rows][elements] of bytes (`u8`) or
 * floats. Name and rows are borrowed. */
struct hd_tensor_data hd_obs_make_tensor(const char *name, const void *obs, int64_t rows,
                                         int64_t obs_bytes, bool u8);

enum { HD_OBS_SHAPE_TEXT = 128 };

/* Writes the shape[n] of an observation to text, as "[4, 84, 84]", and returns it. */
const char *hd_obs_shape_write(const int64_t *shape, int64_t n, char text[HD_OBS_SHAPE_TEXT]);

#endif
