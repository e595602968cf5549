/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_S = 60, SEND_MS = 1000, ANSWER_S = 5, HEARTBEAT_MS = 500, HEARTBEAT_SEND_MS = 50 };

_Static_assert((int)HD_RENDEZVOUS_MAX_BYTES < (int)HD_WIRE_PAYLOAD,
               "a broadcast fits into a frame");

static int64_t after_ms(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

int hd_rendezvous_report(const struct hd_rendezvous *rendezvous, int status, const char *text)
{
    /* The launcher names a rank that is gone, and its end is the better known cause. */
    if (rendezvous->world.supervised &&
        (rendezvous->world.local_rank != 0 || status == HD_ERR_PEER))
        return status;
    return hd_fail(status, "%s", text);
}

/* -- Creation ---------------------------------------------------------------------------------- */

static int read_timeout(int64_t given_ns, int64_t *timeout_ns_p)
{
    const char *text = getenv("HD_RENDEZVOUS_TIMEOUT_S");
    char *end;
    long seconds = TIMEOUT_S;
    if (given_ns == 0 && text && *text) {
        seconds = strtol(text, &end, 10);
        if (*end != '\0' || seconds < 1 || seconds > 86400)
            return hd_fail(
                HD_ERR_INPUT,
                "HD_RENDEZVOUS_TIMEOUT_S=%.40s in the environment: expected seconds from 1 "
                "to 86400",
                text);
    }
    *timeout_ns_p = given_ns > 0 ? given_ns : (int64_t)seconds * 1000000000;
    return HD_OK;
}

static void fill_hello(const struct hd_rendezvous_options *options, struct hd_hello *hello)
{
    hello->rank = options->world->rank;
    hello->world = options->world->world;
    hello->pid = getpid();
    hello->links_port = options->links_port;
    hello->config_hash = options->config_hash;
    hd_host_get_name(hello->host);
    hd_host_get_boot_id(hello->boot_id);
    snprintf(hello->fingerprint, sizeof hello->fingerprint, "%s", options->fingerprint);
}

/* The socket that the launcher bound for us, or one of our own. */
static int open_listener(const struct hd_world *world, int *fd_p)
{
    if (world->rendezvous_fd < 0)
        return hd_rendezvous_listen(world->master_addr, world->master_port,
                                    world->local_world == world->world, fd_p, NULL);
    int listening = 0;
    socklen_t length = sizeof listening;
    if (getsockopt(world->rendezvous_fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) != 0 ||
        !listening)
        return hd_fail(HD_ERR_INPUT,
                       "HD_RENDEZVOUS_FD=%d in the environment is not a listening socket",
                       world->rendezvous_fd);
    fcntl(world->rendezvous_fd, F_SETFD, FD_CLOEXEC);
    *fd_p = world->rendezvous_fd;
    return HD_OK;
}

static int send_go(struct hd_rendezvous *rendezvous)
{
    int64_t deadline_ns = after_ms(SEND_MS);
    for (int r = 1; r < rendezvous->world.world; r++)
        if (!hd_wire_send(rendezvous->peers[r].fd, HD_WIRE_GO, 0, NULL, 0, deadline_ns)) {
            char text[HD_RENDEZVOUS_TEXT];
            snprintf(text, sizeof text, "rank %d (pid %d on %s) disconnected at the start", r,
                     rendezvous->peers[r].hello.pid, rendezvous->peers[r].hello.host);
            return hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
        }
    return HD_OK;
}

static int accept_ranks(struct hd_rendezvous *rendezvous,
                        const struct hd_rendezvous_options *options)
{
    char text[HD_RENDEZVOUS_TEXT] = "";
    fill_hello(options, &rendezvous->peers[0].hello);
    HD_TRY(open_listener(&rendezvous->world, &rendezvous->listen_fd));
    fcntl(rendezvous->listen_fd, F_SETFL, fcntl(rendezvous->listen_fd, F_GETFL) | O_NONBLOCK);
    int status = hd_rendezvous_accept_ranks(rendezvous, options,
                                            after_ms(rendezvous->timeout_ns / 1000000), text);
    return status == HD_OK ? send_go(rendezvous) : hd_rendezvous_report(rendezvous, status, text);
}

/* Waits for rank 0's next frame. HD_ERR_PEER (logged) when it is gone or one of the others is. */
static int receive_from_root(struct hd_rendezvous *rendezvous, int64_t deadline_ns)
{
    struct hd_frame_reader *reader = &rendezvous->peers[0].reader;
    char text[HD_RENDEZVOUS_TEXT];
    switch (hd_frame_reader_wait(reader, rendezvous->peers[0].fd, deadline_ns)) {
    case HD_FRAME_COMPLETE:
        break;
    case HD_FRAME_INCOMPLETE:
        return hd_fail(HD_ERR_SYSTEM, "rank 0 did not answer in time");
    case HD_FRAME_CLOSED:
        snprintf(text, sizeof text,
                 "rank 0 closed the connection of rank %d: rank 0 failed, or it has this rank "
                 "already",
                 rendezvous->world.rank);
        return hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
    case HD_FRAME_INVALID:
        return hd_fail(HD_ERR_INPUT, "the peer at %s port %d is not a rank of this program",
                       rendezvous->world.master_addr, rendezvous->world.master_port);
    }
    struct hd_frame *frame = &reader->frame;
    int status = frame->kind == HD_WIRE_REFUSE && frame->number < 0 ? frame->number : HD_ERR_PEER;
    if (frame->kind == HD_WIRE_REFUSE || frame->kind == HD_WIRE_LOST)
        return hd_rendezvous_report(rendezvous, status, hd_frame_get_text(frame));
    return HD_OK;
}

static int expect_frame(const struct hd_frame *frame, enum hd_wire_kind kind, int64_t bytes)
{
    if (frame->kind == kind && frame->bytes == bytes)
        return HD_OK;
    return hd_fail(HD_ERR_PEER, "rank 0 sent message %d of %u bytes, expected %d of %lld",
                   frame->kind, frame->bytes, kind, (long long)bytes);
}

static int join(struct hd_rendezvous *rendezvous, const struct hd_rendezvous_options *options)
{
    struct hd_hello hello = {0};
    struct hd_peer *root = &rendezvous->peers[0];
    fill_hello(options, &hello);
    int64_t timeout_ms = rendezvous->timeout_ns / 1000000;
    HD_TRY(hd_rendezvous_connect(&rendezvous->world, after_ms(timeout_ms), &root->fd));
    hd_rendezvous_set_keepalive(root->fd);
    hd_wire_send(root->fd, HD_WIRE_HELLO, hello.rank, &hello, sizeof hello, after_ms(SEND_MS));
    HD_TRY(receive_from_root(rendezvous, after_ms(timeout_ms + ANSWER_S * 1000)));
    return expect_frame(&root->reader.frame, HD_WIRE_GO, 0);
}

static int open_rendezvous(struct hd_rendezvous *rendezvous,
                           const struct hd_rendezvous_options *options)
{
    int n_peers = rendezvous->world.rank == 0 ? rendezvous->world.world : 1;
    HD_TRY(read_timeout(options->timeout_ns, &rendezvous->timeout_ns));
    rendezvous->peers = hd_alloc(n_peers, sizeof *rendezvous->peers);
    if (!rendezvous->peers)
        return HD_ERR_NOMEM;
    for (int r = 0; r < n_peers; r++)
        rendezvous->peers[r].fd = -1;
    return rendezvous->world.rank == 0 ? accept_ranks(rendezvous, options)
                                       : join(rendezvous, options);
}

int hd_rendezvous_create(const struct hd_rendezvous_options *options,
                         struct hd_rendezvous **rendezvous_p)
{
    if (options->world->world == 1) {
        *rendezvous_p = NULL;
        return HD_OK;
    }
    struct hd_rendezvous *rendezvous = hd_alloc(1, sizeof *rendezvous);
    if (!rendezvous)
        return HD_ERR_NOMEM;
    rendezvous->world = *options->world;
    rendezvous->wake_fd = rendezvous->listen_fd = -1;
    pthread_mutex_init(&rendezvous->lock, NULL);
    int status = open_rendezvous(rendezvous, options);
    if (status != HD_OK) {
        atomic_store(&rendezvous->failed, true); /* no goodbye */
        hd_rendezvous_destroy(rendezvous);
        return status;
    }
    *rendezvous_p = rendezvous;
    return HD_OK;
}

/* -- Exchange before the watch ----------------------------------------------------------------- */

/* Rank 0's frame to everybody. Returns the first rank that could not be reached, or 0. */
static int send_all(struct hd_rendezvous *rendezvous, enum hd_wire_kind kind, int number,
                    const void *payload, size_t bytes)
{
    int lost = 0;
    int64_t deadline_ns = after_ms(SEND_MS);
    pthread_mutex_lock(&rendezvous->lock);
    for (int r = 1; r < rendezvous->world.world; r++)
        if (rendezvous->peers[r].fd >= 0 &&
            !hd_wire_send(rendezvous->peers[r].fd, kind, number, payload, bytes, deadline_ns) &&
            lost == 0)
            lost = r;
    pthread_mutex_unlock(&rendezvous->lock);
    return lost;
}

int hd_rendezvous_broadcast(struct hd_rendezvous *rendezvous, void *data, int64_t bytes)
{
    if (!rendezvous)
        return HD_OK;
    if (bytes < 0 || bytes > HD_RENDEZVOUS_MAX_BYTES)
        return hd_fail(HD_ERR_INPUT, "a broadcast of %lld bytes: at most %d", (long long)bytes,
                       HD_RENDEZVOUS_MAX_BYTES);
    if (rendezvous->world.rank == 0) {
        int lost = send_all(rendezvous, HD_WIRE_DATA, 0, data, (size_t)bytes);
        char text[HD_RENDEZVOUS_TEXT];
        snprintf(text, sizeof text, "rank %d disconnected during the start", lost);
        return lost == 0 ? HD_OK : hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
    }
    HD_TRY(receive_from_root(rendezvous, hd_clock_get_ns() + rendezvous->timeout_ns));
    HD_TRY(expect_frame(&rendezvous->peers[0].reader.frame, HD_WIRE_DATA, bytes));
    memcpy(data, rendezvous->peers[0].reader.frame.payload, (size_t)bytes);
    return HD_OK;
}

int hd_rendezvous_check_one_host(struct hd_rendezvous *rendezvous, bool *one_host_p)
{
    uint8_t one_host = 1; /* no bool: it comes from outside */
    for (int r = 1; rendezvous && rendezvous->world.rank == 0 && r < rendezvous->world.world; r++)
        one_host = one_host && strcmp(rendezvous->peers[r].hello.boot_id,
                                      rendezvous->peers[0].hello.boot_id) == 0;
    HD_TRY(hd_rendezvous_broadcast(rendezvous, &one_host, sizeof one_host));
    *one_host_p = one_host != 0;
    return HD_OK;
}

int64_t hd_rendezvous_get_timeout_ns(const struct hd_rendezvous *rendezvous)
{
    return rendezvous->timeout_ns;
}

void hd_rendezvous_get_address(const struct hd_rendezvous *rendezvous, int rank,
                               char address_p[HD_ADDR_BYTES], int32_t *port_p)
{
    struct sockaddr_storage there;
    socklen_t length = sizeof there;
    address_p[0] = '\0';
    *port_p = rendezvous->peers[rank].hello.links_port;
    if (rank == 0 ||
        getpeername(rendezvous->peers[rank].fd, (struct sockaddr *)&there, &length) != 0 ||
        getnameinfo((struct sockaddr *)&there, length, address_p, HD_ADDR_BYTES, NULL, 0,
                    NI_NUMERICHOST) != 0)
        address_p[0] = '\0';
}

/* Rank 0 hears one rank's vote; the first that is not yes is kept in *status and text. */
static void receive_vote(struct hd_rendezvous *rendezvous, int rank, int64_t deadline_ns,
                         int *status, char *text)
{
    struct hd_peer *peer = &rendezvous->peers[rank];
    enum hd_frame_state state = hd_frame_reader_wait(&peer->reader, peer->fd, deadline_ns);
    struct hd_frame *frame = &peer->reader.frame;
    if ((state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_GO) || *status != HD_OK)
        return;
    bool voted = state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_FAIL;
    *status = voted && frame->number < 0 ? frame->number : HD_ERR_PEER;
    snprintf(text, HD_RENDEZVOUS_TEXT, "rank %d%s%s", rank,
             voted ? ": " : " disconnected during the start",
             voted ? hd_frame_get_text(frame) : "");
}

int hd_rendezvous_agree(struct hd_rendezvous *rendezvous, int status, const char *text)
{
    if (!rendezvous)
        return status == HD_OK ? HD_OK : hd_fail(status, "%s", text);
    char why[HD_RENDEZVOUS_TEXT] = "";
    if (rendezvous->world.rank != 0) {
        snprintf(why, sizeof why, "%s", status == HD_OK ? "" : text);
        hd_wire_send(rendezvous->peers[0].fd, status == HD_OK ? HD_WIRE_GO : HD_WIRE_FAIL, status,
                     why, strlen(why), after_ms(SEND_MS));
        HD_TRY(receive_from_root(rendezvous, hd_clock_get_ns() + rendezvous->timeout_ns));
        return expect_frame(&rendezvous->peers[0].reader.frame, HD_WIRE_GO, 0);
    }
    if (status != HD_OK)
        snprintf(why, sizeof why, "rank 0: %.*s", HD_RENDEZVOUS_TEXT - 16, text);
    int64_t deadline_ns = hd_clock_get_ns() + rendezvous->timeout_ns;
    for (int r = 1; r < rendezvous->world.world; r++)
        receive_vote(rendezvous, r, deadline_ns, &status, why);
    send_all(rendezvous, status == HD_OK ? HD_WIRE_GO : HD_WIRE_REFUSE, status, why, strlen(why));
    return status == HD_OK ? HD_OK : hd_rendezvous_report(rendezvous, status, why);
}

/* -- Watch ------------------------------------------------------------------------------------- */

static void report_lost(struct hd_rendezvous *rendezvous, int rank, int status, const char *text)
{
    if (rendezvous->world.rank == 0)
        send_all(rendezvous, HD_WIRE_LOST, rank, text, strlen(text));
    if (!atomic_load(&rendezvous->failed))
        rendezvous->options.on_lost(rendezvous->options.arg, rank, status, text);
}

/* A peer is there; what it says is kept. */
static void note_heartbeat(struct hd_rendezvous *rendezvous, struct hd_peer *peer)
{
    pthread_mutex_lock(&rendezvous->lock);
    peer->last_heard_ns = hd_clock_get_ns();
    snprintf(peer->last_status, sizeof peer->last_status, "%s",
             hd_frame_get_text(&peer->reader.frame));
    pthread_mutex_unlock(&rendezvous->lock);
}

/* Rank 0 says, where nobody else does, what a lost rank was at. */
static void log_last_status(const struct hd_rendezvous *rendezvous, int rank)
{
    const struct hd_peer *peer = &rendezvous->peers[rank];
    if (rendezvous->world.rank == 0 && peer->last_status[0])
        hd_log(HD_LOG_WARN, "rank %d (pid %d on %s) last reported: %s", rank, peer->hello.pid,
               peer->hello.host, peer->last_status);
}

/* Rank 0 about rank `rank`. Returns false when the watch is over. */
static bool watch_rank(struct hd_rendezvous *rendezvous, int rank)
{
    struct hd_peer *peer = &rendezvous->peers[rank];
    struct hd_frame *frame = &peer->reader.frame;
    enum hd_frame_state state = hd_frame_reader_read(&peer->reader, peer->fd);
    char text[HD_RENDEZVOUS_TEXT];
    if (state == HD_FRAME_INCOMPLETE)
        return true;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_HEARTBEAT) {
        note_heartbeat(rendezvous, peer);
        return true;
    }
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_BYE) {
        pthread_mutex_lock(&rendezvous->lock);
        close(peer->fd);
        peer->fd = -1;
        pthread_mutex_unlock(&rendezvous->lock);
        return true;
    }
    int status = HD_ERR_PEER;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_FAIL) {
        status = frame->number < 0 ? frame->number : HD_ERR_PEER;
        snprintf(text, sizeof text, "rank %d failed: %s", rank, hd_frame_get_text(frame));
    } else {
        snprintf(text, sizeof text, "rank %d (pid %d on %s) died", rank, peer->hello.pid,
                 peer->hello.host);
    }
    log_last_status(rendezvous, rank);
    report_lost(rendezvous, rank, status, text);
    return false;
}

