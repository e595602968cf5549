/* SPDX-License-Identifier: Apache-2.0 */
/* This file has what is the same for all links: it says where partners are, describes errors and
 * tries at the start whether each partner is reached. */
#include "runtime/comm/comm_links.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"
#include "runtime/machine/topology.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* -- Places ------------------------------------------------------------------------------------ */

static bool has_address(const struct ifaddrs *at, const char *address)
{
    char text[HD_ADDR_BYTES];
    const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;
    const socklen_t length =
        family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return (family == AF_INET || family == AF_INET6) &&
           getnameinfo(at->ifa_addr, length, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0 &&
           strcmp(text, address) == 0;
}

/* Stores the interface of this host that has a numeric address as hd_rendezvous_get_address writes
 * it; "" if there is none. */
static void find_interface(const char *address, char name_p[HD_HOST_BYTES])
{
    struct ifaddrs *list;
    name_p[0] = '\0';
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *at = list; at && !name_p[0]; at = at->ifa_next)
        if (has_address(at, address))
            snprintf(name_p, HD_HOST_BYTES, "%s", at->ifa_name);
    freeifaddrs(list);
}

static void describe_place(const struct hd_rendezvous *rendezvous, char place[HD_LINKS_PLACE])
{
    char address[HD_ADDR_BYTES], interface[HD_HOST_BYTES], host[HD_HOST_BYTES];
    hd_rendezvous_get_address(rendezvous, address);
    find_interface(address, interface);
    hd_host_get_name(host);
    snprintf(place, HD_LINKS_PLACE, "%.64s (%s) on %s", address,
             interface[0] ? interface : "no interface", host);
}

struct gathered {
    struct hd_comm *comm;
    char (*places)[HD_LINKS_PLACE];
};

static int take_place(void *arg, int rank, const void *data, int64_t bytes)
{
    const struct gathered *gathered = arg;
    const int host = rank / gathered->comm->hosts.ranks;
    if (bytes != HD_LINKS_PLACE || ((const char *)data)[HD_LINKS_PLACE - 1] != '\0')
        return hd_fail(HD_ERR_PEER, "rank %d describes its place in %lld bytes", rank,
                       (long long)bytes);
    if (rank == hd_comm_get_partner(gathered->comm, host))
        memcpy(gathered->places[host], data, HD_LINKS_PLACE);
    return HD_OK;
}

int hd_links_gather_places(struct hd_comm *comm, struct hd_rendezvous *rendezvous,
                           char (*places)[HD_LINKS_PLACE])
{
    char own[HD_LINKS_PLACE] = "";
    struct gathered gathered = {comm, places};
    describe_place(rendezvous, own);
    return hd_rendezvous_gather_all(rendezvous, own, sizeof own, take_place, &gathered);
}

void hd_links_describe_error(struct hd_comm *comm, struct hd_links *links,
                             char (*places)[HD_LINKS_PLACE], const char *what,
                             char text[HD_RENDEZVOUS_TEXT])
{
    int rank = -1;
    const char *why = links->ops->error(links, &rank);
    if (rank < 0)
        snprintf(text, HD_RENDEZVOUS_TEXT, "the connections %s: %s", what, why);
    else
        snprintf(text, HD_RENDEZVOUS_TEXT, "the connection from %s to rank %d at %s %s: %s",
                 places[hd_comm_get_host(comm)], rank, places[rank / comm->hosts.ranks], what, why);
}

/* -- The trial --------------------------------------------------------------------------------- */

static int start_all(struct hd_comm *comm, struct hd_links *links)
{
    for (int out = 0; out < 2; out++)
        for (int i = 1; i < comm->hosts.n; i++) {
            const int host = (hd_comm_get_host(comm) + i) % comm->hosts.n;
            const struct hd_comm_transfer empty = {.rank = hd_comm_get_partner(comm, host),
                                                   .out = out};
            HD_TRY(links->ops->start(links, 0, &empty, 1));
        }
    return HD_OK;
}

/* Returns the host of the first message that has not ended, as start_all numbers them; -1: all
 * have. */
static int find_open(struct hd_comm *comm, const bool *done)
{
    const int others = comm->hosts.n - 1;
    for (int i = 0; i < 2 * others; i++)
        if (!done[i])
            return (hd_comm_get_host(comm) + 1 + i % others) % comm->hosts.n;
    return -1;
}

static int wait_for_all(struct hd_comm *comm, struct hd_links *links, int64_t deadline_ns,
                        int *host_p)
{
    bool done[2 * HD_WORLD_MAX] = {false};
    for (;;) {
        HD_TRY(links->ops->progress(links, done));
        *host_p = find_open(comm, done);
        if (*host_p < 0 || hd_clock_get_ns() >= deadline_ns)
            return HD_OK;
        poll(NULL, 0, 1);
    }
}

int hd_links_try(struct hd_comm *comm, struct hd_links *const *links,
                 char (*places)[HD_LINKS_PLACE], int64_t timeout_ns, char text[HD_RENDEZVOUS_TEXT])
{
    const int64_t deadline_ns = hd_clock_get_ns() + timeout_ns;
    int host = -1, status = HD_OK, at = 0;
    for (int i = 0; i < comm->n_channels && status == HD_OK; i++)
        status = start_all(comm, links[at = i]);
    for (int i = 0; i < comm->n_channels && status == HD_OK && host < 0; i++)
        status = wait_for_all(comm, links[at = i], deadline_ns, &host);
    if (status != HD_OK)
        hd_links_describe_error(comm, links[at], places, "cannot be made", text);
    else if (host >= 0)
        snprintf(text, HD_RENDEZVOUS_TEXT,
                 "no message has come from rank %d at %s within %lld s: ports other than "
                 "MASTER_PORT must be open between the hosts",
                 hd_comm_get_partner(comm, host), places[host],
                 (long long)(timeout_ns / 1000000000));
    for (int i = 0; i < comm->n_channels && status == HD_OK && host < 0; i++)
        links[i]->ops->reset(links[i]);
    return status == HD_OK && host < 0 ? HD_OK
                                       : HD_ERR_SYSTEM; /* no rank is lost: all agree on it */
}

void hd_links_close(struct hd_links *const *links, int n, bool orderly)
{
    for (int i = 0; i < n; i++)
        if (links[i])
            links[i]->ops->close(links[i], orderly);
}
