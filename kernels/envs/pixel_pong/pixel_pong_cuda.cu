/* SPDX-License-Identifier: Apache-2.0 */
/* A block for each env: its first thread plays the game, all of them draw what it shows. */
#include "kernels/common/cuda.cuh"

extern "C" {
#include "kernels/envs/pixel_pong/pixel_pong.h"
#include "kernels/envs/pixel_pong/pixel_pong_envs_internal.h"
#include "kernels/envs/pixel_pong/pixel_pong_screen_internal.h"
}

/* A thread draws the same four pixels of every twelfth row. */
enum { QUADS = HD_WARP_SIZE / 4, ROWS = 12, THREADS = QUADS * ROWS };
static_assert(QUADS * 4 == HD_WARP_SIZE && HD_WARP_SIZE % ROWS == 0, "rows of whole quads");
static_assert(offsetof(struct hd_pong_group, painter.base) % 4 == 0, "base is read by quads");

/* -- Drawing -------------------------------------------------------------------------------------
 */

/* Four destination columns from `column` on, as far as shapes are seen in them. */
struct strip {
    const struct hd_pong_painter *painter;
    struct hd_pong_shape shapes[SHAPES];
    uint64_t words[SHAPES]; /* from the source of the first column on */
    int column;
};

static __device__ void cut_strip(struct strip *strip, const struct hd_pong_painter *painter,
                                 const struct hd_pong_scene scenes[2], int column)
{
    const int16_t *first = &painter->warp.column[0][column];
    const int width = first[3] + ROW_TAPS - first[0];
    strip->painter = painter;
    strip->column = column;
    hd_pong_make_shapes(scenes, strip->shapes);
    for (int i = 0; i < SHAPES; i++)
        strip->words[i] =
            hd_pong_get_shape_word(&strip->shapes[i], first[0]) & (((uint64_t)1 << 2 * width) - 1);
}

/* Whether rows [y, y + ROW_TAPS) of the screen differ from the empty field's there. */
static __device__ bool is_touched(const struct strip *strip, int y)
{
    bool touched = false;
    for (int i = 0; i < SHAPES; i++)
        touched |=
            strip->words[i] != 0 && strip->shapes[i].y0 < y + ROW_TAPS && strip->shapes[i].y1 > y;
    return touched;
}

/* The pixel of a column over the rows' words, as in pixel_pong_screen.c. */
static __device__ unsigned char shrink(const struct strip *strip, const uint64_t words[ROW_TAPS],
                                       const float weight[ROW_TAPS], int column)
{
    const struct hd_pong_painter *painter = strip->painter;
    const int16_t *first = painter->warp.column[0];
    float row[ROW_TAPS];
    for (int k = 0; k < ROW_TAPS; k++)
        row[k] = painter->sums[column][words[k] >> 2 * (first[column] - first[strip->column]) & 63];
    const float sum = row[0] * weight[0] + row[1] * weight[1] + row[2] * weight[2];
    const int32_t gray = (int32_t)(sum + 8388608.0f) & 255;
    return (unsigned char)(gray == painter->background ? 0 : gray);
}

static __device__ uchar4 draw_quad(const struct strip *strip, int r)
{
    const struct hd_pong_painter *painter = strip->painter;
    const int top = painter->warp.row[r], c = strip->column;
    const float *weight = painter->warp.row_weight[r];
    if (!is_touched(strip, top))
        return *(const uchar4 *)(painter->base + r * HD_WARP_SIZE + c);
    uint64_t words[ROW_TAPS];
    for (int k = 0; k < ROW_TAPS; k++) {
        int until;
        words[k] = hd_pong_get_row_word(strip->shapes, strip->words, SHAPES, top + k, &until);
    }
    return make_uchar4(shrink(strip, words, weight, c), shrink(strip, words, weight, c + 1),
                       shrink(strip, words, weight, c + 2), shrink(strip, words, weight, c + 3));
}

/* Where a frame is wanted. */
struct target {
    uint8_t *frame; /* [84 * 84] */
    uint8_t *obs;   /* [stack][84 * 84]: moves on to the frame; NULL: there is none */
    int64_t stack;
    bool first; /* all of the observation is this frame */
};

static __device__ uchar4 *quad_at(uint8_t *frames, int64_t frame, int at)
{
    return (uchar4 *)(frames + frame * HD_PIXEL_PONG_FRAME + at);
}

static __device__ void put_quad(const struct target *target, int at, uchar4 quad)
{
    *quad_at(target->frame, 0, at) = quad;
    if (!target->obs)
        return;
    for (int64_t i = 0; i + 1 < target->stack; i++)
        *quad_at(target->obs, i, at) = target->first ? quad : *quad_at(target->obs, i + 1, at);
    *quad_at(target->obs, target->stack - 1, at) = quad;
}

static __device__ void draw(const struct hd_pong_painter *painter,
                            const struct hd_pong_scene scenes[2], const struct target *target)
{
    struct strip strip;
    cut_strip(&strip, painter, scenes, (int)threadIdx.x % QUADS * 4);
    for (int r = (int)threadIdx.x / QUADS; r < HD_WARP_SIZE; r += ROWS)
        put_quad(target, r * HD_WARP_SIZE + strip.column, draw_quad(&strip, r));
}

/* -- Plain groups --------------------------------------------------------------------------------
 */

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

/* -- A collector's envs --------------------------------------------------------------------------
 */

/* The observation becomes the env's first frames; each thread has written what it reads. */
static __device__ void keep_obs(const struct hd_pixel_pong_envs *envs,
                                const struct hd_pixel_pong_steps *steps, int64_t env)
{
    uint8_t *frames = hd_pong_get_frames(steps, env);
    const int c = (int)threadIdx.x % QUADS * 4;
    for (int r = (int)threadIdx.x / QUADS; r < HD_WARP_SIZE; r += ROWS)
        for (int64_t i = 0; i < envs->stack; i++)
            *quad_at(frames, i, r * HD_WARP_SIZE + c) =
                *quad_at(hd_pong_get_obs(envs, env), i, r * HD_WARP_SIZE + c);
}

static __global__ void begin_envs(struct hd_pixel_pong_envs envs, struct hd_pixel_pong_steps steps)
{
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

static __global__ void play_envs(struct hd_pixel_pong_envs envs, struct hd_pixel_pong_steps steps,
                                 int64_t t)
{
    __shared__ struct hd_pong_showing showing;
    const int64_t env = blockIdx.x;
    if (steps.through && *steps.through)
        return;
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

extern "C" int hd_pixel_pong_begin_cuda(const struct hd_pixel_pong_envs *envs,
                                        const struct hd_pixel_pong_steps *steps, void *stream)
{
    return HD_LAUNCH(begin_envs, (unsigned)envs->envs, THREADS, stream, *envs, *steps);
}

extern "C" int hd_pixel_pong_play_cuda(const struct hd_pixel_pong_envs *envs,
                                       const struct hd_pixel_pong_steps *steps, int64_t t,
                                       void *stream)
{
    return HD_LAUNCH(play_envs, (unsigned)envs->envs, THREADS, stream, *envs, *steps, t);
}
