/* SPDX-License-Identifier: Apache-2.0 */
/* Partners connect, each to those before it, and both ends show that they know the run's secret.
 * First all are called, so that a port that nobody reaches is told at once. Then, for one channel
 * after another, each says hello to those before it, and hears those after it at the same time, so
 * that nobody who is silent delays another. A rank that waits for those before it is never waited
 * for by one of them. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp_internal.h"
#include "runtime/ranks/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAUSE_MS = 50, SEND_MS = 1000 };

/* A rank says this of itself. */
struct place {
    char address[HD_ADDR_BYTES]; /* "": that of the first rank of its host */
    int32_t port;
    uint8_t token[HD_NONCE_BYTES]; /* rank 0's tells runs apart that share a secret */
};

struct hello {
    int32_t from, to, channel;
};

struct join {
    struct hd_links *const *links; /* [channels] */
    int channels;
    const struct hd_world *world;
    struct hd_comm_hosts hosts;
    int timeout_s;
    int host, listen_fd;
    int64_t start_ns, deadline_ns;
    uint8_t key[HD_WIRE_KEY];
    struct place *places; /* [hosts]: of partners */
    char *text;           /* [HD_RENDEZVOUS_TEXT] */
};

__attribute__((format(printf, 2, 3))) static int fail(struct join *join, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(join->text, HD_RENDEZVOUS_TEXT, format, args);
    va_end(args);
    return HD_ERR_SYSTEM;
}

static int get_partner(const struct join *join, int host)
{
    return hd_comm_find_partner(&join->hosts, join->world->rank, host);
}

static struct hd_tcp_peer *get_peer(const struct join *join, int channel, int rank)
{
    return &((struct hd_tcp_links *)join->links[channel])->peers[rank];
}

static int64_t get_left_ms(const struct join *join)
{
    const int64_t left_ns = join->deadline_ns - hd_clock_get_ns();
    return left_ns > 0 ? left_ns / 1000000 + 1 : 0;
}

/* -- Where partners are ------------------------------------------------------------------------ */

/* A rank that reaches rank 0 by loopback does not know how others reach it: it listens everywhere.
 */
static int listen_for_partners(struct join *join, const struct hd_rendezvous *rendezvous,
                               struct place *own)
{
    int port = 0;
    hd_rendezvous_get_address(rendezvous, own->address);
    if (hd_address_is_loopback(own->address) && join->world->local_world != join->world->world)
        own->address[0] = '\0';
    HD_TRY(hd_rendezvous_listen(own->address, 0, true, &join->listen_fd, &port));
    fcntl(join->listen_fd, F_SETFL, fcntl(join->listen_fd, F_GETFL) | O_NONBLOCK);
    own->port = port;
    hd_secret_draw(own->token);
    return HD_OK;
}

static int take_place(void *arg, int rank, const void *data, int64_t bytes)
{
    struct join *join = arg;
    const int host = rank / join->hosts.ranks;
    struct place place;
    if (bytes != sizeof place)
        return hd_fail(HD_ERR_PEER, "rank %d says where it is in %lld bytes", rank,
                       (long long)bytes);
    memcpy(&place, data, sizeof place);
    place.address[sizeof place.address - 1] = '\0';
    if (rank == 0)
        hd_handshake_make_key(join->world->secret, "links", place.token, sizeof place.token,
                              join->key);
    if (rank % join->hosts.ranks == 0) /* stands for those of its host that know no address */
        join->places[host] = place;
    if (rank == get_partner(join, host)) {
        if (place.address[0])
            memcpy(join->places[host].address, place.address, sizeof place.address);
        join->places[host].port = place.port;
    }
    return HD_OK;
}

/* A link-local address says which interface of its own host it is of; from here it is reached by
 * the one that leads to rank 0. */
static void adopt_scope(struct join *join, const struct hd_rendezvous *rendezvous)
{
    char own[HD_ADDR_BYTES];
    hd_rendezvous_get_address(rendezvous, own);
    const char *scope = strchr(own, '%');
    for (int host = 0; host < join->hosts.n; host++) {
        char *address = join->places[host].address;
        char *at = strchr(address, '%');
        if (at && scope)
            snprintf(at, (size_t)(address + HD_ADDR_BYTES - at), "%s", scope);
    }
}

/* -- To the partners before this rank ---------------------------------------------------------- */

