/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/io/tensorboard.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tensorboard.pb-c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MODE = 0666, WAITING_MAX = 1 << 16 };

struct hd_tensorboard {
    int fd;
    char *path;
    void *waiting; /* appended, but not yet in the file: bytes [n_waiting] */
    int64_t n_waiting, capacity;
    int64_t written;
    bool failed; /* a write failed and was reported */
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
    if (board->n_waiting >= WAITING_MAX)
        HD_TRY(hd_tensorboard_flush(board));
    HD_TRY(hd_grow(&board->waiting, &board->capacity, board->n_waiting + record_bytes, 1));
    uint8_t *header = (uint8_t *)board->waiting + board->n_waiting,
            *message = header + HEADER_BYTES;
    hd__event__pack(event, message);
    const uint32_t length_crc = hd_crc32c_compute_masked(&bytes, sizeof bytes);
    const uint32_t message_crc = hd_crc32c_compute_masked(message, bytes);
    memcpy(header, &bytes, sizeof bytes);
    memcpy(header + sizeof bytes, &length_crc, sizeof length_crc);
    memcpy(message + bytes, &message_crc, sizeof message_crc);
    board->n_waiting += record_bytes;
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

int hd_tensorboard_create(const char *directory, struct hd_tensorboard **board_p)
{
    char host[64] = "localhost";
    gethostname(host, sizeof host - 1);
    double now_s = (double)hd_clock_get_wall_ns() * 1e-9;
    struct hd_tensorboard *board = hd_alloc(1, sizeof *board);
    if (!board)
        return HD_ERR_NOMEM;
    board->fd = -1;
    board->path = hd_format("%s/events.out.tfevents.%010lld.%s.%d.0", directory, (long long)now_s,
                            host, (int)getpid());
    int status = board->path ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        board->fd = open(board->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        if (board->fd < 0)
            status = hd_fail(HD_ERR_SYSTEM, "%s cannot be made: %m", board->path);
    }
    if (status == HD_OK)
        status = append_version(board, now_s);
    if (status == HD_OK)
        status = hd_tensorboard_flush(board);
    if (status != HD_OK) {
        hd_tensorboard_destroy(board);
        return status;
    }
    *board_p = board;
    return HD_OK;
}

int hd_tensorboard_open(const char *directory, const char *name, int64_t bytes,
                        struct hd_tensorboard **board_p)
{
    struct hd_tensorboard *board = hd_alloc(1, sizeof *board);
    if (!board)
        return HD_ERR_NOMEM;
    board->fd = -1;
    board->written = bytes;
    board->path = hd_format("%s/%s", directory, name);
    int status = board->path ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        board->fd = open(board->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, FILE_MODE);
        if (board->fd < 0 || ftruncate(board->fd, bytes) != 0)
            status = hd_fail(HD_ERR_SYSTEM, "%s cannot be continued: %m", board->path);
    }
    if (status != HD_OK) {
        hd_tensorboard_destroy(board);
        return status;
    }
    *board_p = board;
    return HD_OK;
}

const char *hd_tensorboard_get_name(const struct hd_tensorboard *board)
{
    return strrchr(board->path, '/') + 1;
}

void hd_tensorboard_destroy(struct hd_tensorboard *board)
{
    if (!board)
        return;
    if (board->fd >= 0) {
        hd_tensorboard_flush(board);
        if (close(board->fd) != 0 && !board->failed)
            hd_log(HD_LOG_ERROR, "%s cannot be written: %m", board->path);
    }
    hd_free(board->waiting);
    hd_free(board->path);
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

/* Keeps what a failed write left over, so that the file always holds the first records, in order.
 */
int hd_tensorboard_flush(struct hd_tensorboard *board)
{
    char *waiting = board->waiting;
    int64_t done = 0;
    while (done < board->n_waiting) {
        ssize_t n = write(board->fd, waiting + done, (size_t)(board->n_waiting - done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += n;
    }
    int error = errno;
    board->written += done;
    board->n_waiting -= done;
    if (done > 0)
        memmove(waiting, waiting + done, (size_t)board->n_waiting);
    if (board->n_waiting == 0)
        return HD_OK;
    errno = error;
    if (!board->failed)
        hd_log(HD_LOG_ERROR, "%s cannot be written: %m", board->path);
    board->failed = true;
    return HD_ERR_SYSTEM;
}

int64_t hd_tensorboard_get_length(const struct hd_tensorboard *board)
{
    return board->written + board->n_waiting;
}
