/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of videos. A video calls one thread at a time. */
#pragma once

#include <stdint.h>
#include <stdio.h>

/* A picture of the file, or a part of it: pixels [top, top + height) x [left, left + width) of
 * rgb[picture height][stride][3]. */
struct hd_video_part {
    const uint8_t *rgb;
    int64_t stride; /* pixels of a row of the picture */
    int64_t left, top, width, height;
};

/* Tells a format at the start what it writes. */
struct hd_video_start {
    FILE *file;            /* to write to, and to seek in */
    const char *path;      /* for messages */
    int64_t height, width; /* of the file's pictures */
    int64_t fps;
};

/* Returns a pixel's three bytes. */
static inline const uint8_t *hd_video_part_get_row(const struct hd_video_part *part, int64_t row)
{
    return part->rgb + 3 * ((part->top + row) * part->stride + part->left);
}

/* A format. `begin` returns HD_OK and a writer, or an error (logged); `add` appends a picture, of
 * which only a part differs from the one before (the first part is the whole picture); `end`
 * completes the file. `release` accepts NULL. `add` and `end` return HD_OK, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (logged). */
struct hd_video_format {
    int (*begin)(const struct hd_video_start *start, void **writer_p);
    int (*add)(void *writer, const struct hd_video_part *part);
    int (*end)(void *writer);
    void (*release)(void *writer);
};

extern const struct hd_video_format hd_video_gif, hd_video_png, hd_video_mp4;
