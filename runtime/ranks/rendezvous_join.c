/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side of the rendezvous. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { STRANGERS_MAX = 64, GRACE_MS = 1000, SEND_MS = 1000 };

/* Connections that did not become a rank: silent so far, or a hello that found its place taken
 * (kept, to be told why). */
struct meeting {
    struct hd_rendezvous *rendezvous;
    struct hd_peer guests[STRANGERS_MAX];
    int n_guests, n_met;
    int64_t deadline_ns;
    int status;
    char *text; /* [HD_RENDEZVOUS_TEXT]: the first thing that went wrong */
};

/* The first problem counts. Late ranks are still waited for, a little, so that they hear of it. */
__attribute__((format(printf, 3, 4))) static void refuse(struct meeting *meeting, int status,
                                                         const char *format, ...)
{
    if (meeting->status != HD_OK)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(meeting->text, HD_RENDEZVOUS_TEXT, format, args);
    va_end(args);
    meeting->status = status;
    int64_t grace_ns = hd_clock_ns() + (int64_t)GRACE_MS * 1000000;
    if (meeting->deadline_ns > grace_ns)
        meeting->deadline_ns = grace_ns;
}

/* Takes guest i out; the others stay in order of arrival. */
static void remove_guest(struct meeting *meeting, int i)
{
    meeting->n_guests--;
    memmove(&meeting->guests[i], &meeting->guests[i + 1],
            (size_t)(meeting->n_guests - i) * sizeof meeting->guests[0]);
}

static void drop_guest(struct meeting *meeting, int i, const char *why)
{
    hd_log(HD_LOG_DEBUG, "rendezvous: dropped a connection that %s", why);
    close(meeting->guests[i].fd);
    remove_guest(meeting, i);
}

