/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/video/video.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/video/video_internal.h"

#include <stdbool.h>
#include <string.h>

struct hd_video {
    struct hd_video_shape shape;
    int64_t height, width; /* of the file's pictures */
    struct hd_file_draft draft;
    const struct hd_video_format *format;
    void *writer;
    uint8_t *present, *last; /* [height][width][3] */
    bool begun;              /* there is a last picture */
};

static const struct {
    const char *ending;
    const struct hd_video_format *format;
} formats[] = {
    {".gif", &hd_video_gif},
    {".png", &hd_video_png},
    {".apng", &hd_video_png},
    {".mp4", &hd_video_mp4},
};

static const struct hd_video_format *find_format(const char *path)
{
    const char *name = strrchr(path, '/'), *ending = strrchr(name ? name : path, '.');
    for (size_t i = 0; ending && i < sizeof formats / sizeof *formats; i++)
        if (strcmp(ending, formats[i].ending) == 0)
            return formats[i].format;
    return NULL;
}

static int check_shape(const struct hd_video *video, const char *path)
{
    if (!video->format)
        return hd_fail(HD_ERR_INPUT, "%s: a video's name ends in .gif, .png, .apng or .mp4", path);
    if (video->height > HD_VIDEO_SIZE_MAX || video->width > HD_VIDEO_SIZE_MAX ||
        video->height * video->width > HD_VIDEO_PIXELS_MAX)
        return hd_fail(
            HD_ERR_INPUT,
            "%s: a picture would have %lld x %lld pixels, at most %d on a side and %d in "
            "all: let the environment draw smaller ones",
            path, (long long)video->width, (long long)video->height, HD_VIDEO_SIZE_MAX,
            HD_VIDEO_PIXELS_MAX);
    if (video->format == &hd_video_gif && video->shape.fps > HD_VIDEO_GIF_FPS_MAX)
        return hd_fail(HD_ERR_INPUT, "%s: a GIF shows at most %d pictures a second, found %lld",
                       path, HD_VIDEO_GIF_FPS_MAX, (long long)video->shape.fps);
    return HD_OK;
}

static int begin(struct hd_video *video, const char *path)
{
    HD_TRY(check_shape(video, path));
    video->present = hd_alloc(video->height * video->width, 3);
    video->last = hd_alloc(video->height * video->width, 3);
    if (!video->present || !video->last)
        return HD_ERR_NOMEM;
    HD_TRY(hd_file_draft_open(path, &video->draft));
    const struct hd_video_start start = {.file = video->draft.file,
                                         .path = video->draft.path,
                                         .height = video->height,
                                         .width = video->width,
                                         .fps = video->shape.fps};
    return video->format->begin(&start, &video->writer);
}

int hd_video_create(const char *path, const struct hd_video_shape *shape, struct hd_video **video_p)
{
    struct hd_video *video = hd_alloc(1, sizeof *video);
    if (!video)
        return HD_ERR_NOMEM;
    video->shape = *shape;
    video->height = shape->height * shape->scale;
    video->width = shape->width * shape->scale;
    video->format = find_format(path);
    const int status = begin(video, path);
    if (status == HD_OK)
        *video_p = video;
    else
        hd_video_destroy(video);
    return status;
}

static void enlarge(const struct hd_video *video, const uint8_t *rgb)
{
    const int64_t scale = video->shape.scale, row_bytes = 3 * video->width;
    for (int64_t y = 0; y < video->height; y++) {
        uint8_t *row = video->present + y * row_bytes;
        if (y % scale > 0) {
            memcpy(row, row - row_bytes, (size_t)row_bytes);
            continue;
        }
        const uint8_t *from = rgb + 3 * (y / scale * video->shape.width);
        for (int64_t x = 0; x < video->width; x++)
            memcpy(row + 3 * x, from + 3 * (x / scale), 3);
    }
}

/* Returns whether a row, or a column, is that of the last picture. */
static bool is_row_same(const struct hd_video *video, int64_t y)
{
    const int64_t at = 3 * y * video->width;
    return memcmp(video->present + at, video->last + at, (size_t)(3 * video->width)) == 0;
}

static bool is_column_same(const struct hd_video *video, int64_t x)
{
    for (int64_t y = 0; y < video->height; y++)
        if (memcmp(video->present + 3 * (y * video->width + x),
                   video->last + 3 * (y * video->width + x), 3) != 0)
            return false;
    return true;
}

/* Returns the smallest part that holds all pixels which differ from the last picture; one pixel if
 * there are none. */
static struct hd_video_part find_part(const struct hd_video *video)
{
    int64_t top = 0, bottom = video->height, left = 0, right = video->width;
    if (video->begun) {
        while (top < bottom - 1 && is_row_same(video, top))
            top++;
        while (bottom > top + 1 && is_row_same(video, bottom - 1))
            bottom--;
        while (left < right - 1 && is_column_same(video, left))
            left++;
        while (right > left + 1 && is_column_same(video, right - 1))
            right--;
    }
    return (struct hd_video_part){.rgb = video->present,
                                  .stride = video->width,
                                  .left = left,
                                  .top = top,
                                  .width = right - left,
                                  .height = bottom - top};
}

int hd_video_add(struct hd_video *video, const uint8_t *rgb)
{
    enlarge(video, rgb);
    const struct hd_video_part part = find_part(video);
    HD_TRY(video->format->add(video->writer, &part));
    uint8_t *last = video->last;
    video->last = video->present;
    video->present = last;
    video->begun = true;
    return HD_OK;
}

int hd_video_publish(struct hd_video *video)
{
    HD_TRY(video->format->end(video->writer));
    return hd_file_draft_publish(&video->draft);
}

void hd_video_destroy(struct hd_video *video)
{
    if (!video)
        return;
    if (video->writer)
        video->format->release(video->writer);
    hd_file_draft_discard(&video->draft);
    hd_free(video->present);
    hd_free(video->last);
    hd_free(video);
}