/* Another rank about rank 0, who speaks for all. */
static bool watch_root(struct hd_rendezvous *rendezvous)
{
    struct hd_peer *root = &rendezvous->peers[0];
    struct hd_frame *frame = &root->reader.frame;
    enum hd_frame_state state = hd_frame_reader_read(&root->reader, root->fd);
    if (state == HD_FRAME_INCOMPLETE)
        return true;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_HEARTBEAT) {
        note_heartbeat(rendezvous, root);
        return true;
    }
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_BYE)
        return false;
    const bool known = frame->number >= 0 && frame->number < rendezvous->world.world;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_LOST && known)
        report_lost(rendezvous, frame->number, HD_ERR_PEER, hd_frame_get_text(frame));
    else
        report_lost(rendezvous, 0, HD_ERR_PEER, "rank 0 died");
    return false;
}

static void reject_late_connection(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
}

/* Says that this rank is there, now and then. A watcher that was held up itself, as when the whole
 * process was stopped, has heard nobody through no fault of theirs. */
static void send_heartbeats(struct hd_rendezvous *rendezvous, int n_peers)
{
    const int64_t now_ns = hd_clock_get_ns();
    const int64_t late_ns = now_ns - rendezvous->heartbeat_ns;
    if (late_ns < HEARTBEAT_MS * INT64_C(1000000))
        return;
    rendezvous->heartbeat_ns = now_ns;
    if (late_ns > 3 * HEARTBEAT_MS * INT64_C(1000000))
        for (int r = 0; r < n_peers; r++)
            rendezvous->peers[r].last_heard_ns = now_ns;
    char text[HD_RENDEZVOUS_TEXT / 2] = "";
    if (rendezvous->options.describe)
        rendezvous->options.describe(rendezvous->options.arg, text, sizeof text);
    pthread_mutex_lock(&rendezvous->lock);
    for (int r = 0; r < n_peers; r++)
        if (rendezvous->peers[r].fd >= 0)
            hd_wire_send(rendezvous->peers[r].fd, HD_WIRE_HEARTBEAT, rendezvous->world.rank, text,
                         strlen(text), after_ms(HEARTBEAT_SEND_MS));
    pthread_mutex_unlock(&rendezvous->lock);
}

