/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Translates names of environments (PongNoFrameskip-v4) to ROM files (pong.bin). Thread safe. */
#pragma once

#include <stddef.h>

/* Writes the name that a ROM's game has in an env_id: tic_tac_toe_3d is TicTacToe3D. */
void hd_game_get_name(const char *rom, char *name, size_t bytes);

/* Finds the ROM of env_id `<Game>NoFrameskip-v4` in `folder` and writes its path. Returns 0, or -1
 * on error with a sentence in message[message_bytes] that names similar games. */
int hd_game_find(const char *env_id, const char *folder, char *path, size_t path_bytes,
                 char *message, size_t message_bytes);
