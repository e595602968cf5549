/* SPDX-License-Identifier: Apache-2.0 */
/* The game of pixel_pong, for CPUs and GPUs, all in integers. Thread safe on different games. */
#pragma once

#include "kernels/envs/pixel_pong/pixel_pong_game.h"
#include "runtime/base/inline.h"
#include "runtime/base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { RIGHT = 2, LEFT = 3, RIGHTFIRE = 4, LEFTFIRE = 5 };
enum side { OPPONENT, PLAYER };

/* Lengths in 1/256 pixel, speeds per screen. */
enum {
    PIXEL = 256,
    TOP = HD_PONG_TOP * PIXEL,
    BOTTOM = HD_PONG_BOTTOM * PIXEL,
    PADDLE = HD_PONG_PADDLE_HEIGHT * PIXEL,
    BALL = HD_PONG_BALL * PIXEL,
    OPPONENT_FACE = (HD_PONG_OPPONENT_X + HD_PONG_PADDLE_WIDTH) * PIXEL,
    PLAYER_FACE = HD_PONG_PLAYER_X * PIXEL,
    MIDDLE_X = HD_PONG_WIDTH * PIXEL / 2,
    MIDDLE_Y = (TOP + BOTTOM) / 2,
    PLAYER_SPEED = 5 * PIXEL / 2,
    OPPONENT_SPEED = 9 * PIXEL / 8,
    SERVE_SPEED = 2 * PIXEL,
    SPEED_UP = PIXEL / 4, /* added at every return */
    MAX_SPEED = 7 * PIXEL / 2,
    SERVE_WAIT = 24,          /* screens that the ball rests before a serve */
    SERVE_RANGE = 32 * PIXEL, /* distance from the middle, at most */
    AIM_RANGE = 8 * PIXEL,
    MAX_IDLE = 30
};

/* hd_hash_text("pixel_pong"), as a constant because GPUs do not compute hashes: the stream of all
 * draws. */
#define HD_PONG_STREAM UINT64_C(0xE1685447A4F60EEE)

/* One game. It has no padding, because it is saved as it is. */
struct hd_pong_game {
    uint64_t seed;
    int64_t screens;
    int64_t draws;          /* random numbers used */
    int32_t ball_x, ball_y; /* left edge, top */
    int32_t speed_x, speed_y;
    int32_t wait;    /* screens before the ball moves */
    int32_t returns; /* in this exchange */
    int32_t aim; /* height at which the opponent aims to meet the ball, from its paddle's middle */
    int32_t paddle[2], score[2];
    int32_t started; /* 0: never reset */
};

/* Draws the next random number of the game, in [low, high]. */
HD_INLINE int32_t hd_pong_draw_between(struct hd_pong_game *game, int32_t low, int32_t high)
{
    const struct hd_rng rng = hd_rng_make(game->seed, HD_PONG_STREAM, 0, game->draws >> 32, 0);
    return low + (int32_t)hd_rng_draw_below(&rng, (uint32_t)game->draws++, high - low + 1);
}

