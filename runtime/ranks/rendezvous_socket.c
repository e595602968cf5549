/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets of the rendezvous: they listen and connect. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ATTEMPT_MS = 2000 };

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

static void write_address(const struct sockaddr *address, char text_p[HD_ADDR_BYTES])
{
    text_p[0] = '\0';
    getnameinfo(address,
                address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                              : sizeof(struct sockaddr_in6),
                text_p, HD_ADDR_BYTES, NULL, 0, NI_NUMERICHOST);
}

/* Returns whether only this host reaches the address. */
static bool is_loopback(const struct sockaddr *address)
{
    char text[HD_ADDR_BYTES];
    write_address(address, text);
    return hd_address_is_loopback(text);
}

/* Listens at the first address of the list that is this host's. Returns 0 or -errno. */
static int listen_at_any(const struct addrinfo *list, bool loopback, int *fd_p)
{
    int result = -EADDRNOTAVAIL;
    for (const struct addrinfo *at = list; at && result != 0 && result != -EADDRINUSE;
         at = at->ai_next)
        if (loopback || !is_loopback(at->ai_addr))
            result = listen_at(at, fd_p);
    return result;
}

/* Listens on all interfaces: all of IPv6 takes IPv4 as well. */
static int listen_everywhere(int port, int *fd_p)
{
    static const char *const addresses[] = {"::", "0.0.0.0"};
    int result = -EADDRNOTAVAIL;
    for (int i = 0; i < 2 && result != 0 && result != -EADDRINUSE; i++) {
        struct addrinfo *list;
        if (resolve(addresses[i], port, AI_PASSIVE, &list) != 0)
            continue;
        result = listen_at(list, fd_p);
        freeaddrinfo(list);
    }
    return result;
}

static int check_listening(int result, const char *address, int port)
{
    if (result == -EADDRINUSE)
        return hd_fail(HD_ERR_SYSTEM,
                       "port %d on this host is taken by another process; choose another one "
                       "(MASTER_PORT, --master-port)",
                       port);
    return result == 0 ? HD_OK
                       : hd_fail(HD_ERR_SYSTEM, "cannot listen at %s port %d: %s", address, port,
                                 strerror(-result));
}

/* With several hosts `localhost` is a name like others, that of this host: some operators give it
 * to rank 0 alone. */
static bool may_use_loopback(const char *address, bool one_host)
{
    return one_host || (hd_address_is_loopback(address) && strcasecmp(address, "localhost") != 0);
}

int hd_rendezvous_listen(const char *address, int port, bool one_host, int *fd_p, int *port_p)
{
    struct addrinfo *list = NULL;
    int fd = -1, result = -EADDRNOTAVAIL;
    const int error = address[0] ? resolve(address, port, AI_PASSIVE, &list) : 0;
    if (list) {
        result = listen_at_any(list, may_use_loopback(address, one_host), &fd);
        freeaddrinfo(list);
    }
    if (result == -EADDRNOTAVAIL && hd_address_is_loopback(address) &&
        may_use_loopback(address, one_host))
        return hd_fail(HD_ERR_SYSTEM,
                       "rank 0 cannot listen at %s: Network is unreachable, since the loopback "
                       "interface of this host or container is down (ip link set lo up)",
                       address);
    if (result == -EADDRNOTAVAIL) {
        if (address[0])
            hd_log(HD_LOG_INFO, "%s is no address of this host (%s): listening on all interfaces",
                   address, error != 0 ? gai_strerror(error) : "or one that others do not reach");
        result = listen_everywhere(port, &fd);
    }
    HD_TRY(check_listening(result, address, port));
    *fd_p = fd;
    if (port_p)
        *port_p = get_port(fd);
    return HD_OK;
}

static bool has(const struct addrinfo *list, const struct addrinfo *end,
                const struct addrinfo *address)
{
    for (; list != end; list = list->ai_next)
        if (list->ai_addrlen == address->ai_addrlen &&
            memcmp(list->ai_addr, address->ai_addr, address->ai_addrlen) == 0)
            return true;
    return false;
}

/* Opens a socket at each address of the list but `first`, where the others have one already. */
static int listen_beside(struct hd_rendezvous *rendezvous, const struct addrinfo *list,
                         const struct addrinfo *first, bool loopback)
{
    const struct hd_world *world = &rendezvous->world;
    for (const struct addrinfo *at = list; at; at = at->ai_next) {
        if (rendezvous->n_listening == HD_LISTENERS_MAX || has(first, NULL, at) ||
            has(list, at, at) || (!loopback && is_loopback(at->ai_addr)))
            continue;
        const int result = listen_at(at, &rendezvous->listen_fds[rendezvous->n_listening]);
        if (result == 0)
            rendezvous->n_listening++;
        else if (result != -EADDRNOTAVAIL)
            HD_TRY(check_listening(result, world->master_addr, world->master_port));
    }
    return HD_OK;
}

int hd_rendezvous_listen_beside(struct hd_rendezvous *rendezvous)
{
    const struct hd_world *world = &rendezvous->world;
    const int port = get_port(rendezvous->listen_fds[0]);
    const bool one_host = world->local_world == world->world;
    struct sockaddr_storage here = {0};
    struct addrinfo *list, first = {.ai_addr = (struct sockaddr *)&here};
    char text[HD_ADDR_BYTES];
    first.ai_addrlen = sizeof here;
    if (port == 0 || getsockname(rendezvous->listen_fds[0], first.ai_addr, &first.ai_addrlen) != 0)
        return HD_OK;
    write_address(first.ai_addr, text);
    if (hd_address_is_unspecified(text) ||
        resolve(world->master_addr, port, AI_PASSIVE, &list) != 0)
        return HD_OK;
    const int status =
        listen_beside(rendezvous, list, &first, may_use_loopback(world->master_addr, one_host));
    freeaddrinfo(list);
    return status;
}

void hd_rendezvous_set_keepalive(int fd, int timeout_s)
{
    int one = 1, idle_s = timeout_s / 2, interval_s = timeout_s / 6, probes = 3,
        unanswered_ms = timeout_s * 1000;
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

int hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms,
                               const char **why_p)
{
    struct addrinfo *list;
    int fd = -EHOSTUNREACH;
    int64_t deadline_ns = hd_clock_get_ns() + timeout_ms * 1000000;
    const int error = resolve(address, port, 0, &list);
    if (error != 0) {
        *why_p = gai_strerror(error);
        return fd;
    }
    for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
        fd = connect_to(at, deadline_ns);
    freeaddrinfo(list);
    if (fd >= 0)
        return fd;
    *why_p = strerror(-fd);
    return fd;
}