/* Loses a peer that says nothing any more. Returns false when there is one. */
static bool check_heartbeats(struct hd_rendezvous *rendezvous, int n_peers)
{
    const int64_t timeout_ns = (int64_t)(rendezvous->options.heartbeat_timeout_s * 1e9),
                  now_ns = hd_clock_get_ns();
    char text[HD_RENDEZVOUS_TEXT];
    for (int r = 0; r < n_peers; r++) {
        const struct hd_peer *peer = &rendezvous->peers[r];
        if (timeout_ns == 0 || peer->fd < 0 || now_ns - peer->last_heard_ns < timeout_ns)
            continue;
        snprintf(text, sizeof text, "rank %d has not answered for %.1f s", r,
                 (double)(now_ns - peer->last_heard_ns) * 1e-9);
        if (rendezvous->world.rank == 0 || rendezvous->world.local_rank == 0)
            hd_log(HD_LOG_WARN, "%s: it was stopped, or its host is gone", text);
        log_last_status(rendezvous, r);
        report_lost(rendezvous, r, HD_ERR_PEER, text);
        return false;
    }
    return true;
}

void hd_rendezvous_describe_peers(struct hd_rendezvous *rendezvous, char *text, int64_t bytes)
{
    int64_t used = 0;
    if (bytes > 0)
        text[0] = '\0';
    if (!rendezvous || rendezvous->world.rank != 0)
        return;
    pthread_mutex_lock(&rendezvous->lock);
    for (int r = 1; r < rendezvous->world.world && used < bytes; r++) {
        const struct hd_peer *peer = &rendezvous->peers[r];
        used += snprintf(text + used, (size_t)(bytes - used),
                         "rank %d (pid %d on %s), %.1f s ago: %s\n", r, peer->hello.pid,
                         peer->hello.host, (double)(hd_clock_get_ns() - peer->last_heard_ns) * 1e-9,
                         peer->fd < 0 ? "has ended" : peer->last_status);
    }
    pthread_mutex_unlock(&rendezvous->lock);
}

