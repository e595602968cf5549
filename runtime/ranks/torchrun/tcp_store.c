/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/torchrun/tcp_store.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Numbers of queries before PyTorch 2.1. */
enum { SET = 0, GET = 2, WAIT = 5, GETNUMKEYS = 6 };

enum { STOP_WAITING = 0, VALIDATE = 0, SHIFT = 1 };
enum { RETRY_MS = 50, ATTEMPT_MS = 2000, ANSWER_MS = 10000, PROBES = 4 };

static const uint32_t validation_magic = 0x3c85f7ce;

/* A query is sent as a whole, because a server of before 2.1 serves nobody else while it reads one.
 */
struct query {
    size_t bytes;
    char data[2 * HD_TCP_STORE_TEXT + 64];
};

static void append(struct query *query, const void *data, size_t bytes)
{
    memcpy(query->data + query->bytes, data, bytes);
    query->bytes += bytes;
}

static void append_code(struct query *query, int code)
{
    const unsigned char byte = (unsigned char)code;
    append(query, &byte, 1);
}

static void append_text(struct query *query, const char *text)
{
    const uint64_t bytes = strlen(text);
    append(query, &bytes, sizeof bytes);
    append(query, text, bytes);
}

static bool wait_for(int fd, short events, int64_t deadline_ns)
{
    for (;;) {
        const int64_t left_ms = (deadline_ns - hd_clock_get_ns()) / 1000000;
        struct pollfd one = {.fd = fd, .events = events};
        const int n = poll(&one, 1, left_ms > 0 ? (int)(left_ms < 60000 ? left_ms : 60000) : 0);
        if (n > 0 || (n == 0 && left_ms <= 0))
            return n > 0;
        if (n < 0 && errno != EINTR)
            return false;
    }
}

enum exchange { DONE, LATE, CLOSED };

static enum exchange send_query(int fd, const struct query *query, int64_t deadline_ns)
{
    for (size_t sent = 0; sent < query->bytes;) {
        const ssize_t n =
            send(fd, query->data + sent, query->bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            sent += (size_t)n;
        else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return CLOSED;
        else if (!wait_for(fd, POLLOUT, deadline_ns))
            return LATE;
    }
    return DONE;
}

static enum exchange receive(int fd, void *data, size_t bytes, int64_t deadline_ns)
{
    for (size_t received = 0; received < bytes;) {
        const ssize_t n = recv(fd, (char *)data + received, bytes - received, MSG_DONTWAIT);
        if (n > 0)
            received += (size_t)n;
        else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return CLOSED;
        else if (!wait_for(fd, POLLIN, deadline_ns))
            return LATE;
    }
    return DONE;
}

/* -- Opening ----------------------------------------------------------------------------------- */

static int connect_until(const char *address, int port, int64_t deadline_ns, const char **why_p)
{
    for (;;) {
        const int fd = hd_rendezvous_connect_once(address, port, ATTEMPT_MS, why_p);
        if (fd >= 0 || hd_clock_get_ns() >= deadline_ns)
            return fd;
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    }
}

/* Identifies this client and asks four times for the number of keys, which a server since 2.1
 * answers. For one of before, the same bytes are a SET whose key is 2^58 bytes long; it cannot
 * have that memory and closes the connection at once. */
static enum exchange validate(int fd, int64_t deadline_ns)
{
    struct query query = {0};
    int64_t n_keys[PROBES];
    append_code(&query, VALIDATE);
    append(&query, &validation_magic, sizeof validation_magic);
    for (int i = 0; i < PROBES; i++)
        append_code(&query, GETNUMKEYS + SHIFT);
    const enum exchange sent = send_query(fd, &query, deadline_ns);
    return sent == DONE ? receive(fd, n_keys, sizeof n_keys, deadline_ns) : sent;
}

static int64_t limit_answer(int64_t deadline_ns)
{
    const int64_t answer_ns = hd_clock_get_ns() + INT64_C(1000000) * ANSWER_MS;
    return answer_ns < deadline_ns ? answer_ns : deadline_ns;
}

int hd_tcp_store_open(const char *address, int port, int64_t deadline_ns,
                      struct hd_tcp_store *store_p)
{
    struct hd_tcp_store store = {.shift = SHIFT};
    const char *why;
    snprintf(store.at, sizeof store.at, "%s port %d", address, port);
    store.fd = connect_until(address, port, deadline_ns, &why);
    if (store.fd < 0)
        return hd_fail(HD_ERR_SYSTEM, "torchrun's store at %s cannot be reached: %s", store.at,
                       why);
    const enum exchange answer = validate(store.fd, limit_answer(deadline_ns));
    if (answer == CLOSED) {
        close(store.fd);
        store.shift = 0;
        store.fd = connect_until(address, port, deadline_ns, &why);
    }
    if (store.fd >= 0 && answer != LATE) {
        *store_p = store;
        return HD_OK;
    }
    if (store.fd >= 0)
        close(store.fd);
    return hd_fail(HD_ERR_SYSTEM, "what listens at %s is no store of torchrun: it does not answer",
                   store.at);
}

void hd_tcp_store_close(struct hd_tcp_store *store)
{
    close(store->fd);
}

/* -- Queries ----------------------------------------------------------------------------------- */

static int fail(const struct hd_tcp_store *store, const char *key, enum exchange why)
{
    return hd_fail(HD_ERR_SYSTEM, "torchrun's store at %s %s key %s", store->at,
                   why == LATE ? "gave no answer in time about" : "closed the connection about",
                   key);
}

static int expect(const struct hd_tcp_store *store, const char *key, enum exchange answer)
{
    return answer == DONE ? HD_OK : fail(store, key, answer);
}

static int check_text(const char *text)
{
    if (strlen(text) < HD_TCP_STORE_TEXT)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT, "more than %d bytes for torchrun's store: %.40s…",
                   HD_TCP_STORE_TEXT - 1, text);
}

