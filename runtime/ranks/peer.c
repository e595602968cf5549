/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/peer.h"

#include "runtime/base/log.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 socket;
};

/* Writes an address as sock_diag wants it. A socket of IPv6 may have a peer of IPv4. Returns the
 * family, or AF_UNSPEC. */
static int write_address(const struct sockaddr_storage *address, __be32 words[4], __be16 *port)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET) {
        memcpy(words, &four->sin_addr, sizeof four->sin_addr);
        *port = four->sin_port;
        return AF_INET;
    }
    if (address->ss_family != AF_INET6)
        return AF_UNSPEC;
    *port = six->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
        memcpy(words, (const char *)&six->sin6_addr + 12, 4);
        return AF_INET;
    }
    memcpy(words, &six->sin6_addr, sizeof six->sin6_addr);
    return AF_INET6;
}

/* Asks for the socket whose own address is the peer's. */
static bool make_request(int fd, struct request *request)
{
    struct sockaddr_storage here, there;
    socklen_t here_length = sizeof here, there_length = sizeof there;
    if (getsockname(fd, (struct sockaddr *)&here, &here_length) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &there_length) != 0)
        return false;
    *request = (struct request){.header = {.nlmsg_len = sizeof *request,
                                           .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                                           .nlmsg_flags = NLM_F_REQUEST},
                                .socket.sdiag_protocol = IPPROTO_TCP};
    struct inet_diag_sockid *id = &request->socket.id;
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    const int family = write_address(&there, id->idiag_src, &id->idiag_sport);
    request->socket.sdiag_family = (uint8_t)family;
    return family != AF_UNSPEC && write_address(&here, id->idiag_dst, &id->idiag_dport) == family;
}

bool hd_peer_get_uid(int fd, uint32_t *uid_p)
{
    struct request request;
    struct {
        struct nlmsghdr header;
        struct inet_diag_msg socket;
        char more[4096];
    } answer;
    if (!make_request(fd, &request))
        return false;
    int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0)
        return false;
    setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 100000},
               sizeof(struct timeval));
    const bool sent = send(netlink, &request, sizeof request, 0) == (ssize_t)sizeof request;
    const ssize_t bytes = sent ? recv(netlink, &answer, sizeof answer, 0) : -1;
    close(netlink);
    /* A socket that was closed has no owner any more. */
    if (bytes < (ssize_t)(sizeof answer.header + sizeof answer.socket) ||
        answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.socket.idiag_state != TCP_ESTABLISHED)
        return false;
    *uid_p = answer.socket.idiag_uid;
    return true;
}

bool hd_peer_is_foreign(int fd)
{
    uint32_t uid;
    return hd_peer_get_uid(fd, &uid) && uid != 0 && uid != geteuid();
}

void hd_peer_report_unknown(int fd, const char *why, int *count)
{
    struct sockaddr_storage there;
    socklen_t length = sizeof there;
    char host[128] = "an unknown address", port[16] = "", user[32] = "";
    uint32_t uid;
    if (++*count > 1)
        return;
    if (getpeername(fd, (struct sockaddr *)&there, &length) == 0)
        getnameinfo((struct sockaddr *)&there, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    if (hd_peer_get_uid(fd, &uid))
        snprintf(user, sizeof user, " (user %u)", uid);
    hd_log(HD_LOG_WARN,
           "dropped a connection from %s%s%s%s: it %s; the run goes on, and further ones are only "
           "counted",
           host, port[0] ? " port " : "", port, user, why);
}