static void *watch(void *arg)
{
    struct hd_rendezvous *rendezvous = arg;
    int n_peers = rendezvous->world.rank == 0 ? rendezvous->world.world : 1;
    struct pollfd polls[2 + HD_WORLD_MAX];
    for (bool going = true; going;) {
        polls[0] = (struct pollfd){.fd = rendezvous->wake_fd, .events = POLLIN};
        polls[1] = (struct pollfd){.fd = rendezvous->listen_fd, .events = POLLIN};
        for (int r = 0; r < n_peers; r++)
            polls[2 + r] = (struct pollfd){.fd = rendezvous->peers[r].fd, .events = POLLIN};
        if (poll(polls, (nfds_t)(2 + n_peers), HEARTBEAT_MS / 2) < 0)
            continue;
        if (polls[1].revents)
            reject_late_connection(rendezvous->listen_fd);
        for (int r = 0; r < n_peers && going; r++)
            if (polls[2 + r].revents)
                going = rendezvous->world.rank == 0 ? watch_rank(rendezvous, r)
                                                    : watch_root(rendezvous);
        if (polls[0].revents)
            going = false;
        if (going) {
            send_heartbeats(rendezvous, n_peers);
            going = check_heartbeats(rendezvous, n_peers);
        }
    }
    return NULL;
}

