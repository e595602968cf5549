/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/launch/coordinator.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/patience.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/launch/membership.h"
#include "runtime/launch/restart.h"
#include "runtime/ranks/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LAST_CALL_MS = 2000, /* the first round waits so long for more nodes than it needs */
    SETTLE_MS = 1000,    /* changes within this time cost one round */
    POLL_MS = 100,
    GOODBYE_MS = 2000, /* for all to hear that the job has ended */
    NODES_MAX = HD_WORLD_MAX
};

/* A launcher that has joined. The first one is that of the master's node, the others follow in the
 * order in which they came. */
struct member {
    struct hd_connection connection;
    struct hd_launcher_hello hello;
    bool leaving; /* it said so: it is in no further round */
    bool running; /* ranks of the round */
};

struct coordinator {
    const struct hd_launch_options *options;
    struct hd_pending_list pending;
    struct member *members;
    int64_t capacity;
    int n;
    int64_t timeout_ns;
    int64_t changed_ns; /* when a node last came or went */
    int64_t pause_ns;   /* no round begins before; after a failure */
    struct hd_patience patience;

    struct hd_round round; /* the newest */
    bool awaits_port;      /* of it: the other nodes start when rank 0's port is known */
    int64_t begin_ns;
    int stop_signal; /* by which its ranks are to end; 0: they are not */
    bool regroups;   /* for nodes that have come or that leave */
    bool lost;       /* a node of it vanished */
    bool finished;   /* rank 0 returned 0 */
    int code;        /* of its first failure, HD_EXIT_PEER when only other ranks were lost, or 0 */
    char why[HD_WHY_BYTES];

    int failures, in_series;
    bool ended; /* the job */
};

int hd_coordinator_count_nodes(int present, int min, int max, int nproc_per_node, int64_t shards)
{
    for (int n = present < max ? present : max; n >= min; n--)
        if (hd_tree_is_block_allowed(shards, (int64_t)n * nproc_per_node))
            return n;
    return 0;
}

