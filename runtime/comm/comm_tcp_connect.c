/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank connects to all ranks below it. Rank 0 knows from the rendezvous's connections where
 * each one is, and tells all. Both ends of each connection show that they know the run's secret.
 * A rank listens to all that connect at the same time, so nobody who is silent delays another. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp_internal.h"
#include "runtime/ranks/handshake.h"
#include "runtime/ranks/peer.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING_MAX = 256, ATTEMPT_MS = 10000, PAUSE_MS = 50, SEND_MS = 1000 };

/* Address and port of a rank, as rank 0 tells them. */
struct endpoint {
    char address[HD_ADDR_BYTES]; /* rank 0's: empty, all know it */
    int32_t port;
    uint8_t token[HD_NONCE_BYTES]; /* of this run: another run may have the same secret */
};

/* A connection that has not said yet which rank it is. */
struct pending {
    int fd;
    uint8_t nonce[HD_NONCE_BYTES];
    struct hd_frame_reader reader;
};

struct connector {
    struct hd_tcp_links *links;
    const struct hd_world *world;
    int64_t deadline_ns;
    uint8_t key[HD_WIRE_KEY];
    struct pending *pending; /* [PENDING_MAX], in order of arrival */
    int n_pending, n_unknown;
};

__attribute__((format(printf, 2, 3))) static int fail(struct connector *connector,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(connector->links->error, sizeof connector->links->error, format, args);
    va_end(args);
    return HD_ERR_SYSTEM;
}

static int left_ms(const struct connector *connector)
{
    const int64_t left_ns = connector->deadline_ns - hd_clock_get_ns();
    return left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
}

static void adopt_connection(struct connector *connector, int rank, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    connector->links->peers[rank].fd = fd;
}

/* -- To the ranks below ------------------------------------------------------------------------ */

/* Returns NULL, or why there is no connection. */
static const char *try_to_connect(struct connector *connector, int rank, const char *address,
                                  int port)
{
    const int32_t own = connector->world->rank;
    const int attempt_ms = left_ms(connector) < ATTEMPT_MS ? left_ms(connector) : ATTEMPT_MS;
    struct hd_frame_reader reader = {0};
    struct hd_wire_key out;
    const char *why;
    int fd = hd_rendezvous_connect_once(address, port, attempt_ms, &why);
    if (fd < 0)
        return why;
    why = hd_handshake_join(fd, connector->key, &own, sizeof own,
                            hd_clock_get_ns() + attempt_ms * INT64_C(1000000), &reader, &out);
    if (why)
        close(fd);
    else
        adopt_connection(connector, rank, fd);
    return why;
}

static int connect_to_rank(struct connector *connector, int rank, const struct endpoint *endpoint)
{
    const char *address = endpoint->address[0] ? endpoint->address : connector->world->master_addr;
    for (;;) {
        const char *why = try_to_connect(connector, rank, address, endpoint->port);
        if (!why)
            return HD_OK;
        if (left_ms(connector) == 0)
            return fail(connector, "no connection to rank %d at %.100s port %d: %s", rank, address,
                        endpoint->port, why);
        poll(NULL, 0, PAUSE_MS);
    }
}

/* -- From the ranks above ---------------------------------------------------------------------- */

static void remove_pending(struct connector *connector, int i)
{
    connector->n_pending--;
    memmove(&connector->pending[i], &connector->pending[i + 1],
            (size_t)(connector->n_pending - i) * sizeof connector->pending[0]);
}

static void drop_pending(struct connector *connector, int i, const char *why)
{
    hd_peer_report_unknown(connector->pending[i].fd, why, &connector->n_unknown);
    close(connector->pending[i].fd);
    remove_pending(connector, i);
}

static void accept_pending(struct connector *connector, int listen_fd)
{
    if (connector->n_pending == PENDING_MAX)
        drop_pending(connector, 0, "said nothing");
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && connector->n_pending > 0)
        drop_pending(connector, 0, "said nothing, and this process has no more descriptors");
    if (fd < 0) {
        poll(NULL, 0, 1); /* no descriptor at all: does not spin */
        return;
    }
    struct pending *pending = &connector->pending[connector->n_pending];
    *pending = (struct pending){.fd = fd};
    if (hd_peer_is_foreign(fd))
        hd_peer_report_unknown(fd, "belongs to another user", &connector->n_unknown);
    else if (hd_handshake_challenge(fd, connector->key, pending->nonce)) {
        connector->n_pending++;
        return;
    }
    close(fd);
}

