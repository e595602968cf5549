/* SPDX-License-Identifier: Apache-2.0 */
/* The envs of a collect on a GPU, one thread block for each: its first thread plays, then all
 * draw. */
#include "kernels/envs/pixel_pong/pixel_pong_draw_internal.cuh"

extern "C" {
#include "kernels/envs/pixel_pong/pixel_pong_envs_internal.h"
}

/* Copies the observation to the env's first frames. Each thread reads only what it has written. */
static __device__ void keep_obs(const struct hd_env_gpu_envs *envs,
                                const struct hd_env_gpu_steps *steps, int64_t env)
{
    uint8_t *frames = hd_pong_get_frames(steps, env);
    const int c = (int)threadIdx.x % QUADS * 4;
    for (int r = (int)threadIdx.x / QUADS; r < HD_WARP_SIZE; r += ROWS)
        for (int64_t i = 0; i < envs->stack; i++)
            *quad_at(frames, i, r * HD_WARP_SIZE + c) =
                *quad_at(hd_pong_get_obs(envs, env), i, r * HD_WARP_SIZE + c);
}

static __global__ void begin_envs(struct hd_env_gpu_envs envs, struct hd_env_gpu_steps steps)
{
    HD_AWAIT_INPUTS();
    __shared__ struct hd_pong_scene scenes[2];
    __shared__ bool starts;
    const int64_t env = blockIdx.x;
    struct hd_pong_group *group = hd_pong_get_group(&envs);
    if (threadIdx.x == 0)
        starts = hd_pong_begin_env(&envs, &steps, env, scenes);
    __syncthreads();
    if (starts) {
        const struct target target = {hd_pong_get_obs(&envs, env), hd_pong_get_obs(&envs, env),
                                      envs.stack, true};
        draw(&group->painter, scenes, &target);
    }
    keep_obs(&envs, &steps, env);
}

static __global__ void play_envs(struct hd_env_gpu_envs envs, struct hd_env_gpu_steps steps,
                                 int64_t t)
{
    HD_AWAIT_INPUTS();
    __shared__ struct hd_pong_showing showing;
    const int64_t env = blockIdx.x;
    if (threadIdx.x == 0)
        hd_pong_play_env(&envs, &steps, env, env * steps.steps + t, &showing);
    __syncthreads();
    const struct hd_pong_painter *painter = &hd_pong_get_group(&envs)->painter;
    const bool ended = showing.next_frame != NULL;
    struct target target = {showing.frame, ended ? NULL : hd_pong_get_obs(&envs, env), envs.stack,
                            false};
    draw(painter, showing.scenes, &target);
    if (ended) {
        const struct target next = {showing.next_frame, hd_pong_get_obs(&envs, env), envs.stack,
                                    true};
        draw(painter, showing.next, &next);
    }
}

extern "C" int hd_pixel_pong_begin_cuda(const struct hd_env_gpu_envs *envs,
                                        const struct hd_env_gpu_steps *steps, void *stream)
{
    return HD_LAUNCH(begin_envs, (unsigned)envs->envs, THREADS, stream, *envs, *steps);
}

extern "C" int hd_pixel_pong_play_cuda(const struct hd_env_gpu_envs *envs,
                                       const struct hd_env_gpu_steps *steps, int64_t t,
                                       void *stream)
{
    return HD_LAUNCH(play_envs, (unsigned)envs->envs, THREADS, stream, *envs, *steps, t);
}
