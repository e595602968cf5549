/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/torchrun/agent_store.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/torchrun/tcp_store.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Other ranks may be on other hosts. They reach this one by the address that it uses towards the
 * store; when the store is on this very host, by the name under which they reach the store. */
static void choose_address(const struct hd_world *world, const struct hd_tcp_store *store,
                           char address_p[HD_ADDR_BYTES])
{
    struct sockaddr_storage here;
    socklen_t length = sizeof here;
    snprintf(address_p, HD_ADDR_BYTES, "%s",
             world->local_world == world->world ? "127.0.0.1" : world->master_addr);
    char found[HD_ADDR_BYTES];
    if (world->local_world < world->world &&
        getsockname(store->fd, (struct sockaddr *)&here, &length) == 0 &&
        getnameinfo((struct sockaddr *)&here, length, found, sizeof found, NULL, 0,
                    NI_NUMERICHOST) == 0 &&
        !hd_address_is_loopback(found))
        memcpy(address_p, found, sizeof found);
}

static int listen_and_tell(struct hd_world *world, struct hd_tcp_store *store, int64_t deadline_ns)
{
    char address[HD_ADDR_BYTES], text[HD_TCP_STORE_TEXT];
    int fd, port;
    choose_address(world, store, address);
    HD_TRY(hd_rendezvous_listen(address, 0, world->local_world == world->world, &fd, &port));
    snprintf(text, sizeof text, "%s %d", address, port);
    int status = hd_tcp_store_set(store, world->store_key, text, deadline_ns);
    if (status != HD_OK) {
        close(fd);
        return status;
    }
    memcpy(world->master_addr, address, sizeof address);
    world->master_port = port;
    world->rendezvous_fd = fd;
    return HD_OK;
}

int hd_agent_store_publish(struct hd_world *world)
{
    struct hd_tcp_store store;
    int64_t timeout_ns;
    HD_TRY(hd_rendezvous_read_timeout(0, &timeout_ns));
    const int64_t deadline_ns = hd_clock_get_ns() + timeout_ns;
    HD_TRY(hd_tcp_store_open(world->master_addr, world->master_port, deadline_ns, &store));
    int status = listen_and_tell(world, &store, deadline_ns);
    hd_tcp_store_close(&store);
    return status;
}

int hd_agent_store_look_up(const struct hd_world *world, int64_t deadline_ns, struct hd_world *root)
{
    struct hd_tcp_store store;
    char text[HD_TCP_STORE_TEXT], address[HD_ADDR_BYTES], end;
    int port;
    HD_TRY(hd_tcp_store_open(world->master_addr, world->master_port, deadline_ns, &store));
    int status = hd_tcp_store_get(&store, world->store_key, text, deadline_ns);
    hd_tcp_store_close(&store);
    if (status != HD_OK)
        return status;
    if (sscanf(text, "%255s %d%c", address, &port, &end) != 2 || port < 1 || port > 65535)
        return hd_fail(HD_ERR_SYSTEM,
                       "torchrun's store at %s: expected rank 0's address and port in key %s, "
                       "found '%.80s'",
                       store.at, world->store_key, text);
    memcpy(root->master_addr, address, sizeof address);
    root->master_port = port;
    return HD_OK;
}
