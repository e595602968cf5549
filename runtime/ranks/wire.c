/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/wire.h"

#include "runtime/base/clock.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(offsetof(struct hd_frame, payload) == HD_WIRE_HEADER, "a frame has no gaps");
_Static_assert(sizeof(struct hd_hello) + 64 < HD_WIRE_PAYLOAD, "a hello fits into a frame");

static bool is_header_valid(const struct hd_frame *frame)
{
    return frame->magic == HD_WIRE_MAGIC && frame->version == HD_WIRE_VERSION &&
           frame->kind >= HD_WIRE_CHALLENGE && frame->kind < HD_WIRE_KINDS &&
           frame->bytes < HD_WIRE_PAYLOAD; /* one byte is left for a text's zero */
}

static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        int64_t left_ms = (deadline_ns - hd_clock_get_ns() + 999999) / 1000000;
        struct pollfd one = {.fd = fd, .events = events};
        int n = poll(&one, 1, left_ms > 0 ? (int)(left_ms < 3600000 ? left_ms : 3600000) : 0);
        if (n > 0 || (n == 0 && left_ms <= 0))
            return n > 0;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

static void make_tag(const struct hd_frame *frame, const struct hd_wire_key *key,
                     uint8_t tag[HD_WIRE_TAG])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, key->key, sizeof key->key, HD_WIRE_TAG);
    crypto_generichash_update(&state, (const uint8_t *)&key->count, sizeof key->count);
    crypto_generichash_update(&state, (const uint8_t *)frame, HD_WIRE_HEADER + frame->bytes);
    crypto_generichash_final(&state, tag, HD_WIRE_TAG);
}

bool hd_frame_check_tag(const struct hd_frame *frame, struct hd_wire_key *key)
{
    uint8_t tag[HD_WIRE_TAG];
    make_tag(frame, key, tag);
    if (sodium_memcmp(tag, frame->payload + frame->bytes, sizeof tag) != 0)
        return false;
    key->count++;
    return true;
}

enum hd_frame_state hd_frame_reader_read(struct hd_frame_reader *reader, int fd)
{
    struct hd_frame *frame = &reader->frame;
    for (;;) {
        size_t wanted =
            HD_WIRE_HEADER + (reader->used < HD_WIRE_HEADER ? 0 : frame->bytes + HD_WIRE_TAG);
        ssize_t n = recv(fd, (char *)frame + reader->used, wanted - reader->used, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HD_FRAME_INCOMPLETE;
        if (n <= 0)
            return HD_FRAME_CLOSED;
        reader->used += (size_t)n;
        if (reader->used < HD_WIRE_HEADER)
            continue;
        if (!is_header_valid(frame))
            return HD_FRAME_INVALID;
        if (reader->used == HD_WIRE_HEADER + frame->bytes + HD_WIRE_TAG) {
            reader->used = 0;
            return !reader->keyed || hd_frame_check_tag(frame, &reader->key) ? HD_FRAME_COMPLETE
                                                                             : HD_FRAME_INVALID;
        }
    }
}

enum hd_frame_state hd_frame_reader_wait(struct hd_frame_reader *reader, int fd,
                                         int64_t deadline_ns)
{
    for (;;) {
        enum hd_frame_state state = hd_frame_reader_read(reader, fd);
        if (state != HD_FRAME_INCOMPLETE || !wait_for(fd, POLLIN, deadline_ns))
            return state;
    }
}

bool hd_wire_send(int fd, struct hd_wire_key *key, enum hd_wire_kind kind, int number,
                  const void *payload, size_t bytes, int64_t deadline_ns)
{
    struct hd_frame frame = {HD_WIRE_MAGIC, HD_WIRE_VERSION, (uint16_t)kind,
                             number,        (uint32_t)bytes, ""};
    if (bytes > 0)
        memcpy(frame.payload, payload, bytes);
    make_tag(&frame, key, (uint8_t *)frame.payload + bytes);
    key->count++;
    const char *at = (const char *)&frame;
    for (size_t left = HD_WIRE_HEADER + bytes + HD_WIRE_TAG; left > 0;) {
        ssize_t n = send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            at += n;
            left -= (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(fd, POLLOUT, deadline_ns))
                return false;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

const char *hd_frame_get_text(struct hd_frame *frame)
{
    frame->payload[frame->bytes] = '\0';
    for (char *c = frame->payload; *c; c++) /* no control characters into anybody's terminal */
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
    return frame->payload;
}

static bool is_text(const char *text, size_t bytes)
{
    size_t length = strnlen(text, bytes);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false;
    return length < bytes;
}

bool hd_hello_read(const void *body, size_t bytes, struct hd_hello *hello_p)
{
    struct hd_hello hello;
    if (bytes != sizeof hello)
        return false;
    memcpy(&hello, body, sizeof hello);
    if (hello.world < 2 || hello.world > HD_WORLD_MAX || hello.rank < 1 ||
        hello.rank >= hello.world || hello.pid < 1)
        return false;
    if (!is_text(hello.host, sizeof hello.host) || !is_text(hello.boot_id, sizeof hello.boot_id) ||
        !is_text(hello.fingerprint, sizeof hello.fingerprint))
        return false;
    *hello_p = hello;
    return true;
}
