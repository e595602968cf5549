/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the plug-in, and tells it of the ranks and their addresses. */
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_ucx.h"
#include "runtime/comm/comm_ucx_plugin.h"
#include "runtime/ranks/handshake.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 512, WHY = 512 };

static const struct hd_ucx_plugin *plugin;

/* UCX reads these when it is loaded. Faults and lost ranks are told by this program, whose handlers
 * UCX would replace; its file system for observers takes a thread. */
static int load(char *why)
{
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_VFS_ENABLE", "n", 0);
    setenv("UCX_LOG_FILE", "stderr", 0);
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    if (!plugin)
        plugin = hd_plugin_load("heddle_ucx.so", "hd_ucx_plugin", HD_UCX_ABI, false, "UCX",
                                "libucx-dev", why, WHY);
    return plugin ? HD_OK : HD_ERR_UNSUPPORTED;
}

/* -- Devices ----------------------------------------------------------------------------------- */

static void append(char *list, const char *format, const char *name, const char *port)
{
    const size_t used = strlen(list);
    if (used > 0 && used + 1 < DEVICES)
        strcat(list, ",");
    snprintf(list + strlen(list), DEVICES - strlen(list), format, name, port);
}

/* The address is one as hd_rendezvous_get_address writes it. */
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

/* Stores the name of the interface that has `address`; "" if there is none. */
static void add_interface(char *devices, const char *address)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *at = list; at && !devices[0]; at = at->ifa_next)
        if (has_address(at, address))
            append(devices, "%s%s", at->ifa_name, "");
    freeifaddrs(list);
}

/* Adds the ports of one RDMA device, or of all. */
static void add_rdma(char *devices, const char *folder, const char *device)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        char ports[PATH_MAX];
        snprintf(ports, sizeof ports, "%s/%s/ports", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        if (device)
            append(devices, "%s:%s", device, entry->d_name);
        else
            add_rdma(devices, ports, entry->d_name);
    }
    if (entries)
        closedir(entries);
}

/* Sockets are opened on the interface that --master-addr leads to only; RDMA devices, which the
 * kernel guards, are used all. */
static void list_devices(const struct hd_rendezvous *rendezvous, char devices[DEVICES])
{
    char address[HD_ADDR_BYTES];
    devices[0] = '\0';
    hd_rendezvous_get_address(rendezvous, address);
    add_interface(devices, address);
    if (devices[0])
        add_rdma(devices, "/sys/class/infiniband", NULL);
}

/* -- Links ------------------------------------------------------------------------------------- */

static int make_options(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                        const char *devices, struct hd_ucx_options *options_p)
{
    uint8_t token[HD_NONCE_BYTES]; /* of this run: another run may have the same secret */
    uint8_t key[HD_WIRE_KEY];
    hd_secret_draw(token);
    HD_TRY(hd_rendezvous_broadcast(rendezvous, token, sizeof token));
    hd_handshake_make_key(world->secret, "tags", token, sizeof token, key);
    *options_p =
        (struct hd_ucx_options){.rank = world->rank, .ranks = world->world, .devices = devices};
    memcpy(options_p->key, key, sizeof options_p->key);
    return HD_OK;
}

static int take_address(void *links, int rank, const void *address, int64_t bytes)
{
    return plugin->set_address(links, rank, address, bytes);
}

int hd_ucx_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                      struct hd_links **links_p)
{
    char devices[DEVICES], why[WHY] = "";
    struct hd_ucx_options options;
    struct hd_links *links = NULL;
    const void *address = NULL;
    int64_t bytes = 0;
    list_devices(rendezvous, devices);
    HD_TRY(make_options(world, rendezvous, devices, &options));
    int status = load(why);
    if (status == HD_OK)
        status = plugin->open(&options, &links, why, sizeof why);
    status = hd_rendezvous_agree(rendezvous, status, why);
    if (status == HD_OK) {
        address = plugin->get_address(links, &bytes);
        status = hd_rendezvous_gather_all(rendezvous, address, bytes, take_address, links);
    }
    if (status != HD_OK && links)
        links->ops->close(links, false);
    *links_p = status == HD_OK ? links : NULL;
    return status;
}
