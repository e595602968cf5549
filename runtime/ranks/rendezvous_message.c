/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of any length between rank 0 and another rank, in parts that fit into frames. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous_internal.h"

#include <string.h>

enum { PART = HD_WIRE_PAYLOAD - 1, SEND_MS = 1000 };

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
