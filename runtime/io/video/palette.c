/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/video/palette.h"

#include <stdlib.h>
#include <string.h>

/* -- A picture's own colours ------------------------------------------------------------------- */

/* Returns the slot that a colour has or would get. */
static int16_t *find_slot(const struct hd_palette *palette, const uint8_t *rgb)
{
    const uint32_t color = (uint32_t)rgb[0] << 16 | (uint32_t)rgb[1] << 8 | rgb[2];
    uint32_t at = (color * UINT32_C(2654435761)) >> 22;
    while (palette->by_color[at] >= 0 && memcmp(palette->rgb[palette->by_color[at]], rgb, 3) != 0)
        at = (at + 1) % HD_PALETTE_SLOTS;
    return (int16_t *)&palette->by_color[at];
}

static bool add_color(struct hd_palette *palette, const uint8_t *rgb)
{
    int16_t *slot = find_slot(palette, rgb);
    if (*slot >= 0)
        return true;
    if (palette->n == HD_PALETTE_COLORS)
        return false;
    memcpy(palette->rgb[palette->n], rgb, 3);
    *slot = (int16_t)palette->n++;
    return true;
}

static bool add_all(struct hd_palette *palette, const struct hd_video_part *part)
{
    for (int64_t y = 0; y < part->height; y++) {
        const uint8_t *row = hd_video_part_get_row(part, y);
        for (int64_t x = 0; x < part->width; x++)
            if (!add_color(palette, row + 3 * x))
                return false;
    }
    return true;
}

/* -- Median cut -------------------------------------------------------------------------------- */

/* A cell is a cube of colours that agree in 5 bits of each channel. */
static int get_cell(const uint8_t *rgb)
{
    return (rgb[0] >> 3) << 10 | (rgb[1] >> 3) << 5 | rgb[2] >> 3;
}

static int get_channel(int cell, int channel)
{
    return cell >> (10 - 5 * channel) & 31;
}

struct histogram {
    int32_t count[HD_PALETTE_CELLS];
    int32_t cells[HD_PALETTE_CELLS]; /* those with pixels; boxes are ranges of them */
    int n;
};

struct box {
    int first, n;
    int64_t pixels;
};

static void count_pixels(struct histogram *histogram, const struct hd_video_part *part)
{
    memset(histogram, 0, sizeof *histogram);
    for (int64_t y = 0; y < part->height; y++) {
        const uint8_t *row = hd_video_part_get_row(part, y);
        for (int64_t x = 0; x < part->width; x++)
            histogram->count[get_cell(row + 3 * x)]++;
    }
    for (int cell = 0; cell < HD_PALETTE_CELLS; cell++)
        if (histogram->count[cell] > 0)
            histogram->cells[histogram->n++] = cell;
}

static struct box make_box(const struct histogram *histogram, int first, int n)
{
    struct box box = {.first = first, .n = n};
    for (int i = 0; i < n; i++)
        box.pixels += histogram->count[histogram->cells[first + i]];
    return box;
}

/* Returns the channel in which a box is longest. */
static int find_longest(const struct histogram *histogram, const struct box *box)
{
    int longest = 0, most = -1;
    for (int channel = 0; channel < 3; channel++) {
        int low = 31, high = 0;
        for (int i = 0; i < box->n; i++) {
            const int value = get_channel(histogram->cells[box->first + i], channel);
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
        if (high - low > most) {
            most = high - low;
            longest = channel;
        }
    }
    return longest;
}

/* Sorts a box's cells along a channel; cells of equal value keep their order. */
static void sort_cells(struct histogram *histogram, const struct box *box, int channel)
{
    static const int values = 32;
    int32_t *cells = histogram->cells + box->first, sorted[HD_PALETTE_CELLS];
    int n = 0;
    for (int value = 0; value < values; value++)
        for (int i = 0; i < box->n; i++)
            if (get_channel(cells[i], channel) == value)
                sorted[n++] = cells[i];
    memcpy(cells, sorted, (size_t)n * sizeof *cells);
}

/* Cuts a box of two cells or more where half of its pixels lie on either side. */
static void cut(struct histogram *histogram, struct box *box, struct box *other_p)
{
    sort_cells(histogram, box, find_longest(histogram, box));
    int64_t pixels = 0;
    int at = 0;
    while (at < box->n - 1 && (at == 0 || 2 * pixels < box->pixels))
        pixels += histogram->count[histogram->cells[box->first + at++]];
    *other_p = make_box(histogram, box->first + at, box->n - at);
    *box = make_box(histogram, box->first, at);
}

/* Returns the box with the most pixels that can be cut, or NULL. */
static struct box *find_box(struct box *boxes, int n)
{
    struct box *found = NULL;
    for (int i = 0; i < n; i++)
        if (boxes[i].n > 1 && (!found || boxes[i].pixels > found->pixels))
            found = &boxes[i];
    return found;
}

/* Makes the mean of a box's cells a colour. */
static void add_box(struct hd_palette *palette, const struct histogram *histogram,
                    const struct box *box)
{
    int64_t sums[3] = {0};
    for (int i = 0; i < box->n; i++) {
        const int cell = histogram->cells[box->first + i];
        for (int channel = 0; channel < 3; channel++)
            sums[channel] += (int64_t)histogram->count[cell] * (8 * get_channel(cell, channel) + 4);
        palette->cell[cell] = (uint8_t)palette->n;
    }
    for (int channel = 0; channel < 3; channel++)
        palette->rgb[palette->n][channel] = (uint8_t)(sums[channel] / box->pixels);
    palette->n++;
}

static void cut_median(struct hd_palette *palette, const struct hd_video_part *part)
{
    struct histogram histogram;
    struct box boxes[HD_PALETTE_COLORS], *box;
    int n = 1;
    count_pixels(&histogram, part);
    boxes[0] = make_box(&histogram, 0, histogram.n);
    while (n < HD_PALETTE_COLORS && (box = find_box(boxes, n)))
        cut(&histogram, box, &boxes[n++]);
    palette->n = 0;
    for (int i = 0; i < n; i++)
        add_box(palette, &histogram, &boxes[i]);
}

/* -- Palettes ---------------------------------------------------------------------------------- */

void hd_palette_make(struct hd_palette *palette, const struct hd_video_part *part)
{
    palette->n = 0;
    for (int i = 0; i < HD_PALETTE_SLOTS; i++)
        palette->by_color[i] = -1;
    palette->exact = add_all(palette, part);
    if (!palette->exact)
        cut_median(palette, part);
}

bool hd_palette_apply(const struct hd_palette *palette, const struct hd_video_part *part,
                      int64_t row, uint8_t *indices)
{
    const uint8_t *rgb = hd_video_part_get_row(part, row);
    for (int64_t x = 0; x < part->width; x++, rgb += 3) {
        const int index = palette->exact ? *find_slot(palette, rgb) : palette->cell[get_cell(rgb)];
        if (index < 0)
            return false;
        indices[x] = (uint8_t)index;
    }
    return true;
}
