/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/tensorboard.h"
#include "tensorboard.pb-c.h"

#include <string.h>

enum { HEADER_BYTES = sizeof(uint64_t) + sizeof(uint32_t), TAIL_BYTES = sizeof(uint32_t) };

struct reader {
    const char *path;
    void (*each)(void *arg, const char *tag, int64_t step, double wall_s, double value);
    void *arg;
};

static uint32_t word_at(const char *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static int damaged(const struct reader *reader, int64_t at)
{
    return hd_fail(HD_ERR_FORMAT, "%s: the record at byte %lld is damaged", reader->path,
                   (long long)at);
}

static void hand_on(const struct reader *reader, const Hd__Event *event)
{
    if (event->what_case != HD__EVENT__WHAT_SUMMARY)
        return;
    for (size_t i = 0; i < event->summary->n_value; i++) {
        const Hd__SummaryValue *value = event->summary->value[i];
        if (value->value_case == HD__SUMMARY_VALUE__VALUE_SIMPLE_VALUE)
            reader->each(reader->arg, value->tag, event->step, event->wall_time,
                         value->simple_value);
    }
}

static int read_records(const struct reader *reader, const char *content, int64_t bytes)
{
    int64_t at = 0;
    while (bytes - at >= HEADER_BYTES + TAIL_BYTES) {
        uint64_t length;
        memcpy(&length, content + at, sizeof length);
        if (hd_crc32c_compute_masked(&length, sizeof length) !=
            word_at(content + at + sizeof length))
            return damaged(reader, at);
        if (length > (uint64_t)(bytes - at - HEADER_BYTES - TAIL_BYTES))
            return HD_OK;
        const char *message = content + at + HEADER_BYTES;
        if (hd_crc32c_compute_masked(message, length) != word_at(message + length))
            return damaged(reader, at);
        Hd__Event *event = hd__event__unpack(NULL, length, (const uint8_t *)message);
        if (!event)
            return damaged(reader, at);
        hand_on(reader, event);
        hd__event__free_unpacked(event, NULL);
        at += HEADER_BYTES + (int64_t)length + TAIL_BYTES;
    }
    return HD_OK;
}

int hd_tensorboard_read(const char *path,
                        void (*each)(void *arg, const char *tag, int64_t step, double wall_s,
                                     double value),
                        void *arg)
{
    const struct reader reader = {path, each, arg};
    char *content;
    int64_t bytes;
    HD_TRY(hd_file_read(path, HD_INPUT_RUN, &content, &bytes));
    int status = read_records(&reader, content, bytes);
    hd_free(content);
    return status;
}
