/* SPDX-License-Identifier: Apache-2.0 */
/* Palettes of at most 256 colours for a picture: its own colours, if they are so few, else ones
 * chosen by median cut (Heckbert 1982, "Color image quantization for frame buffer display"). Thread
 * safe on different palettes. */
#pragma once

#include "runtime/io/video/video_internal.h"

#include <stdbool.h>

enum { HD_PALETTE_COLORS = 256, HD_PALETTE_CELLS = 32 * 32 * 32, HD_PALETTE_SLOTS = 1024 };

struct hd_palette {
    int n;                              /* colours */
    uint8_t rgb[HD_PALETTE_COLORS][3];  /* in the order in which they were found */
    bool exact;                         /* by_color holds all colours, else cells do */
    int16_t by_color[HD_PALETTE_SLOTS]; /* hash table of indices; -1: free */
    uint8_t cell[HD_PALETTE_CELLS];     /* index of the colour for 5 bits of red, green and blue */
};

/* Makes the palette of a part of a picture. */
void hd_palette_make(struct hd_palette *palette, const struct hd_video_part *part);

/* Writes the colours of a row of pixels as indices[width]. Returns false when the palette does not
 * have one of them. Of a palette that is not exact it has all. */
bool hd_palette_apply(const struct hd_palette *palette, const struct hd_video_part *part,
                      int64_t row, uint8_t *indices);