static int call_partner(struct join *join, int host, int *fd_p)
{
    const struct place *place = &join->places[host];
    const char *address = place->address[0] ? place->address : join->world->master_addr, *why = "";
    for (;;) {
        *fd_p = hd_rendezvous_connect_once(address, place->port, get_left_ms(join), &why);
        if (*fd_p >= 0)
            return HD_OK;
        if (*fd_p == -ECONNREFUSED || get_left_ms(join) == 0)
            return fail(join,
                        "rank %d cannot be reached from rank %d at %.100s port %d: %s; ports other "
                        "than MASTER_PORT must be open between the hosts",
                        get_partner(join, host), join->world->rank, address, place->port, why);
        poll(NULL, 0, PAUSE_MS);
    }
}

static void adopt_connection(const struct join *join, struct hd_tcp_peer *peer, int fd,
                             const struct hd_wire_key *in, const struct hd_wire_key *out)
{
    socklen_t length = sizeof peer->here;
    if (peer->fd >= 0)
        close(peer->fd);
    hd_rendezvous_set_keepalive(fd, join->timeout_s);
    getsockname(fd, (struct sockaddr *)&peer->here, &length);
    peer->fd = fd;
    peer->in.key = *in;
    peer->out.key = *out;
}

/* Says hello by `fd`, and where that fails by other connections; fd -1: there is none yet. */
static int greet_partner(struct join *join, int host, int channel, int fd)
{
    const struct hello hello = {join->world->rank, get_partner(join, host), channel};
    if (fd < 0)
        HD_TRY(call_partner(join, host, &fd));
    for (;;) {
        struct hd_frame_reader reader = {.used = 0};
        struct hd_wire_key out;
        const char *why = hd_handshake_join(fd, join->key, &hello, sizeof hello, join->deadline_ns,
                                            &reader, &out);
        if (!why) {
            adopt_connection(join, get_peer(join, channel, hello.to), fd, &reader.key, &out);
            return HD_OK;
        }
        close(fd);
        if (get_left_ms(join) == 0)
            return fail(join, "no connection of rank %d to rank %d at %.100s port %d: %s",
                        hello.from, hello.to, join->places[host].address, join->places[host].port,
                        why);
        poll(NULL, 0, PAUSE_MS);
        HD_TRY(call_partner(join, host, &fd));
    }
}

/* -- From the partners after it ---------------------------------------------------------------- */

/* Returns whether the hello is one of a partner that is expected, which is then welcome. */
static bool admit(struct join *join, struct hd_pending *pending, const void *body, size_t bytes)
{
    struct hello hello;
    if (bytes != sizeof hello)
        return false;
    memcpy(&hello, body, sizeof hello);
    if (hello.to != join->world->rank || hello.from <= hello.to ||
        hello.from >= join->world->world || hello.channel < 0 || hello.channel >= join->channels ||
        hello.from != get_partner(join, hello.from / join->hosts.ranks) ||
        !hd_wire_send(pending->fd, &pending->out, HD_WIRE_WELCOME, 0, NULL, 0,
                      hd_clock_get_ns() + SEND_MS * INT64_C(1000000)))
        return false;
    adopt_connection(join, get_peer(join, hello.channel, hello.from), pending->fd,
                     &pending->reader.key, &pending->out);
    return true;
}

static void read_pending(struct join *join, struct hd_pending_list *list, int i)
{
    size_t bytes;
    const void *body = hd_pending_read(list, i, &bytes);
    if (!body)
        return;
    if (admit(join, &list->at[i], body, bytes))
        hd_pending_remove(list, i);
    else
        hd_pending_drop(list, i, "is no partner of this rank");
}

static void poll_connections(struct join *join, struct hd_pending_list *list)
{
    struct pollfd polls[1 + HD_PENDING_MAX];
    const int n = list->n;
    polls[0] = (struct pollfd){.fd = join->listen_fd, .events = POLLIN};
    for (int i = 0; i < n; i++)
        polls[1 + i] = (struct pollfd){.fd = list->at[i].fd, .events = POLLIN};
    if (poll(polls, (nfds_t)(1 + n), (int)get_left_ms(join)) <= 0)
        return;
    for (int i = n - 1; i >= 0; i--) /* backwards: dropping one moves the later ones */
        if (polls[1 + i].revents)
            read_pending(join, list, i);
    if (polls[0].revents)
        hd_pending_accept(list);
}

