/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 accepts the other ranks and checks that they fit together. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/pending.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { GRACE_MS = 1000, SEND_MS = 1000, POLL_MS = 1000 };

struct join {
    struct hd_rendezvous *rendezvous;
    const struct hd_rendezvous_options *options;
    struct hd_pending_list pending; /* no ranks so far; greeted: its rank is taken */
    int n_joined;
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

/* Makes a pending connection with a valid hello the rank's. Returns false when it cannot be. */
static bool admit(struct join *join, const struct hd_pending *pending, const struct hd_hello *hello)
{
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
    hd_rendezvous_set_keepalive(pending->fd, join->rendezvous->link_timeout_s);
    hd_free(peer->message); /* of a connection that left */
    *peer = (struct hd_peer){
        .fd = pending->fd, .hello = *hello, .reader = pending->reader, .out = pending->out};
    join->n_joined++;
    return true;
}

static bool welcome(struct join *join, struct hd_pending *pending)
{
    const uint64_t hash = join->options->config_hash;
    return hd_wire_send(pending->fd, &pending->out, HD_WIRE_WELCOME, 0, &hash, sizeof hash,
                        hd_rendezvous_get_deadline_ns(SEND_MS));
}

/* Whoever knows the secret is welcome, and hears why when its hello does not fit. */
static void read_pending(struct join *join, int i)
{
    struct hd_pending *pending = &join->pending.at[i];
    struct hd_hello hello;
    size_t bytes;
    const void *body = hd_pending_read(&join->pending, i, &bytes);
    if (!body)
        return;
    if (!hd_hello_read(body, bytes, &hello) || !welcome(join, pending))
        hd_pending_drop(&join->pending, i, "does not know the secret of this run");
    else if (admit(join, pending, &hello))
        hd_pending_remove(&join->pending, i);
    else
        pending->greeted = true;
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
    const struct hd_rendezvous *rendezvous = join->rendezvous;
    const int listeners = rendezvous->n_listening, others = listeners + rendezvous->world.world - 1;
    int n = 0;
    for (int l = 0; l < listeners; l++)
        polls[n++] = (struct pollfd){.fd = rendezvous->listen_fds[l], .events = POLLIN};
    for (int r = 1; r < rendezvous->world.world; r++) /* poll ignores negative descriptors */
        polls[n++] = (struct pollfd){.fd = rendezvous->peers[r].fd, .events = POLLIN};
    for (int i = 0; i < join->pending.n; i++)
        polls[n++] = (struct pollfd){.fd = join->pending.at[i].fd, .events = POLLIN};
    int64_t left_ms = (join->deadline_ns - hd_clock_get_ns()) / 1000000 + 1;
    left_ms = left_ms < POLL_MS ? left_ms : POLL_MS;
    if (poll(polls, (nfds_t)n, left_ms > 0 ? (int)left_ms : 0) <= 0)
        return;
    for (int i = n - 1; i >= others; i--) /* backwards: dropping one moves the later ones */
        if (polls[i].revents)
            read_pending(join, i - others);
    for (int i = listeners; i < others; i++)
        if (polls[i].revents && polls[i].fd >= 0)
            read_peer(join, i - listeners + 1);
    for (int l = 0; l < listeners; l++)
        if (polls[l].revents) {
            join->pending.listen_fd = polls[l].fd;
            hd_pending_accept(&join->pending);
        }
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
    const int others = join->pending.n_unknown + join->pending.n;
    char list[64] = "", dropped[64] = "nobody else has connected";
    if (!hd_patience_is_over(&join->patience))
        return;
    list_missing(join, list, sizeof list);
    if (others > 0)
        snprintf(dropped, sizeof dropped, "%d others connected, and are no ranks of this run",
                 others);
    hd_log(HD_LOG_WARN, "waiting for rank %s of %d at %s port %d: %s", list, world->world,
           world->master_addr, world->master_port, dropped);
}

static void check_present(struct join *join)
{
    char list[64] = "", others[64] = "";
    list_missing(join, list, sizeof list);
    if (join->pending.n_unknown > 0)
        snprintf(others, sizeof others, "; %d connections were not of this run",
                 join->pending.n_unknown);
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
                   "rank %d on %s computes differently from rank 0 on %s (%s); %s"
                   "runtime.allow_fingerprint_mismatch: true accepts that",
                   r, peers[r].hello.host, peers[0].hello.host, difference,
                   strncmp(difference, "isa:", 4) == 0
                       ? "an installation for several instruction sets takes one everywhere with "
                         "HD_ISA=NAME; "
                       : "");
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
    for (int i = 0; i < join->pending.n; i++)
        if (join->pending.at[i].greeted)
            hd_wire_send(join->pending.at[i].fd, &join->pending.at[i].out, HD_WIRE_REFUSE,
                         join->status, join->text, bytes, hd_rendezvous_get_deadline_ns(SEND_MS));
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
    hd_pending_close(&join->pending);
    if (join->pending.n_unknown > 1)
        hd_log(HD_LOG_INFO, "dropped %d connections that were not of this run",
               join->pending.n_unknown);
}

int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text)
{
    struct join *join = hd_alloc(1, sizeof *join);
    struct pollfd *polls =
        hd_alloc(HD_LISTENERS_MAX + rendezvous->world.world + HD_PENDING_MAX, sizeof *polls);
    int status = HD_ERR_NOMEM;
    snprintf(text, HD_RENDEZVOUS_TEXT, "rank 0 has no memory");
    if (join && polls) {
        join->rendezvous = rendezvous;
        memcpy(join->pending.key, rendezvous->key, sizeof join->pending.key);
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
