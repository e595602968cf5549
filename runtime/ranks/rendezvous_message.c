/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between rank 0 and the other ranks, and messages of any length in parts that fit into
 * them. A gather uses messages: each rank sends its part to rank 0, which sends all parts on to
 * all. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <stdio.h>
#include <string.h>

enum { PART = HD_WIRE_PAYLOAD - 1, SEND_MS = 1000 };

int hd_rendezvous_report(const struct hd_rendezvous *rendezvous, int status, const char *text)
{
    /* `runner launch` names a rank that died and knows more of its end. */
    if (rendezvous->world.supervised &&
        (rendezvous->world.local_rank != 0 || status == HD_ERR_PEER))
        return status;
    return hd_fail(status, "%s", text);
}

/* -- Frames ------------------------------------------------------------------------------------ */

int hd_rendezvous_send_all(struct hd_rendezvous *rendezvous, enum hd_wire_kind kind, int number,
                           const void *payload, size_t bytes)
{
    int lost = 0;
    pthread_mutex_lock(&rendezvous->lock);
    for (int r = 1; r < rendezvous->world.world; r++)
        if (rendezvous->peers[r].fd >= 0 &&
            !hd_rendezvous_send(&rendezvous->peers[r], kind, number, payload, bytes, SEND_MS) &&
            lost == 0)
            lost = r;
    pthread_mutex_unlock(&rendezvous->lock);
    return lost;
}

int hd_rendezvous_receive_from_root(struct hd_rendezvous *rendezvous, int64_t deadline_ns)
{
    struct hd_frame_reader *reader = &rendezvous->peers[0].reader;
    char text[HD_RENDEZVOUS_TEXT];
    switch (hd_frame_reader_wait(reader, rendezvous->peers[0].fd, deadline_ns)) {
    case HD_FRAME_COMPLETE:
        break;
    case HD_FRAME_INCOMPLETE:
        return hd_fail(HD_ERR_SYSTEM, "rank 0 did not answer in time");
    case HD_FRAME_CLOSED:
        snprintf(text, sizeof text,
                 "rank 0 closed the connection of rank %d: rank 0 failed, or it has this rank "
                 "already",
                 rendezvous->world.rank);
        return hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
    case HD_FRAME_INVALID:
        return hd_fail(HD_ERR_PEER,
                       "the connection to rank 0 at %s port %d carried bytes that rank 0 did not "
                       "send",
                       rendezvous->world.master_addr, rendezvous->world.master_port);
    }
    struct hd_frame *frame = &reader->frame;
    int status = frame->kind == HD_WIRE_REFUSE && frame->number < 0 ? frame->number : HD_ERR_PEER;
    if (frame->kind == HD_WIRE_REFUSE || frame->kind == HD_WIRE_LOST)
        return hd_rendezvous_report(rendezvous, status, hd_frame_get_text(frame));
    return HD_OK;
}

/* -- Messages ---------------------------------------------------------------------------------- */

int hd_rendezvous_send_message(struct hd_rendezvous *rendezvous, int rank, const void *data,
                               int64_t bytes)
{
    const int fd_of = rendezvous->world.rank == 0 ? rank : 0;
    bool sent = bytes > 0 && bytes <= HD_RENDEZVOUS_MAX_MESSAGE;
    pthread_mutex_lock(&rendezvous->lock); /* held throughout: parts of messages do not mix */
    for (int64_t at = 0, part; sent && at < bytes; at += part) {
        part = bytes - at < PART ? bytes - at : PART;
        sent =
            rendezvous->peers[fd_of].fd >= 0 &&
            hd_rendezvous_send(&rendezvous->peers[fd_of], HD_WIRE_MESSAGE, (int)(bytes - at - part),
                               (const char *)data + at, (size_t)part, SEND_MS);
    }
    pthread_mutex_unlock(&rendezvous->lock);
    return sent ? HD_OK : HD_ERR_PEER;
}

bool hd_rendezvous_receive_part(struct hd_rendezvous *rendezvous, int rank)
{
    struct hd_peer *peer = &rendezvous->peers[rank];
    const struct hd_frame *frame = &peer->reader.frame;
    const int64_t bytes = peer->message_bytes + frame->bytes;
    if (frame->bytes == 0 || frame->number < 0 ||
        bytes + frame->number > HD_RENDEZVOUS_MAX_MESSAGE ||
        hd_grow(&peer->message, &peer->message_capacity, bytes, 1) != HD_OK)
        return false;
    memcpy((char *)peer->message + peer->message_bytes, frame->payload, frame->bytes);
    peer->message_bytes = bytes;
    if (frame->number > 0)
        return true;
    if (rendezvous->options.on_message)
        rendezvous->options.on_message(rendezvous->options.arg, rank, peer->message, bytes);
    peer->message_bytes = 0;
    return true;
}

/* -- Gathering --------------------------------------------------------------------------------- */

/* All parts, one behind the other, each preceded by its length. */
struct parts {
    char *data;
    int64_t bytes, capacity;
};