/* Returns the rank that a hello shows, or -1. */
static int check_hello(struct connector *connector, struct pending *pending)
{
    struct hd_wire_key out;
    size_t bytes;
    int32_t rank;
    const void *body =
        hd_handshake_check(&pending->reader, connector->key, pending->nonce, &bytes, &out);
    if (!body || bytes != sizeof rank)
        return -1;
    memcpy(&rank, body, sizeof rank);
    if (rank <= connector->world->rank || rank >= connector->world->world ||
        connector->links->peers[rank].fd >= 0 ||
        !hd_wire_send(pending->fd, &out, HD_WIRE_WELCOME, 0, NULL, 0,
                      hd_clock_get_ns() + SEND_MS * INT64_C(1000000)))
        return -1;
    return rank;
}

/* Returns how many ranks this pending connection brought. */
static int read_pending(struct connector *connector, int i)
{
    struct pending *pending = &connector->pending[i];
    switch (hd_frame_reader_read(&pending->reader, pending->fd)) {
    case HD_FRAME_INCOMPLETE:
        return 0;
    case HD_FRAME_COMPLETE: {
        const int rank = check_hello(connector, pending);
        if (rank < 0) {
            drop_pending(connector, i, "does not know the secret of this run");
            return 0;
        }
        adopt_connection(connector, rank, pending->fd);
        remove_pending(connector, i);
        return 1;
    }
    case HD_FRAME_CLOSED:
        close(pending->fd);
        remove_pending(connector, i);
        return 0;
    case HD_FRAME_INVALID:
        drop_pending(connector, i, "does not speak the protocol of this version");
        return 0;
    }
    return 0;
}

static int poll_connections(struct connector *connector, int listen_fd, int *missing)
{
    struct pollfd polls[1 + PENDING_MAX];
    const int n = connector->n_pending;
    polls[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    for (int i = 0; i < n; i++)
        polls[1 + i] = (struct pollfd){.fd = connector->pending[i].fd, .events = POLLIN};
    if (poll(polls, (nfds_t)(1 + n), left_ms(connector)) <= 0 && left_ms(connector) == 0)
        return fail(connector, "%d of the ranks above did not connect in time", *missing);
    for (int i = n - 1; i >= 0; i--) /* backwards: dropping one moves the later ones */
        if (polls[1 + i].revents)
            *missing -= read_pending(connector, i);
    if (polls[0].revents)
        accept_pending(connector, listen_fd);
    return HD_OK;
}

static int accept_above(struct connector *connector, int listen_fd)
{
    int missing = connector->world->world - 1 - connector->world->rank, status = HD_OK;
    connector->pending = hd_alloc(PENDING_MAX, sizeof *connector->pending);
    if (!connector->pending)
        return fail(connector, "no memory");
    fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
    while (missing > 0 && status == HD_OK)
        status = poll_connections(connector, listen_fd, &missing);
    for (int i = 0; i < connector->n_pending; i++)
        close(connector->pending[i].fd);
    hd_free(connector->pending);
    if (connector->n_unknown > 1)
        hd_log(HD_LOG_INFO, "dropped %d connections that were not of this run",
               connector->n_unknown);
    return status;
}

/* Goes on through all ranks when one fails, so that all hear the same broadcasts. */
int hd_tcp_connect_ranks(struct hd_tcp_links *links, const struct hd_world *world,
                         struct hd_rendezvous *rendezvous, int listen_fd)
{
    struct connector connector = {.links = links,
                                  .world = world,
                                  .deadline_ns =
                                      hd_clock_get_ns() + hd_rendezvous_get_timeout_ns(rendezvous)};
    uint8_t token[HD_NONCE_BYTES];
    int status = HD_OK;
    hd_secret_draw(token);
    for (int rank = 0; rank < world->world; rank++) {
        struct endpoint endpoint = {.port = 0};
        memcpy(endpoint.token, token, sizeof token);
        if (world->rank == 0)
            hd_rendezvous_get_address(rendezvous, rank, endpoint.address, &endpoint.port);
        int told = hd_rendezvous_broadcast(rendezvous, &endpoint, sizeof endpoint);
        if (told != HD_OK)
            return fail(&connector, "rank 0 disconnected during the start");
        hd_handshake_make_key(world->secret, "links", endpoint.token, sizeof endpoint.token,
                              connector.key);
        if (status == HD_OK && rank < world->rank)
            status = connect_to_rank(&connector, rank, &endpoint);
    }
    return status == HD_OK ? accept_above(&connector, listen_fd) : status;
}
