/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/pixel_pong_screen.h"

#include <stdbool.h>
#include <string.h>

enum colour { BACKGROUND, OPPONENT, PLAYER, WHITE };
static const uint8_t colours[][3] = {
    [BACKGROUND] = {144, 72, 17},
    [OPPONENT] = {213, 130, 74},
    [PLAYER] = {144, 160, 92},
    [WHITE] = {236, 236, 236},
};

/* -- Whole screens ------------------------------------------------------------------------------
 */

static void fill(uint8_t *rgb, int x, int y, int width, int height, enum colour colour)
{
    for (int64_t row = y; row < y + height; row++)
        for (int64_t column = x; column < x + width; column++)
            memcpy(rgb + (row * HD_PONG_WIDTH + column) * 3, colours[colour], 3);
}

static void fill_field(uint8_t *rgb)
{
    fill(rgb, 0, 0, HD_PONG_WIDTH, HD_PONG_HEIGHT, WHITE);
    fill(rgb, 0, 0, HD_PONG_WIDTH, HD_PONG_WALL, BACKGROUND);
    fill(rgb, 0, HD_PONG_TOP, HD_PONG_WIDTH, HD_PONG_BOTTOM - HD_PONG_TOP, BACKGROUND);
}

void hd_pong_screen(const struct hd_pong_scene *scene, uint8_t *rgb)
{
    fill_field(rgb);
    fill(rgb, HD_PONG_OPPONENT_X, scene->paddle[0], HD_PONG_PADDLE_WIDTH, HD_PONG_PADDLE_HEIGHT,
         OPPONENT);
    fill(rgb, HD_PONG_PLAYER_X, scene->paddle[1], HD_PONG_PADDLE_WIDTH, HD_PONG_PADDLE_HEIGHT,
         PLAYER);
    fill(rgb, scene->ball_x, scene->ball_y, HD_PONG_BALL, HD_PONG_BALL, WHITE);
}

/* -- Two screens as wrapped ----------------------------------------------------------------------
 *
 * Shapes are painted in windows of LANES destination columns, which lie over at most 32 columns of
 * the screen: a row of the screen there is one word of two bits a pixel, and the maximum of colours
 * is the OR of words, as the paddles never meet and white is all bits. */

enum { LANES = 8, ROW_TAPS = 3, SHAPES = 4, SPAN = 32, MOST_BANDS = 16 };
typedef float floats __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint8_t bytes __attribute__((vector_size(LANES)));

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

static int greater(int a, int b)
{
    return a > b ? a : b;
}

void hd_pong_painter_init(struct hd_pong_painter *painter, int background)
{
    uint8_t rgb[HD_PONG_HEIGHT * HD_PONG_WIDTH * 3], *base = painter->base;
    hd_warp_init(&painter->warp, HD_PONG_HEIGHT, HD_PONG_WIDTH);
    painter->background = background;
    fill_field(rgb);
    hd_warp_rgb(&painter->warp, rgb, base);
    for (size_t i = 0; i < sizeof painter->base; i++)
        base[i] = base[i] == background ? 0 : base[i];
    float gray[4];
    for (int i = 0; i < 4; i++)
        gray[i] = (float)hd_warp_luma(colours[i][0], colours[i][1], colours[i][2]);
    for (int column = 0; column < HD_WARP_SIZE; column++)
        for (int code = 0; code < 64; code++) {
            float sum = 0;
            for (int k = 0; k < 3; k++)
                sum += gray[code >> 2 * k & 3] * painter->warp.column_weight[k][column];
            painter->sums[column][code] = sum;
        }
}

/* Part of the screen, rows [y0, y1), columns [x0, x1), in one colour. */
struct shape {
    int x0, x1, y0, y1;
    enum colour colour;
};

/* Destination columns [column, column + LANES), and the shapes to be seen in them. */
struct window {
    const struct hd_pong_painter *painter;
    const struct shape *shapes;
    int n_shapes, column;
    uint64_t words[SHAPES]; /* what each shape gives to the rows that it cuts */
};

/* A shape's pixels in the SPAN columns from `from` on. */
static uint64_t shape_word(const struct shape *shape, int from)
{
    const int begin = greater(shape->x0 - from, 0), end = lesser(shape->x1 - from, SPAN);
    if (begin >= end)
        return 0;
    const uint64_t pixels = ~(uint64_t)0 >> (64 - 2 * (end - begin)) << 2 * begin;
    return pixels & 0x5555555555555555u * shape->colour;
}

