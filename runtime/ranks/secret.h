/* SPDX-License-Identifier: Apache-2.0 */
/* The secret of a run, by which its ranks know each other. A launcher of ours draws it and hands it
 * to its ranks by a descriptor; other launchers pass it on by the environment or name a file. It
 * never stands in an argument, which other users can read. Thread safe as long as no thread changes
 * the environment. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    HD_SECRET_BYTES = 32,
    HD_SECRET_TEXT_MIN = 32,  /* least bytes of HEDDLE_SECRET, or of a file */
    HD_SECRET_KINDS_MIN = 6,  /* least different ones among them: 32 random digits have more */
    HD_SECRET_FILE_MAX = 4096 /* most bytes of a file */
};

/* Stores random bytes. */
void hd_secret_draw(uint8_t secret_p[HD_SECRET_BYTES]);

/* Looks for a secret in this order: the descriptor HD_SECRET_FD, which it closes; `file` unless it
 * is NULL; HEDDLE_SECRET; the file HEDDLE_SECRET_FILE. A file must belong to this user and be
 * closed to all others. Stores whether there is one; secret_p stays untouched when there is none.
 * Returns HD_OK or HD_ERR_INPUT (logged). */
int hd_secret_read(const char *file, bool *found_p, uint8_t secret_p[HD_SECRET_BYTES]);

/* Stores a descriptor, owned by the caller and close-on-exec, from which a child reads the secret
 * when HD_SECRET_FD names it. Returns HD_OK or HD_ERR_SYSTEM (logged). */
int hd_secret_share(const uint8_t secret[HD_SECRET_BYTES], int *fd_p);
