/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* The Arcade Learning Environment as a console for hd_atari, in C. One thread at a time may use an
 * emulator; different emulators share nothing. */
#pragma once

#include "kernels/envs/atari/atari.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hd_emulator;

/* Properties of the loaded game. */
struct hd_game {
    int height, width;
    int actions; /* size of the minimal action set */
    int fire;    /* FIRE's index in it, or -1 */
    uint32_t rgb[256];
};

enum { HD_ROM_HASH = 33 };

/* Writes the MD5 hash of a ROM's file, by which ALE knows games, as hexadecimal digits. Returns
 * false where the file cannot be read. */
bool hd_emulator_hash_rom(const char *rom, char hash_p[HD_ROM_HASH]);

/* The functions that hd_atari_rules needs; `console` is a struct hd_emulator. An emulator that
 * fails (it never should) plays no further and reports the end of the game, and
 * hd_emulator_get_error tells why. */
extern const struct hd_atari_console hd_emulator_console;

/* Loads a ROM, without sticky actions and colour averaging. Returns an emulator, which
 * hd_emulator_close releases, or NULL with a sentence in message[bytes]. */
struct hd_emulator *hd_emulator_open(const char *rom, struct hd_game *game_p, char *message,
                                     size_t bytes);
void hd_emulator_close(struct hd_emulator *emulator); /* accepts NULL */

/* Returns a sentence about what failed, or NULL. */
const char *hd_emulator_get_error(const struct hd_emulator *emulator);

/* Save and load the whole state: equal bytes for equal states, of a constant size for one game and
 * one build of the plug-in. `load` returns false, with an error, for bytes that are no such
 * state. */
int64_t hd_emulator_get_state_bytes(const struct hd_emulator *emulator);
bool hd_emulator_save(struct hd_emulator *emulator, void *state);
bool hd_emulator_load(struct hd_emulator *emulator, const void *state);

#ifdef __cplusplus
}
#endif
