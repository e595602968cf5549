/* SPDX-License-Identifier: Apache-2.0 */
/* A thread block for each env: its first thread plays the game, then all draw the frame. */
#include "kernels/envs/pixel_pong/pixel_pong_draw_internal.cuh"

extern "C" {
#include "kernels/envs/pixel_pong/pixel_pong.h"
}

static __global__ void reset_envs(struct hd_pong_group *group, const bool *chosen,
                                  const uint64_t *seed, uint8_t *frames)
{
    __shared__ struct hd_pong_scene scenes[2];
    const int64_t env = blockIdx.x;
    if (chosen && !chosen[env])
        return;
    if (threadIdx.x == 0)
        hd_pong_open(&group->games[env], seed[env], scenes);
    __syncthreads();
    const struct target target = {frames + env * HD_PIXEL_PONG_FRAME, NULL, 0, false};
    draw(&group->painter, scenes, &target);
}

static __global__ void step_envs(struct hd_pong_group *group, const int32_t *action,
                                 struct hd_env_outcome outcome)
{
    __shared__ struct hd_pong_scene scenes[2];
    const int64_t env = blockIdx.x;
    if (threadIdx.x == 0) {
        struct hd_pong_game game = group->games[env];
        scenes[0] = scenes[1] = hd_pong_get_scene(&game);
        outcome.reward[env] = (float)hd_pong_step(&game, action[env], scenes);
        outcome.done[env] = hd_pong_is_over(&game, &outcome.truncated[env]);
        group->games[env] = game;
    }
    __syncthreads();
    const struct target target = {(uint8_t *)outcome.obs + env * HD_PIXEL_PONG_FRAME, NULL, 0,
                                  false};
    draw(&group->painter, scenes, &target);
}

extern "C" int hd_pixel_pong_reset_cuda(void *group, int64_t envs, const bool *chosen,
                                        const uint64_t *seed, uint8_t *frames, void *stream)
{
    return HD_LAUNCH(reset_envs, (unsigned)envs, THREADS, stream, (struct hd_pong_group *)group,
                     chosen, seed, frames);
}

extern "C" int hd_pixel_pong_step_cuda(void *group, int64_t envs, const int32_t *action,
                                       const struct hd_env_outcome *outcome, void *stream)
{
    return HD_LAUNCH(step_envs, (unsigned)envs, THREADS, stream, (struct hd_pong_group *)group,
                     action, *outcome);
}
