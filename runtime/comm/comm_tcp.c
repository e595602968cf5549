/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/comm/comm_tcp.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp_internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HEADER = sizeof(struct hd_tcp_header) };

static struct hd_tcp_links *of(struct hd_links *links)
{
    return (struct hd_tcp_links *)links;
}

static int lost(struct hd_tcp_links *links, int rank, const char *why)
{
    links->lost = rank;
    snprintf(links->error, sizeof links->error, "%s", why);
    return HD_ERR_PEER;
}

static struct hd_tcp_queue *get_queue(struct hd_tcp_links *links, const struct hd_tcp_message *m)
{
    struct hd_tcp_peer *peer = &links->peers[m->rank];
    return m->out ? &peer->out : &peer->in;
}

/* -- Starting ---------------------------------------------------------------------------------- */

static void start_one(struct hd_tcp_links *links, int tag, const struct hd_comm_transfer *t)
{
    const int number = links->n++;
    links->messages[number] = (struct hd_tcp_message){
        .rank = t->rank, .out = t->out, .data = t->data, .bytes = t->bytes, .tag = tag, .next = -1};
    struct hd_tcp_queue *queue = get_queue(links, &links->messages[number]);
    if (queue->first < 0)
        queue->first = number;
    else
        links->messages[queue->last].next = number;
    queue->last = number;
}

static int comm_tcp_start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers,
                          int n)
{
    struct hd_tcp_links *links = of(base);
    if (hd_grow((void **)&links->messages, &links->capacity, links->n + n,
                sizeof *links->messages) != HD_OK) {
        snprintf(links->error, sizeof links->error, "no memory for %d messages", links->n + n);
        return HD_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++)
        start_one(links, tag, &transfers[i]);
    return HD_OK;
}

/* -- Hashes ------------------------------------------------------------------------------------ */

static void begin_hash(struct hd_tcp_queue *queue)
{
    crypto_generichash_init(&queue->state, queue->key.key, sizeof queue->key.key, HD_TCP_HASH);
    crypto_generichash_update(&queue->state, (const uint8_t *)&queue->key.count,
                              sizeof queue->key.count);
    queue->key.count++;
}

/* Adds the bytes [from, to) of a message, as it is transferred. */
static void add_to_hash(struct hd_tcp_queue *queue, const struct hd_tcp_message *message,
                        int64_t from, int64_t to)
{
    const int64_t end = HEADER + message->bytes;
    if (from == 0)
        begin_hash(queue);
    if (from < HEADER)
        crypto_generichash_update(&queue->state, (const uint8_t *)&queue->header + from,
                                  (size_t)((to < HEADER ? to : HEADER) - from));
    from = from < HEADER ? HEADER : from;
    to = to < end ? to : end;
    if (from < to)
        crypto_generichash_update(&queue->state, (const uint8_t *)message->data + from - HEADER,
                                  (size_t)(to - from));
}

/* -- Transferring ------------------------------------------------------------------------------ */

/* Returns where the part of a message ends that is transferred next. The content that comes in
 * waits until its header is known, and a hash until all of the content is. */
static int64_t get_limit(const struct hd_tcp_links *links, const struct hd_tcp_queue *queue,
                         const struct hd_tcp_message *message)
{
    const int64_t body = HEADER + message->bytes;
    if (!message->out && queue->used < HEADER)
        return HEADER;
    return queue->used < body || !links->hash ? body : body + HD_TCP_HASH;
}

/* Lists the bytes from queue->used to `limit` of a message. */
static struct msghdr list_rest(struct hd_tcp_queue *queue, const struct hd_tcp_message *message,
                               int64_t limit, struct iovec parts[3])
{
    const struct iovec whole[] = {{&queue->header, HEADER},
                                  {message->data, (size_t)message->bytes},
                                  {queue->hash, HD_TCP_HASH}};
    struct msghdr rest = {.msg_iov = parts};
    int64_t begin = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t length = (int64_t)whole[i].iov_len;
        const int64_t from = queue->used > begin ? queue->used - begin : 0;
        const int64_t to = limit - begin < length ? limit - begin : length;
        if (from < to)
            parts[rest.msg_iovlen++] =
                (struct iovec){(char *)whole[i].iov_base + from, (size_t)(to - from)};
        begin += length;
    }
    return rest;
}

