/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/pending.h"

#include "runtime/base/log.h"
#include "runtime/ranks/peer.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAP_MS = 20 };

void hd_pending_remove(struct hd_pending_list *list, int i)
{
    list->n--;
    memmove(&list->at[i], &list->at[i + 1], (size_t)(list->n - i) * sizeof list->at[0]);
}

static void close_one(struct hd_pending_list *list, int i)
{
    close(list->at[i].fd);
    hd_pending_remove(list, i);
}

void hd_pending_drop(struct hd_pending_list *list, int i, const char *why)
{
    hd_peer_report_unknown(list->at[i].fd, why, &list->n_unknown);
    close_one(list, i);
}

static void add(struct hd_pending_list *list, int fd)
{
    if (list->n == HD_PENDING_MAX)
        hd_pending_drop(list, 0, "said nothing");
    struct hd_pending *pending = &list->at[list->n++];
    memset(pending, 0, sizeof *pending);
    pending->fd = fd;
    hd_rendezvous_set_keepalive(fd, HD_LINK_TIMEOUT_S);
    if (!hd_handshake_challenge(fd, list->key, pending->nonce))
        close_one(list, list->n - 1);
}

/* Without a free descriptor the listener would stay ready, and this thread would spin. */
static void free_descriptor(struct hd_pending_list *list)
{
    if (list->n > 0)
        hd_pending_drop(list, 0, "said nothing, and this process has no more descriptors");
    else
        poll(NULL, 0, NAP_MS);
}

void hd_pending_accept(struct hd_pending_list *list)
{
    int fd = accept4(list->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        free_descriptor(list);
    if (fd < 0)
        return;
    if (!hd_peer_is_foreign(fd)) {
        add(list, fd);
        return;
    }
    hd_peer_report_unknown(fd, "belongs to another user", &list->n_unknown);
    close(fd);
}

static const void *check_hello(struct hd_pending_list *list, int i, size_t *bytes_p)
{
    struct hd_pending *pending = &list->at[i];
    const void *body =
        hd_handshake_check(&pending->reader, list->key, pending->nonce, bytes_p, &pending->out);
    if (!body)
        hd_pending_drop(list, i, "does not know the secret of this run");
    return body;
}

const void *hd_pending_read(struct hd_pending_list *list, int i, size_t *bytes_p)
{
    struct hd_pending *pending = &list->at[i];
    switch (hd_frame_reader_read(&pending->reader, pending->fd)) {
    case HD_FRAME_INCOMPLETE:
        break;
    case HD_FRAME_COMPLETE:
        return pending->greeted ? NULL : check_hello(list, i, bytes_p);
    case HD_FRAME_CLOSED:
        if (!pending->greeted && pending->reader.used > 0)
            hd_pending_drop(list, i, "left in the middle of a hello");
        else
            close_one(list, i); /* a probe, or a rank that tries again */
        break;
    case HD_FRAME_INVALID:
        hd_pending_drop(list, i, "does not speak the protocol of this version");
        break;
    }
    return NULL;
}

void hd_pending_close(struct hd_pending_list *list)
{
    while (list->n > 0)
        close_one(list, list->n - 1);
}
