/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/watch/picture.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/video/palette.h"
#include "runtime/io/video/png.h"

#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* -- Which form -------------------------------------------------------------------------------- */

static const char *const names[] = {"blocks", "256", "sixel", "kitty"};

static bool says(const char *variable, const char *part)
{
    const char *value = getenv(variable);
    return value && strstr(value, part);
}

/* Terminals in a multiplexer do not get graphics through, so they have none here. */
static enum hd_picture_form guess_form(void)
{
    const bool direct = !getenv("TMUX") && !getenv("STY");
    if (direct && (getenv("KITTY_WINDOW_ID") || says("TERM", "kitty") || says("TERM", "ghostty")))
        return HD_PICTURE_KITTY;
    if (direct && (says("TERM", "sixel") || says("TERM", "mlterm") || says("TERM", "foot")))
        return HD_PICTURE_SIXEL;
    const bool few = !says("COLORTERM", "truecolor") && !says("COLORTERM", "24bit") &&
                     (says("TERM", "256color") || says("TERM", "linux"));
    return few ? HD_PICTURE_BLOCKS_256 : HD_PICTURE_BLOCKS;
}

int hd_picture_find_form(const char *name, enum hd_picture_form *form_p)
{
    *form_p = guess_form();
    if (strcmp(name, "auto") == 0)
        return HD_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        *form_p = (enum hd_picture_form)i;
        if (strcmp(name, names[i]) == 0)
            return HD_OK;
    }
    return hd_fail(HD_ERR_INPUT,
                   "--display: expected one of auto, blocks, 256, sixel, kitty, found '%s'", name);
}

/* -- Sizes ------------------------------------------------------------------------------------- */

struct picture {
    uint8_t *rgb; /* [height][width][3] */
    int64_t height, width;
};

/* Averages the pixels that a pixel of the smaller picture covers. In a larger one it covers a part
 * of one pixel. */
static void average(const struct picture *from, int64_t y, int64_t x, const struct picture *to)
{
    const int64_t top = y * from->height / to->height, left = x * from->width / to->width;
    int64_t bottom = (y + 1) * from->height / to->height, right = (x + 1) * from->width / to->width;
    bottom = bottom > top ? bottom : top + 1;
    right = right > left ? right : left + 1;
    for (int c = 0; c < 3; c++) {
        int64_t sum = 0;
        for (int64_t i = top; i < bottom; i++)
            for (int64_t j = left; j < right; j++)
                sum += from->rgb[3 * (i * from->width + j) + c];
        to->rgb[3 * (y * to->width + x) + c] = (uint8_t)(sum / ((bottom - top) * (right - left)));
    }
}

/* Makes the largest picture of the same shape with at most height x width pixels, an even number of
 * rows. */
static int resize(const struct picture *from, int64_t height, int64_t width, struct picture *to_p)
{
    const bool tall = from->height * width > height * from->width;
    *to_p = (struct picture){.height = tall ? height : from->height * width / from->width,
                             .width = tall ? from->width * height / from->height : width};
    to_p->height = to_p->height < 2 ? 2 : to_p->height & ~INT64_C(1);
    to_p->width = to_p->width < 1 ? 1 : to_p->width;
    to_p->rgb = hd_alloc(to_p->height * to_p->width, 3);
    for (int64_t y = 0; to_p->rgb && y < to_p->height; y++)
        for (int64_t x = 0; x < to_p->width; x++)
            average(from, y, x, to_p);
    return to_p->rgb ? HD_OK : HD_ERR_NOMEM;
}

/* -- Half blocks ------------------------------------------------------------------------------- */

/* Returns the nearest of the 6 x 6 x 6 colours or 24 grays of xterm. */
static int find_color(const uint8_t *rgb)
{
    static const int levels[] = {0, 95, 135, 175, 215, 255};
    int index = 0;
    if (rgb[0] == rgb[1] && rgb[0] == rgb[2] && rgb[0] > 4 && rgb[0] < 243)
        return 232 + (rgb[0] - 3) / 10; /* 8, 18, ..., 238 */
    for (int c = 0; c < 3; c++) {
        int nearest = 0;
        for (int i = 1; i < 6; i++)
            if (abs(levels[i] - rgb[c]) < abs(levels[nearest] - rgb[c]))
                nearest = i;
        index = 6 * index + nearest;
    }
    return 16 + index;
}

/* Sets the colour of what is written (38) or of what is behind it (48). */
static void put_color(enum hd_picture_form form, int what, const uint8_t *rgb, FILE *file)
{
    if (form == HD_PICTURE_BLOCKS)
        fprintf(file, "\033[%d;2;%d;%d;%dm", what, rgb[0], rgb[1], rgb[2]);
    else
        fprintf(file, "\033[%d;5;%dm", what, find_color(rgb));
}

static void put_blocks(enum hd_picture_form form, const struct picture *picture, FILE *file)
{
    const int64_t row_bytes = 3 * picture->width;
    for (int64_t y = 0; y < picture->height; y += 2) {
        const uint8_t *above = NULL, *below = NULL; /* colours that are set */
        for (int64_t x = 0; x < picture->width; x++) {
            const uint8_t *at = picture->rgb + y * row_bytes + 3 * x;
            if (!above || memcmp(above, at, 3) != 0)
                put_color(form, 38, at, file);
            if (!below || memcmp(below, at + row_bytes, 3) != 0)
                put_color(form, 48, at + row_bytes, file);
            above = at;
            below = at + row_bytes;
            fputs("\u2580", file);
        }
        fputs("\033[0m\033[K\r\n", file);
    }
}

/* -- Graphics ---------------------------------------------------------------------------------- */

