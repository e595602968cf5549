/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/comm/comm_tcp.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER = sizeof(struct hd_tcp_header) };

static struct hd_tcp_links *of(struct hd_links *links)
{
    return (struct hd_tcp_links *)links;
}

static int lost(struct hd_tcp_links *links, int rank, const char *why)
{
    snprintf(links->error, sizeof links->error, "the connection to rank %d broke: %s", rank, why);
    return HD_ERR_PEER;
}

/* -- Starting ---------------------------------------------------------------------------------- */

static int start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers, int n)
{
    struct hd_tcp_links *links = of(base);
    if (hd_grow((void **)&links->messages, &links->capacity, links->n + n,
                sizeof *links->messages)) {
        snprintf(links->error, sizeof links->error, "no memory for %d messages", links->n + n);
        return HD_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++) {
        struct hd_tcp_peer *peer = &links->peers[transfers[i].rank];
        struct hd_tcp_queue *queue = transfers[i].out ? &peer->out : &peer->in;
        const int number = links->n++;
        links->messages[number] =
            (struct hd_tcp_message){transfers[i].data, transfers[i].bytes, tag, -1, 0};
        if (queue->first < 0)
            queue->first = number;
        else
            links->messages[queue->last].next = number;
        queue->last = number;
    }
    return HD_OK;
}

/* -- Transferring ------------------------------------------------------------------------------ */
/* Each returns 1 when the socket may have more for us, 0 when it has not, or a status. */

static int transferred(struct hd_tcp_links *links, int rank, ssize_t n, struct hd_tcp_queue *queue)
{
    if (n == 0)
        return lost(links, rank, "it was closed");
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR
                   ? 0
                   : lost(links, rank, strerror(errno));
    queue->used += n;
    return 1;
}

/* Returns header and content of the first message, as far as they are not done. */
static struct msghdr rest_of(struct hd_tcp_queue *queue, const struct hd_tcp_message *message,
                             struct iovec parts[2])
{
    struct msghdr rest = {.msg_iov = parts};
    if (queue->used < HEADER)
        parts[rest.msg_iovlen++] =
            (struct iovec){(char *)&queue->header + queue->used, (size_t)(HEADER - queue->used)};
    const int64_t done = queue->used < HEADER ? 0 : queue->used - HEADER;
    if (message && message->bytes > done)
        parts[rest.msg_iovlen++] =
            (struct iovec){(char *)message->data + done, (size_t)(message->bytes - done)};
    return rest;
}

static void pop_if_done(struct hd_tcp_links *links, struct hd_tcp_queue *queue)
{
    struct hd_tcp_message *message = &links->messages[queue->first];
    if (queue->used < HEADER + message->bytes)
        return;
    message->done = true;
    queue->first = message->next;
    queue->used = 0;
}

static int send_some(struct hd_tcp_links *links, int rank)
{
    struct hd_tcp_queue *queue = &links->peers[rank].out;
    const struct hd_tcp_message *message = &links->messages[queue->first];
    struct iovec parts[2];
    if (queue->used == 0)
        queue->header = (struct hd_tcp_header){.bytes = message->bytes, .tag = message->tag};
    struct msghdr rest = rest_of(queue, message, parts);
    int more = transferred(
        links, rank, sendmsg(links->peers[rank].fd, &rest, MSG_NOSIGNAL | MSG_DONTWAIT), queue);
    pop_if_done(links, queue);
    return more;
}

/* The header says whether the message is the expected one. Its content stays in the kernel until
 * then. */
static int receive_header(struct hd_tcp_links *links, int rank)
{
    struct hd_tcp_queue *queue = &links->peers[rank].in;
    struct iovec parts[2];
    struct msghdr rest = rest_of(queue, NULL, parts);
    return transferred(links, rank, recvmsg(links->peers[rank].fd, &rest, MSG_DONTWAIT), queue);
}

static int receive_some(struct hd_tcp_links *links, int rank)
{
    struct hd_tcp_queue *queue = &links->peers[rank].in;
    const struct hd_tcp_message *message = &links->messages[queue->first];
    int more = queue->used < HEADER ? receive_header(links, rank) : 1;
    if (more != 1 || queue->used < HEADER)
        return more;
    if (queue->header.tag != message->tag || queue->header.bytes != message->bytes)
        return lost(links, rank, "it sent another message than this rank expected");
    if (message->bytes > 0) {
        struct iovec parts[2];
        struct msghdr rest = rest_of(queue, message, parts);
        more = transferred(links, rank, recvmsg(links->peers[rank].fd, &rest, MSG_DONTWAIT), queue);
    }
    pop_if_done(links, queue);
    return more;
}

static int progress(struct hd_links *base, bool *done)
{
    struct hd_tcp_links *links = of(base);
    for (int rank = 0; rank < links->ranks; rank++) {
        int more = 1;
        while (more == 1 && links->peers[rank].out.first >= 0)
            more = send_some(links, rank);
        if (more >= 0)
            more = 1;
        while (more == 1 && links->peers[rank].in.first >= 0)
            more = receive_some(links, rank);
        if (more < 0)
            return more;
    }
    for (int i = 0; i < links->n; i++)
        done[i] = links->messages[i].done;
    return HD_OK;
}

static void reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static bool probe(struct hd_links *base, int rank, int tag)
{
    struct hd_tcp_links *links = of(base);
    struct hd_tcp_queue *queue = &links->peers[rank].in;
    if (queue->first >= 0)
        return false;
    if (queue->used < HEADER)
        receive_header(links, rank);
    return queue->used == HEADER && queue->header.tag == tag;
}

static const char *error(struct hd_links *base)
{
    return of(base)->error;
}

/* The kernel delivers what was sent, so there is nobody to wait for. */
static void close_links(struct hd_links *base, bool orderly)
{
    (void)orderly;
    struct hd_tcp_links *links = of(base);
    for (int rank = 0; links->peers && rank < links->ranks; rank++)
        if (links->peers[rank].fd >= 0)
            close(links->peers[rank].fd);
    hd_free(links->peers);
    hd_free(links->messages);
    hd_free(links);
}

static const struct hd_links_ops ops = {.start = start,
                                        .progress = progress,
                                        .reset = reset,
                                        .probe = probe,
                                        .error = error,
                                        .close = close_links};

static struct hd_tcp_links *make_links(const struct hd_world *world)
{
    struct hd_tcp_links *links = hd_alloc(1, sizeof *links);
    struct hd_tcp_peer *peers = hd_alloc(world->world, sizeof *peers);
    if (!links || !peers) {
        hd_free(links);
        hd_free(peers);
        return NULL;
    }
    *links = (struct hd_tcp_links){
        .links.ops = &ops, .rank = world->rank, .ranks = world->world, .peers = peers};
    for (int rank = 0; rank < world->world; rank++)
        peers[rank] = (struct hd_tcp_peer){-1, {.first = -1}, {.first = -1}};
    return links;
}

int hd_tcp_open_links(const struct hd_world *world, struct hd_rendezvous *rendezvous,
                      struct hd_links **links_p)
{
    const int listen_fd = hd_rendezvous_take_links_listener(rendezvous);
    struct hd_tcp_links *links = make_links(world);
    int status = HD_ERR_NOMEM;
    if (links)
        status = hd_tcp_connect_ranks(links, world, rendezvous, listen_fd);
    close(listen_fd);
    if (links)
        status = hd_rendezvous_agree(rendezvous, status, links->error);
    if (status == HD_OK)
        *links_p = &links->links;
    else if (links)
        close_links(&links->links, false);
    return status;
}