static int64_t after(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

static int count_present(const struct coordinator *c)
{
    int present = 0;
    for (int i = 0; i < c->n; i++)
        present += !c->members[i].leaving;
    return present;
}

/* Returns the nodes that the next round would have; 0: there are too few. */
static int count_usable(const struct coordinator *c)
{
    return c->members[0].leaving
               ? 0
               : hd_coordinator_count_nodes(count_present(c), c->options->nnodes_min,
                                            c->options->nnodes, c->options->nproc_per_node,
                                            c->options->shards);
}

static int count_running(const struct coordinator *c)
{
    int running = 0;
    for (int i = 0; i < c->n; i++)
        running += c->members[i].running;
    return running;
}

/* -- Ends -------------------------------------------------------------------------------------- */

static void end_job(struct coordinator *c, int code, const char *why)
{
    c->ended = true;
    for (int i = 0; i < c->n; i++)
        hd_connection_send(&c->members[i].connection, HD_WIRE_END, code, why, strlen(why));
}

/* Ends the ranks of the round, more harshly than before or not at all. */
static void stop_round(struct coordinator *c, int number)
{
    if (c->stop_signal == number || c->stop_signal == SIGKILL)
        return;
    c->stop_signal = number;
    for (int i = 0; i < c->n; i++)
        if (c->members[i].running)
            hd_connection_send(&c->members[i].connection, HD_WIRE_STOP, number, NULL, 0);
}

static void remove_member(struct coordinator *c, int i)
{
    struct member *member = &c->members[i];
    const bool was_running = member->running;
    hd_connection_close(&member->connection);
    c->n--;
    memmove(member, member + 1, (size_t)(c->n - i) * sizeof *member);
    c->changed_ns = hd_clock_get_ns();
    if (was_running) { /* what is left of the round cannot make a checkpoint without it */
        c->lost = true;
        stop_round(c, SIGKILL);
    }
}

static void lose_member(struct coordinator *c, int i, const char *why)
{
    const struct member *member = &c->members[i];
    const bool ends_job = i == 0 && !c->ended; /* rank 0 was there */
    if (!c->ended && !ends_job && !(member->leaving && !member->running))
        hd_log(HD_LOG_WARN, "the launcher on %s (pid %d) %s: %d node%s left", member->hello.host,
               member->hello.pid, why, c->n - 1, c->n == 2 ? " is" : "s are");
    remove_member(c, i);
    if (ends_job)
        end_job(c, 1, "the launcher of the master's node has ended");
}

/* Tells a launcher of the round, which it is part of or, as a spare node, is not. */
static void send_round(struct coordinator *c, int i, int node_rank)
{
    struct hd_round round = c->round;
    round.node_rank = node_rank;
    c->members[i].running = node_rank != HD_NODE_SPARE;
    hd_connection_send(&c->members[i].connection, HD_WIRE_ROUND, 0, &round, sizeof round);
}

/* -- Joining ----------------------------------------------------------------------------------- */

static void refuse(struct hd_pending *pending, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void refuse(struct hd_pending *pending, const char *format, ...)
{
    char why[HD_WHY_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    hd_log(HD_LOG_WARN, "refused a launcher that wanted to join: %s", why);
    hd_wire_send(pending->fd, &pending->out, HD_WIRE_REFUSE, HD_ERR_INPUT, why, strlen(why),
                 after(HD_CONNECTION_BEAT_MS));
}

/* Refuses a launcher whose ranks would not fit: its run would end that of all others. */
static bool check_member(struct coordinator *c, struct hd_pending *pending,
                         const struct hd_launcher_hello *hello)
{
    const struct hd_launcher_hello *own = &c->members[0].hello;
    char difference[HD_WHY_BYTES / 2];
    hd_fingerprint_diff(hello->fingerprint, own->fingerprint, difference, sizeof difference);
    if (hello->nproc_per_node != own->nproc_per_node)
        refuse(pending, "--nproc-per-node is %d on %.64s and %d on %.64s", hello->nproc_per_node,
               hello->host, own->nproc_per_node, own->host);
    else if (hello->nnodes_min != own->nnodes_min || hello->nnodes != own->nnodes)
        refuse(pending, "--nnodes is %d:%d on %.64s and %d:%d on %.64s", hello->nnodes_min,
               hello->nnodes, hello->host, own->nnodes_min, own->nnodes, own->host);
    else if (hello->config_hash != own->config_hash || hello->shards != own->shards)
        refuse(pending, "the configuration on %.64s is not that on %.64s", hello->host, own->host);
    else if (difference[0])
        refuse(pending, "%.64s computes differently from %.64s: %s", hello->host, own->host,
               difference);
    else if (c->n == NODES_MAX)
        refuse(pending, "there are %d nodes already", c->n);
    else
        return true;
    return false;
}

/* A launcher that comes again while its old connection was not missed so far. */
static void forget_predecessor(struct coordinator *c, const struct hd_launcher_hello *hello)
{
    for (int i = c->n - 1; i > 0; i--)
        if (memcmp(c->members[i].hello.id, hello->id, sizeof hello->id) == 0)
            lose_member(c, i, "has connected again");
}

static bool add_member(struct coordinator *c, const struct member *member)
{
    if (hd_grow((void **)&c->members, &c->capacity, c->n + 1, sizeof *c->members) != HD_OK)
        return false;
    c->members[c->n++] = *member;
    c->changed_ns = hd_clock_get_ns();
    hd_connection_start(&c->members[c->n - 1].connection);
    return true;
}

static bool is_text(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && (unsigned char)text[i] >= ' ' && text[i] != 127)
        i++;
    return i < bytes && text[i] == '\0';
}

/* Makes a pending connection a member. Returns whether its descriptor has been taken. */
static bool admit(struct coordinator *c, struct hd_pending *pending, const void *body, size_t bytes)
{
    struct member member = {.connection.fd = pending->fd};
    if (bytes != sizeof member.hello)
        return false;
    memcpy(&member.hello, body, sizeof member.hello);
    if (!is_text(member.hello.host, sizeof member.hello.host) ||
        !is_text(member.hello.fingerprint, sizeof member.hello.fingerprint) ||
        !hd_wire_send(pending->fd, &pending->out, HD_WIRE_WELCOME, 0, NULL, 0,
                      after(HD_CONNECTION_BEAT_MS)) ||
        !check_member(c, pending, &member.hello))
        return false;
    member.connection.reader = pending->reader;
    member.connection.out = pending->out;
    forget_predecessor(c, &member.hello);
    if (!add_member(c, &member))
        return false;
    hd_log(HD_LOG_INFO, "the launcher on %s (pid %d) has joined: %d nodes are here",
           member.hello.host, member.hello.pid, count_present(c));
    if (count_running(c) > 0)
        send_round(c, c->n - 1, HD_NODE_SPARE);
    return true;
}

static void read_pending(struct coordinator *c, int i)
{
    size_t bytes;
    const void *body = hd_pending_read(&c->pending, i, &bytes);
    if (!body)
        return;
    const int fd = c->pending.at[i].fd;
    const bool admitted = admit(c, &c->pending.at[i], body, bytes);
    hd_pending_remove(&c->pending, i);
    if (!admitted)
        close(fd);
}

/* -- What launchers say ------------------------------------------------------------------------ */

static bool note_end(struct coordinator *c, int i, const struct hd_frame *frame)
{
    struct hd_round_end end;
    struct member *member = &c->members[i];
    if (frame->bytes != sizeof end || !member->running)
        return frame->bytes == sizeof end;
    memcpy(&end, frame->payload, sizeof end);
    if (!is_text(end.dir, sizeof end.dir) || !is_text(end.why, sizeof end.why))
        return false;
    member->running = false;
    if (i == 0 && end.dir[0])
        memcpy(c->round.dir, end.dir, sizeof c->round.dir);
    if (i == 0)
        c->finished = end.code == 0;
    const bool stopped = end.code == hd_status_get_exit_code(HD_ERR_STOPPED);
    if (end.code != 0 && !stopped && (c->code == 0 || c->code == HD_EXIT_PEER)) {
        c->code = end.code;
        snprintf(c->why, sizeof c->why, "%.150s on %.64s", end.why, member->hello.host);
    }
    if (end.code != 0)
        stop_round(c, stopped ? SIGTERM : SIGKILL);
    return true;
}

/* Sends the round to all but the first node, in the order in which they came. */
static void send_to_others(struct coordinator *c)
{
    int node_rank = 1;
    for (int i = 1; i < c->n; i++)
        if (!c->members[i].leaving)
            send_round(c, i, node_rank < c->round.nnodes ? node_rank++ : HD_NODE_SPARE);
    if (node_rank < c->round.nnodes) { /* somebody left meanwhile */
        c->lost = true;
        stop_round(c, SIGKILL);
    }
}

static bool note_port(struct coordinator *c, int i, int port)
{
    if (i != 0 || port < 1 || port > 65535)
        return false;
    c->round.port = port;
    if (c->awaits_port && c->stop_signal == 0)
        send_to_others(c);
    c->awaits_port = false;
    return true;
}

static void note_leave(struct coordinator *c, int i)
{
    struct member *member = &c->members[i];
    hd_log(HD_LOG_INFO, "the launcher on %s (pid %d) leaves", member->hello.host,
           member->hello.pid);
    member->leaving = true;
    c->changed_ns = hd_clock_get_ns();
    if (member->running) {
        c->regroups = true;
        stop_round(c, SIGTERM);
    }
}

static bool take_frame(struct coordinator *c, int i)
{
    const struct hd_frame *frame = &c->members[i].connection.reader.frame;
    switch (frame->kind) {
    case HD_WIRE_LISTENS:
        return note_port(c, i, frame->number);
    case HD_WIRE_ENDED:
        return note_end(c, i, frame);
    case HD_WIRE_BYE:
        note_leave(c, i);
        return true;
    default:
        return false;
    }
}

static void attend_member(struct coordinator *c, int i)
{
    struct hd_connection *connection = &c->members[i].connection;
    char why[64] = "is gone";
    while (hd_connection_read(connection))
        if (!take_frame(c, i))
            hd_connection_close(connection);
    if (connection->fd >= 0 && !hd_connection_beat(connection, c->timeout_ns)) {
        snprintf(why, sizeof why, "has not answered for %.1f s",
                 (double)(hd_clock_get_ns() - connection->heard_ns) * 1e-9);
        hd_connection_close(connection);
    }
    if (connection->fd < 0)
        lose_member(c, i, why);
}

/* -- Rounds ------------------------------------------------------------------------------------ */

static void start_round(struct coordinator *c, int nnodes)
{
    c->round.number++;
    c->round.nnodes = nnodes;
    c->round.port = 0;
    hd_secret_draw(c->round.nonce);
    c->begin_ns = hd_clock_get_ns();
    c->stop_signal = c->code = 0;
    c->regroups = c->lost = c->finished = false;
    c->patience = (struct hd_patience){0};
    c->awaits_port = nnodes > 1;
    send_round(c, 0, 0);
    if (nnodes == 1)
        send_to_others(c);
}

/* Begins a pause before the next round, and returns its seconds. */
static double pause_rounds(struct coordinator *c)
{
    const int64_t pause_ms =
        hd_restart_choose_pause_ms(&c->in_series, (hd_clock_get_ns() - c->begin_ns) / 1000000);
    c->pause_ns = after(pause_ms);
    return (double)pause_ms * 1e-3;
}

static void restart_after_failure(struct coordinator *c)
{
    const struct hd_launch_options *options = c->options;
    if (c->code == hd_status_get_exit_code(HD_ERR_INPUT) || c->failures == options->max_restarts) {
        end_job(c, c->code, c->why);
        return;
    }
    c->failures++;
    hd_log(HD_LOG_WARN, "%s: restart %d of %d in %.1f s", c->why, c->failures,
           options->max_restarts, pause_rounds(c));
}

/* All ranks of the round have ended. A round that lost a node has not failed, whatever its ranks
 * made of that. */
static void finish_round(struct coordinator *c)
{
    const bool failed = c->code != 0 && c->code != HD_EXIT_PEER;
    c->awaits_port = false;
    if (c->finished && !failed)
        end_job(c, 0, "");
    else if (c->members[0].leaving)
        end_job(c, hd_status_get_exit_code(HD_ERR_STOPPED),
                "the launcher of the master's node was "
                "told to end");
    else if (failed && !c->lost)
        restart_after_failure(c);
    else if (!c->lost && !c->regroups && c->code == HD_EXIT_PEER) /* a network that is back */
        hd_log(HD_LOG_WARN,
               "ranks lost each other, but all launchers are here: they start again in %.1f s",
               pause_rounds(c));
    else if (!c->lost && !c->regroups)
        end_job(c, hd_status_get_exit_code(HD_ERR_STOPPED), "a rank was told to stop");
}

static void tell_wait(struct coordinator *c)
{
    const int present = count_present(c);
    if (!hd_patience_is_over(&c->patience))
        return;
    if (present < c->options->nnodes_min)
        hd_log(HD_LOG_WARN, "waiting for %d more node%s: %d of at least %d %s here",
               c->options->nnodes_min - present, c->options->nnodes_min - present == 1 ? "" : "s",
               present, c->options->nnodes_min, present == 1 ? "is" : "are");
    else
        hd_log(HD_LOG_WARN,
               "waiting for more nodes: %d are here, and %lld shards cannot be "
               "divided among their ranks",
               present, (long long)c->options->shards);
}

static bool has_settled(const struct coordinator *c, int usable)
{
    const int64_t wait_ms = c->round.number > 0            ? SETTLE_MS
                            : usable == c->options->nnodes ? 0
                                                           : LAST_CALL_MS;
    return hd_clock_get_ns() - c->changed_ns >= wait_ms * 1000000;
}

static void regroup(struct coordinator *c)
{
    hd_log(HD_LOG_INFO, "round %d ends with a checkpoint, to go on with more nodes",
           c->round.number);
    c->regroups = true;
    stop_round(c, SIGTERM);
}

/* Takes the next step that is due, if any. */
static void advance(struct coordinator *c, bool *was_running)
{
    const int usable = count_usable(c);
    const bool running = count_running(c) > 0;
    if (*was_running && !running)
        finish_round(c);
    else if (running && c->stop_signal == 0 && usable > c->round.nnodes && has_settled(c, usable))
        regroup(c);
    else if (!running && c->members[0].leaving)
        end_job(c, hd_status_get_exit_code(HD_ERR_STOPPED),
                "the launcher of the master's node was "
                "told to end");
    else if (!running && usable == 0)
        tell_wait(c);
    else if (!running && hd_clock_get_ns() >= c->pause_ns && has_settled(c, usable))
        start_round(c, usable);
    *was_running = count_running(c) > 0;
}

static void poll_all(struct coordinator *c)
{
    struct pollfd polls[1 + NODES_MAX + HD_PENDING_MAX];
    const int n_members = c->n;
    int n = 0;
    polls[n++] = (struct pollfd){.fd = c->pending.listen_fd, .events = POLLIN};
    for (int i = 0; i < n_members; i++)
        polls[n++] = (struct pollfd){.fd = c->members[i].connection.fd, .events = POLLIN};
    for (int i = 0; i < c->pending.n; i++)
        polls[n++] = (struct pollfd){.fd = c->pending.at[i].fd, .events = POLLIN};
    const bool any = poll(polls, (nfds_t)n, POLL_MS) > 0;
    for (int i = n - 1; any && i > n_members;
         i--) /* backwards: removing one moves the later ones */
        if (polls[i].revents)
            read_pending(c, i - n_members - 1);
    if (any && polls[0].revents)
        hd_pending_accept(&c->pending);
    for (int i = c->n - 1; i >= 0; i--)
        attend_member(c, i);
}

static void coordinate(struct coordinator *c)
{
    bool was_running = false;
    hd_patience_is_over(&c->patience);
    while (!c->ended) {
        poll_all(c);
        if (!c->ended)
            advance(c, &was_running);
    }
    for (const int64_t end_ns = after(GOODBYE_MS); c->n > 0 && hd_clock_get_ns() < end_ns;)
        poll_all(c);
}

/* The launcher of this node joins by a socket that nobody else has. */
static bool add_own_member(struct coordinator *c, int fd)
{
    struct member member = {.connection = {.fd = fd, .reader.keyed = true}};
    hd_launcher_hello_fill(c->options, &member.hello);
    memcpy(member.connection.reader.key.key, c->pending.key, HD_WIRE_KEY);
    memcpy(member.connection.out.key, c->pending.key, HD_WIRE_KEY);
    return add_member(c, &member);
}

static void run(const struct hd_launch_options *options, int listen_fd, int fd)
{
    const int64_t timeout_ns = (int64_t)(options->heartbeat_timeout_s * 1e9);
    struct coordinator *c = hd_alloc(1, sizeof *c);
    if (!c)
        return;
    c->options = options;
    c->timeout_ns = /* the launcher of a lost node kills its ranks first */
        timeout_ns == 0 ? 0 : timeout_ns + 2 * HD_CONNECTION_BEAT_MS * INT64_C(1000000);
    c->pending.listen_fd = listen_fd;
    hd_launcher_make_key(options->secret, c->pending.key);
    if (add_own_member(c, fd))
        coordinate(c);
    for (int i = 0; i < c->n; i++)
        hd_connection_close(&c->members[i].connection);
    hd_pending_close(&c->pending);
    hd_free(c->members);
    hd_free(c);
}

int hd_coordinator_start(const struct hd_launch_options *options, int listen_fd, int *fd_p,
                         int *pid_p)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
        return hd_fail(HD_ERR_SYSTEM, "no pair of sockets: %m");
    fcntl(listen_fd, F_SETFL, fcntl(listen_fd, F_GETFL) | O_NONBLOCK);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        run(options, listen_fd, fds[1]);
        _exit(0);
    }
    close(fds[1]);
    if (pid < 0) {
        close(fds[0]);
        return hd_fail(HD_ERR_SYSTEM, "cannot start the coordinator: %m");
    }
    *fd_p = fds[0];
    *pid_p = pid;
    return HD_OK;
}
