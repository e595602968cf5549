/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#include "kernels/envs/atari/atari.h"

#include <string.h>

void hd_atari_init(struct hd_atari *atari, const struct hd_atari_rules *rules, void *console,
                   uint8_t *last)
{
    *atari = (struct hd_atari){
        .rules = rules, .console = console, .last = last, .state = {.game_ended = true}};
}

bool hd_atari_is_state(const struct hd_atari_state *state)
{
    return state->frames >= 0 && state->frames <= HD_ATARI_FRAME_LIMIT &&
           (state->game_ended == 0 || state->game_ended == 1);
}

/* Hashes the seed by Splitmix64 (Steele et al. 2014), so that similar seeds give unrelated
 * counts. */
int hd_atari_draw_noops(uint64_t seed)
{
    uint64_t z = seed + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return 1 + (int)((z >> 32) * HD_ATARI_NOOPS >> 32);
}

/* -- The raw game, as gym.make returns it ------------------------------------------------------ */

static void start_game(struct hd_atari *atari)
{
    atari->rules->console->reset(atari->console);
    atari->state.frames = 0;
}

static bool ended(const struct hd_atari *atari)
{
    return atari->rules->console->game_over(atari->console) ||
           atari->state.frames >= HD_ATARI_FRAME_LIMIT;
}

/* Plays one raw frame and adds its reward. */
static bool play_frame(struct hd_atari *atari, int action, int *reward_p)
{
    *reward_p += atari->rules->console->act(atari->console, action);
    atari->state.frames++;
    return ended(atari);
}

static void no_op_reset(struct hd_atari *atari, uint64_t seed)
{
    int noops = atari->rules->noops >= 0 ? atari->rules->noops : hd_atari_draw_noops(seed),
        ignored = 0;
    start_game(atari);
    for (int i = 0; i < noops; i++)
        if (play_frame(atari, HD_ATARI_NOOP, &ignored))
            start_game(atari);
}

/* -- Wrappers ---------------------------------------------------------------------------------- */

/* The result of a window of frames: its reward, and whether `last` holds a frame of it. */
struct window {
    int reward;
    bool done, two;
};

static struct window skip_frames(struct hd_atari *atari, int action)
{
    const struct hd_warp *warp = &atari->rules->warp;
    struct window window = {0};
    for (int i = 0; i < HD_ATARI_SKIP && !window.done; i++) {
        if (i > 0) {
            const uint8_t *screen = atari->rules->console->screen(atari->console);
            memcpy(atari->last, screen, (size_t)(warp->height * warp->width));
        }
        window.two = i > 0;
        window.done = play_frame(atari, action, &window.reward);
    }
    return window;
}

/* Each life is an episode if the rules say so; otherwise an episode is a game. */
static struct window play_action(struct hd_atari *atari, int action)
{
    struct window window = skip_frames(atari, action);
    atari->state.game_ended = window.done;
    int lives = atari->rules->console->lives(atari->console);
    if (atari->rules->episodic_life && lives > 0 && lives < atari->state.lives)
        window.done = true;
    atari->state.lives = lives;
    return window;
}

/* Shows the maximum per colour of the console's frame and, if `two`, the one before it. */
static void show(const struct hd_atari *atari, bool two, uint8_t *frame)
{
    const struct hd_atari_rules *rules = atari->rules;
    const uint8_t *screen = rules->console->screen(atari->console);
    hd_warp_resize_max(&rules->warp, &rules->palette, two ? atari->last : screen, screen, frame);
    if (rules->background < 0)
        return;
    for (int i = 0; i < HD_ATARI_FRAME; i++)
        frame[i] = frame[i] == rules->background ? 0 : frame[i];
}

/* As in DI-engine's EpisodicLife, only the next action, not the reset, forgets that the game has
 * ended. */
void hd_atari_reset(struct hd_atari *atari, uint64_t seed, uint8_t *frame)
{
    const struct hd_atari_rules *rules = atari->rules;
    struct window window = {0};
    if (!rules->episodic_life || atari->state.game_ended)
        no_op_reset(atari, seed);
    else
        window = skip_frames(atari, HD_ATARI_NOOP);
    atari->state.lives = rules->console->lives(atari->console);
    if (rules->fire >= 0)
        window = play_action(atari, rules->fire);
    show(atari, window.two, frame);
}

static int sign(int reward)
{
    return (reward > 0) - (reward < 0);
}

struct hd_atari_end hd_atari_step(struct hd_atari *atari, int action, uint8_t *frame)
{
    const struct hd_atari_rules *rules = atari->rules;
    struct window window = play_action(atari, action);
    show(atari, window.two, frame);
    return (struct hd_atari_end){
        .reward = (float)(rules->clip_reward ? sign(window.reward) : window.reward),
        .done = window.done,
        .truncated = atari->state.game_ended && !rules->console->game_over(atari->console)};
}
