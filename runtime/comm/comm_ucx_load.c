/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the plug-in, and tells it of the ranks and their addresses. */
#include "runtime/base/log.h"
#include "runtime/base/plugin.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_ucx.h"
#include "runtime/comm/comm_ucx_plugin.h"
#include "runtime/ranks/handshake.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { WHY = 512 };

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

/* Returns whether this host has an RDMA device. */
static bool has_rdma(void)
{
    DIR *devices = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool any = false;
    while (devices && !any && (entry = readdir(devices)))
        any = entry->d_name[0] != '.';
    if (devices)
        closedir(devices);
    return any;
}

static int take_answer(void *arg, int rank, const void *data, int64_t bytes)
{
    bool *all = arg;
    (void)rank;
    *all = *all && bytes == 1 && *(const char *)data == 1;
    return HD_OK;
}

int hd_ucx_find_rdma(struct hd_rendezvous *rendezvous, bool *all_p)
{
    char why[WHY];
    const char own = has_rdma() && load(why) == HD_OK;
    *all_p = true;
    return hd_rendezvous_gather_all(rendezvous, &own, 1, take_answer, all_p);
}

/* Over TCP, which only the user's own UCX_TLS asks for, UCX listens for the whole run. */
static void warn_of_ports(const struct hd_world *world)
{
    const char *transports = getenv("UCX_TLS");
    if (transports && world->rank == 0 && (strstr(transports, "tcp") || strstr(transports, "all")))
        hd_log(HD_LOG_WARN,
               "UCX_TLS=%s lets UCX listen at ports that ask nobody for the secret; "
               "runtime.transport: tcp listens at none",
               transports);
}

/* -- Links ------------------------------------------------------------------------------------- */

static int make_options(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                        struct hd_ucx_options *options_p)
{
    uint8_t token[HD_NONCE_BYTES]; /* of this run: another run may have the same secret */
    uint8_t key[HD_WIRE_KEY];
    hd_secret_draw(token);
    HD_TRY(hd_rendezvous_broadcast(rendezvous, token, sizeof token));
    hd_handshake_make_key(world->secret, "tags", token, sizeof token, key);
    *options_p = (struct hd_ucx_options){.rank = world->rank, .ranks = world->world};
    memcpy(options_p->key, key, sizeof options_p->key);
    return HD_OK;
}

static int take_address(void *links, int rank, const void *address, int64_t bytes)
{
    return plugin->set_address(links, rank, address, bytes);
}

int hd_ucx_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous, int channels,
                      struct hd_links **links_p)
{
    char why[WHY] = "";
    struct hd_ucx_options options;
    const void *address = NULL;
    int64_t bytes = 0;
    for (int i = 0; i < channels; i++)
        links_p[i] = NULL;
    HD_TRY(make_options(world, rendezvous, &options));
    warn_of_ports(world);
    int status = load(why);
    if (status == HD_OK)
        status = plugin->open(&options, channels, links_p, why, sizeof why);
    status = hd_rendezvous_agree(rendezvous, status, why);
    if (status == HD_OK) {
        address = plugin->get_address(links_p[0], &bytes);
        status = hd_rendezvous_gather_all(rendezvous, address, bytes, take_address, links_p[0]);
    }
    if (status != HD_OK)
        hd_links_close(links_p, channels, false);
    return status;
}
