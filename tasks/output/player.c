/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/output/player.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tasks/collect/stepper.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/moments.h"

#include <stdio.h>
#include <string.h>

struct hd_player {
    const struct hd_envs_shape *shape;
    const struct hd_net *net;
    struct hd_weights weights;
    struct hd_envs envs; /* a group of one env, or of the agents of one */
    struct hd_stepper stepper;
    void *scratch;
    struct hd_context context;
    char message[HD_MESSAGE_BYTES];
    int64_t max_steps;
    struct hd_player_episode episode;
};

static int prepare(struct hd_player *player)
{
    int64_t bytes;
    HD_TRY(hd_stepper_prepare(player->shape, player->net, &bytes));
    player->scratch = hd_alloc(bytes, 1);
    if (!player->scratch)
        return HD_ERR_NOMEM;
    player->stepper = hd_stepper_get(player->shape, player->net, player->scratch);
    player->context = (struct hd_context){.shards = 1, .items = 1, .message = player->message};
    return HD_OK;
}

int hd_player_create(const struct hd_weights *weights, const struct hd_spec *spec, void *envs,
                     int64_t max_steps, struct hd_player **player_p)
{
    struct hd_player *player = hd_alloc(1, sizeof *player);
    if (!player)
        return HD_ERR_NOMEM;
    player->shape = hd_envs_get_shape(spec);
    player->net = hd_params_get_net(weights->params);
    player->weights = *weights;
    player->envs = hd_envs_get(spec, envs, 0);
    player->max_steps = max_steps;
    const int status = prepare(player);
    if (status == HD_OK)
        *player_p = player;
    else
        hd_player_destroy(player);
    return status;
}

void hd_player_destroy(struct hd_player *player)
{
    if (player)
        hd_free(player->scratch);
    hd_free(player);
}

static int tell(const struct hd_player *player, int status)
{
    return status == HD_OK ? HD_OK : hd_fail(status, "%s", player->message);
}

int hd_player_start(struct hd_player *player, uint64_t seed)
{
    player->episode = (struct hd_player_episode){.seed = seed};
    return tell(player, hd_stepper_start_episode(&player->stepper, player->shape, &player->envs,
                                                 seed, &player->context));
}

static void choose_action(const struct hd_player *player)
{
    const struct hd_weights *weights = &player->weights;
    const struct hd_view norm_view = {.spec = weights->obs_norm, .data = weights->obs_norm_data};
    struct hd_obs_norm norm;
    struct hd_stepper stepper = player->stepper;
    stepper.running = hd_batch_norm_stats_get_running(weights->batch_norm_stats_data);
    hd_stepper_choose_greedy(&stepper, player->shape, &player->envs, player->net, weights->data,
                             hd_moments_get_obs_norm(&norm_view, &norm));
}

int hd_player_step(struct hd_player *player)
{
    const struct hd_env_outcome *outcome = &player->stepper.outcome;
    struct hd_player_episode *episode = &player->episode;
    choose_action(player);
    HD_TRY(tell(player,
                hd_stepper_step(&player->stepper, player->shape, &player->envs, &player->context)));
    episode->episode_return += hd_stepper_compute_mean_reward(&player->stepper, player->shape);
    episode->steps++;
    episode->cut = !*outcome->done && episode->steps == player->max_steps;
    episode->ended = *outcome->done || episode->cut;
    return HD_OK;
}

struct hd_player_episode hd_player_get_episode(const struct hd_player *player)
{
    return player->episode;
}

void hd_player_format_action(const struct hd_player *player, char text[HD_PLAYER_ACTION_TEXT])
{
    const struct hd_env_actions *actions = &player->shape->frame.actions;
    const union hd_action_number *action = player->stepper.action;
    const bool list = actions->dims > 1 || actions->kind == HD_ENV_BOX;
    size_t used = (size_t)snprintf(text, HD_PLAYER_ACTION_TEXT, "%s",
                                   player->episode.steps == 0 ? "-"
                                   : list                     ? "["
                                                              : "");
    if (player->episode.steps == 0)
        return;
    for (int i = 0; i < actions->dims && used < HD_PLAYER_ACTION_TEXT; i++) {
        const char *gap = i > 0 ? ", " : "";
        used += (size_t)(actions->kind == HD_ENV_BOX
                             ? snprintf(text + used, HD_PLAYER_ACTION_TEXT - used, "%s%.3g", gap,
                                        (double)action[i].real)
                             : snprintf(text + used, HD_PLAYER_ACTION_TEXT - used, "%s%d", gap,
                                        action[i].choice));
    }
    if (list && used < HD_PLAYER_ACTION_TEXT)
        snprintf(text + used, HD_PLAYER_ACTION_TEXT - used, "]");
}

/* -- Pictures ---------------------------------------------------------------------------------- */

/* Returns the first part of observations that is a picture, of one or three colours; NULL: none. */
static const struct hd_obs_part *find_picture(const struct hd_obs_shape *obs)
{
    for (int i = 0; i < obs->n_parts; i++) {
        const struct hd_obs_part *part = &obs->part[i];
        const int64_t channels = part->shape[0] / obs->stack;
        if (part->u8 && part->dims == 3 && (channels == 1 || channels == 3))
            return part;
    }
    return NULL;
}

int hd_player_get_picture_size(const struct hd_player *player, int64_t *height_p, int64_t *width_p)
{
    const struct hd_env_spec *frame = &player->shape->frame;
    const struct hd_obs_part *picture = find_picture(&player->shape->obs);
    if (player->shape->env->render && frame->render_height > 0) {
        *height_p = frame->render_height;
        *width_p = frame->render_width;
        return HD_OK;
    }
    if (!picture)
        return hd_fail(HD_ERR_INPUT,
                       "environment %s cannot be seen: it has no `render` (gymnasium draws with "
                       "the option render: true), and its frames are no "
                       "pictures of bytes",
                       player->shape->env->name);
    *height_p = picture->shape[1];
    *width_p = picture->shape[2];
    return HD_OK;
}

static void draw_frame(const struct hd_player *player, uint8_t *rgb)
{
    const struct hd_obs_shape *obs = &player->shape->obs;
    const struct hd_obs_part *picture = find_picture(obs);
    const int64_t channels = picture->shape[0] / obs->stack,
                  pixels = picture->shape[1] * picture->shape[2];
    const uint8_t *frame =
        (const uint8_t *)player->envs.obs + (obs->stack - 1) * obs->frame_bytes + picture->offset;
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t c = 0; c < 3; c++)
            rgb[3 * i + c] = frame[(c % channels) * pixels + i];
}

int hd_player_draw(const struct hd_player *player, uint8_t *rgb)
{
    const struct hd_env *env = player->shape->env;
    char message[HD_ENV_MESSAGE] = "";
    if (!env->render || player->shape->frame.render_height == 0) {
        draw_frame(player, rgb);
        return HD_OK;
    }
    if (env->render(*player->envs.group, 0, rgb, message) == 0)
        return HD_OK;
    return hd_fail(HD_ERR_TASK, "%s: it cannot be drawn at step %lld from seed %llu: %.256s",
                   player->shape->about, (long long)player->episode.steps,
                   (unsigned long long)player->episode.seed, message);
}
