/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a rank that watches its peers. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEARTBEAT_MS = 500, HEARTBEAT_SEND_MS = 50, UNREACHABLE_MS = 2 * HEARTBEAT_MS };

static void report_lost(struct hd_rendezvous *rendezvous, int rank, int status, const char *text)
{
    if (rendezvous->world.rank == 0)
        hd_rendezvous_send_all(rendezvous, HD_WIRE_LOST, rank, text, strlen(text));
    if (!atomic_load(&rendezvous->failed))
        rendezvous->options.on_lost(rendezvous->options.arg, rank, status, text);
}

/* Notes that a peer is alive, and its status. */
static void note_heartbeat(struct hd_rendezvous *rendezvous, struct hd_peer *peer)
{
    pthread_mutex_lock(&rendezvous->lock);
    peer->last_heard_ns = hd_clock_get_ns();
    peer->outage_ns = 0;
    peer->progress = peer->reader.frame.number;
    snprintf(peer->last_status, sizeof peer->last_status, "%s",
             hd_frame_get_text(&peer->reader.frame));
    pthread_mutex_unlock(&rendezvous->lock);
}

/* Rank 0 logs what a lost rank was doing, which no other rank knows. */
static void log_last_status(const struct hd_rendezvous *rendezvous, int rank)
{
    const struct hd_peer *peer = &rendezvous->peers[rank];
    if (rendezvous->world.rank == 0 && peer->last_status[0])
        hd_log(HD_LOG_WARN, "rank %d (pid %d on %s) last reported: %s", rank, peer->hello.pid,
               peer->hello.host, peer->last_status);
}

/* Rank 0 reads a frame of rank `rank`. Returns false when the watch is over. */
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
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_MESSAGE &&
        hd_rendezvous_receive_part(rendezvous, rank))
        return true;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_BYE) {
        pthread_mutex_lock(&rendezvous->lock);
        close(peer->fd);
        peer->fd = -1;
        pthread_mutex_unlock(&rendezvous->lock);
        return true;
    }
    const bool told =
        state == HD_FRAME_COMPLETE && (frame->kind == HD_WIRE_LOST || frame->kind == HD_WIRE_FAIL);
    const int status = told && frame->number < 0 ? frame->number : HD_ERR_PEER;
    if (told && frame->kind == HD_WIRE_LOST) {
        report_lost(rendezvous, rank, status, hd_frame_get_text(frame));
        return false;
    }
    if (told) {
        snprintf(text, sizeof text, "rank %d failed: %s", rank, hd_frame_get_text(frame));
    } else {
        snprintf(text, sizeof text, "rank %d (pid %d on %s) %s", rank, peer->hello.pid,
                 peer->hello.host,
                 state == HD_FRAME_CLOSED ? "died"
                                          : "lost its connection to bytes that it did not send");
    }
    log_last_status(rendezvous, rank);
    report_lost(rendezvous, rank, status, text);
    return false;
}

/* Another rank reads a frame of rank 0, which reports all ranks. */
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
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_MESSAGE &&
        hd_rendezvous_receive_part(rendezvous, 0))
        return true;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_BYE)
        return false;
    const bool known = frame->number >= -1 && frame->number < rendezvous->world.world;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_LOST && known)
        report_lost(rendezvous, frame->number, HD_ERR_PEER, hd_frame_get_text(frame));
    else
        report_lost(rendezvous, 0, HD_ERR_PEER, "rank 0 died");
    return false;
}

/* Adds what the other ranks have told. The caller holds the lock. */
static int64_t add_progress(const struct hd_rendezvous *rendezvous)
{
    int64_t sum = 0;
    for (int r = 0; r < (rendezvous->world.rank == 0 ? rendezvous->world.world : 1); r++)
        sum += rendezvous->peers[r].progress;
    return sum;
}

