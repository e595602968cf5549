/* SPDX-License-Identifier: Apache-2.0 */
/* Every rank connects to all ranks below it. Rank 0 knows from the rendezvous's connections where
 * each one is, and tells all. */
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp_internal.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Address and port of a rank, as rank 0 tells them. */
struct endpoint {
    char address[HD_ADDR_BYTES]; /* rank 0's: empty, all know it */
    int32_t port;
    uint64_t token; /* of this run: tells its ranks from unknown peers */
};

/* The first bytes on a connection. */
struct handshake {
    uint64_t token;
    int32_t rank, reserved;
};

struct connector {
    struct hd_tcp_links *links;
    const struct hd_world *world;
    int64_t deadline_ns;
    uint64_t token;
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

static int connect_to_rank(struct connector *connector, int rank, const struct endpoint *endpoint)
{
    const char *address = endpoint->address[0] ? endpoint->address : connector->world->master_addr;
    int fd = hd_rendezvous_connect_once(address, endpoint->port, left_ms(connector));
    if (fd < 0)
        return fail(connector, "no connection to rank %d at %.100s port %d: %s", rank, address,
                    endpoint->port, strerror(-fd));
    const struct handshake handshake = {.token = connector->token, .rank = connector->world->rank};
    if (send(fd, &handshake, sizeof handshake, MSG_NOSIGNAL) != sizeof handshake) {
        close(fd);
        return fail(connector, "rank %d disconnected during the start", rank);
    }
    adopt_connection(connector, rank, fd);
    return HD_OK;
}

/* Returns the rank of the peer, or -1 for an unknown peer. The bytes of a handshake come at once.
 */
static int receive_handshake(struct connector *connector, int fd)
{
    struct handshake handshake;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    const int timeout_ms = left_ms(connector) < 2000 ? left_ms(connector) : 2000;
    if (poll(&one, 1, timeout_ms) <= 0 ||
        recv(fd, &handshake, sizeof handshake, MSG_DONTWAIT) != sizeof handshake ||
        handshake.token != connector->token || handshake.rank <= connector->world->rank ||
        handshake.rank >= connector->world->world ||
        connector->links->peers[handshake.rank].fd >= 0)
        return -1;
    return handshake.rank;
}

static int accept_above(struct connector *connector, int listen_fd)
{
    for (int missing = connector->world->world - 1 - connector->world->rank; missing > 0;) {
        struct pollfd one = {.fd = listen_fd, .events = POLLIN};
        if (poll(&one, 1, left_ms(connector)) <= 0)
            return fail(connector, "%d of the ranks above did not connect in time", missing);
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        int rank = fd >= 0 ? receive_handshake(connector, fd) : -1;
        if (rank >= 0) {
            adopt_connection(connector, rank, fd);
            missing--;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    return HD_OK;
}

/* Goes on through all ranks when one fails, so that all hear the same broadcasts. */
int hd_tcp_connect_ranks(struct hd_tcp_links *links, const struct hd_world *world,
                         struct hd_rendezvous *rendezvous, int listen_fd)
{
    struct connector connector = {.links = links,
                                  .world = world,
                                  .deadline_ns =
                                      hd_clock_get_ns() + hd_rendezvous_get_timeout_ns(rendezvous)};
    const uint64_t token = hd_hash_mix((uint64_t)hd_clock_get_wall_ns(), (uint64_t)getpid());
    int status = HD_OK;
    for (int rank = 0; rank < world->world; rank++) {
        struct endpoint endpoint = {.token = token};
        if (world->rank == 0)
            hd_rendezvous_get_address(rendezvous, rank, endpoint.address, &endpoint.port);
        int told = hd_rendezvous_broadcast(rendezvous, &endpoint, sizeof endpoint);
        if (told != HD_OK)
            return fail(&connector, "rank 0 disconnected during the start");
        connector.token = endpoint.token;
        if (status == HD_OK && rank < world->rank)
            status = connect_to_rank(&connector, rank, &endpoint);
    }
    return status == HD_OK ? accept_above(&connector, listen_fd) : status;
}
