/* SPDX-License-Identifier: Apache-2.0 */
/* Type `gpu_envs`: a collector's envs as plain bytes, so that they can be played on a GPU: all
 * env.collector_env_num of a shard in one group. Only for env.type pixel_pong. */
#ifndef HD_TASKS_TYPES_COLLECT_GPU_ENVS_H
#define HD_TASKS_TYPES_COLLECT_GPU_ENVS_H

#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "kernels/envs/pixel_pong/pixel_pong_envs.h"
#include "tasks/types/collect/envs.h"

extern const struct hd_type hd_type_gpu_envs;

/* The shape of a value of either type is hd_envs_get_shape(spec). */

/* The arrays of an instance, on the host or on a GPU, in a run of this seed. */
struct hd_pixel_pong_envs hd_gpu_envs_get(const struct hd_spec *spec, void *data, uint64_t seed,
                                          int64_t shard);

#endif
