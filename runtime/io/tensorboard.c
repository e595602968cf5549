/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/tensorboard.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/io/append.h"
#include "tensorboard.pb-c.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "events.out.tfevents."

struct hd_tensorboard {
    struct hd_appender *file;
    void *record; /* memory for one */
    int64_t capacity;
};

/* -- Records: length, its checksum, the message, its checksum; all little-endian --------------- */

uint32_t hd_crc32c_compute(const void *data, size_t bytes)
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

uint32_t hd_crc32c_compute_masked(const void *data, size_t bytes)
{
    uint32_t crc = hd_crc32c_compute(data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static int append_event(struct hd_tensorboard *board, const Hd__Event *event)
{
    enum { HEADER_BYTES = sizeof(uint64_t) + sizeof(uint32_t), TAIL_BYTES = sizeof(uint32_t) };
    const uint64_t bytes = hd__event__get_packed_size(event);
    const int64_t record_bytes = HEADER_BYTES + (int64_t)bytes + TAIL_BYTES;
    HD_TRY(hd_grow(&board->record, &board->capacity, record_bytes, 1));
    uint8_t *header = board->record, *message = header + HEADER_BYTES;
    hd__event__pack(event, message);
    const uint32_t length_crc = hd_crc32c_compute_masked(&bytes, sizeof bytes);
    const uint32_t message_crc = hd_crc32c_compute_masked(message, bytes);
    memcpy(header, &bytes, sizeof bytes);
    memcpy(header + sizeof bytes, &length_crc, sizeof length_crc);
    memcpy(message + bytes, &message_crc, sizeof message_crc);
    hd_appender_add(board->file, board->record, record_bytes);
    return HD_OK;
}

static int append_version(struct hd_tensorboard *board, double now_s)
{
    Hd__Event event = HD__EVENT__INIT;
    event.wall_time = now_s;
    event.what_case = HD__EVENT__WHAT_FILE_VERSION;
    event.file_version = "brain.Event:2";
    return append_event(board, &event);
}

static int open_board(const char *directory, const char *name, int64_t keep,
                      struct hd_tensorboard **board_p)
{
    struct hd_tensorboard *board = hd_alloc(1, sizeof *board);
    char *path = hd_format("%s/%s", directory, name);
    int status = board && path ? hd_appender_create(path, keep, &board->file) : HD_ERR_NOMEM;
    hd_free(path);
    if (status == HD_OK)
        *board_p = board;
    else
        hd_free(board);
    return status;
}

/* TensorBoard shows all files of a directory as one run. */
static void remove_event_files(const char *directory)
{
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (fnmatch(PREFIX "[0-9]*.0", entry->d_name, 0) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

int hd_tensorboard_create(const char *directory, struct hd_tensorboard **board_p)
{
    char host[64] = "localhost", name[128];
    gethostname(host, sizeof host - 1);
    const double now_s = (double)hd_clock_get_wall_ns() * 1e-9;
    struct hd_tensorboard *board;
    snprintf(name, sizeof name, PREFIX "%010lld.%s.%d.0", (long long)now_s, host, (int)getpid());
    remove_event_files(directory);
    HD_TRY(open_board(directory, name, 0, &board));
    const int status = append_version(board, now_s);
    if (status != HD_OK) {
        hd_tensorboard_destroy(board);
        return status;
    }
    hd_tensorboard_flush(board);
    *board_p = board;
    return HD_OK;
}

int hd_tensorboard_open(const char *directory, const char *name, int64_t bytes,
                        struct hd_tensorboard **board_p)
{
    return open_board(directory, name, bytes, board_p);
}

const char *hd_tensorboard_get_name(const struct hd_tensorboard *board)
{
    return strrchr(hd_appender_get_path(board->file), '/') + 1;
}

void hd_tensorboard_destroy(struct hd_tensorboard *board)
{
    if (!board)
        return;
    hd_appender_destroy(board->file);
    hd_free(board->record);
    hd_free(board);
}

int hd_tensorboard_add_scalar(struct hd_tensorboard *board, const char *tag, int64_t step,
                              double wall_s, double value)
{
    Hd__SummaryValue scalar = HD__SUMMARY_VALUE__INIT;
    scalar.tag = (char *)tag;
    scalar.value_case = HD__SUMMARY_VALUE__VALUE_SIMPLE_VALUE;
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
    return append_event(board, &event);
}

void hd_tensorboard_flush(struct hd_tensorboard *board)
{
    hd_appender_flush(board->file);
}

int64_t hd_tensorboard_get_length(const struct hd_tensorboard *board)
{
    return hd_appender_get_length(board->file);
}