/* Returns how many bytes were transferred, 0 when the socket has none for us now, or a status. */
static int64_t transfer(struct hd_tcp_links *links, const struct hd_tcp_message *message,
                        struct hd_tcp_queue *queue, int64_t limit)
{
    const int fd = links->peers[message->rank].fd;
    struct iovec parts[3];
    struct msghdr rest = list_rest(queue, message, limit, parts);
    const ssize_t n = message->out ? sendmsg(fd, &rest, MSG_NOSIGNAL | MSG_DONTWAIT)
                                   : recvmsg(fd, &rest, MSG_DONTWAIT);
    if (n > 0)
        return n;
    if (n == 0)
        return lost(links, message->rank, "it was closed");
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR
               ? 0
               : lost(links, message->rank, strerror(errno));
}

/* Does what is due once the bytes before queue->used have been transferred. */
static int look_at(struct hd_tcp_links *links, struct hd_tcp_queue *queue,
                   const struct hd_tcp_message *message)
{
    const int64_t body = HEADER + message->bytes;
    if (!message->out && queue->used == HEADER &&
        (queue->header.tag != message->tag || queue->header.bytes != message->bytes))
        return lost(links, message->rank, "it sent another message than this rank expected");
    if (!links->hash || queue->used < body)
        return HD_OK;
    if (queue->used == body)
        crypto_generichash_final(&queue->state, message->out ? queue->hash : queue->own,
                                 HD_TCP_HASH);
    if (!message->out && queue->used == body + HD_TCP_HASH &&
        sodium_memcmp(queue->own, queue->hash, HD_TCP_HASH) != 0)
        return lost(links, message->rank, "a message was changed on its way");
    return HD_OK;
}

/* Transfers what the socket takes or has of the first message of its queue. */
static int move(struct hd_tcp_links *links, struct hd_tcp_message *message,
                struct hd_tcp_queue *queue)
{
    const int64_t end = HEADER + message->bytes + (links->hash ? HD_TCP_HASH : 0);
    if (message->out && queue->used == 0)
        queue->header = (struct hd_tcp_header){message->bytes, message->tag};
    while (queue->used < end) {
        const int64_t limit = get_limit(links, queue, message);
        const int64_t n = transfer(links, message, queue, limit);
        if (n <= 0)
            return (int)n;
        if (links->hash)
            add_to_hash(queue, message, queue->used, queue->used + n);
        queue->used += n;
        HD_TRY(look_at(links, queue, message));
        if (queue->used < limit)
            return HD_OK; /* the socket has no more */
    }
    message->done = true;
    queue->first = message->next;
    queue->used = 0;
    return HD_OK;
}

