/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIMEOUT_S = 60, SEND_MS = 1000, ANSWER_S = 5 };

_Static_assert((int)HD_RENDEZVOUS_MAX_BYTES < (int)HD_WIRE_PAYLOAD,
               "a broadcast fits into a frame");

/* -- Creation ---------------------------------------------------------------------------------- */

int hd_rendezvous_read_timeout(int64_t given_ns, int64_t *timeout_ns_p)
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

/* Takes the socket that the launcher bound, or opens one. */
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

static int open_listeners(struct hd_rendezvous *rendezvous)
{
    HD_TRY(open_listener(&rendezvous->world, &rendezvous->listen_fds[0]));
    rendezvous->n_listening = 1;
    HD_TRY(hd_rendezvous_listen_beside(rendezvous));
    for (int i = 0; i < rendezvous->n_listening; i++)
        fcntl(rendezvous->listen_fds[i], F_SETFL,
              fcntl(rendezvous->listen_fds[i], F_GETFL) | O_NONBLOCK);
    return HD_OK;
}

static void close_listeners(struct hd_rendezvous *rendezvous)
{
    while (rendezvous->n_listening > 0)
        close(rendezvous->listen_fds[--rendezvous->n_listening]);
}

/* Rank 0 has a connection to every rank, and to some that are none. */
static int reserve_descriptors(const struct hd_world *world)
{
    enum { OTHERS = 512, OTHERS_MIN = 8 };
    const rlim_t wanted = (rlim_t)world->world + OTHERS;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return HD_OK;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    if (limit.rlim_cur < (rlim_t)world->world + OTHERS_MIN)
        return hd_fail(HD_ERR_SYSTEM,
                       "rank 0 needs %d open files for %d ranks, and may have %lld (ulimit -Hn)",
                       world->world + OTHERS_MIN, world->world, (long long)limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit); /* a request: joining says what fails */
    return HD_OK;
}

