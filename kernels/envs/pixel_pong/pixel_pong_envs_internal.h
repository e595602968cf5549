/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a collect's envs without the drawing, for CPUs and GPUs. Thread safe on different
 * envs. */
#pragma once

#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "kernels/envs/pixel_pong/pixel_pong_game_internal.h"
#include "kernels/envs/seed.h"

#include <stddef.h>

/* Returns the envs' painter and games. */
HD_INLINE struct hd_pong_group *hd_pong_get_group(const struct hd_env_gpu_envs *envs)
{
    return (struct hd_pong_group *)envs->group;
}

/* Returns an env's present observation. */
HD_INLINE uint8_t *hd_pong_get_obs(const struct hd_env_gpu_envs *envs, int64_t env)
{
    return envs->obs + env * envs->stack * HD_PIXEL_PONG_FRAME;
}

/* Returns the frames that an env showed in this collect. */
HD_INLINE uint8_t *hd_pong_get_frames(const struct hd_env_gpu_steps *steps, int64_t env)
{
    return steps->frame_data + env * steps->frames * HD_PIXEL_PONG_FRAME;
}

/* Reserves and returns the memory of an env's next frame. */
HD_INLINE uint8_t *hd_pong_get_next_frame(const struct hd_env_gpu_steps *steps, int64_t env)
{
    const int64_t slot = steps->shown[env]++ % steps->frames;
    return hd_pong_get_frames(steps, env) + slot * HD_PIXEL_PONG_FRAME;
}

/* Starts the env's next episode, whose number is counted already. */
HD_INLINE void hd_pong_start_episode(const struct hd_env_gpu_envs *envs, int64_t env,
                                     struct hd_pong_game *game, struct hd_pong_scene scenes[2])
{
    envs->episode_seed[env] =
        hd_env_get_seed(envs->seed, envs->shard, envs->first + env, envs->episode[env]);
    envs->episode_return[env] = 0;
    envs->episode_steps[env] = 0;
    envs->shown[env]++;
    hd_pong_open(game, envs->episode_seed[env], scenes);
}

/* Begins a collect of an env, whose first frames are those of its observation. Returns whether the
 * env starts only now, so that its observation is still to be drawn. */
HD_INLINE bool hd_pong_begin_env(const struct hd_env_gpu_envs *envs,
                                 const struct hd_env_gpu_steps *steps, int64_t env,
                                 struct hd_pong_scene scenes[2])
{
    struct hd_pong_game *game = &hd_pong_get_group(envs)->games[env];
    const bool starts = !game->started;
    if (starts)
        hd_pong_start_episode(envs, env, game, scenes);
    steps->shown[env] = envs->stack;
    steps->age[env] = envs->stack - 1;
    return starts;
}

/* The screens that an env's step shows: its frame, and the first frame of the next episode if one
 * begins. */
struct hd_pong_showing {
    struct hd_pong_scene scenes[2], next[2];
    uint8_t *frame, *next_frame; /* next_frame is NULL if the episode goes on */
};

/* Ends an episode and begins the next one. */
HD_INLINE void hd_pong_end_episode(const struct hd_env_gpu_envs *envs,
                                   const struct hd_env_gpu_steps *steps, int64_t env,
                                   struct hd_pong_game *game, struct hd_pong_showing *showing)
{
    envs->episode[env]++;
    hd_pong_start_episode(envs, env, game, showing->next);
    steps->age[env] = 0;
    showing->next_frame = hd_pong_get_next_frame(steps, env);
}

/* Plays an env's step, number `step` of the collect. */
HD_INLINE void hd_pong_play_env(const struct hd_env_gpu_envs *envs,
                                const struct hd_env_gpu_steps *steps, int64_t env, int64_t step,
                                struct hd_pong_showing *showing)
{
    struct hd_pong_game game = hd_pong_get_group(envs)->games[env];
    steps->frame[step] = (int32_t)(steps->shown[env] - 1);
    steps->frame_age[step] = (int32_t)steps->age[env];
    showing->scenes[0] = showing->scenes[1] = hd_pong_get_scene(&game);
    const int reward = hd_pong_step(&game, steps->action[step], showing->scenes);
    const bool done = hd_pong_is_over(&game, &steps->truncated[step]);
    envs->episode_return[env] += reward;
    envs->episode_steps[env]++;
    envs->shown[env]++;
    steps->reward[step] = (float)reward;
    steps->done[step] = done ? 1.0f : 0.0f;
    steps->ended_return[step] = done ? envs->episode_return[env] : 0;
    steps->ended_steps[step] = done ? envs->episode_steps[env] : 0;
    steps->age[env] += steps->age[env] + 1 < envs->stack;
    showing->frame = hd_pong_get_next_frame(steps, env);
    showing->next_frame = NULL;
    if (done)
        hd_pong_end_episode(envs, steps, env, &game, showing);
    hd_pong_get_group(envs)->games[env] = game;
}
