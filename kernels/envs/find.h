/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the environment that a run file names (env.type). */
#ifndef HD_KERNELS_ENVS_FIND_H
#define HD_KERNELS_ENVS_FIND_H

#include "kernels/envs/env.h"

/* Finds an environment: a built-in one, else a plug-in heddle_env_<type>.so in the folders of
 * runtime/base/plugin.h; a type with a slash is the path of a plug-in. The first file that exists
 * counts, whether it can be used or not. Plug-ins stay loaded; *env_p lives as long as the process.
 * Thread safe. Returns HD_OK, or HD_ERR_INPUT with a sentence that says where it searched, or what
 * is wrong with the file. */
int hd_env_find(const char *type, const struct hd_env **env_p, char message[HD_ENV_MESSAGE]);

/* Writes "environment corridor (plug-in /path/heddle_env_corridor.so)" or "environment cartpole".
 */
void hd_env_describe(const struct hd_env *env, char text_p[HD_ENV_MESSAGE]);

/* Returns the bytes of one frame. */
int64_t hd_env_get_frame_bytes(const struct hd_env_spec *spec);

#endif
