/* SPDX-License-Identifier: Apache-2.0 */
/* Another rank reaches rank 0 and says hello. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/peer.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAUSE_MS = 50, PAUSE_MAX_MS = 500, CHALLENGE_MS = 10000 };

void hd_rendezvous_fill_hello(const struct hd_rendezvous_options *options, struct hd_hello *hello)
{
    hello->rank = options->world->rank;
    hello->world = options->world->world;
    hello->pid = getpid();
    hello->config_hash = options->config_hash;
    hd_host_get_name(hello->host);
    hd_host_get_boot_id(hello->boot_id);
    snprintf(hello->fingerprint, sizeof hello->fingerprint, "%s", options->fingerprint);
}

struct reach {
    struct hd_rendezvous *rendezvous;
    const struct hd_rendezvous_options *options;
    struct hd_hello hello;
    const char
        *answer; /* why the newest answer of a peer was none of rank 0; NULL: there was none */
    int64_t start_ns, deadline_ns;
    struct hd_patience patience;
};

/* Says hello on a fresh connection. Returns NULL when rank 0 has welcomed this rank, or why not. */
static const char *introduce(struct reach *reach, int fd)
{
    struct hd_rendezvous *rendezvous = reach->rendezvous;
    struct hd_peer *root = &rendezvous->peers[0];
    const int64_t soon_ns = hd_rendezvous_get_deadline_ns(CHALLENGE_MS);
    hd_rendezvous_set_keepalive(fd, rendezvous->link_timeout_s);
    memset(&root->reader, 0, sizeof root->reader);
    const char *why = hd_handshake_join(fd, rendezvous->key, &reach->hello, sizeof reach->hello,
                                        soon_ns < reach->deadline_ns ? soon_ns : reach->deadline_ns,
                                        &root->reader, &root->out);
    return !why && hd_peer_is_foreign(fd) ? "the peer belongs to another user of this host" : why;
}

static const char *attempt(struct reach *reach)
{
    const struct hd_world *world = &reach->rendezvous->world;
    const int64_t left_ms = (reach->deadline_ns - hd_clock_get_ns()) / 1000000;
    const char *why;
    int fd = hd_rendezvous_connect_once(world->master_addr, world->master_port,
                                        left_ms > 0 ? left_ms : 0, &why);
    if (fd == -ECONNREFUSED)
        return "Connection refused (rank 0 does not listen yet, or its ranks have all joined)";
    if (fd == -ENETUNREACH && hd_address_is_loopback(world->master_addr)) {
        reach->deadline_ns = 0;
        return "Network is unreachable, since the loopback interface of this host or container is "
               "down (ip link set lo up)";
    }
    if (fd < 0)
        return why;
    why = introduce(reach, fd);
    if (!why) {
        reach->rendezvous->peers[0].fd = fd;
        return NULL;
    }
    close(fd);
    if (hd_clock_get_ns() < reach->deadline_ns)
        reach->answer = why;
    return why;
}

/* One rank of a host speaks for all. */
static void tell_wait(struct reach *reach, const char *why)
{
    const struct hd_world *world = &reach->rendezvous->world;
    if (hd_patience_is_over(&reach->patience) && world->local_rank == 0)
        hd_log(HD_LOG_WARN, "waiting for rank 0 at %s port %d: %s", world->master_addr,
               world->master_port, why);
}

static int find_root(struct reach *reach)
{
    const struct hd_rendezvous_options *options = reach->options;
    return !options->find_root
               ? HD_OK
               : options->find_root(options->world, reach->deadline_ns, &reach->rendezvous->world);
}

static int reach_root(struct reach *reach)
{
    const struct hd_world *world = &reach->rendezvous->world;
    int pause_ms = PAUSE_MS;
    for (;;) {
        HD_TRY(find_root(reach));
        const char *why = attempt(reach);
        if (!why)
            return HD_OK;
        why = reach->answer ? reach->answer : why; /* which says more than that nobody is there */
        tell_wait(reach, why);
        if (hd_clock_get_ns() >= reach->deadline_ns)
            return hd_fail(HD_ERR_SYSTEM,
                           "rank %d cannot reach rank 0 at %s port %d within %lld s: %s",
                           world->rank, world->master_addr, world->master_port,
                           (long long)((hd_clock_get_ns() - reach->start_ns) / 1000000000), why);
        poll(NULL, 0, pause_ms);
        pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
    }
}

int hd_rendezvous_reach_root(struct hd_rendezvous *rendezvous,
                             const struct hd_rendezvous_options *options)
{
    struct reach reach = {.rendezvous = rendezvous,
                          .options = options,
                          .start_ns = hd_clock_get_ns(),
                          .deadline_ns = hd_clock_get_ns() + rendezvous->timeout_ns};
    struct hd_peer *root = &rendezvous->peers[0];
    uint64_t roots_hash = 0;
    hd_rendezvous_fill_hello(options, &reach.hello);
    hd_patience_is_over(&reach.patience);
    HD_TRY(reach_root(&reach));
    if (root->reader.frame.bytes == sizeof roots_hash)
        memcpy(&roots_hash, root->reader.frame.payload, sizeof roots_hash);
    if (roots_hash != options->config_hash && options->config) /* rank 0 names the difference */
        hd_rendezvous_send_message(rendezvous, 0, options->config,
                                   (int64_t)strlen(options->config) + 1);
    return HD_OK;
}