int64_t hd_rendezvous_get_peer_progress(struct hd_rendezvous *rendezvous)
{
    if (!rendezvous)
        return 0;
    pthread_mutex_lock(&rendezvous->lock);
    const int64_t sum = add_progress(rendezvous);
    pthread_mutex_unlock(&rendezvous->lock);
    return sum;
}

/* Sends heartbeats when they are due. A watcher that was itself late, because the whole process was
 * stopped, does not count its own absence as the peers' silence. */
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
    int64_t progress = 0; /* of this rank; rank 0 tells of all */
    if (rendezvous->options.get_progress)
        progress = rendezvous->options.get_progress(rendezvous->options.arg);
    pthread_mutex_lock(&rendezvous->lock);
    if (rendezvous->world.rank == 0)
        progress += add_progress(rendezvous);
    for (int r = 0; r < n_peers; r++)
        if (rendezvous->peers[r].fd >= 0)
            hd_rendezvous_send(&rendezvous->peers[r], HD_WIRE_HEARTBEAT,
                               (int)(progress & INT32_MAX), text, strlen(text), HEARTBEAT_SEND_MS);
    pthread_mutex_unlock(&rendezvous->lock);
}

/* Returns whether the peer's host has lately acknowledged a heartbeat, which the kernel does also
 * for a process that is stopped. */
static bool is_reachable(const struct hd_peer *peer)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    return getsockopt(peer->fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
           info.tcpi_last_ack_recv < UNREACHABLE_MS;
}

/* Returns whether a silent peer is lost. A host out of reach may be back before TCP gives it up
 * (hd_rendezvous_set_keepalive). TCP tries at intervals that double, so what the peer sends comes
 * at the latest when the outage has passed once more. */
static bool is_lost(struct hd_peer *peer, int64_t timeout_ns, int64_t silent_ns, int link_timeout_s)
{
    if (silent_ns < timeout_ns)
        return false;
    if (is_reachable(peer))
        return silent_ns >= timeout_ns + 2 * peer->outage_ns;
    if (peer->outage_ns == 0)
        hd_log(HD_LOG_WARN,
               "the host of rank %d has acknowledged nothing for %.1f s: waiting for the network, "
               "%d s at most (runtime.link_timeout_s)",
               peer->hello.rank, (double)silent_ns * 1e-9, link_timeout_s);
    peer->outage_ns = silent_ns;
    return false;
}

/* Reports the first peer that has been silent for too long. Returns false when there is one. */
static bool check_heartbeats(struct hd_rendezvous *rendezvous, int n_peers)
{
    const int64_t timeout_ns = (int64_t)(rendezvous->options.heartbeat_timeout_s * 1e9),
                  now_ns = hd_clock_get_ns();
    char text[HD_RENDEZVOUS_TEXT];
    for (int r = 0; r < n_peers; r++) {
        struct hd_peer *peer = &rendezvous->peers[r];
        if (timeout_ns == 0 || peer->fd < 0 ||
            !is_lost(peer, timeout_ns, now_ns - peer->last_heard_ns, rendezvous->link_timeout_s))
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
    struct pollfd polls[1 + HD_WORLD_MAX];
    for (bool going = true; going;) {
        polls[0] = (struct pollfd){.fd = rendezvous->wake_fd, .events = POLLIN};
        for (int r = 0; r < n_peers; r++)
            polls[1 + r] = (struct pollfd){.fd = rendezvous->peers[r].fd, .events = POLLIN};
        if (poll(polls, (nfds_t)(1 + n_peers), HEARTBEAT_MS / 2) < 0)
            continue;
        for (int r = 0; r < n_peers && going; r++)
            if (polls[1 + r].revents)
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
    sigset_t all, before; /* the main thread handles signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&rendezvous->watcher, NULL, watch, rendezvous);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return hd_fail(HD_ERR_SYSTEM, "cannot start a thread: %s", strerror(error));
    rendezvous->watching = true;
    return HD_OK;
}
