/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* DI-engine's chain of Atari wrappers (spec 7.1) over a console that plays single raw frames: up to
 * 30 no-ops at a reset, every action for 4 frames, the maximum of the last two of them, an episode
 * a life, FIRE at a reset, gray and resize, clipped rewards. Frames are stacked elsewhere. The
 * licence lets this file be part of a plug-in around a GPL emulator. One env a thread at a time; no
 * allocation. */
#ifndef HD_KERNELS_ENVS_ATARI_ATARI_H
#define HD_KERNELS_ENVS_ATARI_ATARI_H

#include "kernels/envs/atari/warp.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HD_ATARI_NOOP = -1,
    HD_ATARI_SKIP = 4,
    HD_ATARI_NOOPS = 30,           /* at most, drawn from 1 … */
    HD_ATARI_FRAME_LIMIT = 400000, /* raw frames of an episode (gym's registration, spec 7.4) */
    HD_ATARI_FRAME = HD_WARP_SIZE * HD_WARP_SIZE /* bytes */
};

/* What an emulator must be able to do. Actions are indices of the game's minimal action set, or
 * HD_ATARI_NOOP (which a few games, such as Backgammon, have not in that set; DI-engine refuses
 * those). After the game's end an act does nothing. */
struct hd_atari_console {
    void (*reset)(void *console);          /* to the game's start, always the same */
    int (*act)(void *console, int action); /* plays one raw frame; its reward */
    bool (*over)(const void *console);     /* the game has ended */
    int (*lives)(const void *console);     /* 0 in games without lives */
    /* Palette indices [height][width] of the last frame, until the next act or reset. */
    const uint8_t *(*screen)(const void *console);
};

/* What is the same for all envs of a group. */
struct hd_atari_rules {
    const struct hd_atari_console *console;
    struct hd_warp warp;
    struct hd_warp_palette palette;
    int fire;       /* index of FIRE in the action set, pressed at resets; -1: the game has none */
    int noops;      /* of every reset; -1: drawn from the reset's seed */
    int background; /* the gray value that is shown as 0; -1: none is */
    bool episodic_life; /* the loss of a life ends the episode; true for training */
    bool clip_reward;   /* rewards are -1, 0 or 1; true for training */
};

/* Everything that an env's future depends on but the console. */
struct hd_atari_state {
    int64_t frames; /* raw frames since the game's start */
    int32_t lives;
    int32_t game_ended; /* so the next reset starts a new game */
};

struct hd_atari {
    const struct hd_atari_rules *rules;
    void *console;
    uint8_t *last; /* [height][width], scratch: the frame before the console's */
    struct hd_atari_state state;
};

/* What a step ends with. */
struct hd_atari_end {
    float reward;
    bool done;
    bool truncated; /* done by the frame limit alone */
};

/* An env before its first reset. */
void hd_atari_init(struct hd_atari *atari, const struct hd_atari_rules *rules, void *console,
                   uint8_t *last);

/* No-ops at the start of the game that a reset with this seed begins: 1 … HD_ATARI_NOOPS. */
int hd_atari_draw_noops(uint64_t seed);

/* Starts an episode and shows frame[84][84]. With an episode a life it goes on with the game, by
 * one no-op step, unless that has ended. */
void hd_atari_reset(struct hd_atari *atari, uint64_t seed, uint8_t *frame);

/* Plays an action, for 4 raw frames or until the game ends, and shows frame[84][84]. */
struct hd_atari_end hd_atari_step(struct hd_atari *atari, int action, uint8_t *frame);

#endif
