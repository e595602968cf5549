/* SPDX-License-Identifier: Apache-2.0 */
/* Plays an env under a policy for somebody who looks on: the greedy actions of `evaluate`, one step
 * at a time, with a picture of every state. One thread at a time. */
#pragma once

#include "tasks/output/inspect.h"

#include <stdbool.h>

struct hd_player;

enum { HD_PLAYER_ACTION_TEXT = 128 };

/* The present episode; its return is the mean over the agents of a parallel env. */
struct hd_player_episode {
    uint64_t seed; /* of its reset */
    double episode_return;
    int64_t steps;
    bool ended; /* hd_player_step may not be called before the next start */
    bool cut;   /* it ended because it had env.max_evaluator_step steps */
};

/* Makes a player of the first env of an instance of type `envs` and role evaluator, `envs` of
 * `spec`, under a policy. All is borrowed; the policy may change between steps. A step after which
 * an episode has max_steps steps ends it (0: no limit). hd_player_destroy (accepts NULL) releases
 * it. Errors (logged): HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_player_create(const struct hd_weights *weights, const struct hd_spec *spec, void *envs,
                     int64_t max_steps, struct hd_player **player_p);
void hd_player_destroy(struct hd_player *player);

/* Starts an episode from `seed`, or plays one step of it. Return HD_OK or HD_ERR_TASK (logged),
 * which names env, seed and step. */
int hd_player_start(struct hd_player *player, uint64_t seed);
int hd_player_step(struct hd_player *player);

/* Returns the present episode. */
struct hd_player_episode hd_player_get_episode(const struct hd_player *player);

/* Writes the last action, of several agents that of the first, as people read it: "2", "[0, 1]" or
 * "[0.25, -1]"; "-" before the first of an episode. */
void hd_player_format_action(const struct hd_player *player, char text[HD_PLAYER_ACTION_TEXT]);

/* Gives the size of the pictures that hd_player_draw makes: those of the env's `render`, else its
 * frames of bytes [H][W], [1][H][W] or [3][H][W]. Returns HD_OK, or HD_ERR_INPUT (logged) for an
 * env that shows neither. */
int hd_player_get_picture_size(const struct hd_player *player, int64_t *height_p, int64_t *width_p);

/* Draws what the env shows now as rgb[height][width][3]; of stacked frames the newest. Returns
 * HD_OK or HD_ERR_TASK (logged). */
int hd_player_draw(const struct hd_player *player, uint8_t *rgb);
