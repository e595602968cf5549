/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/pixel_pong.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACTIONS = 6, RIGHT = 2, LEFT = 3, RIGHTFIRE = 4, LEFTFIRE = 5 };
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
    SPEED_UP = PIXEL / 4, /* of every return */
    MOST_SPEED = 7 * PIXEL / 2,
    SERVE_WAIT = 24,          /* screens that the ball rests before a serve */
    SERVE_RANGE = 32 * PIXEL, /* from the middle */
    AIM_RANGE = 8 * PIXEL,
    MOST_IDLE = 30
};

/* Vertical speed after a return over the horizontal one, in 1/20, by where the ball met the paddle.
 */
static const int32_t slopes[] = {-15, -11, -7, -3, 3, 7, 11, 15};
enum { ZONES = sizeof slopes / sizeof slopes[0] };

/* One game. No padding: it is saved as it is. */
struct game {
    uint64_t seed;
    int64_t screens;
    int64_t draws;          /* random numbers used */
    int32_t ball_x, ball_y; /* left edge, top */
    int32_t speed_x, speed_y;
    int32_t wait;    /* screens before the ball moves */
    int32_t returns; /* of this exchange */
    int32_t aim;     /* where the opponent means to meet the ball, from its paddle's middle */
    int32_t paddle[2], score[2];
    int32_t started; /* 0: never reset */
};

struct group {
    int64_t envs;
    struct hd_pong_painter painter;
    struct hd_pong_scene (*scenes)[2]; /* [envs]: the screens shown last */
    struct game games[];
};

/* -- The game ------------------------------------------------------------------------------------
 */

static int32_t draw_between(struct game *game, int32_t low, int32_t high)
{
    struct hd_rng rng =
        hd_rng_make(game->seed, hd_hash_text("pixel_pong"), 0, game->draws >> 32, 0);
    return low + (int32_t)hd_rng_below(&rng, (uint32_t)game->draws++, high - low + 1);
}

