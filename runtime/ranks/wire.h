/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that ranks send each other over TCP for the rendezvous, and launchers. The reader bounds
 * and checks all that arrives, because anybody on the network may connect. Each frame ends in a
 * tag, a hash by the key of its connection and direction over its number there and all its bytes: a
 * frame that was made up, changed, replayed, reordered, left out or sent back is no valid frame.
 * Several threads may send frames or read them at a time, if on different sockets and with readers
 * of their own. */
#pragma once

#include "runtime/machine/topology.h"
#include "runtime/ranks/fingerprint.h"
#include "runtime/ranks/world.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HD_WIRE_MAGIC = 0x4c444548, /* "HEDL"; another byte order does not match */
    HD_WIRE_VERSION = 3,
    HD_WIRE_HEADER = 16,    /* bytes of a frame before its payload */
    HD_WIRE_PAYLOAD = 1536, /* most bytes of a payload */
    HD_WIRE_TAG = 32,       /* bytes of the tag behind the payload */
    HD_WIRE_KEY = 32
};

enum hd_wire_kind {
    HD_WIRE_CHALLENGE = 1, /* 0 to whoever connects: see handshake.h, as for the next two */
    HD_WIRE_HELLO,         /* rank r to 0: a nonce, then struct hd_hello */
    HD_WIRE_WELCOME,       /* 0 to rank r: the hash of rank 0's config */
    HD_WIRE_GO,            /* 0 to all: start; rank r to 0: agreed; without payload */
    HD_WIRE_REFUSE,        /* 0 to all: number = status, payload = text */
    HD_WIRE_DATA,          /* 0 to all: a broadcast */
    HD_WIRE_FAIL,          /* rank r to 0: number = status, payload = text */
    HD_WIRE_LOST,          /* 0 to all: number = rank, -1: unknown; rank r to 0, of a third rank:
                              number = status; payload = text */
    HD_WIRE_BYE,           /* an orderly end */
    HD_WIRE_HEARTBEAT,     /* rank r to 0, 0 to all: alive; payload = text */
    HD_WIRE_MESSAGE,       /* rank r to 0, 0 to r: a part; number = bytes of the message after it */
    HD_WIRE_KINDS
};

struct hd_frame {
    uint32_t magic;
    uint16_t version, kind;
    int32_t number;
    uint32_t bytes;                              /* of the payload in use */
    char payload[HD_WIRE_PAYLOAD + HD_WIRE_TAG]; /* the tag follows the bytes in use */
};

/* A key makes the tags of one direction of a connection. */
struct hd_wire_key {
    uint8_t key[HD_WIRE_KEY];
    uint64_t count; /* frames so far */
};

struct hd_hello {
    int32_t rank, world, pid, reserved; /* reserved: 0 */
    uint64_t config_hash;
    char host[HD_HOST_BYTES], boot_id[HD_BOOT_BYTES];
    char fingerprint[HD_FINGERPRINT_BYTES];
};

/* The bytes of a frame that have arrived. It starts zeroed. */
struct hd_frame_reader {
    struct hd_frame frame;
    size_t used;            /* bytes of `frame` that have arrived */
    bool keyed;             /* else tags are not looked at: the caller does that */
    struct hd_wire_key key; /* of the frames that are read */
};

enum hd_frame_state {
    HD_FRAME_INCOMPLETE, /* more bytes are to come */
    HD_FRAME_COMPLETE,   /* a valid frame is in `frame`; the next read starts another */
    HD_FRAME_CLOSED,     /* the peer is gone */
    HD_FRAME_INVALID     /* the peer does not speak this protocol, or not by this key */
};

/* Reads the bytes that have arrived, without blocking, up to the end of one frame. */
enum hd_frame_state hd_frame_reader_read(struct hd_frame_reader *reader, int fd);

/* Reads one frame and waits for its bytes until deadline_ns (of hd_clock_get_ns). Returns
 * HD_FRAME_INCOMPLETE when the deadline passed. */
enum hd_frame_state hd_frame_reader_wait(struct hd_frame_reader *reader, int fd,
                                         int64_t deadline_ns);

/* Sends a frame with payload[bytes]. Returns false when the peer is gone or deadline_ns passed. One
 * thread at a time uses a key. */
bool hd_wire_send(int fd, struct hd_wire_key *key, enum hd_wire_kind kind, int number,
                  const void *payload, size_t bytes, int64_t deadline_ns);

/* Returns whether the frame's tag is that of the key's next frame, which is then counted. */
bool hd_frame_check_tag(const struct hd_frame *frame, struct hd_wire_key *key);

/* Returns the payload as printable text, borrowed from the frame: control characters have become
 * spaces in it. */
const char *hd_frame_get_text(struct hd_frame *frame);

/* Stores the hello in body[bytes]. Returns false when there is none, or one with a field out of
 * range. */
bool hd_hello_read(const void *body, size_t bytes, struct hd_hello *hello_p);
