/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The Arcade Learning Environment as a console for hd_atari, in C. One emulator is one thread's at
 * a time; different ones share nothing. */
#ifndef HD_KERNELS_ENVS_ATARI_ALE_EMULATOR_H
#define HD_KERNELS_ENVS_ATARI_ALE_EMULATOR_H

#include "kernels/envs/atari/atari.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hd_emulator;

/* What the loaded game is like. */
struct hd_game {
    int height, width;
    int actions; /* of the minimal set */
    int fire;    /* FIRE's index in it, or -1 */
    uint32_t rgb[256];
};

/* For hd_atari_rules; `console` is a struct hd_emulator. An emulator that fails (it never should)
 * plays no further, says that the game is over, and hd_emulator_get_error tells why. */
extern const struct hd_atari_console hd_emulator_console;

/* Loads a ROM, with no sticky actions and no colour averaging. NULL with a sentence in
 * message[bytes]. */
struct hd_emulator *hd_emulator_open(const char *rom, struct hd_game *game_p, char *message,
                                     size_t bytes);
void hd_emulator_close(struct hd_emulator *emulator); /* of NULL, too */

/* A sentence about what failed, or NULL. */
const char *hd_emulator_get_error(const struct hd_emulator *emulator);

/* The whole state: equal bytes for equal states, constant in size for one game and one build of the
 * plug-in. `load` answers false, with an error, for what is no such state. */
int64_t hd_emulator_get_state_bytes(const struct hd_emulator *emulator);
bool hd_emulator_save(struct hd_emulator *emulator, void *state);
bool hd_emulator_load(struct hd_emulator *emulator, const void *state);

#ifdef __cplusplus
}
#endif

#endif
