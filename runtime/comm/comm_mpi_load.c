/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the plug-in, and rank 0 in a run under mpirun. */
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_mpi.h"
#include "runtime/comm/comm_mpi_plugin.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    const struct hd_mpi_plugin *plugin;
    char why[512];
    bool started;
} mpi;

/* Global: Open MPI loads parts of its own that look for its symbols. */
static bool loaded(void)
{
    if (!mpi.plugin && !mpi.why[0])
        mpi.plugin = hd_plugin_load("heddle_mpi.so", "hd_mpi_plugin", HD_MPI_ABI, true, "MPI",
                                    "libopenmpi-dev", mpi.why, sizeof mpi.why);
    return mpi.plugin != NULL;
}

/* -- Finding rank 0 ---------------------------------------------------------------------------- */
/* MPI knows the ranks, but not by which address of rank 0's host they reach each other. */

enum { ADDRESSES_MAX = 16, REACH_MS = 1000 };

struct offer {
    int32_t status; /* of rank 0's listening */
    int32_t port, n;
    uint8_t secret[HD_SECRET_BYTES];
    char addresses[ADDRESSES_MAX][HD_ADDR_BYTES];
};

static void add_address(struct offer *offer, const struct ifaddrs *at)
{
    const void *number = at->ifa_addr->sa_family == AF_INET
                             ? (const void *)&((struct sockaddr_in *)at->ifa_addr)->sin_addr
                             : (const void *)&((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
    if (offer->n < ADDRESSES_MAX &&
        inet_ntop(at->ifa_addr->sa_family, number, offer->addresses[offer->n], HD_ADDR_BYTES))
        offer->n++;
}

/* IPv4 first; addresses that are valid on one link only are of no use without the link's name. */
static void list_addresses(struct offer *offer)
{
    static const int families[] = {AF_INET, AF_INET6};
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    for (int f = 0; f < 2; f++)
        for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
            const bool fits = at->ifa_addr && at->ifa_addr->sa_family == families[f] &&
                              (at->ifa_flags & IFF_UP) && !(at->ifa_flags & IFF_LOOPBACK);
            if (fits && (families[f] == AF_INET ||
                         !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr)))
                add_address(offer, at);
        }
    freeifaddrs(list);
}

/* MASTER_ADDR and MASTER_PORT, if the user set them, have the last word. */
static void make_offer(struct hd_world *world, struct offer *offer)
{
    if (!world->has_secret)
        hd_secret_draw(world->secret);
    memcpy(offer->secret, world->secret, sizeof offer->secret);
    const bool one_host = world->local_world == world->world;
    const char *given = world->master_addr[0] ? world->master_addr : one_host ? "127.0.0.1" : "";
    offer->n = 1;
    snprintf(offer->addresses[0], sizeof offer->addresses[0], "%s", given);
    if (!given[0]) {
        offer->n = 0;
        list_addresses(offer);
    }
    int port = 0;
    offer->status =
        hd_rendezvous_listen(given, world->master_port, one_host, &world->rendezvous_fd, &port);
    offer->port = port;
}

static bool reaches(const char *address, int port)
{
    const char *why;
    int fd = hd_rendezvous_connect_once(address, port, REACH_MS, &why);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static int choose_address(struct hd_world *world, const struct offer *offer)
{
    for (int i = 0; i < offer->n; i++)
        if (world->rank == 0 || offer->n == 1 || reaches(offer->addresses[i], offer->port)) {
            snprintf(world->master_addr, sizeof world->master_addr, "%s", offer->addresses[i]);
            return HD_OK;
        }
    return hd_fail(HD_ERR_SYSTEM,
                   "rank %d reaches no address of rank 0's host at port %d (%s%s); MASTER_ADDR can "
                   "name one that it reaches",
                   world->rank, offer->port, offer->n > 0 ? offer->addresses[0] : "it has none",
                   offer->n > 1 ? ", …" : "");
}

static int find_root(struct hd_world *world)
{
    char text[512];
    struct offer offer = {0};
    if (world->rank == 0)
        make_offer(world, &offer);
    int status = mpi.plugin->broadcast(&offer, sizeof offer, text, sizeof text);
    if (status != HD_OK)
        return hd_fail(status, "%s", text);
    if (offer.status != HD_OK)
        return world->rank == 0 ? offer.status : HD_ERR_PEER;
    world->master_port = offer.port;
    memcpy(world->secret, offer.secret, sizeof world->secret);
    return choose_address(world, &offer);
}

int hd_mpi_exchange_address(struct hd_world *world)
{
    int rank, ranks;
    char text[512];
    if (!loaded())
        return hd_fail(HD_ERR_UNSUPPORTED, "%s", mpi.why);
    int status = mpi.plugin->start(&rank, &ranks, text, sizeof text);
    if (status != HD_OK)
        return hd_fail(status, "%s", text);
    mpi.started = true;
    if (rank != world->rank || ranks != world->world)
        return hd_fail(HD_ERR_INPUT,
                       "this is rank %d of %d, but for MPI rank %d of %d: it was not started by "
                       "this MPI's mpirun, or by an srun that it does not know (srun --mpi=list "
                       "tells which there are)",
                       world->rank, world->world, rank, ranks);
    return world->launcher == HD_LAUNCHER_MPIRUN ? find_root(world) : HD_OK;
}

int hd_mpi_open_links(int channels, struct hd_links **links_p)
{
    char text[512];
    for (int i = 0; i < channels; i++) {
        const int status = mpi.plugin->links(&links_p[i], text, sizeof text);
        if (status != HD_OK) {
            hd_links_close(links_p, i, false);
            return hd_fail(status, "%s", text);
        }
    }
    return HD_OK;
}

void hd_mpi_leave(void)
{
    if (mpi.started)
        mpi.plugin->stop();
    mpi.started = false;
}
