/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 accepts the other ranks and checks that they fit together. */
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

enum { PENDING_MAX = 64, GRACE_MS = 1000, SEND_MS = 1000 };

/* `pending` are the connections that are no rank: they are silent so far, or their hello names a
 * rank that is taken, and they are kept to be told so. */
struct join {
    struct hd_rendezvous *rendezvous;
    struct hd_peer pending[PENDING_MAX];
    int n_pending, n_joined;
    int64_t deadline_ns;
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

static void drop_pending(struct join *join, int i, const char *why)
{
    hd_log(HD_LOG_DEBUG, "rendezvous: dropped a connection that %s", why);
    close(join->pending[i].fd);
    remove_pending(join, i);
}

/* Accepts one connection at a time and reads all in between, so that only silent pending
 * connections are dropped for new ones. */
static void accept_pending(struct join *join)
{
    int fd = accept4(join->rendezvous->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    hd_rendezvous_set_keepalive(fd);
    if (join->n_pending == PENDING_MAX)
        drop_pending(join, 0, "sent nothing");
    memset(&join->pending[join->n_pending], 0, sizeof join->pending[0]);
    join->pending[join->n_pending++].fd = fd;
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
    *peer = *connection;
    join->n_joined++;
    return true;
}

static void read_pending(struct join *join, int i)
{
    struct hd_peer *connection = &join->pending[i];
    switch (hd_frame_reader_read(&connection->reader, connection->fd)) {
    case HD_FRAME_INCOMPLETE:
        return;
    case HD_FRAME_COMPLETE:
        if (connection->hello.world != 0 ||
            !hd_frame_read_hello(&connection->reader.frame, &connection->hello))
            drop_pending(join, i, "sent no valid hello");
        else if (admit(join, connection))
            remove_pending(join, i);
        return;
    case HD_FRAME_CLOSED:
        drop_pending(join, i, "left");
        return;
    case HD_FRAME_INVALID:
        drop_pending(join, i, "is not a rank");
        return;
    }
}

/* Hears a rank before the go: it sends nothing unless it fails. */
static void read_peer(struct join *join, int rank)
{
    struct hd_peer *peer = &join->rendezvous->peers[rank];
    enum hd_frame_state state = hd_frame_reader_read(&peer->reader, peer->fd);
    if (state == HD_FRAME_INCOMPLETE)
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
        polls[n++] = (struct pollfd){.fd = join->pending[i].fd, .events = POLLIN};
    int64_t left_ms = (join->deadline_ns - hd_clock_get_ns()) / 1000000 + 1;
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

static void check_present(struct join *join, int64_t waited_s)
{
    char list[64] = "";
    int world = join->rendezvous->world.world;
    for (int r = 1; r < world; r++)
        if (join->rendezvous->peers[r].fd < 0)
            append_rank(list, sizeof list, r);
    if (list[0])
        refuse(join, HD_ERR_SYSTEM, "rank %s of %d did not join within %lld s", list, world,
               (long long)waited_s);
}

static void check_config(struct join *join)
{
    const struct hd_peer *peers = join->rendezvous->peers;
    char list[64] = "";
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (peers[r].hello.config_hash != peers[0].hello.config_hash)
            append_rank(list, sizeof list, r);
    if (list[0])
        refuse(join, HD_ERR_INPUT,
               "the configuration of rank %s is not that of rank 0: compare their config files "
               "and options",
               list);
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
    int64_t deadline_ns = hd_rendezvous_get_deadline_ns(SEND_MS);
    size_t bytes = strlen(join->text);
    for (int r = 1; r < join->rendezvous->world.world; r++)
        if (join->rendezvous->peers[r].fd >= 0)
            hd_wire_send(join->rendezvous->peers[r].fd, HD_WIRE_REFUSE, join->status, join->text,
                         bytes, deadline_ns);
    for (int i = 0; i < join->n_pending; i++)
        if (join->pending[i].hello.world != 0)
            hd_wire_send(join->pending[i].fd, HD_WIRE_REFUSE, join->status, join->text, bytes,
                         deadline_ns);
}

int hd_rendezvous_accept_ranks(struct hd_rendezvous *rendezvous,
                               const struct hd_rendezvous_options *options, int64_t deadline_ns,
                               char *text)
{
    int64_t start_ns = hd_clock_get_ns();
    struct join *join = hd_alloc(1, sizeof *join);
    struct pollfd *polls = hd_alloc(rendezvous->world.world + PENDING_MAX, sizeof *polls);
    if (!join || !polls) {
        hd_free(join);
        hd_free(polls);
        snprintf(text, HD_RENDEZVOUS_TEXT, "rank 0 has no memory");
        return HD_ERR_NOMEM;
    }
    *join = (struct join){.rendezvous = rendezvous, .deadline_ns = deadline_ns, .text = text};
    while (join->n_joined < rendezvous->world.world - 1 && hd_clock_get_ns() < join->deadline_ns)
        poll_connections(join, polls);
    check_present(join, (hd_clock_get_ns() - start_ns) / 1000000000);
    if (join->status == HD_OK)
        check_config(join);
    if (join->status == HD_OK && !options->allow_fingerprint_mismatch)
        check_arithmetic(join);
    if (join->status == HD_OK && options->one_host)
        check_host(join);
    if (join->status != HD_OK)
        send_refusal(join);
    for (int i = 0; i < join->n_pending; i++)
        close(join->pending[i].fd);
    int status = join->status;
    hd_free(polls);
    hd_free(join);
    return status;
}