/* One at a time: in between everybody is heard, so only silent guests make room for others. */
static void accept_guest(struct meeting *meeting)
{
    int fd = accept4(meeting->rendezvous->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    hd_rendezvous_set_keepalive(fd);
    if (meeting->n_guests == STRANGERS_MAX)
        drop_guest(meeting, 0, "said nothing");
    memset(&meeting->guests[meeting->n_guests], 0, sizeof meeting->guests[0]);
    meeting->guests[meeting->n_guests++].fd = fd;
}

/* Gives a guest with a valid hello its place. Returns false when it has none. */
static bool admit(struct meeting *meeting, struct hd_peer *guest)
{
    const struct hd_hello *hello = &guest->hello;
    int world = meeting->rendezvous->world.world;
    if (hello->world != world) {
        refuse(meeting, HD_ERR_INPUT,
               "rank %d (pid %d on %s) expects a world of %d ranks, rank 0 one of %d", hello->rank,
               hello->pid, hello->host, hello->world, world);
        return false;
    }
    struct hd_peer *peer = &meeting->rendezvous->peers[hello->rank];
    if (peer->fd >= 0) {
        refuse(meeting, HD_ERR_INPUT, "rank %d is there twice: pid %d on %s and pid %d on %s",
               hello->rank, peer->hello.pid, peer->hello.host, hello->pid, hello->host);
        return false;
    }
    *peer = *guest;
    meeting->n_met++;
    return true;
}

static void hear_guest(struct meeting *meeting, int i)
{
    struct hd_peer *guest = &meeting->guests[i];
    switch (hd_inbox_read(&guest->inbox, guest->fd)) {
    case HD_INBOX_MORE:
        return;
    case HD_INBOX_FRAME:
        if (guest->hello.world != 0 || !hd_frame_hello(&guest->inbox.frame, &guest->hello))
            drop_guest(meeting, i, "sent no valid hello");
        else if (admit(meeting, guest))
            remove_guest(meeting, i);
        return;
    case HD_INBOX_CLOSED:
        drop_guest(meeting, i, "left");
        return;
    case HD_INBOX_STRANGER:
        drop_guest(meeting, i, "is none of ours");
        return;
    }
}

/* A rank has nothing to say before the go, unless it fails. */
static void hear_peer(struct meeting *meeting, int rank)
{
    struct hd_peer *peer = &meeting->rendezvous->peers[rank];
    enum hd_inbox_state state = hd_inbox_read(&peer->inbox, peer->fd);
    if (state == HD_INBOX_MORE)
        return;
    if (state == HD_INBOX_FRAME && peer->inbox.frame.kind == HD_WIRE_FAIL)
        refuse(meeting, HD_ERR_PEER, "rank %d failed: %s", rank, hd_frame_text(&peer->inbox.frame));
    else
        refuse(meeting, HD_ERR_PEER, "rank %d (pid %d on %s) left during the rendezvous", rank,
               peer->hello.pid, peer->hello.host);
    close(peer->fd);
    peer->fd = -1;
    meeting->n_met--;
}

static void hear(struct meeting *meeting, struct pollfd *polls)
{
    int world = meeting->rendezvous->world.world, n = 0;
    polls[n++] = (struct pollfd){.fd = meeting->rendezvous->listen_fd, .events = POLLIN};
    for (int r = 1; r < world; r++) /* poll ignores negative descriptors */
        polls[n++] = (struct pollfd){.fd = meeting->rendezvous->peers[r].fd, .events = POLLIN};
    for (int i = 0; i < meeting->n_guests; i++)
        polls[n++] = (struct pollfd){.fd = meeting->guests[i].fd, .events = POLLIN};
    int64_t left_ms = (meeting->deadline_ns - hd_clock_ns()) / 1000000 + 1;
    if (poll(polls, (nfds_t)n, left_ms > 0 ? (int)left_ms : 0) <= 0)
        return;
    for (int i = n - 1; i >= world;
         i--) /* backwards: a dropped guest's place is filled by a later */
        if (polls[i].revents)
            hear_guest(meeting, i - world);
    for (int r = 1; r < world; r++)
        if (polls[r].revents && polls[r].fd >= 0)
            hear_peer(meeting, r);
    if (polls[0].revents)
        accept_guest(meeting);
}

/* Ranks as "1, 3 and 4"; at most a few are listed. */
static void add_rank(char *list, size_t bytes, int rank)
{
    size_t used = strlen(list);
    if (used + 16 < bytes)
        snprintf(list + used, bytes - used, used > 0 ? ", %d" : "%d", rank);
    else if (list[used - 1] != '.')
        snprintf(list + used, bytes - used, ", …");
}

static void check_present(struct meeting *meeting, int64_t waited_s)
{
    char list[64] = "";
    int world = meeting->rendezvous->world.world;
    for (int r = 1; r < world; r++)
        if (meeting->rendezvous->peers[r].fd < 0)
            add_rank(list, sizeof list, r);
    if (list[0])
        refuse(meeting, HD_ERR_SYSTEM, "rank %s of %d did not come within %lld s", list, world,
               (long long)waited_s);
}

static void check_config(struct meeting *meeting)
{
    const struct hd_peer *peers = meeting->rendezvous->peers;
    char list[64] = "";
    for (int r = 1; r < meeting->rendezvous->world.world; r++)
        if (peers[r].hello.config_hash != peers[0].hello.config_hash)
            add_rank(list, sizeof list, r);
    if (list[0])
        refuse(meeting, HD_ERR_INPUT,
               "the configuration of rank %s is not that of rank 0: compare their config files "
               "and options",
               list);
}

static void check_arithmetic(struct meeting *meeting)
{
    const struct hd_peer *peers = meeting->rendezvous->peers;
    for (int r = 1; r < meeting->rendezvous->world.world; r++) {
        char difference[256];
        hd_fingerprint_difference(peers[r].hello.fingerprint, peers[0].hello.fingerprint,
                                  difference, sizeof difference);
        if (difference[0])
            refuse(meeting, HD_ERR_INPUT,
                   "rank %d on %s computes differently from rank 0 on %s (%s); "
                   "runtime.allow_fingerprint_mismatch: true accepts that",
                   r, peers[r].hello.host, peers[0].hello.host, difference);
    }
}

static void check_host(struct meeting *meeting)
{
    const struct hd_peer *peers = meeting->rendezvous->peers;
    for (int r = 1; r < meeting->rendezvous->world.world; r++)
        if (strcmp(peers[r].hello.boot_id, peers[0].hello.boot_id) != 0)
            refuse(meeting, HD_ERR_INPUT,
                   "rank %d is on host %s, rank 0 on host %s: ranks that exchange through shared "
                   "memory must be on one host",
                   r, peers[r].hello.host, peers[0].hello.host);
}

static void tell_refusal(struct meeting *meeting)
{
    int64_t deadline_ns = hd_clock_ns() + (int64_t)SEND_MS * 1000000;
    size_t bytes = strlen(meeting->text);
    for (int r = 1; r < meeting->rendezvous->world.world; r++)
        if (meeting->rendezvous->peers[r].fd >= 0)
            hd_wire_send(meeting->rendezvous->peers[r].fd, HD_WIRE_REFUSE, meeting->status,
                         meeting->text, bytes, deadline_ns);
    for (int i = 0; i < meeting->n_guests; i++)
        if (meeting->guests[i].hello.world != 0)
            hd_wire_send(meeting->guests[i].fd, HD_WIRE_REFUSE, meeting->status, meeting->text,
                         bytes, deadline_ns);
}

int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text)
{
    int64_t start_ns = hd_clock_ns();
    struct meeting *meeting = hd_alloc(1, sizeof *meeting);
    struct pollfd *polls = hd_alloc(rendezvous->world.world + STRANGERS_MAX, sizeof *polls);
    if (!meeting || !polls) {
        hd_free(meeting);
        hd_free(polls);
        snprintf(text, HD_RENDEZVOUS_TEXT, "rank 0 has no memory");
        return HD_ERR_NOMEM;
    }
    *meeting = (struct meeting){.rendezvous = rendezvous, .deadline_ns = deadline_ns, .text = text};
    while (meeting->n_met < rendezvous->world.world - 1 && hd_clock_ns() < meeting->deadline_ns)
        hear(meeting, polls);
    check_present(meeting, (hd_clock_ns() - start_ns) / 1000000000);
    if (meeting->status == HD_OK)
        check_config(meeting);
    if (meeting->status == HD_OK && !options->allow_fingerprint_mismatch)
        check_arithmetic(meeting);
    if (meeting->status == HD_OK && options->one_host)
        check_host(meeting);
    if (meeting->status != HD_OK)
        tell_refusal(meeting);
    for (int i = 0; i < meeting->n_guests; i++)
        close(meeting->guests[i].fd);
    int status = meeting->status;
    hd_free(polls);
    hd_free(meeting);
    return status;
}
