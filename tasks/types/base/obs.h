/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of observations: env.frame_stack frames of one env, oldest first. A frame is one array,
 * or has several parts (policy.model.inputs), which stand one after the other as
 * kernels/envs/env.h says. Whoever moves observations moves blocks of obs_bytes. The type `envs`
 * checks that its environment shows such frames. Thread safe. */
#pragma once

#include "kernels/envs/env.h"
#include "runtime/base/config/config.h"
#include "runtime/io/base/safetensors.h"

/* A part of an observation. */
struct hd_obs_part {
    const char *name; /* borrowed; "": the observation is one array */
    bool u8;          /* elements are bytes (pictures: three dimensions); else floats */
    int dims;
    int64_t shape[HD_ENV_DIMS]; /* with all frames, of which each has a share of the first size */
    int64_t offset, bytes;      /* in a frame */
};

struct hd_obs_shape {
    bool u8;       /* rows are of bytes: of pictures, or of several parts; else of floats */
    int64_t stack; /* frames of an observation */
    int64_t frame_bytes, obs_bytes;
    int n_parts; /* 1 … HD_ENV_PARTS */
    struct hd_obs_part part[HD_ENV_PARTS];
};

/* Returns whether the run file has policy.model.inputs, which read parts of observations. */
bool hd_obs_has_inputs(const struct hd_config *config);

/* Returns the shape that policy.model.obs_shape and env.frame_stack describe, in the part of the
 * config that fits in; and that of `stack` frames of an env, whose names are borrowed. */
struct hd_obs_shape hd_obs_shape_read(const struct hd_config *config);
struct hd_obs_shape hd_obs_shape_make(const struct hd_env_spec *frame, int64_t stack);

/* Returns whether observations have several parts, or one with a name. */
bool hd_obs_has_parts(const struct hd_obs_shape *obs);

/* Describes rows of observations of obs_bytes as a tensor [rows][elements] of bytes (`u8`) or
 * floats. Name and rows are borrowed. */
struct hd_tensor_data hd_obs_make_tensor(const char *name, const void *obs, int64_t rows,
                                         int64_t obs_bytes, bool u8);

enum { HD_OBS_TEXT = HD_ENV_PARTS * (HD_ENV_PART_NAME + 96) };

/* Returns the shape of one frame of an observation. */
struct hd_obs_shape hd_obs_shape_unstack(const struct hd_obs_shape *obs);

/* Writes the shape as in a run file, "[4, 84, 84]" or "{camera: [3, 64, 64], state: [5]}", and
 * returns it. */
const char *hd_obs_shape_write(const struct hd_obs_shape *obs, char text[HD_OBS_TEXT]);

/* Refuses observations of several parts at `key`, for `why`. Returns HD_OK, or HD_ERR_INPUT after
 * adding a mistake to `diag`. */
int hd_obs_refuse_parts(const struct hd_config *config, const char *key,
                        struct hd_source_location otherwise, const char *why, struct hd_diag *diag);
