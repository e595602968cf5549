/* SPDX-License-Identifier: Apache-2.0 */
/* A picture on which envs draw themselves for people to look at. Thread safe on different
 * pictures. */
#pragma once

#include <stdint.h>

/* Pixel (0, 0) is at the top left. Points are in units of the env, of which a pixel has 1 / scale;
 * (0, 0) is the middle of the picture, x grows to the right and y upwards. */
struct hd_canvas {
    uint8_t *rgb; /* [height][width][3] */
    int64_t height, width;
    double scale; /* pixels of a unit */
};

struct hd_canvas_color {
    uint8_t red, green, blue;
};

/* Paints all pixels white. */
void hd_canvas_clear(const struct hd_canvas *canvas);

/* Paints every pixel whose middle is at most `radius` from the line between two points. */
void hd_canvas_draw_line(const struct hd_canvas *canvas, const double from[2], const double to[2],
                         double radius, struct hd_canvas_color color);
