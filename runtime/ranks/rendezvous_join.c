/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 accepts the other ranks and checks that they fit together. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/peer.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PENDING_MAX = 256, GRACE_MS = 1000, SEND_MS = 1000, NAP_MS = 20, POLL_MS = 1000 };

/* A connection that is no rank: it has not said hello so far, or its hello names a rank that is
 * taken, and it is kept to be told so. */
struct pending {
    struct hd_peer peer;
    uint8_t nonce[HD_NONCE_BYTES]; /* of its challenge */
};

struct join {
    struct hd_rendezvous *rendezvous;
    const struct hd_rendezvous_options *options;
    struct pending pending[PENDING_MAX];
    int n_pending, n_joined, n_unknown;
    int64_t start_ns, deadline_ns;
    struct hd_patience patience;
    int config_rank; /* whose config differs and is in its peer's `message`; 0: nobody's */
    int status;
    char *text; /* [HD_RENDEZVOUS_TEXT]: the first error */
};

/* Keeps the first error, and waits a little longer, so that late ranks are told. */
__attribute__((format(printf, 3, 4))) static void refuse(struct join *join, int status,
                                                         const char *format, ...)
{
    if (join->status != HD_OK)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(join->text, HD_RENDEZVOUS_TEXT, format, args);
    va_end(args);
    join->status = status;
    int64_t grace_ns = hd_rendezvous_get_deadline_ns(GRACE_MS);
    if (join->deadline_ns > grace_ns)
        join->deadline_ns = grace_ns;
}

/* Takes pending connection i out; the others stay in order of arrival. */
static void remove_pending(struct join *join, int i)
{
    join->n_pending--;
    memmove(&join->pending[i], &join->pending[i + 1],
            (size_t)(join->n_pending - i) * sizeof join->pending[0]);
}

/* Drops a connection of somebody unknown; why: "it ...". */
static void drop_pending(struct join *join, int i, const char *why)
{
    hd_peer_report_unknown(join->pending[i].peer.fd, why, &join->n_unknown);
    close(join->pending[i].peer.fd);
    remove_pending(join, i);
}

/* Keeps a fresh connection for its hello. The oldest silent one makes room for it. */
static void add_pending(struct join *join, int fd)
{
    if (join->n_pending == PENDING_MAX)
        drop_pending(join, 0, "said nothing");
    struct pending *pending = &join->pending[join->n_pending++];
    memset(pending, 0, sizeof *pending);
    pending->peer.fd = fd;
    hd_rendezvous_set_keepalive(fd);
    if (!hd_handshake_challenge(fd, join->rendezvous->key, pending->nonce)) {
        close(fd);
        join->n_pending--;
    }
}

/* Without a free descriptor the listener would stay ready, and this thread would spin. */
static void free_descriptor(struct join *join)
{
    if (join->n_pending > 0)
        drop_pending(join, 0, "said nothing, and this process has no more descriptors");
    else
        poll(NULL, 0, NAP_MS);
}

/* Accepts one connection at a time and reads all in between, so that only silent pending
 * connections are dropped for new ones. */
