/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the environment that a run file names (env.type). */
#pragma once

#include "kernels/envs/env.h"

#include <stddef.h>

/* Finds an environment: a built-in one, else a plug-in heddle_env_<type>.so in the folders of
 * runtime/base/plugin.h; a type with a slash is the path of a plug-in. The first file that exists
 * counts, whether it can be used or not. Plug-ins stay loaded; *env_p lives as long as the process.
 * Thread safe. Returns HD_OK, or HD_ERR_INPUT with a sentence that says where it searched, or what
 * is wrong with the file. */
int hd_env_find(const char *type, const struct hd_env **env_p, char message[HD_ENV_MESSAGE]);

/* Returns the built-in environment of this name, or NULL. Loads no code. */
const struct hd_env *hd_env_find_builtin(const char *type);

/* Writes the names of the built-in ones, "cartpole, acrobot, ...", to list[bytes]; the end is cut.
 */
void hd_env_list_builtin(char *list, size_t bytes);

/* Writes "environment corridor (plug-in /path/heddle_env_corridor.so)" or "environment cartpole".
 */
void hd_env_describe(const struct hd_env *env, char text_p[HD_ENV_MESSAGE]);

/* Gives the hash of the file that an environment's code is in. Returns false for a built-in one,
 * and where the file cannot be read. */
bool hd_env_hash_code(const struct hd_env *env, uint64_t *hash_p);

/* Returns how many envs of a group are the agents of one parallel env, or 1. */
int64_t hd_env_count_agents(const struct hd_env_spec *spec);

/* Returns the bytes of one frame, and of a part without those that are 0 behind it. */
int64_t hd_env_get_frame_bytes(const struct hd_env_spec *spec);
int64_t hd_env_get_part_bytes(const struct hd_env_part *part);

/* Return the number of parts of a frame, 1 if it is one array, whose name is ""; and give part i.
 */
int hd_env_count_parts(const struct hd_env_spec *spec);
struct hd_env_part hd_env_get_part(const struct hd_env_spec *spec, int i);

/* Gives the shape of a part in an observation of `stack` frames, and returns its dimensions:
 * [stack, H, W] for parts of two dimensions; others are joined along their first dimension. */
int hd_env_get_obs_shape(const struct hd_env_part *part, int64_t stack, int64_t obs[HD_ENV_DIMS]);