/* Writes one colour of six rows: runs of bits, of which each says what a column shows. */
static void put_sixels(const struct picture *picture, const uint8_t *indices, int64_t top,
                       int color, FILE *file)
{
    int64_t run = 0;
    int last = -1;
    fprintf(file, "#%d", color);
    for (int64_t x = 0; x <= picture->width; x++) {
        int bits = x < picture->width ? 0 : -1;
        for (int64_t i = 0; i < 6 && top + i < picture->height && bits >= 0; i++)
            bits |= (indices[(top + i) * picture->width + x] == color) << i;
        if (x > 0 && bits != last) {
            fprintf(file, "!%lld%c", (long long)run, '?' + last);
            run = 0;
        }
        last = bits;
        run++;
    }
    fputc('$', file);
}

static int put_sixel(const struct picture *picture, FILE *file)
{
    const struct hd_video_part part = {.rgb = picture->rgb,
                                       .stride = picture->width,
                                       .width = picture->width,
                                       .height = picture->height};
    struct hd_palette *palette = hd_alloc(1, sizeof *palette);
    uint8_t *indices = hd_alloc(picture->height * picture->width, 1);
    const bool ready = palette && indices;
    if (ready) {
        hd_palette_make(palette, &part);
        for (int64_t y = 0; y < picture->height; y++)
            hd_palette_apply(palette, &part, y, indices + y * picture->width);
        fprintf(file, "\033Pq\"1;1;%lld;%lld", (long long)picture->width,
                (long long)picture->height);
        for (int i = 0; i < palette->n; i++)
            fprintf(file, "#%d;2;%d;%d;%d", i, palette->rgb[i][0] * 100 / 255,
                    palette->rgb[i][1] * 100 / 255, palette->rgb[i][2] * 100 / 255);
        for (int64_t top = 0; top < picture->height; top += 6) {
            bool used[HD_PALETTE_COLORS] = {false};
            for (int64_t i = top * picture->width;
                 i < (top + 6) * picture->width && i < picture->height * picture->width; i++)
                used[indices[i]] = true;
            for (int i = 0; i < palette->n; i++)
                if (used[i])
                    put_sixels(picture, indices, top, i, file);
            fputc('-', file);
        }
        fputs("\033\\", file);
    }
    hd_free(palette);
    hd_free(indices);
    return ready ? HD_OK : HD_ERR_NOMEM;
}

char *hd_picture_make_png(const uint8_t *rgb, int64_t height, int64_t width, size_t *bytes_p)
{
    char *png = NULL;
    FILE *memory = open_memstream(&png, bytes_p);
    const int status = memory ? hd_png_write(rgb, height, width, memory) : HD_ERR_NOMEM;
    if (memory && fclose(memory) == 0 && status == HD_OK)
        return png;
    free(png);
    hd_log(HD_LOG_ERROR, "no memory for a picture");
    return NULL;
}

char *hd_picture_encode_base64(const char *data, size_t bytes)
{
    const size_t length = sodium_base64_ENCODED_LEN(bytes, sodium_base64_VARIANT_ORIGINAL);
    char *text = hd_alloc((int64_t)length, 1);
    if (text)
        sodium_bin2base64(text, length, (const unsigned char *)data, bytes,
                          sodium_base64_VARIANT_ORIGINAL);
    return text;
}

/* Sends a PNG in pieces of at most 4096 characters, in place of the one before; the terminal
 * enlarges it to so many cells. */
static int put_kitty(const struct picture *picture, int columns, int rows, FILE *file)
{
    enum { PIECE = 4096 };
    size_t bytes;
    char *png = hd_picture_make_png(picture->rgb, picture->height, picture->width, &bytes);
    char *text = png ? hd_picture_encode_base64(png, bytes) : NULL;
    free(png);
    if (!text)
        return HD_ERR_NOMEM;
    fprintf(file, "\033_Ga=T,f=100,i=1,p=1,q=2,C=1,c=%d,r=%d,", columns, rows);
    const size_t length = strlen(text);
    for (size_t at = 0; at < length; at += PIECE)
        fprintf(file, "%sm=%d;%.*s\033\\", at > 0 ? "\033_G" : "", at + PIECE < length, PIECE,
                text + at);
    hd_free(text);
    return HD_OK;
}

/* -- Pictures ---------------------------------------------------------------------------------- */

static int put(enum hd_picture_form form, const struct picture *whole, int64_t height,
               int64_t width, const struct hd_terminal_size *size, FILE *file)
{
    struct picture fitted;
    const int64_t cell_width = size->width / size->columns, cell_height = size->height / size->rows;
    HD_TRY(resize(whole, height, width, &fitted));
    int status = HD_OK;
    fputs("\033[H", file);
    if (form == HD_PICTURE_SIXEL)
        status = put_sixel(&fitted, file);
    else if (form == HD_PICTURE_KITTY)
        status = put_kitty(whole, (int)(fitted.width / cell_width),
                           (int)(fitted.height / cell_height), file);
    else
        put_blocks(form, &fitted, file);
    hd_free(fitted.rgb);
    return status;
}

int hd_picture_write(enum hd_picture_form form, const uint8_t *rgb, int64_t height, int64_t width,
                     const struct hd_terminal_size *size, FILE *file)
{
    const struct picture whole = {.rgb = (uint8_t *)rgb, .height = height, .width = width};
    const int64_t rows = size->rows > 2 ? size->rows - 1 : 1;
    if (form == HD_PICTURE_SIXEL || form == HD_PICTURE_KITTY)
        return put(form, &whole, rows * (size->height / size->rows), size->width, size, file);
    return put(form, &whole, 2 * rows, size->columns, size, file);
}
