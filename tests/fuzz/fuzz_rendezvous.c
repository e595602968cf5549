/* SPDX-License-Identifier: Apache-2.0 */
/* Plays unknown peers and hostile ranks that send to rank 0's port, or a hostile rank 0 that sends
 * to another rank, from the rendezvous to the end of the watch. Nonces are constants, so that the
 * script can also speak as one who knows the secret: hellos and frames are tagged as they should
 * be. Nothing waits: when the rendezvous would, the input, which is a script, does its next step,
 * and after its end the clock moves on. The input is a byte whose bit 0 says which side the
 * rendezvous is, then steps of an operation, a connection, a number of bytes and these bytes. */
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"
#include "tests/fuzz/fuzz.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WORLD = 3, CONNECTIONS = 8, MS = 1000000, CONFIG_HASH = 7 };
enum op { OP_BYTES, OP_HELLO, OP_FRAME, OP_CLOSE, OPS };

static struct {
    const uint8_t *at, *end;
    int fds[CONNECTIONS];                 /* this side's; -1: none */
    struct hd_wire_key keys[CONNECTIONS]; /* of what this side sends */
    int listen_fd;                        /* -1: the rendezvous is not rank 0 */
    struct sockaddr_un address; /* where the rendezvous listens until all ranks have joined */
    socklen_t address_bytes;
    int64_t now_ns;
    int idle; /* of the watch: polls that it may still do when the script is over; 0: not begun */
} script;

/* -- The script -------------------------------------------------------------------------------- */

static uint8_t take(void)
{
    return script.at < script.end ? *script.at++ : 0;
}

static bool connected(int number)
{
    if (script.fds[number] >= 0)
        return true;
    if (script.listen_fd < 0)
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    fuzz_check(fd >= 0, "a socket");
    if (connect(fd, (const struct sockaddr *)&script.address, script.address_bytes) != 0) {
        close(fd);
        return false;
    }
    script.fds[number] = fd;
    return true;
}

static void send_bytes(int number, const void *data, size_t bytes)
{
    if (connected(number) && bytes > 0)
        (void)!send(script.fds[number], data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_tagged(int number, enum hd_wire_kind kind, int value, const void *payload,
                        size_t bytes)
{
    if (connected(number))
        hd_wire_send(script.fds[number], &script.keys[number], kind, value, payload, bytes, 0);
}

/* Makes the keys of a connection, of which this side sends by one. */
static void make_keys(int number, const void *rank)
{
    static const uint8_t secret[HD_SECRET_BYTES];
    uint8_t key[HD_WIRE_KEY], nonce[HD_NONCE_BYTES];
    struct hd_wire_key to_listener, to_caller;
    hd_secret_draw(nonce);
    hd_handshake_make_key(secret, "rendezvous", NULL, 0, key);
    hd_handshake_make_session_keys(key, nonce, nonce, rank, &to_listener, &to_caller);
    script.keys[number] = script.listen_fd >= 0 ? to_listener : to_caller;
}

/* Does rank 0's part of the handshake with rank 1, with a config of the hash in the first byte. */
static void welcome(int number, const uint8_t *bytes, size_t n)
{
    static const uint8_t secret[HD_SECRET_BYTES];
    const int32_t rank = 1;
    const uint64_t hash = n > 0 ? bytes[0] : CONFIG_HASH;
    uint8_t nonce[HD_NONCE_BYTES];
    hd_secret_draw(nonce);
    script.keys[number] = (struct hd_wire_key){.count = 0};
    hd_handshake_make_key(secret, "rendezvous", NULL, 0, script.keys[number].key);
    send_tagged(number, HD_WIRE_CHALLENGE, 0, nonce, sizeof nonce);
    make_keys(number, &rank);
    send_tagged(number, HD_WIRE_WELCOME, 0, &hash, sizeof hash);
}

/* Makes a good hello of the rank that the first byte names, changed by pairs of offset and byte. */
static void send_hello(int number, const uint8_t *bytes, size_t n)
{
    struct {
        uint8_t nonce[HD_NONCE_BYTES];
        char body[sizeof(struct hd_hello)];
    } payload;
    struct hd_hello hello = {.rank = n > 0 ? (int8_t)bytes[0] : 1,
                             .world = WORLD,
                             .pid = 17,
                             .config_hash = CONFIG_HASH,
                             .host = "here",
                             .boot_id = "boot",
                             .fingerprint = "exe=1; isa=avx2"};
    hd_secret_draw(payload.nonce);
    memcpy(payload.body, &hello, sizeof hello);
    for (size_t i = 1; i + 2 < n; i += 3)
        ((uint8_t *)&payload)[(bytes[i] | bytes[i + 1] << 8) % sizeof payload] = bytes[i + 2];
    make_keys(number, payload.body);
    send_tagged(number, HD_WIRE_HELLO, hello.rank, &payload, sizeof payload);
}

/* Makes a frame with the kind and number in the first bytes, and the rest as its payload. */
static void send_frame(int number, const uint8_t *bytes, size_t n)
{
    if (n >= 2)
        send_tagged(number, (enum hd_wire_kind)(bytes[0] % (HD_WIRE_KINDS + 1)), (int8_t)bytes[1],
                    bytes + 2, n - 2);
}

/* Does the next step. Returns false after the last. */
static bool step(void)
{
    if (script.at >= script.end)
        return false;
    enum op op = take() % OPS;
    int number = take() % CONNECTIONS;
    size_t n = take(), left = (size_t)(script.end - script.at);
    const uint8_t *bytes = script.at;
    n = n < left ? n : left;
    script.at += n;
    switch (op) {
    case OP_BYTES:
        send_bytes(number, bytes, n);
        break;
    case OP_HELLO:
        if (script.listen_fd >= 0)
            send_hello(number, bytes, n);
        else
            welcome(number, bytes, n);
        break;
    case OP_FRAME:
        send_frame(number, bytes, n);
        break;
    case OP_CLOSE:
        if (script.fds[number] >= 0)
            close(script.fds[number]);
        script.fds[number] = -1;
        break;
    case OPS:
        break;
    }
    return true;
}

/* -- What the linker puts in the place of waiting ---------------------------------------------- */

int64_t __wrap_hd_clock_get_ns(void);
int64_t __wrap_hd_clock_get_ns(void)
{
    return script.now_ns += 1000;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    static const struct timespec at_once;
    int ready;
    do
        ready = ppoll(fds, n, &at_once, NULL);
    while (ready == 0 && step());
    if (ready == 0 && script.idle > 0 && --script.idle == 0) {
        fds[0].revents = POLLIN; /* by which the watch ends */
        return 1;
    }
    if (ready == 0)
        script.now_ns += (int64_t)timeout_ms * MS;
    return ready;
}

int __wrap_hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms,
                                      const char **why_p);
int __wrap_hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms,
                                      const char **why_p)
{
    (void)address, (void)port, (void)timeout_ms, (void)why_p;
    int pair[2];
    fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "a pair of sockets");
    if (script.fds[0] >= 0)
        close(script.fds[0]);
    script.fds[0] = pair[0];
    return pair[1];
}

