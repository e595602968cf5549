/* SPDX-License-Identifier: Apache-2.0 */
/* Links over connected stream sockets, one for each pair of ranks. The example of
 * docs/howto/transport.md. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tests/howto/howto.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGES = 256 };

/* Goes before the content, so that a message without content is a message too. */
struct frame {
    int64_t tag, bytes;
};

struct message {
    struct hd_comm_transfer transfer;
    struct frame frame;
    int64_t moved; /* bytes of the frame and the content that have been sent or received */
};

struct socket_links {
    struct hd_links links; /* first: the ops get its address */
    int ranks;
    int fds[HD_SOCKET_RANKS];
    struct message messages[MESSAGES];
    int n;
    int lost; /* rank to which a connection broke; -1: none */
    char error[HD_LINKS_TEXT];
};

static struct socket_links *of(struct hd_links *links)
{
    return (struct socket_links *)links;
}

static int start(struct hd_links *base, int tag, const struct hd_comm_transfer *transfers, int n)
{
    struct socket_links *links = of(base);
    if (links->n + n > MESSAGES) {
        snprintf(links->error, sizeof links->error, "more than %d messages at once", MESSAGES);
        return HD_ERR_NOMEM;
    }
    for (int i = 0; i < n; i++)
        links->messages[links->n++] = (struct message){transfers[i], {tag, transfers[i].bytes}, 0};
    return HD_OK;
}

static bool is_done(const struct message *message)
{
    return message->moved == (int64_t)sizeof(struct frame) + message->transfer.bytes;
}

/* Sends or receives as much of a message as the socket takes or has, without waiting. */
static int fail(struct socket_links *links, int rank, const char *why)
{
    links->lost = rank;
    snprintf(links->error, sizeof links->error, "%s", why);
    return HD_ERR_PEER;
}

static int move(struct socket_links *links, struct message *message)
{
    const struct hd_comm_transfer *transfer = &message->transfer;
    const int fd = links->fds[transfer->rank];
    const struct frame expected = {message->frame.tag, transfer->bytes};
    while (!is_done(message)) {
        const int64_t header = (int64_t)sizeof(struct frame), at = message->moved;
        char *data =
            at < header ? (char *)&message->frame + at : (char *)transfer->data + (at - header);
        const size_t rest = (size_t)((at < header ? header : header + transfer->bytes) - at);
        const ssize_t n = transfer->out ? send(fd, data, rest, MSG_DONTWAIT | MSG_NOSIGNAL)
                                        : recv(fd, data, rest, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return HD_OK;
        if (n <= 0)
            return fail(links, transfer->rank, n == 0 ? "it was closed" : strerror(errno));
        message->moved += n;
        if (message->moved == header && message->frame.bytes != expected.bytes)
            return fail(links, transfer->rank, "another message came");
    }
    return HD_OK;
}

static int progress(struct hd_links *base, bool *done)
{
    struct socket_links *links = of(base);
    bool busy[HD_SOCKET_RANKS][2] = {{false}}; /* by an earlier message in this direction */
    for (int i = 0; i < links->n; i++) {
        struct message *message = &links->messages[i];
        bool *before = &busy[message->transfer.rank][message->transfer.out];
        if (!*before && !is_done(message))
            HD_TRY(move(links, message));
        done[i] = is_done(message);
        *before = *before || !done[i];
    }
    return HD_OK;
}

static void reset(struct hd_links *base)
{
    of(base)->n = 0;
}

static const char *error(struct hd_links *base, int *rank_p)
{
    *rank_p = of(base)->lost;
    return of(base)->error;
}

static void close_links(struct hd_links *base, bool orderly)
{
    (void)orderly; /* the kernel delivers what was sent */
    for (int r = 0; r < of(base)->ranks; r++)
        if (of(base)->fds[r] >= 0)
            close(of(base)->fds[r]);
    hd_free(base);
}

static const struct hd_links_ops ops = {
    .start = start, .progress = progress, .reset = reset, .error = error, .close = close_links};

int hd_socket_links_open(int rank, int ranks, const int *fds, struct hd_links **links_p)
{
    struct socket_links *links = hd_alloc(1, sizeof *links);
    if (!links)
        return HD_ERR_NOMEM;
    links->links.ops = &ops;
    links->ranks = ranks;
    links->lost = -1;
    for (int r = 0; r < ranks; r++)
        links->fds[r] = r == rank ? -1 : fds[r];
    *links_p = &links->links;
    return HD_OK;
}
