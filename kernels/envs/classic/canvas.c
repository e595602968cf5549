/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/classic/canvas.h"

#include <math.h>
#include <string.h>

void hd_canvas_clear(const struct hd_canvas *canvas)
{
    memset(canvas->rgb, 255, (size_t)(canvas->height * canvas->width * 3));
}

/* Returns the square of the distance of (x, y) from a line. */
static double measure(double x, double y, const double from[2], const double to[2])
{
    const double dx = to[0] - from[0], dy = to[1] - from[1];
    const double square = dx * dx + dy * dy;
    double along = square > 0 ? ((x - from[0]) * dx + (y - from[1]) * dy) / square : 0;
    along = fmin(fmax(along, 0), 1);
    const double ax = x - from[0] - along * dx, ay = y - from[1] - along * dy;
    return ax * ax + ay * ay;
}

void hd_canvas_draw_line(const struct hd_canvas *canvas, const double from[2], const double to[2],
                         double radius, struct hd_canvas_color color)
{
    const int64_t n = canvas->height * canvas->width;
    for (int64_t i = 0; i < n; i++) {
        const double column = (double)(i % canvas->width), row = (double)(i / canvas->width);
        const double x = (column + 0.5 - (double)canvas->width / 2) / canvas->scale;
        const double y = ((double)canvas->height / 2 - row - 0.5) / canvas->scale;
        if (measure(x, y, from, to) <= radius * radius)
            memcpy(canvas->rgb + 3 * i, &color, sizeof color);
    }
}
