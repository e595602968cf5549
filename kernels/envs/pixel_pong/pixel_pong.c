/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/pixel_pong/pixel_pong.h"

#include "kernels/envs/pixel_pong/pixel_pong_game_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct group {
    int64_t envs;
    struct hd_pong_painter painter;
    struct hd_pong_scene (*scenes)[2]; /* [envs]: the screens shown last */
    struct hd_pong_game games[];
};

static int read_background(const struct hd_env_settings *settings, int *background_p,
                           char message[HD_ENV_MESSAGE])
{
    if (settings->env_id[0]) {
        snprintf(message, HD_ENV_MESSAGE, "it takes no env_id, found '%.60s'", settings->env_id);
        return -1;
    }
    for (int i = 0; i < settings->n_options; i++) {
        const struct hd_env_option *option = &settings->options[i];
        char *end;
        long gray = strtol(option->value, &end, 10);
        if (strcmp(option->name, "background") != 0) {
            snprintf(message, HD_ENV_MESSAGE, "unknown option '%.60s' (there is: background)",
                     option->name);
            return -1;
        }
        if (end == option->value || *end || gray < -1 || gray > 255) {
            snprintf(message, HD_ENV_MESSAGE,
                     "option background: expected a gray value from 0 to 255, or -1, found '%.60s'",
                     option->value);
            return -1;
        }
        *background_p = (int)gray;
    }
    return 0;
}

static void pixel_pong_destroy(void *memory)
{
    struct group *group = memory;
    hd_free(group->scenes);
    hd_free(group);
}

static int pixel_pong_create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                             void **group_p, char message[HD_ENV_MESSAGE])
{
    int background = -1;
    if (read_background(settings, &background, message) != 0)
        return -1;
    struct group *group =
        hd_alloc(1, sizeof *group + (size_t)settings->envs * sizeof(struct hd_pong_game));
    if (group)
        group->scenes = hd_alloc(settings->envs, sizeof *group->scenes);
    if (!group || !group->scenes) {
        snprintf(message, HD_ENV_MESSAGE, "out of memory");
        hd_free(group);
        return -1;
    }
    group->envs = settings->envs;
    hd_pong_painter_init(&group->painter, background);
    *spec_p = (struct hd_env_spec){
        .element = HD_ENV_U8,
        .dims = 2,
        .shape = {HD_WARP_SIZE, HD_WARP_SIZE},
        .actions = {.kind = HD_ENV_DISCRETE, .dims = 1, .n = {HD_PIXEL_PONG_ACTIONS}}};
    *group_p = group;
    return 0;
}

static int pixel_pong_reset(void *memory, int64_t env, uint64_t seed, void *obs,
                            char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    hd_pong_begin(&group->games[env], seed);
    group->scenes[env][0] = group->scenes[env][1] = hd_pong_get_scene(&group->games[env]);
    hd_pong_paint(&group->painter, group->scenes[env], obs);
    return 0;
}

static int pixel_pong_step(void *memory, const void *actions, const struct hd_env_outcome *outcome,
                           char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    const int32_t *action = actions;
    for (int64_t i = 0; i < group->envs; i++) {
        struct hd_pong_game *game = &group->games[i];
        outcome->reward[i] = (float)hd_pong_step(game, action[i], group->scenes[i]);
        outcome->done[i] = hd_pong_is_over(game, &outcome->truncated[i]);
        hd_pong_paint(&group->painter, group->scenes[i],
                      (uint8_t *)outcome->obs + i * HD_WARP_SIZE * HD_WARP_SIZE);
    }
    return 0;
}

const struct hd_pong_scene *hd_pixel_pong_get_scenes(const void *group, int64_t env)
{
    return ((const struct group *)group)->scenes[env];
}

/* -- Saving ------------------------------------------------------------------------------------ */

static int64_t state_bytes(const void *group)
{
    (void)group;
    return sizeof(struct hd_pong_game);
}

static int pixel_pong_save(const void *memory, int64_t env, void *state,
                           char message[HD_ENV_MESSAGE])
{
    (void)message;
    memcpy(state, &((const struct group *)memory)->games[env], sizeof(struct hd_pong_game));
    return 0;
}

