/* SPDX-License-Identifier: Apache-2.0 */
/* Videos: pictures in a file, which is written picture by picture and appears whole or not at all.
 * The ending of its name chooses the format: .gif, .png and .apng (an animated PNG), or .mp4, which
 * the program ffmpeg writes. What is written is a function of the pictures; of .mp4 also of ffmpeg.
 * Memory does not grow with the number of pictures. One thread at a time for each video. */
#pragma once

#include <stdint.h>

struct hd_video;

enum {
    HD_VIDEO_FPS_MAX = 240,
    HD_VIDEO_GIF_FPS_MAX = 50, /* browsers show faster ones slowly */
    HD_VIDEO_SCALE_MAX = 32,
    HD_VIDEO_SIZE_MAX = 65535,        /* pixels of a side */
    HD_VIDEO_PIXELS_MAX = 4096 * 4096 /* of a picture: larger ones take seconds each */
};

struct hd_video_shape {
    int64_t height, width; /* of the pictures that are added */
    int64_t fps;           /* pictures a second, 1 … HD_VIDEO_FPS_MAX */
    int64_t scale; /* the file shows each pixel as scale x scale ones, 1 … HD_VIDEO_SCALE_MAX */
};

/* Begins a video at `path`. Returns HD_OK; HD_ERR_INPUT for another ending, or when the format
 * cannot show such pictures, or there is no ffmpeg; HD_ERR_SYSTEM or HD_ERR_NOMEM (all logged). */
int hd_video_create(const char *path, const struct hd_video_shape *shape,
                    struct hd_video **video_p);

/* Appends a picture rgb[height][width][3]. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (logged).
 */
int hd_video_add(struct hd_video *video, const uint8_t *rgb);

/* Completes the file, which has one picture or more, and gives it its name. Returns HD_OK or
 * HD_ERR_SYSTEM (logged). */
int hd_video_publish(struct hd_video *video);

/* Releases a video; what was not published leaves no file. Accepts NULL. */
void hd_video_destroy(struct hd_video *video);