void __wrap_hd_secret_draw(uint8_t secret_p[HD_SECRET_BYTES]);
void __wrap_hd_secret_draw(uint8_t secret_p[HD_SECRET_BYTES])
{
    memset(secret_p, 7, HD_SECRET_BYTES);
}

/* The watch runs in this thread, so that every run of an input is the same. */
int __wrap_pthread_create(pthread_t *thread, const void *attributes, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const void *attributes, void *(*run)(void *),
                          void *arg)
{
    (void)thread, (void)attributes;
    script.idle = 8;
    run(arg);
    script.idle = 0;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **result_p);
int __wrap_pthread_join(pthread_t thread, void **result_p)
{
    (void)thread, (void)result_p;
    return 0;
}

/* -- The rendezvous ---------------------------------------------------------------------------- */

static void on_lost(void *arg, int rank, int status, const char *text)
{
    fuzz_check(status < 0, "a loss has an error for status");
    int *calls = arg;
    fuzz_check(++*calls == 1, "a loss is told once");
    fuzz_check(rank >= -1 && rank < WORLD, "a rank of this world, or one unknown, is lost");
    for (const char *c = text; *c; c++)
        fuzz_check((unsigned char)*c >= ' ' && *c != 127, "the text is printable");
}

static void describe(void *arg, char *text, int64_t bytes)
{
    (void)arg;
    snprintf(text, (size_t)bytes, "at work");
}

static void use(struct hd_rendezvous *rendezvous, bool fails, double heartbeat_timeout_s)
{
    int lost = 0;
    char data[16] = "", table[1024] = "";
    const struct hd_rendezvous_watch_options watch = {.on_lost = on_lost,
                                                      .describe = describe,
                                                      .arg = &lost,
                                                      .heartbeat_timeout_s = heartbeat_timeout_s};
    if (hd_rendezvous_agree(rendezvous, HD_OK, "") == HD_OK &&
        hd_rendezvous_broadcast(rendezvous, data, sizeof data) == HD_OK &&
        hd_rendezvous_watch(rendezvous, &watch) == HD_OK)
        fuzz_touch(data, sizeof data);
    hd_rendezvous_describe_peers(rendezvous, table, sizeof table);
    fuzz_touch(table, strlen(table));
    if (fails)
        hd_rendezvous_fail(rendezvous, HD_ERR_TASK, "a reason");
    hd_rendezvous_destroy(rendezvous);
}

static int listen_somewhere(void)
{
    const struct sockaddr_un any = {.sun_family = AF_UNIX}; /* the kernel names it */
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fuzz_check(fd >= 0 && bind(fd, (const struct sockaddr *)&any, sizeof any.sun_family) == 0 &&
                   listen(fd, CONNECTIONS) == 0,
               "a listening socket");
    script.address_bytes = sizeof script.address;
    fuzz_check(getsockname(fd, (struct sockaddr *)&script.address, &script.address_bytes) == 0,
               "its address");
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    script.at = data;
    script.end = data + bytes;
    script.now_ns = MS;
    script.idle = 0;
    memset(script.keys, 0, sizeof script.keys);
    for (int i = 0; i < CONNECTIONS; i++)
        script.fds[i] = -1;
    const uint8_t flags = take();
    const int rank = flags & 1;
    script.listen_fd = rank == 0 ? listen_somewhere() : -1;
    const struct hd_world world = {.rank = rank,
                                   .world = WORLD,
                                   .local_rank = rank,
                                   .local_world = WORLD,
                                   .master_addr = "127.0.0.1",
                                   .master_port = 1,
                                   .rendezvous_fd = script.listen_fd};
    const struct hd_rendezvous_options options = {.world = &world,
                                                  .config_hash = CONFIG_HASH,
                                                  .config = "lr\t01\t1e-3\nbatch\t02\t64\n",
                                                  .fingerprint = "exe=1; isa=avx2",
                                                  .one_host = flags & 2,
                                                  .timeout_ns = (int64_t)5000 * MS};
    struct hd_rendezvous *rendezvous;
    if (hd_rendezvous_create(&options, &rendezvous) == HD_OK)
        use(rendezvous, flags & 4, flags & 8 ? 1 : 0);
    for (int i = 0; i < CONNECTIONS; i++)
        if (script.fds[i] >= 0)
            close(script.fds[i]);
    return 0;
}