static int32_t clamp(int32_t x, int32_t low, int32_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* Puts the ball in the middle, soon to move towards `side`. */
static void serve(struct game *game, enum side side)
{
    game->ball_x = MIDDLE_X - BALL / 2;
    game->ball_y = MIDDLE_Y - BALL / 2 + draw_between(game, -SERVE_RANGE, SERVE_RANGE);
    game->speed_x = side == PLAYER ? SERVE_SPEED : -SERVE_SPEED;
    game->speed_y = draw_between(game, -SERVE_SPEED / 2, SERVE_SPEED / 2);
    game->wait = SERVE_WAIT;
    game->returns = 0;
    game->aim = draw_between(game, -AIM_RANGE, AIM_RANGE);
}

static void start(struct game *game, uint64_t seed)
{
    *game = (struct game){.seed = seed, .started = 1};
    game->paddle[OPPONENT] = game->paddle[PLAYER] = MIDDLE_Y - PADDLE / 2;
    serve(game, draw_between(game, 0, 1) ? PLAYER : OPPONENT);
}

static void move_paddles(struct game *game, int32_t action)
{
    int32_t *player = &game->paddle[PLAYER], *opponent = &game->paddle[OPPONENT];
    if (action == RIGHT || action == RIGHTFIRE)
        *player = clamp(*player - PLAYER_SPEED, TOP, BOTTOM - PADDLE);
    else if (action == LEFT || action == LEFTFIRE)
        *player = clamp(*player + PLAYER_SPEED, TOP, BOTTOM - PADDLE);
    if (game->wait > 0 || game->speed_x > 0)
        return;
    const int32_t wanted = game->ball_y + BALL / 2 + game->aim - PADDLE / 2;
    *opponent += clamp(wanted - *opponent, -OPPONENT_SPEED, OPPONENT_SPEED);
    *opponent = clamp(*opponent, TOP, BOTTOM - PADDLE);
}

static bool is_met(const struct game *game, enum side side)
{
    return game->ball_y < game->paddle[side] + PADDLE && game->ball_y + BALL > game->paddle[side];
}

/* The ball leaves a paddle faster than it came, steeper the farther from the paddle's middle. */
static void send_back(struct game *game, enum side side)
{
    const int32_t reach = PADDLE + BALL;
    const int32_t met = game->ball_y + BALL - game->paddle[side]; /* in (0, reach) */
    const int32_t speed = clamp(SERVE_SPEED + ++game->returns * SPEED_UP, 0, MOST_SPEED);
    game->speed_x = side == PLAYER ? -speed : speed;
    game->speed_y = speed * slopes[clamp(met * ZONES / reach, 0, ZONES - 1)] / 20;
    if (side == PLAYER)
        game->aim = draw_between(game, -AIM_RANGE, AIM_RANGE);
}

static void bounce_off_walls(struct game *game)
{
    if (game->ball_y < TOP) {
        game->ball_y = 2 * TOP - game->ball_y;
        game->speed_y = -game->speed_y;
    } else if (game->ball_y > BOTTOM - BALL) {
        game->ball_y = 2 * (BOTTOM - BALL) - game->ball_y;
        game->speed_y = -game->speed_y;
    }
}

/* Returns the player's reward. */
static int move_ball(struct game *game)
{
    if (game->wait > 0) {
        game->wait--;
        return 0;
    }
    const int32_t before = game->ball_x;
    game->ball_x += game->speed_x;
    game->ball_y += game->speed_y;
    bounce_off_walls(game);
    if (before + BALL <= PLAYER_FACE && game->ball_x + BALL > PLAYER_FACE && is_met(game, PLAYER)) {
        game->ball_x = 2 * (PLAYER_FACE - BALL) - game->ball_x;
        send_back(game, PLAYER);
    } else if (before >= OPPONENT_FACE && game->ball_x < OPPONENT_FACE && is_met(game, OPPONENT)) {
        game->ball_x = 2 * OPPONENT_FACE - game->ball_x;
        send_back(game, OPPONENT);
    }
    if (game->ball_x >= 0 && game->ball_x + BALL <= HD_PONG_WIDTH * PIXEL)
        return 0;
    const enum side scorer = game->ball_x < 0 ? PLAYER : OPPONENT;
    game->score[scorer]++;
    serve(game, scorer == PLAYER ? OPPONENT : PLAYER);
    return scorer == PLAYER ? 1 : -1;
}

static int play_screen(struct game *game, int32_t action)
{
    move_paddles(game, action);
    game->screens++;
    return move_ball(game);
}

static bool is_won(const struct game *game)
{
    return game->score[PLAYER] >= HD_PIXEL_PONG_POINTS ||
           game->score[OPPONENT] >= HD_PIXEL_PONG_POINTS;
}

static struct hd_pong_scene scene_of(const struct game *game)
{
    return (struct hd_pong_scene){
        .ball_x = game->ball_x / PIXEL,
        .ball_y = game->ball_y / PIXEL,
        .paddle = {game->paddle[0] / PIXEL, game->paddle[1] / PIXEL},
    };
}

/* -- The interface -------------------------------------------------------------------------------
 */

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

static void destroy(void *memory)
{
    struct group *group = memory;
    hd_free(group->scenes);
    hd_free(group);
}

static int create(const struct hd_env_settings *settings, struct hd_env_spec *spec_p,
                  void **group_p, char message[HD_ENV_MESSAGE])
{
    int background = -1;
    if (read_background(settings, &background, message) != 0)
        return -1;
    struct group *group = hd_alloc(1, sizeof *group + (size_t)settings->envs * sizeof(struct game));
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
        .element = HD_ENV_U8, .dims = 2, .shape = {HD_WARP_SIZE, HD_WARP_SIZE}, .actions = ACTIONS};
    *group_p = group;
    return 0;
}

