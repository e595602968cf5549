/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/pixel_pong/pixel_pong_screen.h"

#include "kernels/envs/pixel_pong/pixel_pong_screen_internal.h"

#include <stdbool.h>
#include <string.h>

static const uint8_t colours[][3] = {
    [HD_PONG_BACKGROUND] = {144, 72, 17},
    [HD_PONG_ORANGE] = {213, 130, 74},
    [HD_PONG_GREEN] = {144, 160, 92},
    [HD_PONG_WHITE] = {236, 236, 236},
};

/* -- Whole screens ----------------------------------------------------------------------------- */

static void fill(uint8_t *rgb, int x, int y, int width, int height, enum hd_pong_colour colour)
{
    for (int64_t row = y; row < y + height; row++)
        for (int64_t column = x; column < x + width; column++)
            memcpy(rgb + (row * HD_PONG_WIDTH + column) * 3, colours[colour], 3);
}

static void fill_field(uint8_t *rgb)
{
    fill(rgb, 0, 0, HD_PONG_WIDTH, HD_PONG_HEIGHT, HD_PONG_WHITE);
    fill(rgb, 0, 0, HD_PONG_WIDTH, HD_PONG_WALL, HD_PONG_BACKGROUND);
    fill(rgb, 0, HD_PONG_TOP, HD_PONG_WIDTH, HD_PONG_BOTTOM - HD_PONG_TOP, HD_PONG_BACKGROUND);
}

void hd_pong_draw_screen(const struct hd_pong_scene *scene, uint8_t *rgb)
{
    fill_field(rgb);
    fill(rgb, HD_PONG_OPPONENT_X, scene->paddle[0], HD_PONG_PADDLE_WIDTH, HD_PONG_PADDLE_HEIGHT,
         HD_PONG_ORANGE);
    fill(rgb, HD_PONG_PLAYER_X, scene->paddle[1], HD_PONG_PADDLE_WIDTH, HD_PONG_PADDLE_HEIGHT,
         HD_PONG_GREEN);
    fill(rgb, scene->ball_x, scene->ball_y, HD_PONG_BALL, HD_PONG_BALL, HD_PONG_WHITE);
}

/* -- Two screens as wrapped -------------------------------------------------------------------- */
/* Shapes are painted in windows of LANES destination columns, which lie over at most WORD_PIXELS
 * columns of the screen. */

enum { LANES = 8, MOST_BANDS = 16 };
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint8_t bytes __attribute__((vector_size(LANES)));

void hd_pong_painter_init(struct hd_pong_painter *painter, int background)
{
    uint8_t rgb[HD_PONG_HEIGHT * HD_PONG_WIDTH * 3], *base = painter->base;
    hd_warp_init(&painter->warp, HD_PONG_HEIGHT, HD_PONG_WIDTH);
    painter->background = background;
    fill_field(rgb);
    hd_warp_resize_rgb(&painter->warp, rgb, base);
    for (size_t i = 0; i < sizeof painter->base; i++)
        base[i] = base[i] == background ? 0 : base[i];
    float gray[4];
    for (int i = 0; i < 4; i++)
        gray[i] = (float)hd_warp_get_luma(colours[i][0], colours[i][1], colours[i][2]);
    for (int column = 0; column < HD_WARP_SIZE; column++)
        for (int code = 0; code < 64; code++) {
            float sum = 0;
            for (int k = 0; k < 3; k++)
                sum += gray[code >> 2 * k & 3] * painter->warp.column_weight[k][column];
            painter->sums[column][code] = sum;
        }
}

/* Destination columns [column, column + LANES), and the shapes that are visible in them. */
struct window {
    const struct hd_pong_painter *painter;
    const struct hd_pong_shape *shapes;
    int n_shapes, column;
    uint64_t words[SHAPES]; /* pixels of each shape in the rows that it covers */
};

/* Computes the weighted sums over the pixels of each column, which are neighbours. */
static void sum_columns(const struct window *window, uint64_t word, floats *sum_p)
{
    const struct hd_pong_painter *painter = window->painter;
    const int16_t *first = &painter->warp.column[0][window->column];
    for (int d = 0; d < LANES; d++)
        (*sum_p)[d] = painter->sums[window->column + d][word >> 2 * (first[d] - first[0]) & 63];
}

static void paint_rows(const struct window *window, int begin, int end, uint8_t *out)
{
    const struct hd_warp *warp = &window->painter->warp;
    const int background = window->painter->background;
    floats bands[MOST_BANDS];
    int n = 0, until = -1;
    for (int r = begin; r < end; r++) {
        const floats *row[ROW_TAPS];
        const float *weight = warp->row_weight[r];
        for (int k = 0, y = warp->row[r]; k < ROW_TAPS; k++, y++) {
            if (y >= until)
                sum_columns(window,
                            hd_pong_get_row_word(window->shapes, window->words, window->n_shapes, y,
                                                 &until),
                            &bands[n++]);
            row[k] = &bands[n - 1];
        }
        const floats sum = *row[0] * weight[0] + *row[1] * weight[1] + *row[2] * weight[2];
        const ints gray =
            __builtin_convertvector(sum + 8388608.0f, ints) & 255; /* rounds as in warp.c */
        const bytes shown = __builtin_convertvector(gray & (gray != background), bytes);
        memcpy(out + r * HD_WARP_SIZE + window->column, &shown, LANES);
    }
}

/* Paints the rows of shapes[first … last] with the shapes of [n_shapes] that lie in their
 * columns. */
static void paint_window(const struct hd_pong_painter *painter, const struct hd_pong_shape *shapes,
                         int n_shapes, int first, int last, uint8_t *out)
{
    const int left = hd_pong_min(shapes[first].x0, shapes[last].x0);
    const int top = hd_pong_min(shapes[first].y0, shapes[last].y0);
    const int bottom = hd_pong_max(shapes[first].y1, shapes[last].y1);
    struct window window;
    window.painter = painter;
    window.shapes = shapes;
    window.n_shapes = n_shapes;
    window.column = hd_pong_min(left * 21 / 40, HD_WARP_SIZE - LANES);
    for (int i = 0; i < n_shapes; i++)
        window.words[i] =
            hd_pong_get_shape_word(&shapes[i], painter->warp.column[0][window.column]);
    paint_rows(&window, top * 2 / 5, (bottom * 2 + 4) / 5, out);
}

void hd_pong_paint(const struct hd_pong_painter *painter, const struct hd_pong_scene scenes[2],
                   uint8_t *out)
{
    struct hd_pong_shape shapes[SHAPES];
    hd_pong_make_shapes(scenes, shapes);
    /* Paints both balls in one window if they fit. */
    const int apart = scenes[1].ball_x - scenes[0].ball_x;
    const bool together = apart >= -HD_PONG_BALL && apart <= HD_PONG_BALL;
    memcpy(out, painter->base, sizeof painter->base);
    /* The balls are painted last: where they cover a paddle, their window contains it too. */
    paint_window(painter, &shapes[0], 1, 0, 0, out);
    paint_window(painter, &shapes[1], 1, 0, 0, out);
    paint_window(painter, shapes, SHAPES, 2, together ? 3 : 2, out);
    if (!together)
        paint_window(painter, shapes, SHAPES, 3, 3, out);
}