int hd_rendezvous_watch(struct hd_rendezvous *rendezvous,
                        const struct hd_rendezvous_watch_options *options)
{
    if (!rendezvous)
        return HD_OK;
    rendezvous->options = *options;
    rendezvous->heartbeat_ns = hd_clock_get_ns();
    for (int r = 0; r < (rendezvous->world.rank == 0 ? rendezvous->world.world : 1); r++)
        rendezvous->peers[r].last_heard_ns = rendezvous->heartbeat_ns;
    rendezvous->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (rendezvous->wake_fd < 0)
        return hd_fail(HD_ERR_SYSTEM, "no eventfd: %s", strerror(errno));
    sigset_t all, before; /* signals are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&rendezvous->watcher, NULL, watch, rendezvous);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return hd_fail(HD_ERR_SYSTEM, "cannot start a thread: %s", strerror(error));
    rendezvous->watching = true;
    return HD_OK;
}

void hd_rendezvous_fail(struct hd_rendezvous *rendezvous, int status, const char *text)
{
    if (!rendezvous || atomic_exchange(&rendezvous->failed, true))
        return;
    char line[HD_RENDEZVOUS_TEXT];
    if (rendezvous->world.rank == 0) {
        snprintf(line, sizeof line, "rank 0 failed: %s", text);
        send_all(rendezvous, HD_WIRE_LOST, 0, line, strlen(line));
        return;
    }
    snprintf(line, sizeof line, "%s", text);
    pthread_mutex_lock(&rendezvous->lock);
    hd_wire_send(rendezvous->peers[0].fd, HD_WIRE_FAIL, status, line, strlen(line),
                 after_ms(SEND_MS));
    pthread_mutex_unlock(&rendezvous->lock);
}

void hd_rendezvous_destroy(struct hd_rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    if (rendezvous->watching) {
        uint64_t one = 1;
        if (write(rendezvous->wake_fd, &one, sizeof one) == sizeof one)
            pthread_join(rendezvous->watcher, NULL);
    }
    int n_peers = rendezvous->world.rank == 0 ? rendezvous->world.world : 1;
    for (int r = 0; rendezvous->peers && r < n_peers; r++) {
        if (rendezvous->peers[r].fd < 0)
            continue;
        if (!atomic_load(&rendezvous->failed))
            hd_wire_send(rendezvous->peers[r].fd, HD_WIRE_BYE, 0, NULL, 0, after_ms(SEND_MS));
        close(rendezvous->peers[r].fd);
    }
    if (rendezvous->listen_fd >= 0)
        close(rendezvous->listen_fd);
    if (rendezvous->wake_fd >= 0)
        close(rendezvous->wake_fd);
    pthread_mutex_destroy(&rendezvous->lock);
    hd_free(rendezvous->peers);
    hd_free(rendezvous);
}
