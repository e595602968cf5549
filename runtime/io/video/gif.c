/* SPDX-License-Identifier: Apache-2.0 */
/* GIF, by giflib. The colours of the first picture are the file's; a picture with others brings its
 * own. A picture shows only the part that differs from the one before. */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/video/palette.h"
#include "runtime/io/video/video_internal.h"

#include <gif_lib.h>
#include <string.h>

struct writer {
    struct hd_video_start start;
    GifFileType *gif;
    struct hd_palette file_palette, own_palette;
    uint8_t *indices;
    int64_t pictures;
};

static int put_bytes(GifFileType *gif, const GifByteType *bytes, int n)
{
    const struct writer *writer = gif->UserData;
    return (int)fwrite(bytes, 1, (size_t)n, writer->start.file);
}

static int fail(const struct writer *writer)
{
    const char *reason = writer->gif ? GifErrorString(writer->gif->Error) : NULL;
    return hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %s", writer->start.path,
                   reason ? reason : "giflib failed");
}

static int gif_begin(const struct hd_video_start *start, void **writer_p)
{
    struct writer *writer = hd_alloc(1, sizeof *writer);
    int error;
    if (!writer)
        return HD_ERR_NOMEM;
    *writer_p = writer;
    writer->start = *start;
    writer->indices = hd_alloc(start->width * start->height, 1);
    writer->gif = writer->indices ? EGifOpen(writer, put_bytes, &error) : NULL;
    return writer->gif ? HD_OK : HD_ERR_NOMEM;
}

/* Returns a palette as giflib has it; NULL: no memory. A map has a power of two of colours. */
static ColorMapObject *make_map(const struct hd_palette *palette)
{
    int n = 2;
    while (n < palette->n)
        n *= 2;
    ColorMapObject *map = GifMakeMapObject(n, NULL);
    for (int i = 0; map && i < palette->n; i++)
        map->Colors[i] = (GifColorType){palette->rgb[i][0], palette->rgb[i][1], palette->rgb[i][2]};
    return map;
}

/* Begins the file, which is shown again and again. */
static bool put_start(struct writer *writer)
{
    GifFileType *gif = writer->gif;
    ColorMapObject *map = make_map(&writer->file_palette);
    EGifSetGifVersion(gif, true);
    const bool done = map &&
                      EGifPutScreenDesc(gif, (int)writer->start.width, (int)writer->start.height, 8,
                                        0, map) == GIF_OK &&
                      EGifPutExtensionLeader(gif, APPLICATION_EXT_FUNC_CODE) == GIF_OK &&
                      EGifPutExtensionBlock(gif, 11, "NETSCAPE2.0") == GIF_OK &&
                      EGifPutExtensionBlock(gif, 3, "\1\0\0") == GIF_OK &&
                      EGifPutExtensionTrailer(gif) == GIF_OK;
    GifFreeMapObject(map);
    return done;
}

/* Times are in hundredths of a second: picture i ends at the one nearest to (i + 1) / fps. */
static int64_t get_end(const struct writer *writer, int64_t picture)
{
    return (200 * (picture + 1) + writer->start.fps) / (2 * writer->start.fps);
}

static bool put_time(struct writer *writer)
{
    const int64_t i = writer->pictures++;
    const GraphicsControlBlock control = {
        .DisposalMode = DISPOSE_DO_NOT,
        .DelayTime = (int)(get_end(writer, i) - (i > 0 ? get_end(writer, i - 1) : 0)),
        .TransparentColor = NO_TRANSPARENT_COLOR};
    GifByteType bytes[4];
    EGifGCBToExtension(&control, bytes);
    return EGifPutExtension(writer->gif, GRAPHICS_EXT_FUNC_CODE, sizeof bytes, bytes) == GIF_OK;
}

static bool apply(struct writer *writer, const struct hd_palette *palette,
                  const struct hd_video_part *part)
{
    for (int64_t row = 0; row < part->height; row++)
        if (!hd_palette_apply(palette, part, row, writer->indices + row * part->width))
            return false;
    return true;
}

/* Writes the indices of a part, whose colours are those of `palette`; NULL: the file's. */
static bool put_part(struct writer *writer, const struct hd_palette *palette,
                     const struct hd_video_part *part)
{
    ColorMapObject *map = palette ? make_map(palette) : NULL;
    /* giflib forgets its copy of the last map when there is none for this part. */
    GifFreeMapObject(writer->gif->Image.ColorMap);
    writer->gif->Image.ColorMap = NULL;
    bool done = (map || !palette) &&
                EGifPutImageDesc(writer->gif, (int)part->left, (int)part->top, (int)part->width,
                                 (int)part->height, false, map) == GIF_OK;
    for (int64_t row = 0; done && row < part->height; row++)
        done = EGifPutLine(writer->gif, writer->indices + row * part->width, (int)part->width) ==
               GIF_OK;
    GifFreeMapObject(map);
    return done;
}

static int gif_add(void *memory, const struct hd_video_part *part)
{
    struct writer *writer = memory;
    const bool first = writer->pictures == 0;
    if (first)
        hd_palette_make(&writer->file_palette, part);
    if (first && !put_start(writer))
        return fail(writer);
    /* A palette that is not exact is right for its own picture only. */
    const bool of_file =
        (first || writer->file_palette.exact) && apply(writer, &writer->file_palette, part);
    if (!of_file) {
        hd_palette_make(&writer->own_palette, part);
        apply(writer, &writer->own_palette, part);
    }
    if (!put_time(writer) || !put_part(writer, of_file ? NULL : &writer->own_palette, part))
        return fail(writer);
    return HD_OK;
}

static int end(void *memory)
{
    struct writer *writer = memory;
    int error;
    const bool closed = EGifCloseFile(writer->gif, &error) == GIF_OK;
    writer->gif = NULL;
    return closed ? HD_OK : fail(writer);
}

static void gif_release(void *memory)
{
    struct writer *writer = memory;
    int error;
    if (writer && writer->gif)
        EGifCloseFile(writer->gif, &error);
    if (writer)
        hd_free(writer->indices);
    hd_free(writer);
}

const struct hd_video_format hd_video_gif = {
    .begin = gif_begin, .add = gif_add, .end = end, .release = gif_release};