/* The word of row y, and where the next row of another one may come. */
static uint64_t row_word(const struct window *window, int y, int *until_p)
{
    static const int edges[] = {HD_PONG_WALL, HD_PONG_TOP, HD_PONG_BOTTOM, HD_PONG_HEIGHT};
    uint64_t word = 0;
    int edge = 0, until;
    while (y >= edges[edge])
        edge++;
    until = edges[edge];
    for (int i = 0; i < window->n_shapes; i++) {
        const int begin = window->shapes[i].y0, end = window->shapes[i].y1;
        word |= y >= begin && y < end ? window->words[i] : 0;
        until = y < begin ? lesser(until, begin) : y < end ? lesser(until, end) : until;
    }
    *until_p = until;
    return edge % 2 ? ~(uint64_t)0 : word;
}

/* The weighted sums over the columns' pixels, which are neighbours. */
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
                sum_columns(window, row_word(window, y, &until), &bands[n++]);
            row[k] = &bands[n - 1];
        }
        const floats sum = *row[0] * weight[0] + *row[1] * weight[1] + *row[2] * weight[2];
        const ints gray = __builtin_convertvector(sum + 8388608.0f, ints) & 255; /* warp.c */
        const bytes shown = __builtin_convertvector(gray & (gray != background), bytes);
        memcpy(out + r * HD_WARP_SIZE + window->column, &shown, LANES);
    }
}

/* Paints the rows of shapes[first … last] with the shapes of [n_shapes] that are in their columns.
 */
static void paint_window(const struct hd_pong_painter *painter, const struct shape *shapes,
                         int n_shapes, int first, int last, uint8_t *out)
{
    const int left = lesser(shapes[first].x0, shapes[last].x0);
    const int top = lesser(shapes[first].y0, shapes[last].y0);
    const int bottom = greater(shapes[first].y1, shapes[last].y1);
    struct window window;
    window.painter = painter;
    window.shapes = shapes;
    window.n_shapes = n_shapes;
    window.column = lesser(left * 21 / 40, HD_WARP_SIZE - LANES);
    for (int i = 0; i < n_shapes; i++)
        window.words[i] = shape_word(&shapes[i], painter->warp.column[0][window.column]);
    paint_rows(&window, top * 2 / 5, (bottom * 2 + 4) / 5, out);
}

static struct shape paddle_shape(const struct hd_pong_scene scenes[2], int side)
{
    const int x = side ? HD_PONG_PLAYER_X : HD_PONG_OPPONENT_X;
    return (struct shape){
        .x0 = x,
        .x1 = x + HD_PONG_PADDLE_WIDTH,
        .y0 = lesser(scenes[0].paddle[side], scenes[1].paddle[side]),
        .y1 = greater(scenes[0].paddle[side], scenes[1].paddle[side]) + HD_PONG_PADDLE_HEIGHT,
        .colour = side ? PLAYER : OPPONENT,
    };
}

static struct shape ball_shape(const struct hd_pong_scene *scene)
{
    return (struct shape){
        .x0 = scene->ball_x,
        .x1 = scene->ball_x + HD_PONG_BALL,
        .y0 = scene->ball_y,
        .y1 = scene->ball_y + HD_PONG_BALL,
        .colour = WHITE,
    };
}

void hd_pong_paint(const struct hd_pong_painter *painter, const struct hd_pong_scene scenes[2],
                   uint8_t *out)
{
    const struct shape shapes[SHAPES] = {paddle_shape(scenes, 0), paddle_shape(scenes, 1),
                                         ball_shape(&scenes[0]), ball_shape(&scenes[1])};
    /* Both balls in one window where they fit. */
    const int apart = scenes[1].ball_x - scenes[0].ball_x;
    const bool together = apart >= -HD_PONG_BALL && apart <= HD_PONG_BALL;
    memcpy(out, painter->base, sizeof painter->base);
    /* The balls come last: where they cover a paddle, their window repeats it. */
    paint_window(painter, &shapes[0], 1, 0, 0, out);
    paint_window(painter, &shapes[1], 1, 0, 0, out);
    paint_window(painter, shapes, SHAPES, 2, together ? 3 : 2, out);
    if (!together)
        paint_window(painter, shapes, SHAPES, 3, 3, out);
}
