/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures as PNG (W3C 2003; 8 bits of red, green and blue), for files and streams. Thread safe. */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* Writes the picture rgb[height][width][3] to `file`. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM
 * (not logged). */
int hd_png_write(const uint8_t *rgb, int64_t height, int64_t width, FILE *file);
