/* SPDX-License-Identifier: Apache-2.0 */
/* PNG, and the animated PNG of the third edition (W3C 2025, section 11.3.4): a PNG whose further
 * pictures are chunks that other readers pass over. zlib compresses. */
#include "runtime/io/video/png.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/video/video_internal.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { SIGNATURE_BYTES = 8, HEADER_BYTES = 13, CONTROL_BYTES = 26, SEQUENCE_BYTES = 4 };

static const char signature[SIGNATURE_BYTES] = "\211PNG\r\n\032\n";

static void put_u32(uint8_t *at, int64_t number)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(number >> (24 - 8 * i));
}

/* Writes bytes, if there are any, and returns the checksum with them. */
static uLong put_bytes(FILE *file, const void *data, int64_t bytes, uLong sum)
{
    if (bytes == 0)
        return sum;
    fwrite(data, 1, (size_t)bytes, file);
    return crc32_z(sum, data, (z_size_t)bytes);
}

/* Chunks are length, type, data and a checksum of type and data; `before` are further data. */
static void put_chunk(FILE *file, const char *type, const uint8_t *before, int64_t before_bytes,
                      const uint8_t *data, int64_t bytes)
{
    uint8_t number[4];
    put_u32(number, before_bytes + bytes);
    fwrite(number, 1, sizeof number, file);
    uLong sum = put_bytes(file, type, 4, 0);
    sum = put_bytes(file, before, before_bytes, sum);
    sum = put_bytes(file, data, bytes, sum);
    put_u32(number, (int64_t)sum);
    fwrite(number, 1, sizeof number, file);
}

static void put_start(FILE *file, int64_t height, int64_t width)
{
    uint8_t header[HEADER_BYTES] = {[8] = 8 /* bits */, [9] = 2 /* red, green, blue */};
    put_u32(header, width);
    put_u32(header + 4, height);
    fwrite(signature, 1, sizeof signature, file);
    put_chunk(file, "IHDR", NULL, 0, header, sizeof header);
}

/* Rows of pixels, each behind the number of its filter, and these compressed. */
struct rows {
    uint8_t *plain, *packed;
    int64_t packed_max;
};

static int64_t get_plain_bytes(int64_t height, int64_t width)
{
    return height * (1 + 3 * width);
}

static void free_rows(struct rows *rows)
{
    hd_free(rows->plain);
    hd_free(rows->packed);
}

static int make_rows(int64_t height, int64_t width, struct rows *rows_p)
{
    const int64_t plain = get_plain_bytes(height, width);
    rows_p->packed_max = (int64_t)compressBound((uLong)plain);
    rows_p->plain = hd_alloc(plain, 1);
    rows_p->packed = hd_alloc(rows_p->packed_max, 1);
    return rows_p->plain && rows_p->packed ? HD_OK : HD_ERR_NOMEM;
}

/* Compresses a part of a picture, without filters, which do drawings no good. */
static int pack(const struct rows *rows, const struct hd_video_part *part, int64_t *bytes_p)
{
    const int64_t row_bytes = 1 + 3 * part->width;
    uLongf bytes = (uLongf)rows->packed_max;
    for (int64_t y = 0; y < part->height; y++) {
        rows->plain[y * row_bytes] = 0;
        memcpy(rows->plain + y * row_bytes + 1, hd_video_part_get_row(part, y),
               (size_t)(row_bytes - 1));
    }
    if (compress2(rows->packed, &bytes, rows->plain, (uLong)(part->height * row_bytes),
                  Z_DEFAULT_COMPRESSION) != Z_OK)
        return HD_ERR_NOMEM;
    *bytes_p = (int64_t)bytes;
    return HD_OK;
}

int hd_png_write(const uint8_t *rgb, int64_t height, int64_t width, FILE *file)
{
    const struct hd_video_part part = {
        .rgb = rgb, .stride = width, .width = width, .height = height};
    struct rows rows = {0};
    int64_t bytes = 0;
    int status = make_rows(height, width, &rows);
    if (status == HD_OK)
        status = pack(&rows, &part, &bytes);
    if (status == HD_OK) {
        put_start(file, height, width);
        put_chunk(file, "IDAT", NULL, 0, rows.packed, bytes);
        put_chunk(file, "IEND", NULL, 0, NULL, 0);
        status = ferror(file) ? HD_ERR_SYSTEM : HD_OK;
    }
    free_rows(&rows);
    return status;
}

/* -- Animations -------------------------------------------------------------------------------- */

struct writer {
    struct hd_video_start start;
    struct rows rows;
    int64_t pictures, chunks; /* chunks are numbered */
};

static int fail(const struct writer *writer)
{
    return hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", writer->start.path);
}

/* Tells the number of pictures, which are shown again and again. */
static void put_animation(const struct writer *writer)
{
    uint8_t data[8] = {0};
    put_u32(data, writer->pictures);
    put_chunk(writer->start.file, "acTL", NULL, 0, data, sizeof data);
}

static int png_begin(const struct hd_video_start *start, void **writer_p)
{
    struct writer *writer = hd_alloc(1, sizeof *writer);
    if (!writer)
        return HD_ERR_NOMEM;
    *writer_p = writer;
    writer->start = *start;
    HD_TRY(make_rows(start->height, start->width, &writer->rows));
    put_start(start->file, start->height, start->width);
    put_animation(writer);
    return HD_OK;
}

static void put_control(struct writer *writer, const struct hd_video_part *part)
{
    uint8_t data[CONTROL_BYTES] = {[21] = 1}; /* 1 / fps seconds; the part replaces what is there */
    put_u32(data, writer->chunks++);
    put_u32(data + 4, part->width);
    put_u32(data + 8, part->height);
    put_u32(data + 12, part->left);
    put_u32(data + 16, part->top);
    data[23] = (uint8_t)writer->start.fps;
    put_chunk(writer->start.file, "fcTL", NULL, 0, data, sizeof data);
}

static int png_add(void *memory, const struct hd_video_part *part)
{
    struct writer *writer = memory;
    uint8_t sequence[SEQUENCE_BYTES];
    int64_t bytes;
    if (pack(&writer->rows, part, &bytes) != HD_OK)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory to compress a picture", writer->start.path);
    put_control(writer, part);
    if (writer->pictures++ == 0) {
        put_chunk(writer->start.file, "IDAT", NULL, 0, writer->rows.packed, bytes);
    } else {
        put_u32(sequence, writer->chunks++);
        put_chunk(writer->start.file, "fdAT", sequence, sizeof sequence, writer->rows.packed,
                  bytes);
    }
    return ferror(writer->start.file) ? fail(writer) : HD_OK;
}

/* The number of pictures stands before them. */
static int end(void *memory)
{
    struct writer *writer = memory;
    FILE *file = writer->start.file;
    put_chunk(file, "IEND", NULL, 0, NULL, 0);
    if (fseek(file, SIGNATURE_BYTES + 12 + HEADER_BYTES, SEEK_SET) != 0)
        return fail(writer);
    put_animation(writer);
    return ferror(file) ? fail(writer) : HD_OK;
}

static void png_release(void *memory)
{
    struct writer *writer = memory;
    free_rows(&writer->rows);
    hd_free(writer);
}

const struct hd_video_format hd_video_png = {
    .begin = png_begin, .add = png_add, .end = end, .release = png_release};
