/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures for a terminal, as bytes that it understands: characters of half blocks with 24 bits of
 * colour or 256 colours, or graphics of sixels (DEC VT340) or of the kitty protocol. Thread safe.
 */
#pragma once

#include "runner/watch/terminal.h"

#include <stdint.h>
#include <stdio.h>

enum hd_picture_form {
    HD_PICTURE_BLOCKS,     /* a character shows a pixel above another, in 24 bits of colour */
    HD_PICTURE_BLOCKS_256, /* the same in 256 colours */
    HD_PICTURE_SIXEL,
    HD_PICTURE_KITTY
};

/* Finds a form by its name: "blocks", "256", "sixel", "kitty"; "auto" is what the environment says
 * that the terminal has. Returns HD_OK or HD_ERR_INPUT (logged). */
int hd_picture_find_form(const char *name, enum hd_picture_form *form_p);

/* Writes the picture rgb[height][width][3] at the top left of the terminal, as large as fits above
 * its last line. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_picture_write(enum hd_picture_form form, const uint8_t *rgb, int64_t height, int64_t width,
                     const struct hd_terminal_size *size, FILE *file);

/* Returns the picture as PNG in memory, to be freed with free, and its length; NULL: no memory
 * (logged). */
char *hd_picture_make_png(const uint8_t *rgb, int64_t height, int64_t width, size_t *bytes_p);

/* Returns bytes as a text of base64, to be freed with hd_free; NULL: no memory (logged). */
char *hd_picture_encode_base64(const char *data, size_t bytes);
