/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DI-engine's chain of Atari wrappers (docs/di-engine.md 7.1) over a console that plays single raw
 * frames: up to 30 no-ops at a reset, every action for 4 frames, the maximum of the last two of
 * them, an episode for each life, FIRE at a reset, gray and resize, clipped rewards. Frames are
 * stacked elsewhere. The licence lets this file be part of a plug-in around a GPL emulator. One
 * thread at a time may use an env; no allocation. */
#pragma once

#include "kernels/envs/atari/warp.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HD_ATARI_NOOP = -1,
    HD_ATARI_SKIP = 4,
    HD_ATARI_NOOPS = 30, /* at most; the number is drawn from 1 … */
    HD_ATARI_FRAME_LIMIT =
        400000, /* raw frames of an episode (gym's registration, docs/di-engine.md 7.4) */
    HD_ATARI_FRAME = HD_WARP_SIZE * HD_WARP_SIZE /* bytes */
};

/* The functions of an emulator. Actions are indices of the game's minimal action set, or
 * HD_ATARI_NOOP (which a few games, such as Backgammon, do not have in that set; DI-engine refuses
 * those). After the game's end an act does nothing. */
struct hd_atari_console {
    void (*reset)(void *console);           /* goes to the game's start, which is always the same */
    int (*act)(void *console, int action);  /* plays one raw frame and returns its reward */
    bool (*game_over)(const void *console); /* returns whether the game has ended */
    int (*lives)(const void *console);      /* returns the lives left; 0 in games without lives */
    /* Returns the palette indices [height][width] of the last frame, valid until the next act or
     * reset. */
    const uint8_t *(*screen)(const void *console);
};

/* The settings that all envs of a group share. */
struct hd_atari_rules {
    const struct hd_atari_console *console;
    struct hd_warp warp;
    struct hd_warp_palette palette;
    int fire;       /* index of FIRE in the action set, pressed at resets; -1: the game has none */
    int noops;      /* no-ops at every reset; -1: drawn from the reset's seed */
    int background; /* gray value that is shown as 0; -1: none */
    bool episodic_life; /* true: the loss of a life ends the episode, as in training */
    bool clip_reward;   /* true: rewards are -1, 0 or 1, as in training */
};

/* Everything that an env's future depends on, except the console. */
struct hd_atari_state {
    int64_t frames; /* raw frames since the game's start */
    int32_t lives;
    int32_t game_ended; /* true: the next reset starts a new game */
};

/* Returns whether a state that was read from a file is one that an env can be in. */
bool hd_atari_is_state(const struct hd_atari_state *state);

struct hd_atari {
    const struct hd_atari_rules *rules;
    void *console;
    uint8_t *last; /* [height][width], scratch: the frame before the console's */
    struct hd_atari_state state;
};

/* The result of a step. */
struct hd_atari_end {
    float reward;
    bool done;
    bool truncated; /* true: done by the frame limit alone */
};

/* Initialises an env before its first reset. It borrows all pointers. */
void hd_atari_init(struct hd_atari *atari, const struct hd_atari_rules *rules, void *console,
                   uint8_t *last);

/* Returns the number of no-ops at the start of a game whose reset has this seed: 1 …
 * HD_ATARI_NOOPS. */
int hd_atari_draw_noops(uint64_t seed);

/* Starts an episode and shows frame[84][84]. If each life is an episode, it continues the game by
 * one no-op step, unless the game has ended. */
void hd_atari_reset(struct hd_atari *atari, uint64_t seed, uint8_t *frame);

/* Plays an action for 4 raw frames or until the game ends, and shows frame[84][84]. */
struct hd_atari_end hd_atari_step(struct hd_atari *atari, int action, uint8_t *frame);
