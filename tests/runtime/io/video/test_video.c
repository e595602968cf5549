/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/status.h"
#include "runtime/io/video/palette.h"
#include "runtime/io/video/video.h"
#include "tests/harness/check.h"

#include <gif_lib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEIGHT = 37, WIDTH = 53, BYTES = 3 * HEIGHT * WIDTH, PICTURES = 5 };

static uint8_t pictures[PICTURES][BYTES], shown[PICTURES][BYTES];
static char dir[] = "/tmp/heddle-video-XXXXXX";

/* Picture i has `colors` colours, most of them those of the picture before. */
static void draw(int colors)
{
    uint32_t state = 7;
    for (int i = 0; i < PICTURES; i++)
        for (int at = 0; at < HEIGHT * WIDTH; at++) {
            state = state * 1664525 + 1013904223;
            const uint32_t color = (state >> 8) % (uint32_t)colors * 2654435761u + (uint32_t)i;
            if (i > 0 && at % 5 > 0)
                memcpy(pictures[i] + 3 * at, pictures[i - 1] + 3 * at, 3);
            else
                for (int c = 0; c < 3; c++)
                    pictures[i][3 * at + c] = (uint8_t)(color >> (8 * c + 4));
        }
}

static const char *path_of(const char *name)
{
    static char path[64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_gif(const char *path)
{
    const struct hd_video_shape shape = {.height = HEIGHT, .width = WIDTH, .fps = 7, .scale = 1};
    struct hd_video *video;
    unlink(path);
    ck_assert_int_eq(hd_video_create(path, &shape, &video), HD_OK);
    for (int i = 0; i < PICTURES; i++)
        ck_assert_int_eq(hd_video_add(video, pictures[i]), HD_OK);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(hd_video_publish(video), HD_OK);
    hd_video_destroy(video);
}

/* Paints what the pictures of a file leave on the screen into `shown`. */
static void read_gif(const char *path)
{
    int error, end_cs = 0;
    GifFileType *gif = DGifOpenFileName(path, &error);
    ck_assert_ptr_nonnull(gif);
    ck_assert_int_eq(DGifSlurp(gif), GIF_OK);
    ck_assert_int_eq(gif->ImageCount, PICTURES);
    for (int i = 0; i < PICTURES; i++) {
        const SavedImage *image = &gif->SavedImages[i];
        const GifImageDesc *part = &image->ImageDesc;
        const ColorMapObject *map = part->ColorMap ? part->ColorMap : gif->SColorMap;
        GraphicsControlBlock control;
        ck_assert_int_eq(DGifSavedExtensionToGCB(gif, i, &control), GIF_OK);
        end_cs += control.DelayTime;
        ck_assert_int_eq(end_cs, (int)(100.0 * (i + 1) / 7 + 0.5));
        if (i > 0)
            memcpy(shown[i], shown[i - 1], BYTES);
        for (int y = 0; y < part->Height; y++)
            for (int x = 0; x < part->Width; x++) {
                const GifColorType *color = &map->Colors[image->RasterBits[y * part->Width + x]];
                uint8_t *at = shown[i] + 3 * ((part->Top + y) * WIDTH + part->Left + x);
                at[0] = color->Red;
                at[1] = color->Green;
                at[2] = color->Blue;
            }
    }
    DGifCloseFile(gif, &error);
}

static void make_dir(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    rmdir(dir);
}

FIXTURE(make_dir, remove_dir)

TEST(test_few_colors)
{
    static const int colors[] = {1, 2, 100, 256};
    for (size_t i = 0; i < sizeof colors / sizeof *colors; i++) {
        draw(colors[i]);
        write_gif(path_of("few.gif"));
        read_gif(path_of("few.gif"));
        ck_assert_mem_eq(shown[0], pictures[0], BYTES);
        if (colors[i] <= 100) /* later pictures have colours of those before as well */
            ck_assert_mem_eq(shown, pictures, sizeof pictures);
    }
    unlink(path_of("few.gif"));
}

/* Colours are cut to 256, each near to what it stands for, and always to the same ones. */
TEST(test_many_colors)
{
    int64_t sum = 0;
    draw(1 << 20);
    write_gif(path_of("many.gif"));
    read_gif(path_of("many.gif"));
    for (int i = 0; i < PICTURES; i++)
        for (int at = 0; at < BYTES; at++)
            sum += abs(shown[i][at] - pictures[i][at]);
    ck_assert_int_le(sum / (PICTURES * BYTES), 20);
    static uint8_t once[PICTURES][BYTES];
    memcpy(once, shown, sizeof once);
    write_gif(path_of("many.gif"));
    read_gif(path_of("many.gif"));
    ck_assert_mem_eq(once, shown, sizeof once);
    unlink(path_of("many.gif"));
}

TEST(test_palette)
{
    static struct hd_palette palette;
    static uint8_t indices[WIDTH];
    const struct hd_video_part part = {
        .rgb = pictures[0], .stride = WIDTH, .width = WIDTH, .height = HEIGHT};
    draw(257);
    hd_palette_make(&palette, &part);
    ck_assert(!palette.exact);
    ck_assert_int_gt(palette.n, 200);
    ck_assert_int_le(palette.n, HD_PALETTE_COLORS);
    draw(3);
    hd_palette_make(&palette, &part);
    ck_assert(palette.exact);
    ck_assert_int_eq(palette.n, 3);
    ck_assert(hd_palette_apply(&palette, &part, 0, indices));
    memset(pictures[0], 99, 3);
    ck_assert(!hd_palette_apply(&palette, &part, 0, indices));
}

TEST(test_unpublished)
{
    const struct hd_video_shape shape = {.height = HEIGHT, .width = WIDTH, .fps = 30, .scale = 2};
    static const char *const names[] = {"a.gif", "a.png", "a.apng"};
    draw(3);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hd_video *video;
        ck_assert_int_eq(hd_video_create(path_of(names[i]), &shape, &video), HD_OK);
        if (i > 0)
            ck_assert_int_eq(hd_video_add(video, pictures[0]), HD_OK);
        hd_video_destroy(video);
        ck_assert_int_ne(access(path_of(names[i]), F_OK), 0);
    }
    hd_video_destroy(NULL);
}

TEST(test_refused)
{
    struct hd_video *video;
    const struct hd_video_shape fast = {.height = 2, .width = 2, .fps = 60, .scale = 1},
                                large = {.height = 2, .width = 40000, .fps = 9, .scale = 2},
                                huge = {.height = 5000, .width = 5000, .fps = 9, .scale = 1};
    ck_assert_int_eq(hd_video_create("x.webm", &fast, &video), HD_ERR_INPUT);
    ck_assert_int_eq(hd_video_create("x.gif", &fast, &video), HD_ERR_INPUT);
    ck_assert_int_eq(hd_video_create("x.png", &large, &video), HD_ERR_INPUT);
    ck_assert_int_eq(hd_video_create("x.gif", &huge, &video), HD_ERR_INPUT);
    ck_assert_int_eq(hd_video_create("/proc/x.gif", &large, &video), HD_ERR_INPUT);
}