static int reset(void *memory, int64_t env, uint64_t seed, void *obs, char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    struct game *game = &group->games[env];
    start(game, seed);
    for (int idle = draw_between(game, 1, MOST_IDLE); idle > 0; idle--)
        play_screen(game, 0);
    group->scenes[env][0] = group->scenes[env][1] = scene_of(game);
    hd_pong_paint(&group->painter, group->scenes[env], obs);
    return 0;
}

/* One step of one env; returns the sum of its rewards. */
static int play_step(struct game *game, int32_t action, struct hd_pong_scene scenes[2])
{
    int reward = 0;
    for (int i = 0; i < HD_PIXEL_PONG_SKIP && !is_won(game); i++) {
        reward += play_screen(game, action);
        scenes[0] = scenes[1];
        scenes[1] = scene_of(game);
        if (i == 0)
            scenes[0] = scenes[1];
    }
    return reward;
}

static int step(void *memory, const int32_t *action, const struct hd_env_outcome *outcome,
                char message[HD_ENV_MESSAGE])
{
    (void)message;
    struct group *group = memory;
    for (int64_t i = 0; i < group->envs; i++) {
        struct game *game = &group->games[i];
        outcome->reward[i] = (float)play_step(game, action[i], group->scenes[i]);
        bool won = is_won(game), late = game->screens >= HD_PIXEL_PONG_MAX_SCREENS;
        outcome->done[i] = won || late;
        outcome->truncated[i] = late && !won;
        hd_pong_paint(&group->painter, group->scenes[i],
                      (uint8_t *)outcome->obs + i * HD_WARP_SIZE * HD_WARP_SIZE);
    }
    return 0;
}

const struct hd_pong_scene *hd_pixel_pong_scenes(const void *group, int64_t env)
{
    return ((const struct group *)group)->scenes[env];
}

/* -- Saving --------------------------------------------------------------------------------------
 */

static int64_t state_bytes(const void *group)
{
    (void)group;
    return sizeof(struct game);
}

static int save(const void *memory, int64_t env, void *state, char message[HD_ENV_MESSAGE])
{
    (void)message;
    memcpy(state, &((const struct group *)memory)->games[env], sizeof(struct game));
    return 0;
}

static bool is_within(int32_t x, int32_t low, int32_t high)
{
    return x >= low && x <= high;
}

/* Whether nothing that follows from a state can leave the screen. */
static bool is_possible(const struct game *game)
{
    for (int side = 0; side < 2; side++)
        if (!is_within(game->paddle[side], TOP, BOTTOM - PADDLE) ||
            !is_within(game->score[side], 0, HD_PIXEL_PONG_POINTS))
            return false;
    return is_within(game->ball_x, 0, HD_PONG_WIDTH * PIXEL - BALL) &&
           is_within(game->ball_y, TOP, BOTTOM - BALL) && game->speed_x != 0 &&
           is_within(game->speed_x, -MOST_SPEED, MOST_SPEED) &&
           is_within(game->speed_y, -MOST_SPEED, MOST_SPEED) &&
           is_within(game->wait, 0, SERVE_WAIT) &&
           is_within(game->returns, 0, HD_PIXEL_PONG_MAX_SCREENS) &&
           is_within(game->aim, -AIM_RANGE, AIM_RANGE) && game->screens >= 0 &&
           game->screens <= HD_PIXEL_PONG_MAX_SCREENS + HD_PIXEL_PONG_SKIP && game->draws >= 0;
}

static int load(void *memory, int64_t env, const void *state, char message[HD_ENV_MESSAGE])
{
    struct game game;
    memcpy(&game, state, sizeof game);
    if (game.started && !is_possible(&game)) {
        snprintf(message, HD_ENV_MESSAGE, "these bytes are no saved game");
        return -1;
    }
    ((struct group *)memory)->games[env] = game;
    return 0;
}

const struct hd_env hd_env_pixel_pong = {
    .abi = HD_ENV_ABI,
    .name = "pixel_pong",
    .create = create,
    .destroy = destroy,
    .reset = reset,
    .step = step,
    .state_bytes = state_bytes,
    .save = save,
    .load = load,
};