static bool is_within(int32_t x, int32_t low, int32_t high)
{
    return x >= low && x <= high;
}

/* Returns whether everything that follows from a state stays on the screen. */
static bool is_possible(const struct hd_pong_game *game)
{
    for (int side = 0; side < 2; side++)
        if (!is_within(game->paddle[side], TOP, BOTTOM - PADDLE) ||
            !is_within(game->score[side], 0, HD_PIXEL_PONG_POINTS))
            return false;
    return is_within(game->ball_x, 0, HD_PONG_WIDTH * PIXEL - BALL) &&
           is_within(game->ball_y, TOP, BOTTOM - BALL) && game->speed_x != 0 &&
           is_within(game->speed_x, -MAX_SPEED, MAX_SPEED) &&
           is_within(game->speed_y, -MAX_SPEED, MAX_SPEED) &&
           is_within(game->wait, 0, SERVE_WAIT) &&
           is_within(game->returns, 0, HD_PIXEL_PONG_MAX_SCREENS) &&
           is_within(game->aim, -AIM_RANGE, AIM_RANGE) && game->screens >= 0 &&
           game->screens <= HD_PIXEL_PONG_MAX_SCREENS + HD_PIXEL_PONG_SKIP && game->draws >= 0 &&
           game->draws <= HD_COUNT_MAX;
}

/* A game that was never reset is all zeros. */
static bool is_saved(const struct hd_pong_game *game)
{
    static const struct hd_pong_game never;
    return memcmp(game, &never, sizeof never) == 0 || (game->started == 1 && is_possible(game));
}

static int pixel_pong_load(void *memory, int64_t env, const void *state,
                           char message[HD_ENV_MESSAGE])
{
    struct hd_pong_game game;
    memcpy(&game, state, sizeof game);
    if (!is_saved(&game)) {
        snprintf(message, HD_ENV_MESSAGE, "these bytes are not a saved game");
        return -1;
    }
    ((struct group *)memory)->games[env] = game;
    return 0;
}

/* -- On a GPU ---------------------------------------------------------------------------------- */

int64_t hd_pixel_pong_get_cuda_bytes(int64_t envs)
{
    return (int64_t)sizeof(struct hd_pong_group) + envs * (int64_t)sizeof(struct hd_pong_game);
}

void hd_pixel_pong_init_cuda(void *memory, int64_t envs, int background)
{
    struct hd_pong_group *group = memory;
    memset(group, 0, (size_t)hd_pixel_pong_get_cuda_bytes(envs));
    hd_pong_painter_init(&group->painter, background);
}

void *hd_pixel_pong_get_cuda_state(void *group, int64_t env)
{
    return ((struct hd_pong_group *)group)->games + env;
}

#if HD_CUDA
static void init_for_gpu(const struct hd_env_settings *settings, void *group)
{
    int background = -1;
    char unused[HD_ENV_MESSAGE];
    read_background(settings, &background, unused);
    hd_pixel_pong_init_cuda(group, settings->envs, background);
}

static const struct hd_env_gpu on_gpu = {
    .get_bytes = hd_pixel_pong_get_cuda_bytes,
    .init = init_for_gpu,
    .get_state = hd_pixel_pong_get_cuda_state,
    .begin = hd_pixel_pong_begin_cuda,
    .play = hd_pixel_pong_play_cuda,
    .begin_evaluation = hd_pixel_pong_begin_evaluation_cuda,
    .evaluate = hd_pixel_pong_evaluate_cuda,
};
#endif

const struct hd_env hd_env_pixel_pong = {
    .abi = HD_ENV_ABI,
    .name = "pixel_pong",
    .create = pixel_pong_create,
    .destroy = pixel_pong_destroy,
    .reset = pixel_pong_reset,
    .step = pixel_pong_step,
    .state_bytes = state_bytes,
    .save = pixel_pong_save,
    .load = pixel_pong_load,
#if HD_CUDA
    .gpu = &on_gpu,
#endif
};