static int send_go(struct hd_rendezvous *rendezvous)
{
    for (int r = 1; r < rendezvous->world.world; r++)
        if (!hd_rendezvous_send(&rendezvous->peers[r], HD_WIRE_GO, 0, NULL, 0, SEND_MS)) {
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
    struct hd_hello *hello = &rendezvous->peers[0].hello;
    hd_rendezvous_fill_hello(options, hello);
    HD_TRY(reserve_descriptors(&rendezvous->world));
    HD_TRY(open_listeners(rendezvous));
    int status = hd_rendezvous_accept_ranks(
        rendezvous, options, hd_rendezvous_get_deadline_ns(rendezvous->timeout_ns / 1000000), text);
    close_listeners(rendezvous); /* nobody else is to come */
    return status == HD_OK ? send_go(rendezvous) : hd_rendezvous_report(rendezvous, status, text);
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
    int64_t timeout_ms = rendezvous->timeout_ns / 1000000;
    HD_TRY(hd_rendezvous_reach_root(rendezvous, options));
    HD_TRY(hd_rendezvous_receive_from_root(
        rendezvous, hd_rendezvous_get_deadline_ns(timeout_ms + ANSWER_S * 1000)));
    return expect_frame(&rendezvous->peers[0].reader.frame, HD_WIRE_GO, 0);
}

static int open_rendezvous(struct hd_rendezvous *rendezvous,
                           const struct hd_rendezvous_options *options)
{
    int n_peers = rendezvous->world.rank == 0 ? rendezvous->world.world : 1;
    HD_TRY(hd_rendezvous_read_timeout(options->timeout_ns, &rendezvous->timeout_ns));
    rendezvous->peers = hd_alloc(n_peers, sizeof *rendezvous->peers);
    if (!rendezvous->peers)
        return HD_ERR_NOMEM;
    for (int r = 0; r < n_peers; r++)
        rendezvous->peers[r].fd = -1;
    hd_handshake_make_key(rendezvous->world.secret, "rendezvous", NULL, 0, rendezvous->key);
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
    rendezvous->link_timeout_s =
        options->link_timeout_s > 0 ? options->link_timeout_s : HD_LINK_TIMEOUT_S;
    rendezvous->wake_fd = -1;
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

int hd_rendezvous_broadcast(struct hd_rendezvous *rendezvous, void *data, int64_t bytes)
{
    if (!rendezvous)
        return HD_OK;
    if (bytes < 0 || bytes > HD_RENDEZVOUS_MAX_BYTES)
        return hd_fail(HD_ERR_INPUT, "a broadcast of %lld bytes: at most %d", (long long)bytes,
                       HD_RENDEZVOUS_MAX_BYTES);
    if (rendezvous->world.rank == 0) {
        int lost = hd_rendezvous_send_all(rendezvous, HD_WIRE_DATA, 0, data, (size_t)bytes);
        char text[HD_RENDEZVOUS_TEXT];
        snprintf(text, sizeof text, "rank %d disconnected during the start", lost);
        return lost == 0 ? HD_OK : hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
    }
    HD_TRY(hd_rendezvous_receive_from_root(rendezvous, hd_clock_get_ns() + rendezvous->timeout_ns));
    HD_TRY(expect_frame(&rendezvous->peers[0].reader.frame, HD_WIRE_DATA, bytes));
    memcpy(data, rendezvous->peers[0].reader.frame.payload, (size_t)bytes);
    return HD_OK;
}

void hd_rendezvous_get_root(const struct hd_rendezvous *rendezvous, struct hd_world *world)
{
    if (!rendezvous)
        return;
    memcpy(world->master_addr, rendezvous->world.master_addr, HD_ADDR_BYTES);
    world->master_port = rendezvous->world.master_port;
}

/* An address of IPv4 is written as one where the socket is of IPv6. */
static void read_own_address(int fd, char address_p[HD_ADDR_BYTES])
{
    static const char mapped[] = "::ffff:";
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    if (getsockname(fd, (struct sockaddr *)&here, &length) != 0 ||
        getnameinfo((struct sockaddr *)&here, length, address_p, HD_ADDR_BYTES, NULL, 0,
                    NI_NUMERICHOST) != 0)
        address_p[0] = '\0';
    if (strncmp(address_p, mapped, strlen(mapped)) == 0 && strchr(address_p, '.'))
        memmove(address_p, address_p + strlen(mapped), strlen(address_p) + 1 - strlen(mapped));
}

void hd_rendezvous_get_address(const struct hd_rendezvous *rendezvous,
                               char address_p[HD_ADDR_BYTES])
{
    const bool root = rendezvous->world.rank == 0;
    address_p[0] = '\0';
    for (int r = root; r < (root ? rendezvous->world.world : 1) &&
                       (!address_p[0] || hd_address_is_loopback(address_p));
         r++)
        read_own_address(rendezvous->peers[r].fd, address_p);
}

/* Rank 0 receives one rank's vote and keeps the first failure in *status and text. */
static void receive_vote(struct hd_rendezvous *rendezvous, int rank, int64_t deadline_ns,
                         int *status, char *text)
{
    struct hd_peer *peer = &rendezvous->peers[rank];
    enum hd_frame_state state = hd_frame_reader_wait(&peer->reader, peer->fd, deadline_ns);
    struct hd_frame *frame = &peer->reader.frame;
    if ((state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_GO) || *status != HD_OK)
        return;
    if (state == HD_FRAME_COMPLETE && frame->kind == HD_WIRE_FAIL) {
        *status = frame->number < 0 ? frame->number : HD_ERR_PEER;
        snprintf(text, HD_RENDEZVOUS_TEXT, "rank %d: %s", rank, hd_frame_get_text(frame));
        return;
    }
    *status = state == HD_FRAME_INCOMPLETE ? HD_ERR_SYSTEM : HD_ERR_PEER;
    snprintf(text, HD_RENDEZVOUS_TEXT, "rank %d (pid %d on %s) %s during the start", rank,
             peer->hello.pid, peer->hello.host,
             state == HD_FRAME_INCOMPLETE ? "did not answer in time" : "disconnected");
}

static void send_to_root(struct hd_rendezvous *rendezvous, enum hd_wire_kind kind, int number,
                         const char *text)
{
    pthread_mutex_lock(&rendezvous->lock);
    hd_rendezvous_send(&rendezvous->peers[0], kind, number, text, strlen(text), SEND_MS);
    pthread_mutex_unlock(&rendezvous->lock);
}

int hd_rendezvous_agree(struct hd_rendezvous *rendezvous, int status, const char *text)
{
    if (!rendezvous)
        return status == HD_OK ? HD_OK : hd_fail(status, "%s", text);
    char why[HD_RENDEZVOUS_TEXT] = "";
    /* Whoever tried something for the time of the rendezvous has its say. */
    const int64_t patience_ms = rendezvous->timeout_ns / 1000000 + ANSWER_S * 1000;
    if (rendezvous->world.rank != 0) {
        snprintf(why, sizeof why, "%s", status == HD_OK ? "" : text);
        send_to_root(rendezvous, status == HD_OK ? HD_WIRE_GO : HD_WIRE_FAIL, status, why);
        HD_TRY(hd_rendezvous_receive_from_root(
            rendezvous, hd_rendezvous_get_deadline_ns(patience_ms + ANSWER_S * 1000)));
        return expect_frame(&rendezvous->peers[0].reader.frame, HD_WIRE_GO, 0);
    }
    if (status != HD_OK)
        snprintf(why, sizeof why, "rank 0: %.*s", HD_RENDEZVOUS_TEXT - 16, text);
    const int64_t deadline_ns = hd_rendezvous_get_deadline_ns(patience_ms);
    for (int r = 1; r < rendezvous->world.world; r++)
        receive_vote(rendezvous, r, deadline_ns, &status, why);
    hd_rendezvous_send_all(rendezvous, status == HD_OK ? HD_WIRE_GO : HD_WIRE_REFUSE, status, why,
                           strlen(why));
    return status == HD_OK ? HD_OK : hd_rendezvous_report(rendezvous, status, why);
}

/* -- The end ----------------------------------------------------------------------------------- */

void hd_rendezvous_fail(struct hd_rendezvous *rendezvous, int status, const char *text)
{
    if (!rendezvous || atomic_exchange(&rendezvous->failed, true))
        return;
    char line[HD_RENDEZVOUS_TEXT];
    if (rendezvous->world.rank == 0) {
        snprintf(line, sizeof line, "rank 0 failed: %s", text);
        hd_rendezvous_send_all(rendezvous, HD_WIRE_LOST, 0, line, strlen(line));
        return;
    }
    snprintf(line, sizeof line, "%s", text);
    send_to_root(rendezvous, HD_WIRE_FAIL, status, line);
}

void hd_rendezvous_pass_on(struct hd_rendezvous *rendezvous, int rank, int status, const char *text)
{
    if (!rendezvous || atomic_exchange(&rendezvous->failed, true))
        return;
    char line[HD_RENDEZVOUS_TEXT];
    snprintf(line, sizeof line, "%s", text);
    if (rendezvous->world.rank == 0)
        hd_rendezvous_send_all(rendezvous, HD_WIRE_LOST, rank, line, strlen(line));
    else
        send_to_root(rendezvous, HD_WIRE_LOST, status, line);
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
        hd_free(rendezvous->peers[r].message);
        if (rendezvous->peers[r].fd < 0)
            continue;
        if (!atomic_load(&rendezvous->failed))
            hd_rendezvous_send(&rendezvous->peers[r], HD_WIRE_BYE, 0, NULL, 0, SEND_MS);
        close(rendezvous->peers[r].fd);
    }
    close_listeners(rendezvous);
    if (rendezvous->wake_fd >= 0)
        close(rendezvous->wake_fd);
    pthread_mutex_destroy(&rendezvous->lock);
    hd_free(rendezvous->peers);
    hd_free(rendezvous);
}
