/* SPDX-License-Identifier: Apache-2.0 */
/* Type `gpu_envs`: a collector's envs as bytes without pointers, so that a GPU can step them. An
 * instance has env.collector_env_num envs in one group, of env.type pixel_pong. hd_envs_get_shape
 * returns the shape of a value of this type too. Thread safe. */
#ifndef HD_TASKS_TYPES_COLLECT_GPU_ENVS_H
#define HD_TASKS_TYPES_COLLECT_GPU_ENVS_H

#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "kernels/envs/pixel_pong/pixel_pong_envs.h"
#include "tasks/types/collect/envs.h"

extern const struct hd_type hd_type_gpu_envs;

/* Returns the arrays of an instance of shard `shard`, on the host or on a GPU, in a run of seed
 * `seed`. */
struct hd_pixel_pong_envs hd_gpu_envs_get(const struct hd_spec *spec, void *data, uint64_t seed,
                                          int64_t shard);

#endif
