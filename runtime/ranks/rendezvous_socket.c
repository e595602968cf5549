/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the rendezvous: they listen and connect. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_MS = 50, ATTEMPT_MS = 2000 };

static int resolve(const char *address, int port, int flags, struct addrinfo **list_p)
{
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    return getaddrinfo(address, service, &hints, list_p);
}

static int listen_at(const struct addrinfo *at, int *fd_p)
{
    int one = 1, zero = 0;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (at->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, HD_WORLD_MAX) != 0) {
        int error = errno;
        close(fd);
        return -error;
    }
    *fd_p = fd;
    return 0;
}

static int get_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char service[16];
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo((struct sockaddr *)&address, length, NULL, 0, service, sizeof service,
                    NI_NUMERICSERV) != 0)
        return 0;
    int port = 0;
    return sscanf(service, "%d", &port) == 1 ? port : 0;
}

int hd_rendezvous_listen(const char *address, int port, bool one_host, int *fd_p, int *port_p)
{
    /* A host's own name often resolves to an address that other hosts cannot reach (127.0.1.1),
     * hence all interfaces as soon as there are other hosts. */
    const char *name = one_host && hd_address_is_loopback(address) ? address : NULL;
    struct addrinfo *list;
    int error = resolve(name, port, AI_PASSIVE, &list);
    if (error != 0)
        return hd_fail(HD_ERR_INPUT, "cannot resolve %s: %s", address, gai_strerror(error));
    static const int families[] = {AF_INET6, AF_INET}; /* all of IPv6 takes IPv4 as well */
    int fd = -1, result = -EADDRNOTAVAIL;
    for (int f = 0; f < 2; f++)
        for (const struct addrinfo *at = list; at; at = at->ai_next)
            if (at->ai_family == families[f] && result != 0 && result != -EADDRINUSE)
                result = listen_at(at, &fd);
    freeaddrinfo(list);
    if (result == -EADDRINUSE)
        return hd_fail(HD_ERR_SYSTEM,
                       "port %d on this host is taken by another process; choose another one "
                       "(MASTER_PORT, --master-port)",
                       port);
    if (result != 0)
        return hd_fail(HD_ERR_SYSTEM, "cannot listen at %s port %d: %s", address, port,
                       strerror(-result));
    *fd_p = fd;
    if (port_p)
        *port_p = get_port(fd);
    return HD_OK;
}

void hd_rendezvous_set_keepalive(int fd)
{
    int one = 1, idle_s = 15, interval_s = 5, probes = 3, unanswered_ms = 30000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* TCP lets a socket connect to itself when nobody listens at a port of the ephemeral range and the
 * kernel happens to choose that very port for the caller. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage here = {0}, there = {0};
    socklen_t here_length = sizeof here, there_length = sizeof there;
    return getsockname(fd, (struct sockaddr *)&here, &here_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_length) == 0 &&
           here_length == there_length && memcmp(&here, &there, here_length) == 0;
}

/* Returns a connected socket or -errno. */
static int connect_to(const struct addrinfo *at, int64_t deadline_ns)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int error = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
        int64_t left_ms = (deadline_ns - hd_clock_get_ns()) / 1000000;
        struct pollfd one = {.fd = fd, .events = POLLOUT};
        int n = poll(&one, 1, left_ms < ATTEMPT_MS ? (left_ms > 0 ? (int)left_ms : 0) : ATTEMPT_MS);
        socklen_t length = sizeof error;
        if (n <= 0)
            error = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
            error = errno;
    }
    if (error == 0 && is_connected_to_itself(fd))
        error = ECONNREFUSED;
    if (error == 0)
        return fd;
    close(fd);
    return -error;
}

int hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms)
{
    struct addrinfo *list;
    int fd = -EHOSTUNREACH;
    int64_t deadline_ns = hd_clock_get_ns() + timeout_ms * 1000000;
    if (resolve(address, port, 0, &list) != 0)
        return fd;
    for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
        fd = connect_to(at, deadline_ns);
    freeaddrinfo(list);
    return fd;
}

int hd_rendezvous_connect(const struct hd_world *world, int64_t deadline_ns, int *fd_p)
{
    int64_t start_ns = hd_clock_get_ns();
    for (;;) {
        struct addrinfo *list;
        int fd = -1, error = resolve(world->master_addr, world->master_port, 0, &list);
        const char *why = gai_strerror(error);
        for (const struct addrinfo *at = error == 0 ? list : NULL; at && fd < 0; at = at->ai_next)
            fd = connect_to(at, deadline_ns);
        if (error == 0) {
            freeaddrinfo(list);
            why = strerror(-fd);
        }
        if (fd >= 0) {
            *fd_p = fd;
            return HD_OK;
        }
        if (hd_clock_get_ns() >= deadline_ns)
            return hd_fail(HD_ERR_SYSTEM,
                           "rank %d cannot reach rank 0 at %s port %d within %lld s: %s",
                           world->rank, world->master_addr, world->master_port,
                           (long long)((hd_clock_get_ns() - start_ns) / 1000000000), why);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_MS * 1000000L}, NULL);
    }
}