/* Returns the first partner after this rank that has not connected for a channel; -1: all have. */
static int find_missing(const struct join *join, int channel)
{
    for (int host = join->host + 1; host < join->hosts.n; host++)
        if (get_peer(join, channel, get_partner(join, host))->fd < 0)
            return get_partner(join, host);
    return -1;
}

static int hear_partners(struct join *join, struct hd_pending_list *list, int channel)
{
    while (find_missing(join, channel) >= 0 && get_left_ms(join) > 0)
        poll_connections(join, list);
    const int missing = find_missing(join, channel);
    return missing < 0 ? HD_OK
                       : fail(join, "rank %d has not connected to rank %d within %lld s", missing,
                              join->world->rank,
                              (long long)((hd_clock_get_ns() - join->start_ns) / 1000000000));
}

/* -- All of it --------------------------------------------------------------------------------- */

/* Calls the partners before this rank: fds[host]. */
static int call_partners(struct join *join, struct hd_rendezvous *rendezvous, int *fds)
{
    int status = HD_OK;
    for (int host = 0; host < join->host && status == HD_OK; host++)
        status = call_partner(join, host, &fds[host]);
    return hd_rendezvous_agree(rendezvous, status, join->text);
}

static int open_channel(struct join *join, struct hd_pending_list *list, int channel, int *fds)
{
    for (int host = 0; host < join->host; host++) {
        const int fd = fds[host];
        fds[host] = -1;
        HD_TRY(greet_partner(join, host, channel, fd));
    }
    return hear_partners(join, list, channel);
}

static int open_channels(struct join *join, struct hd_rendezvous *rendezvous, int *fds)
{
    int status = HD_OK;
    struct hd_pending_list *list = hd_alloc(1, sizeof *list);
    if (!list)
        return HD_ERR_NOMEM;
    list->listen_fd = join->listen_fd;
    memcpy(list->key, join->key, sizeof list->key);
    for (int channel = 0; channel < join->channels && status == HD_OK; channel++)
        status = open_channel(join, list, channel, fds);
    hd_pending_close(list);
    if (list->n_unknown > 1)
        hd_log(HD_LOG_INFO, "dropped %d connections that were not of this run", list->n_unknown);
    hd_free(list);
    return hd_rendezvous_agree(rendezvous, status, join->text);
}

static int connect_all(struct join *join, struct hd_rendezvous *rendezvous, int *fds)
{
    struct place own = {.port = 0};
    const int status = listen_for_partners(join, rendezvous, &own);
    snprintf(join->text, HD_RENDEZVOUS_TEXT, "rank %d cannot listen", join->world->rank);
    HD_TRY(hd_rendezvous_agree(rendezvous, status, join->text));
    HD_TRY(hd_rendezvous_gather_all(rendezvous, &own, sizeof own, take_place, join));
    adopt_scope(join, rendezvous);
    HD_TRY(call_partners(join, rendezvous, fds));
    return open_channels(join, rendezvous, fds);
}

int hd_tcp_join(struct hd_links *const *links, int channels, const struct hd_world *world,
                const struct hd_comm_hosts *hosts, struct hd_rendezvous *rendezvous,
                const struct hd_tcp_options *options)
{
    char text[HD_RENDEZVOUS_TEXT] = "";
    int64_t timeout_ns;
    HD_TRY(hd_rendezvous_read_timeout(0, &timeout_ns));
    struct join join = {.links = links,
                        .channels = channels,
                        .world = world,
                        .hosts = *hosts,
                        .timeout_s = options->timeout_s,
                        .host = world->rank / hosts->ranks,
                        .listen_fd = -1,
                        .start_ns = hd_clock_get_ns(),
                        .deadline_ns = hd_clock_get_ns() + timeout_ns,
                        .places = hd_alloc(hosts->n, sizeof *join.places),
                        .text = text};
    int *fds = hd_alloc(hosts->n, sizeof *fds);
    int status = join.places && fds ? HD_OK : HD_ERR_NOMEM;
    for (int host = 0; fds && host < hosts->n; host++)
        fds[host] = -1;
    if (status == HD_OK)
        status = connect_all(&join, rendezvous, fds);
    for (int host = 0; fds && host < hosts->n; host++)
        if (fds[host] >= 0)
            close(fds[host]);
    if (join.listen_fd >= 0)
        close(join.listen_fd);
    hd_free(join.places);
    hd_free(fds);
    return status;
}
