/* SPDX-License-Identifier: Apache-2.0 */
/* The envs of an evaluation on a GPU, one thread block for each: its first thread chooses the
 * action and plays, then all draw. */
#include "kernels/envs/pixel_pong/pixel_pong_draw_internal.cuh"

extern "C" {
#include "kernels/common/argmax.h"
#include "kernels/envs/pixel_pong/pixel_pong.h"
}

/* An env that goes on shows another frame, one that starts an episode shows the first. */
enum turn { RESTS, GOES_ON, STARTS };

/* Plays a step of an env by its outputs; out NULL: only starts its first episode. Stores the
 * screens that it shows then. */
static __device__ enum turn play_turn(const struct hd_env_gpu_evaluation *evaluation,
                                      struct hd_pong_game *game, int64_t env, const float *out,
                                      struct hd_pong_scene scenes[2])
{
    struct hd_played *played =
        (struct hd_played *)(evaluation->played + env * evaluation->played_bytes);
    if (hd_played_is_complete(played))
        return RESTS;
    if (out) {
        bool truncated;
        scenes[0] = scenes[1] = hd_pong_get_scene(game);
        const int reward =
            hd_pong_step(game, (int32_t)hd_argmax(out, HD_PIXEL_PONG_ACTIONS), scenes);
        if (!hd_played_count(played, reward, hd_pong_is_over(game, &truncated),
                             evaluation->max_steps))
            return GOES_ON;
        if (hd_played_is_complete(played))
            return RESTS;
    }
    hd_pong_open(game, hd_played_get_seed(played), scenes);
    return STARTS;
}

/* A frame is drawn to the oldest one of the observation, whose place the next oldest takes. */
static __global__ void play_turns(struct hd_env_gpu_evaluation evaluation, const float *out,
                                  int64_t outputs)
{
    HD_AWAIT_INPUTS();
    __shared__ struct hd_pong_scene scenes[2];
    __shared__ enum turn turn;
    const int64_t env = blockIdx.x;
    struct hd_pong_group *group = (struct hd_pong_group *)evaluation.group;
    if (threadIdx.x == 0) {
        struct hd_pong_game game = group->games[env];
        turn = play_turn(&evaluation, &game, env, out ? out + env * outputs : NULL, scenes);
        group->games[env] = game;
    }
    __syncthreads();
    if (turn == RESTS)
        return;
    uint8_t *obs = evaluation.obs + env * evaluation.stack * HD_PIXEL_PONG_FRAME;
    const struct target target = {obs, obs, evaluation.stack, turn == STARTS};
    draw(&group->painter, scenes, &target);
}

extern "C" int hd_pixel_pong_begin_evaluation_cuda(const struct hd_env_gpu_evaluation *evaluation,
                                                   void *stream)
{
    return HD_LAUNCH(play_turns, (unsigned)evaluation->envs, THREADS, stream, *evaluation,
                     (const float *)NULL, (int64_t)0);
}

extern "C" int hd_pixel_pong_evaluate_cuda(const struct hd_env_gpu_evaluation *evaluation,
                                           const float *out, int64_t outputs, void *stream)
{
    return HD_LAUNCH(play_turns, (unsigned)evaluation->envs, THREADS, stream, *evaluation, out,
                     outputs);
}
