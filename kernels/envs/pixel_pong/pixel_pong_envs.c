/* SPDX-License-Identifier: Apache-2.0 */
/* The envs of a collect on a CPU. */
#include "kernels/envs/pixel_pong/pixel_pong_envs_internal.h"

/* Makes every frame of an env's observation its first frame. */
static void fill_obs(const struct hd_pixel_pong_envs *envs, int64_t env, const uint8_t *frame)
{
    uint8_t *obs = hd_pong_get_obs(envs, env);
    for (int64_t i = 0; i < envs->stack; i++)
        memcpy(obs + i * HD_PIXEL_PONG_FRAME, frame, HD_PIXEL_PONG_FRAME);
}

static void append_frame(const struct hd_pixel_pong_envs *envs, int64_t env, const uint8_t *frame)
{
    const size_t older = (size_t)(envs->stack - 1) * HD_PIXEL_PONG_FRAME;
    uint8_t *obs = hd_pong_get_obs(envs, env);
    memmove(obs, obs + HD_PIXEL_PONG_FRAME, older);
    memcpy(obs + older, frame, HD_PIXEL_PONG_FRAME);
}

void hd_pixel_pong_begin(const struct hd_pixel_pong_envs *envs,
                         const struct hd_pixel_pong_steps *steps)
{
    for (int64_t env = 0; env < envs->envs; env++) {
        struct hd_pong_scene scenes[2];
        uint8_t *frames = hd_pong_get_frames(steps, env);
        if (hd_pong_begin_env(envs, steps, env, scenes)) {
            hd_pong_paint(&hd_pong_get_group(envs)->painter, scenes, frames);
            fill_obs(envs, env, frames);
        }
        memcpy(frames, hd_pong_get_obs(envs, env), (size_t)envs->stack * HD_PIXEL_PONG_FRAME);
    }
}

void hd_pixel_pong_play(const struct hd_pixel_pong_envs *envs,
                        const struct hd_pixel_pong_steps *steps, int64_t t)
{
    const struct hd_pong_painter *painter = &hd_pong_get_group(envs)->painter;
    if (steps->stopped && *steps->stopped)
        return;
    for (int64_t env = 0; env < envs->envs; env++) {
        struct hd_pong_showing showing;
        hd_pong_play_env(envs, steps, env, env * steps->steps + t, &showing);
        hd_pong_paint(painter, showing.scenes, showing.frame);
        if (showing.next_frame) {
            hd_pong_paint(painter, showing.next, showing.next_frame);
            fill_obs(envs, env, showing.next_frame);
        } else {
            append_frame(envs, env, showing.frame);
        }
    }
}
