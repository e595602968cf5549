/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/tensorboard.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tensorboard.pb-c.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct hd_tensorboard {
    FILE *file;
    char *path;
    int failed; /* a write failed and was reported */
};

/* -- Records: length, its checksum, the message, its checksum; all little-endian ------------------
 */

uint32_t hd_crc32c(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return ~crc;
}

uint32_t hd_crc32c_masked(const void *data, size_t bytes)
{
    uint32_t crc = hd_crc32c(data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static int write_record(struct hd_tensorboard *board, const void *message, uint64_t bytes)
{
    uint32_t length_crc = hd_crc32c_masked(&bytes, sizeof bytes);
    uint32_t message_crc = hd_crc32c_masked(message, bytes);
    if (fwrite(&bytes, sizeof bytes, 1, board->file) == 1 &&
        fwrite(&length_crc, sizeof length_crc, 1, board->file) == 1 &&
        fwrite(message, bytes, 1, board->file) == 1 &&
        fwrite(&message_crc, sizeof message_crc, 1, board->file) == 1)
        return HD_OK;
    if (!board->failed)
        hd_log(HD_LOG_ERROR, "%s cannot be written: %m", board->path);
    board->failed = 1;
    return HD_ERR_SYSTEM;
}

static int write_event(struct hd_tensorboard *board, const Hd__Event *event)
{
    uint8_t few[512];
    size_t bytes = hd__event__get_packed_size(event);
    uint8_t *message = bytes <= sizeof few ? few : hd_alloc((int64_t)bytes, 1);
    if (!message)
        return HD_ERR_NOMEM;
    hd__event__pack(event, message);
    int status = write_record(board, message, bytes);
    if (message != few)
        hd_free(message);
    return status;
}

int hd_tensorboard_create(const char *directory, struct hd_tensorboard **board_p)
{
    char host[64] = "localhost";
    gethostname(host, sizeof host - 1);
    double now_s = (double)hd_clock_wall_ns() * 1e-9;
    struct hd_tensorboard *board = hd_alloc(1, sizeof *board);
    if (!board)
        return HD_ERR_NOMEM;
    board->path =
        hd_format("%s/events.out.tfevents.%010.0f.%s.%d.0", directory, now_s, host, (int)getpid());
    board->file = board->path ? fopen(board->path, "wb") : NULL;
    int status = HD_OK;
    if (!board->file)
        status = hd_fail(HD_ERR_SYSTEM, "%s cannot be made: %m", board->path);
    Hd__Event event = HD__EVENT__INIT;
    event.wall_time = now_s;
    event.what_case = HD__EVENT__WHAT_FILE_VERSION;
    event.file_version = "brain.Event:2";
    if (status == HD_OK)
        status = write_event(board, &event);
    if (status != HD_OK) {
        hd_tensorboard_destroy(board);
        return status;
    }
    *board_p = board;
    return HD_OK;
}

void hd_tensorboard_destroy(struct hd_tensorboard *board)
{
    if (!board)
        return;
    if (board->file && fclose(board->file) != 0 && !board->failed)
        hd_log(HD_LOG_ERROR, "%s cannot be written: %m", board->path);
    hd_free(board->path);
    hd_free(board);
}

int hd_tensorboard_scalar(struct hd_tensorboard *board, const char *tag, int64_t step,
                          double wall_s, double value)
{
    Hd__SummaryValue scalar = HD__SUMMARY_VALUE__INIT;
    scalar.tag = (char *)tag;
    scalar.simple_value = (float)value;
    Hd__SummaryValue *values[] = {&scalar};
    Hd__Summary summary = HD__SUMMARY__INIT;
    summary.n_value = 1;
    summary.value = values;
    Hd__Event event = HD__EVENT__INIT;
    event.wall_time = wall_s;
    event.step = step;
    event.what_case = HD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(board, &event);
}

int hd_tensorboard_flush(struct hd_tensorboard *board)
{
    if (fflush(board->file) == 0)
        return HD_OK;
    if (!board->failed)
        hd_log(HD_LOG_ERROR, "%s cannot be written: %m", board->path);
    board->failed = 1;
    return HD_ERR_SYSTEM;
}
