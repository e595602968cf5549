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

/* Of one rank, as rank 0 tells them. */
struct place {
    char address[HD_ADDR_BYTES]; /* rank 0's: empty, all know it */
    int32_t port;
    uint64_t token; /* of this run: who does not know it is a stranger */
};

/* The first bytes on a connection. */
struct greeting {
    uint64_t token;
    int32_t rank, reserved;
};

struct meeting {
    struct hd_tcp_links *links;
    const struct hd_world *world;
    int64_t deadline_ns;
    uint64_t token;
};

__attribute__((format(printf, 2, 3))) static int fail(struct meeting *meeting, const char *format,
                                                      ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(meeting->links->error, sizeof meeting->links->error, format, args);
    va_end(args);
    return HD_ERR_SYSTEM;
}

static int left_ms(const struct meeting *meeting)
{
    const int64_t left_ns = meeting->deadline_ns - hd_clock_ns();
    return left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0;
}

static void keep(struct meeting *meeting, int rank, int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    meeting->links->peers[rank].fd = fd;
}

static int greet(struct meeting *meeting, int rank, const struct place *place)
{
    const char *address = place->address[0] ? place->address : meeting->world->master_addr;
    int fd = hd_rendezvous_connect_once(address, place->port, left_ms(meeting));
    if (fd < 0)
        return fail(meeting, "no connection to rank %d at %.100s port %d: %s", rank, address,
                    place->port, strerror(-fd));
    const struct greeting greeting = {.token = meeting->token, .rank = meeting->world->rank};
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) != sizeof greeting) {
        close(fd);
        return fail(meeting, "rank %d left during the start", rank);
    }
    keep(meeting, rank, fd);
    return HD_OK;
}

/* Bytes of a greeting come at once, or from a stranger. */
static int hear(struct meeting *meeting, int fd)
{
    struct greeting greeting;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    const int patience_ms = left_ms(meeting) < 2000 ? left_ms(meeting) : 2000;
    if (poll(&one, 1, patience_ms) <= 0 ||
        recv(fd, &greeting, sizeof greeting, MSG_DONTWAIT) != sizeof greeting ||
        greeting.token != meeting->token || greeting.rank <= meeting->world->rank ||
        greeting.rank >= meeting->world->world || meeting->links->peers[greeting.rank].fd >= 0)
        return -1;
    return greeting.rank;
}

static int accept_above(struct meeting *meeting, int listen_fd)
{
    for (int missing = meeting->world->world - 1 - meeting->world->rank; missing > 0;) {
        struct pollfd one = {.fd = listen_fd, .events = POLLIN};
        if (poll(&one, 1, left_ms(meeting)) <= 0)
            return fail(meeting, "%d of the ranks above did not connect in time", missing);
        int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        int rank = fd >= 0 ? hear(meeting, fd) : -1;
        if (rank >= 0) {
            keep(meeting, rank, fd);
            missing--;
        } else if (fd >= 0) {
            close(fd);
        }
    }
    return HD_OK;
}

/* Goes through all ranks although one fails: all hear the same broadcasts. */
int hd_tcp_meet(struct hd_tcp_links *links, const struct hd_world *world,
                struct hd_rendezvous *rendezvous, int listen_fd)
{
    struct meeting meeting = {.links = links,
                              .world = world,
                              .deadline_ns =
                                  hd_clock_ns() + hd_rendezvous_get_timeout_ns(rendezvous)};
    const uint64_t token = hd_hash_mix((uint64_t)hd_clock_wall_ns(), (uint64_t)getpid());
    int status = HD_OK;
    for (int rank = 0; rank < world->world; rank++) {
        struct place place = {.token = token};
        if (world->rank == 0)
            hd_rendezvous_get_address(rendezvous, rank, place.address, &place.port);
        int told = hd_rendezvous_broadcast(rendezvous, &place, sizeof place);
        if (told != HD_OK)
            return fail(&meeting, "rank 0 left during the start");
        meeting.token = place.token;
        if (status == HD_OK && rank < world->rank)
            status = greet(&meeting, rank, &place);
    }
    return status == HD_OK ? accept_above(&meeting, listen_fd) : status;
}