static int await_key(struct hd_tcp_store *store, const char *key, int64_t deadline_ns)
{
    struct query query = {0};
    const uint64_t n_keys = 1;
    unsigned char answer = STOP_WAITING;
    append_code(&query, WAIT + store->shift);
    append(&query, &n_keys, sizeof n_keys);
    append_text(&query, key);
    HD_TRY(expect(store, key, send_query(store->fd, &query, deadline_ns)));
    HD_TRY(expect(store, key, receive(store->fd, &answer, sizeof answer, deadline_ns)));
    return answer == STOP_WAITING ? HD_OK : fail(store, key, LATE);
}

int hd_tcp_store_set(struct hd_tcp_store *store, const char *key, const char *value,
                     int64_t deadline_ns)
{
    struct query query = {0};
    HD_TRY(check_text(key));
    HD_TRY(check_text(value));
    append_code(&query, SET + store->shift);
    append_text(&query, key);
    append_text(&query, value);
    HD_TRY(expect(store, key, send_query(store->fd, &query, deadline_ns)));
    return await_key(store, key, deadline_ns); /* which SET itself does not confirm */
}

static bool is_printable(const char *text, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false;
    return true;
}

int hd_tcp_store_get(struct hd_tcp_store *store, const char *key, char value_p[HD_TCP_STORE_TEXT],
                     int64_t deadline_ns)
{
    struct query query = {0};
    uint64_t bytes = 0;
    char value[HD_TCP_STORE_TEXT] = "";
    HD_TRY(check_text(key));
    HD_TRY(await_key(store, key, deadline_ns));
    append_code(&query, GET + store->shift);
    append_text(&query, key);
    HD_TRY(expect(store, key, send_query(store->fd, &query, deadline_ns)));
    HD_TRY(expect(store, key, receive(store->fd, &bytes, sizeof bytes, deadline_ns)));
    if (bytes >= sizeof value)
        return hd_fail(HD_ERR_SYSTEM, "torchrun's store at %s: %llu bytes in key %s, expected %zu",
                       store->at, (unsigned long long)bytes, key, sizeof value - 1);
    HD_TRY(expect(store, key, receive(store->fd, value, bytes, deadline_ns)));
    if (!is_printable(value, bytes))
        return hd_fail(HD_ERR_SYSTEM, "torchrun's store at %s: key %s holds no text", store->at,
                       key);
    memcpy(value_p, value, sizeof value);
    return HD_OK;
}