static void accept_pending(struct join *join)
{
    int fd = accept4(join->rendezvous->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        free_descriptor(join);
    if (fd < 0)
        return;
    if (!hd_peer_is_foreign(fd)) {
        add_pending(join, fd);
        return;
    }
    hd_peer_report_unknown(fd, "belongs to another user", &join->n_unknown);
    close(fd);
}

/* Makes a pending connection with a valid hello the rank's. Returns false when it cannot be. */
static bool admit(struct join *join, struct hd_peer *connection)
{
    const struct hd_hello *hello = &connection->hello;
    int world = join->rendezvous->world.world;
    if (hello->world != world) {
        refuse(join, HD_ERR_INPUT,
               "rank %d (pid %d on %s) expects a world of %d ranks, rank 0 one of %d", hello->rank,
               hello->pid, hello->host, hello->world, world);
        return false;
    }
    struct hd_peer *peer = &join->rendezvous->peers[hello->rank];
    if (peer->fd >= 0) {
        refuse(join, HD_ERR_INPUT, "duplicate rank %d: pid %d on %s and pid %d on %s", hello->rank,
               peer->hello.pid, peer->hello.host, hello->pid, hello->host);
        return false;
    }
    hd_free(peer->message); /* of a connection that left */
    *peer = *connection;
    join->n_joined++;
    return true;
}

/* Checks a hello. Whoever knows the secret is welcome, and hears why when it does not fit. */
static bool greet(struct join *join, struct pending *pending)
{
    struct hd_peer *peer = &pending->peer;
    size_t bytes;
    const void *body = hd_handshake_check(&peer->reader, join->rendezvous->key, pending->nonce,
                                          &bytes, &peer->out);
    return body && hd_hello_read(body, bytes, &peer->hello) &&
           hd_rendezvous_send(peer, HD_WIRE_WELCOME, 0, &join->options->config_hash,
                              sizeof join->options->config_hash, SEND_MS);
}

static void read_pending(struct join *join, int i)
{
    struct pending *pending = &join->pending[i];
    const bool known = pending->peer.hello.world != 0;
    switch (hd_frame_reader_read(&pending->peer.reader, pending->peer.fd)) {
    case HD_FRAME_INCOMPLETE:
        return;
    case HD_FRAME_COMPLETE:
        if (known)
            return; /* it is to hear its refusal */
        if (!greet(join, pending))
            drop_pending(join, i, "does not know the secret of this run");
        else if (admit(join, &pending->peer))
            remove_pending(join, i);
        return;
    case HD_FRAME_CLOSED:
        if (!known && pending->peer.reader.used > 0) {
            drop_pending(join, i, "left in the middle of a hello");
            return;
        }
        close(pending->peer.fd); /* a probe, or a rank that tries again */
        remove_pending(join, i);
        return;
    case HD_FRAME_INVALID:
        drop_pending(join, i, "does not speak the protocol of this version");
        return;
    }
}

/* Hears the config of a rank whose config differs. */
static bool read_config(struct join *join, int rank)
{
    struct hd_peer *peer = &join->rendezvous->peers[rank];
    if (peer->reader.frame.kind != HD_WIRE_MESSAGE ||
        !hd_rendezvous_receive_part(join->rendezvous, rank))
        return false;
    const bool ends = peer->reader.frame.number == 0 && peer->reader.frame.bytes > 0 &&
                      peer->reader.frame.payload[peer->reader.frame.bytes - 1] == '\0';
    if (ends && join->config_rank == 0)
        join->config_rank = rank;
    return true;
}

/* Hears a rank before the go: it sends nothing unless it fails, or its config differs. */
static void read_peer(struct join *join, int rank)
{
    struct hd_peer *peer = &join->rendezvous->peers[rank];
    enum hd_frame_state state = hd_frame_reader_read(&peer->reader, peer->fd);
    if (state == HD_FRAME_INCOMPLETE)
        return;
    if (state == HD_FRAME_COMPLETE && read_config(join, rank))
        return;
    if (state == HD_FRAME_COMPLETE && peer->reader.frame.kind == HD_WIRE_FAIL)
        refuse(join, HD_ERR_PEER, "rank %d failed: %s", rank,
               hd_frame_get_text(&peer->reader.frame));
    else
        refuse(join, HD_ERR_PEER, "rank %d (pid %d on %s) disconnected during the rendezvous", rank,
               peer->hello.pid, peer->hello.host);
    close(peer->fd);
    peer->fd = -1;
    join->n_joined--;
}

static void poll_connections(struct join *join, struct pollfd *polls)
{
    int world = join->rendezvous->world.world, n = 0;
    polls[n++] = (struct pollfd){.fd = join->rendezvous->listen_fd, .events = POLLIN};
    for (int r = 1; r < world; r++) /* poll ignores negative descriptors */
        polls[n++] = (struct pollfd){.fd = join->rendezvous->peers[r].fd, .events = POLLIN};
    for (int i = 0; i < join->n_pending; i++)
        polls[n++] = (struct pollfd){.fd = join->pending[i].peer.fd, .events = POLLIN};
    int64_t left_ms = (join->deadline_ns - hd_clock_get_ns()) / 1000000 + 1;
    left_ms = left_ms < POLL_MS ? left_ms : POLL_MS;
    if (poll(polls, (nfds_t)n, left_ms > 0 ? (int)left_ms : 0) <= 0)
        return;
    for (int i = n - 1; i >= world; i--) /* backwards: dropping one moves the later ones */
        if (polls[i].revents)
            read_pending(join, i - world);
    for (int r = 1; r < world; r++)
        if (polls[r].revents && polls[r].fd >= 0)
            read_peer(join, r);
    if (polls[0].revents)
        accept_pending(join);
}

/* Ranks as "1, 3 and 4"; at most a few are listed. */
static void append_rank(char *list, size_t bytes, int rank)
{
    size_t used = strlen(list);
    if (used + 16 < bytes)
        snprintf(list + used, bytes - used, used > 0 ? ", %d" : "%d", rank);
    else if (list[used - 1] != '.')
        snprintf(list + used, bytes - used, ", …");
}

static void list_missing(const struct join *join, char *list, size_t bytes)
{
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (join->rendezvous->peers[r].fd < 0)
            append_rank(list, bytes, r);
}

static void tell_wait(struct join *join)
{
    const struct hd_world *world = &join->rendezvous->world;
    char list[64] = "", dropped[64] = "nobody else has connected";
    if (!hd_patience_is_over(&join->patience))
        return;
    list_missing(join, list, sizeof list);
    if (join->n_unknown + join->n_pending > 0)
        snprintf(dropped, sizeof dropped, "%d others connected, and are no ranks of this run",
                 join->n_unknown + join->n_pending);
    hd_log(HD_LOG_WARN, "waiting for rank %s of %d at %s port %d: %s", list, world->world,
           world->master_addr, world->master_port, dropped);
}

static void check_present(struct join *join)
{
    char list[64] = "", others[64] = "";
    list_missing(join, list, sizeof list);
    if (join->n_unknown > 0)
        snprintf(others, sizeof others, "; %d connections were not of this run", join->n_unknown);
    if (list[0])
        refuse(join, HD_ERR_SYSTEM, "rank %s of %d did not join within %lld s%s", list,
               join->rendezvous->world.world,
               (long long)((hd_clock_get_ns() - join->start_ns) / 1000000000), others);
}

static void describe_difference(const struct join *join, char text[HD_RENDEZVOUS_TEXT / 2])
{
    const struct hd_peer *peers = join->rendezvous->peers, *other = &peers[join->config_rank];
    snprintf(text, HD_RENDEZVOUS_TEXT / 2, "compare their config files and options");
    if (other->message && join->options->config)
        hd_rendezvous_describe_difference(join->options->config, &peers[0].hello, other->message,
                                          &other->hello, text);
}

static void check_config(struct join *join)
{
    const struct hd_peer *peers = join->rendezvous->peers;
    char list[64] = "", difference[HD_RENDEZVOUS_TEXT / 2];
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (peers[r].hello.config_hash != peers[0].hello.config_hash)
            append_rank(list, sizeof list, r);
    if (!list[0])
        return;
    describe_difference(join, difference);
    refuse(join, HD_ERR_INPUT, "the configuration of rank %s is not that of rank 0: %s", list,
           difference);
}

/* Returns whether a config that differs is still on its way. */
static bool awaits_config(const struct join *join)
{
    const struct hd_peer *peers = join->rendezvous->peers;
    bool differs = false;
    for (int r = 1; r < join->rendezvous->world.world; r++)
        differs |= peers[r].hello.config_hash != peers[0].hello.config_hash;
    return differs && join->config_rank == 0 && join->options->config;
}

/* All ranks are here: those with another config send it. */
static void receive_config(struct join *join, struct pollfd *polls)
{
    join->deadline_ns = hd_rendezvous_get_deadline_ns(GRACE_MS);
    while (awaits_config(join) && join->status == HD_OK && hd_clock_get_ns() < join->deadline_ns)
        poll_connections(join, polls);
}

static void check_arithmetic(struct join *join)
{
    const struct hd_peer *peers = join->rendezvous->peers;
    for (int r = 1; r < join->rendezvous->world.world; r++) {
        char difference[256];
        hd_fingerprint_diff(peers[r].hello.fingerprint, peers[0].hello.fingerprint, difference,
                            sizeof difference);
        if (difference[0])
            refuse(join, HD_ERR_INPUT,
                   "rank %d on %s computes differently from rank 0 on %s (%s); "
                   "runtime.allow_fingerprint_mismatch: true accepts that",
                   r, peers[r].hello.host, peers[0].hello.host, difference);
    }
}

static void check_host(struct join *join)
{
    const struct hd_peer *peers = join->rendezvous->peers;
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (strcmp(peers[r].hello.boot_id, peers[0].hello.boot_id) != 0)
            refuse(join, HD_ERR_INPUT,
                   "rank %d is on host %s, rank 0 on host %s: ranks that exchange through shared "
                   "memory must be on one host",
                   r, peers[r].hello.host, peers[0].hello.host);
}

static void send_refusal(struct join *join)
{
    size_t bytes = strlen(join->text);
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (join->rendezvous->peers[r].fd >= 0)
            hd_rendezvous_send(&join->rendezvous->peers[r], HD_WIRE_REFUSE, join->status,
                               join->text, bytes, SEND_MS);
    for (int i = 0; i < join->n_pending; i++)
        if (join->pending[i].peer.hello.world != 0)
            hd_rendezvous_send(&join->pending[i].peer, HD_WIRE_REFUSE, join->status, join->text,
                               bytes, SEND_MS);
}

static void check_all(struct join *join)
{
    check_present(join);
    if (join->status == HD_OK)
        check_config(join);
    if (join->status == HD_OK && !join->options->allow_fingerprint_mismatch)
        check_arithmetic(join);
    if (join->status == HD_OK && join->options->one_host)
        check_host(join);
}

static void accept_ranks(struct join *join, struct pollfd *polls)
{
    const int others = join->rendezvous->world.world - 1;
    hd_patience_is_over(&join->patience);
    while (join->n_joined < others && hd_clock_get_ns() < join->deadline_ns) {
        poll_connections(join, polls);
        tell_wait(join);
    }
    if (join->n_joined == others)
        receive_config(join, polls);
    check_all(join);
    if (join->status != HD_OK)
        send_refusal(join);
    for (int i = 0; i < join->n_pending; i++)
        close(join->pending[i].peer.fd);
    if (join->n_unknown > 1)
        hd_log(HD_LOG_INFO, "dropped %d connections that were not of this run", join->n_unknown);
}

int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text)
{
    struct join *join = hd_alloc(1, sizeof *join);
    struct pollfd *polls = hd_alloc(rendezvous->world.world + PENDING_MAX, sizeof *polls);
    int status = HD_ERR_NOMEM;
    snprintf(text, HD_RENDEZVOUS_TEXT, "rank 0 has no memory");
    if (join && polls) {
        join->rendezvous = rendezvous;
        join->options = options;
        join->start_ns = hd_clock_get_ns();
        join->deadline_ns = deadline_ns;
        join->text = text;
        accept_ranks(join, polls);
        status = join->status;
    }
    hd_free(polls);
    hd_free(join);
    return status;
}