/* Returns the nearest number in [low, high]. */
HD_INLINE int32_t hd_pong_clamp(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Puts the ball in the middle; it moves towards `side` after a wait. */
HD_INLINE void hd_pong_serve(struct hd_pong_game *game, enum side side)
{
    game->ball_x = MIDDLE_X - BALL / 2;
    game->ball_y = MIDDLE_Y - BALL / 2 + hd_pong_draw_between(game, -SERVE_RANGE, SERVE_RANGE);
    game->speed_x = side == PLAYER ? SERVE_SPEED : -SERVE_SPEED;
    game->speed_y = hd_pong_draw_between(game, -SERVE_SPEED / 2, SERVE_SPEED / 2);
    game->wait = SERVE_WAIT;
    game->returns = 0;
    game->aim = hd_pong_draw_between(game, -AIM_RANGE, AIM_RANGE);
}

/* Starts a new game: points, paddles, the first serve. */
HD_INLINE void hd_pong_start(struct hd_pong_game *game, uint64_t seed)
{
    memset(game, 0, sizeof *game);
    game->seed = seed;
    game->started = 1;
    game->paddle[OPPONENT] = game->paddle[PLAYER] = MIDDLE_Y - PADDLE / 2;
    hd_pong_serve(game, hd_pong_draw_between(game, 0, 1) ? PLAYER : OPPONENT);
}

/* Moves the player's paddle by the action, and the opponent's towards an approaching ball. */
HD_INLINE void hd_pong_move_paddles(struct hd_pong_game *game, int32_t action)
{
    int32_t *player = &game->paddle[PLAYER], *opponent = &game->paddle[OPPONENT];
    if (action == RIGHT || action == RIGHTFIRE)
        *player = hd_pong_clamp(*player - PLAYER_SPEED, TOP, BOTTOM - PADDLE);
    else if (action == LEFT || action == LEFTFIRE)
        *player = hd_pong_clamp(*player + PLAYER_SPEED, TOP, BOTTOM - PADDLE);
    if (game->wait > 0 || game->speed_x > 0)
        return;
    const int32_t wanted = game->ball_y + BALL / 2 + game->aim - PADDLE / 2;
    *opponent += hd_pong_clamp(wanted - *opponent, -OPPONENT_SPEED, OPPONENT_SPEED);
    *opponent = hd_pong_clamp(*opponent, TOP, BOTTOM - PADDLE);
}

/* Returns whether the ball is at the height of a side's paddle. */
HD_INLINE bool hd_pong_is_met(const struct hd_pong_game *game, enum side side)
{
    return game->ball_y < game->paddle[side] + PADDLE && game->ball_y + BALL > game->paddle[side];
}

/* Returns the ball faster than it came, and the steeper the farther from the paddle's middle. */
HD_INLINE void hd_pong_send_back(struct hd_pong_game *game, enum side side)
{
    /* Vertical speed divided by horizontal speed, in 1/20, by the point of the paddle. */
    static const int32_t slopes[] = {-15, -11, -7, -3, 3, 7, 11, 15};
    enum { ZONES = sizeof slopes / sizeof slopes[0] };
    const int32_t reach = PADDLE + BALL;
    const int32_t met = game->ball_y + BALL - game->paddle[side]; /* in (0, reach) */
    const int32_t speed = hd_pong_clamp(SERVE_SPEED + ++game->returns * SPEED_UP, 0, MAX_SPEED);
    game->speed_x = side == PLAYER ? -speed : speed;
    game->speed_y = speed * slopes[hd_pong_clamp(met * ZONES / reach, 0, ZONES - 1)] / 20;
    if (side == PLAYER)
        game->aim = hd_pong_draw_between(game, -AIM_RANGE, AIM_RANGE);
}

/* Reflects the ball by as much as it was beyond a wall. */
HD_INLINE void hd_pong_bounce_off_walls(struct hd_pong_game *game)
{
    if (game->ball_y < TOP) {
        game->ball_y = 2 * TOP - game->ball_y;
        game->speed_y = -game->speed_y;
    } else if (game->ball_y > BOTTOM - BALL) {
        game->ball_y = 2 * (BOTTOM - BALL) - game->ball_y;
        game->speed_y = -game->speed_y;
    }
}

/* Moves the ball for one screen and returns the player's reward. */
HD_INLINE int hd_pong_move_ball(struct hd_pong_game *game)
{
    if (game->wait > 0) {
        game->wait--;
        return 0;
    }
    const int32_t before = game->ball_x;
    game->ball_x += game->speed_x;
    game->ball_y += game->speed_y;
    hd_pong_bounce_off_walls(game);
    if (before + BALL <= PLAYER_FACE && game->ball_x + BALL > PLAYER_FACE &&
        hd_pong_is_met(game, PLAYER)) {
        game->ball_x = 2 * (PLAYER_FACE - BALL) - game->ball_x;
        hd_pong_send_back(game, PLAYER);
    } else if (before >= OPPONENT_FACE && game->ball_x < OPPONENT_FACE &&
               hd_pong_is_met(game, OPPONENT)) {
        game->ball_x = 2 * OPPONENT_FACE - game->ball_x;
        hd_pong_send_back(game, OPPONENT);
    }
    if (game->ball_x >= 0 && game->ball_x + BALL <= HD_PONG_WIDTH * PIXEL)
        return 0;
    const enum side scorer = game->ball_x < 0 ? PLAYER : OPPONENT;
    game->score[scorer]++;
    hd_pong_serve(game, scorer == PLAYER ? OPPONENT : PLAYER);
    return scorer == PLAYER ? 1 : -1;
}

/* Plays one screen and returns the player's reward. */
HD_INLINE int hd_pong_play_screen(struct hd_pong_game *game, int32_t action)
{
    hd_pong_move_paddles(game, action);
    game->screens++;
    return hd_pong_move_ball(game);
}

/* Returns whether a side has all its points. */
HD_INLINE bool hd_pong_is_won(const struct hd_pong_game *game)
{
    return game->score[PLAYER] >= HD_PIXEL_PONG_POINTS ||
           game->score[OPPONENT] >= HD_PIXEL_PONG_POINTS;
}

/* Returns what the game shows now. */
HD_INLINE struct hd_pong_scene hd_pong_get_scene(const struct hd_pong_game *game)
{
    const struct hd_pong_scene scene = {
        .ball_x = game->ball_x / PIXEL,
        .ball_y = game->ball_y / PIXEL,
        .paddle = {game->paddle[0] / PIXEL, game->paddle[1] / PIXEL},
    };
    return scene;
}

/* Begins a game with some idle screens. */
HD_INLINE void hd_pong_begin(struct hd_pong_game *game, uint64_t seed)
{
    hd_pong_start(game, seed);
    for (int idle = hd_pong_draw_between(game, 1, MAX_IDLE); idle > 0; idle--)
        hd_pong_play_screen(game, 0);
}

/* Plays one step, stores the last two screens in `scenes` and returns the sum of the rewards. */
HD_INLINE int hd_pong_step(struct hd_pong_game *game, int32_t action,
                           struct hd_pong_scene scenes[2])
{
    int reward = 0;
    for (int i = 0; i < HD_PIXEL_PONG_SKIP && !hd_pong_is_won(game); i++) {
        reward += hd_pong_play_screen(game, action);
        scenes[0] = scenes[1];
        scenes[1] = hd_pong_get_scene(game);
        if (i == 0)
            scenes[0] = scenes[1];
    }
    return reward;
}

/* Returns whether the game has ended, and in *truncated_p whether only because it is too long. */
HD_INLINE bool hd_pong_is_over(const struct hd_pong_game *game, bool *truncated_p)
{
    const bool won = hd_pong_is_won(game), late = game->screens >= HD_PIXEL_PONG_MAX_SCREENS;
    *truncated_p = late && !won;
    return won || late;
}

/* A group on a GPU. */
struct hd_pong_group {
    struct hd_pong_painter painter;
    struct hd_pong_game games[]; /* [envs] */
};

/* Begins a new game and stores what it shows first. */
HD_INLINE void hd_pong_open(struct hd_pong_game *game, uint64_t seed,
                            struct hd_pong_scene scenes[2])
{
    hd_pong_begin(game, seed);
    scenes[0] = scenes[1] = hd_pong_get_scene(game);
}