static int append(struct parts *parts, const void *data, int64_t bytes)
{
    const int32_t length = (int32_t)bytes;
    HD_TRY(hd_grow((void **)&parts->data, &parts->capacity,
                   parts->bytes + (int64_t)sizeof length + bytes, 1));
    memcpy(parts->data + parts->bytes, &length, sizeof length);
    memcpy(parts->data + parts->bytes + sizeof length, data, (size_t)bytes);
    parts->bytes += (int64_t)sizeof length + bytes;
    return HD_OK;
}

static int hand_on(const struct hd_rendezvous *rendezvous, const char *data, int64_t bytes,
                   int (*receive)(void *, int, const void *, int64_t), void *arg)
{
    int64_t at = 0;
    for (int rank = 0; rank < rendezvous->world.world; rank++) {
        int32_t length = -1;
        if (at + (int64_t)sizeof length <= bytes)
            memcpy(&length, data + at, sizeof length);
        at += (int64_t)sizeof length;
        if (length < 0 || at + length > bytes)
            return hd_fail(HD_ERR_PEER, "rank 0 sent %lld bytes of %d ranks, which do not fit",
                           (long long)bytes, rendezvous->world.world);
        HD_TRY(receive(arg, rank, data + at, length));
        at += length;
    }
    return HD_OK;
}

/* Adds the frame in the reader of peers[at] to its message. Returns 1 when that is whole, 0 when
 * more is to come, or HD_ERR_PEER. */
static int add_frame(struct hd_rendezvous *rendezvous, int at, int64_t *bytes)
{
    const struct hd_frame *frame = &rendezvous->peers[at].reader.frame;
    *bytes += frame->bytes;
    if (frame->kind != HD_WIRE_MESSAGE || !hd_rendezvous_receive_part(rendezvous, at))
        return HD_ERR_PEER;
    return frame->number == 0;
}

static int receive_message(struct hd_rendezvous *rendezvous, int rank, int64_t deadline_ns,
                           int64_t *bytes_p)
{
    struct hd_peer *peer = &rendezvous->peers[rank];
    int whole = 0;
    *bytes_p = 0;
    while (whole == 0) {
        if (hd_frame_reader_wait(&peer->reader, peer->fd, deadline_ns) != HD_FRAME_COMPLETE)
            return HD_ERR_PEER;
        whole = add_frame(rendezvous, rank, bytes_p);
    }
    return whole > 0 ? HD_OK : whole;
}

/* Returns HD_OK or HD_ERR_NOMEM, with the rank that was lost, or 0, in *lost_p. */
static int collect(struct hd_rendezvous *rendezvous, struct parts *parts, int *lost_p)
{
    const int64_t deadline_ns = hd_clock_get_ns() + rendezvous->timeout_ns;
    for (int r = 1; r < rendezvous->world.world && *lost_p == 0; r++) {
        int64_t bytes;
        if (receive_message(rendezvous, r, deadline_ns, &bytes) != HD_OK)
            *lost_p = r;
        else
            HD_TRY(append(parts, rendezvous->peers[r].message, bytes));
    }
    for (int r = 1; r < rendezvous->world.world && *lost_p == 0; r++)
        if (hd_rendezvous_send_message(rendezvous, r, parts->data, parts->bytes) != HD_OK)
            *lost_p = r;
    return HD_OK;
}

static int refuse(struct hd_rendezvous *rendezvous, int lost)
{
    char text[HD_RENDEZVOUS_TEXT];
    snprintf(text, sizeof text, "rank %d disconnected during the start", lost);
    hd_rendezvous_send_all(rendezvous, HD_WIRE_REFUSE, HD_ERR_PEER, text, strlen(text));
    return hd_rendezvous_report(rendezvous, HD_ERR_PEER, text);
}

static int gather_at_root(struct hd_rendezvous *rendezvous, const void *data, int64_t bytes,
                          int (*receive)(void *, int, const void *, int64_t), void *arg)
{
    struct parts parts = {0};
    int lost = 0;
    int status = append(&parts, data, bytes);
    if (status == HD_OK)
        status = collect(rendezvous, &parts, &lost);
    if (lost > 0)
        status = refuse(rendezvous, lost);
    if (status == HD_OK)
        status = hand_on(rendezvous, parts.data, parts.bytes, receive, arg);
    hd_free(parts.data);
    return status;
}

int hd_rendezvous_gather_all(struct hd_rendezvous *rendezvous, const void *data, int64_t bytes,
                             int (*receive)(void *arg, int rank, const void *data, int64_t bytes),
                             void *arg)
{
    if (rendezvous->world.rank == 0)
        return gather_at_root(rendezvous, data, bytes, receive, arg);
    const int64_t deadline_ns = hd_clock_get_ns() + rendezvous->timeout_ns;
    int64_t all = 0;
    hd_rendezvous_send_message(rendezvous, 0, data, bytes); /* if it fails, rank 0 says so */
    for (int whole = 0; whole == 0;) {
        HD_TRY(hd_rendezvous_receive_from_root(rendezvous, deadline_ns));
        whole = add_frame(rendezvous, 0, &all);
        if (whole < 0)
            return hd_fail(whole, "rank 0 sent no addresses of the ranks");
    }
    return hand_on(rendezvous, rendezvous->peers[0].message, all, receive, arg);
}