/* The kernel keeps a connection whose own address has been taken from this host. */
static bool has_address(const struct sockaddr_storage *address)
{
    struct sockaddr_storage any_port = *address;
    if (address->ss_family == AF_INET)
        ((struct sockaddr_in *)&any_port)->sin_port = 0;
    else
        ((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
    const int fd = socket(address->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool gone = fd >= 0 && bind(fd, (struct sockaddr *)&any_port, sizeof any_port) != 0 &&
                      errno == EADDRNOTAVAIL;
    if (fd >= 0)
        close(fd);
    return !gone;
}

static int look_at_interface(struct hd_tcp_links *links, const struct hd_tcp_message *message)
{
    enum { PERIOD_MS = 500 };
    const int64_t now_ns = hd_clock_get_ns();
    if (now_ns - links->looked_ns < PERIOD_MS * INT64_C(1000000))
        return HD_OK;
    links->looked_ns = now_ns;
    return has_address(&links->peers[message->rank].here)
               ? HD_OK
               : lost(links, message->rank, "this end's address is gone from the host");
}

static int comm_tcp_progress(struct hd_links *base, bool *done)
{
    struct hd_tcp_links *links = of(base);
    const struct hd_tcp_message *open = NULL;
    for (int i = 0; i < links->n; i++) {
        struct hd_tcp_message *message = &links->messages[i];
        struct hd_tcp_queue *queue = get_queue(links, message);
        if (!message->done && queue->first == i)
            HD_TRY(move(links, message, queue));
        if (!message->done)
            open = message;
        done[i] = message->done;
    }
    return open ? look_at_interface(links, open) : HD_OK;
}

/* Has a socket wake its reader when so many bytes of the message are there that reading them is
 * worth it. */
static void set_least(struct hd_tcp_links *links, const struct hd_tcp_message *message,
                      struct hd_tcp_queue *queue)
{
    enum { WORTH_READING = 1 << 20 };
    const int64_t rest = get_limit(links, queue, message) - queue->used;
    const int least = rest < WORTH_READING ? (int)rest : WORTH_READING;
    if (least == queue->least)
        return;
    queue->least = least;
    setsockopt(links->peers[message->rank].fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

/* The first message of each queue waits for its socket. */
static int arm(struct hd_links *base, struct pollfd *polls, int capacity)
{
    struct hd_tcp_links *links = of(base);
    int n = 0;
    for (int i = 0; i < links->n && n < capacity; i++) {
        const struct hd_tcp_message *message = &links->messages[i];
        struct hd_tcp_queue *queue = get_queue(links, message);
        if (message->done || queue->first != i)
            continue;
        if (!message->out)
            set_least(links, message, queue);
        polls[n++] = (struct pollfd){.fd = links->peers[message->rank].fd,
                                     .events = message->out ? POLLOUT : POLLIN};
    }
    return n;
}

static void comm_tcp_reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static bool probe(struct hd_links *base, int rank, int tag)
{
    const struct hd_tcp_peer *peer = &of(base)->peers[rank];
    struct hd_tcp_header header;
    return peer->in.first < 0 &&
           recv(peer->fd, &header, HEADER, MSG_PEEK | MSG_DONTWAIT) == HEADER && header.tag == tag;
}

static const char *error(struct hd_links *base, int *rank_p)
{
    *rank_p = of(base)->lost;
    return of(base)->error;
}

/* The kernel delivers what was sent, so there is nobody to wait for. */
static void close_links(struct hd_links *base, bool orderly)
{
    (void)orderly;
    struct hd_tcp_links *links = of(base);
    for (int rank = 0; rank < links->ranks; rank++)
        if (links->peers[rank].fd >= 0)
            close(links->peers[rank].fd);
    hd_free(links->peers);
    hd_free(links->messages);
    hd_free(links);
}

/* -- Opening ----------------------------------------------------------------------------------- */

static const struct hd_links_ops ops = {.start = comm_tcp_start,
                                        .progress = comm_tcp_progress,
                                        .arm = arm,
                                        .reset = comm_tcp_reset,
                                        .probe = probe,
                                        .error = error,
                                        .close = close_links};

static int make_links(int ranks, bool hash, struct hd_links **links_p)
{
    struct hd_tcp_links *links = hd_alloc(1, sizeof *links);
    struct hd_tcp_peer *peers = hd_alloc(ranks, sizeof *peers);
    if (!links || !peers) {
        hd_free(links);
        hd_free(peers);
        return HD_ERR_NOMEM;
    }
    *links = (struct hd_tcp_links){
        .links.ops = &ops, .ranks = ranks, .hash = hash, .lost = -1, .peers = peers};
    for (int rank = 0; rank < ranks; rank++)
        peers[rank].fd = peers[rank].in.first = peers[rank].out.first = -1;
    *links_p = &links->links;
    return HD_OK;
}

int hd_tcp_open_links(const struct hd_world *world, const struct hd_comm_hosts *hosts,
                      struct hd_rendezvous *rendezvous, const struct hd_tcp_options *options,
                      int channels, struct hd_links **links_p)
{
    int status = HD_OK;
    for (int i = 0; i < channels; i++)
        links_p[i] = NULL;
    for (int i = 0; i < channels && status == HD_OK; i++)
        status = make_links(world->world, options->hash, &links_p[i]);
    if (status == HD_OK)
        status = hd_tcp_join(links_p, channels, world, hosts, rendezvous, options);
    if (status != HD_OK)
        hd_links_close(links_p, channels, false);
    return status;
}
