/* SPDX-License-Identifier: Apache-2.0 */
/* Frames between ranks over TCP, for rendezvous.c. Whatever arrives is bounded and checked: anybody
 * on the network may connect. */
#ifndef HD_RUNTIME_RANKS_WIRE_H
#define HD_RUNTIME_RANKS_WIRE_H

#include "runtime/machine/topology.h"
#include "runtime/ranks/fingerprint.h"
#include "runtime/ranks/rendezvous.h"

enum {
    HD_WIRE_MAGIC = 0x4c444548, /* "HEDL"; another byte order does not match */
    HD_WIRE_VERSION = 2,
    HD_WIRE_HEADER = 16,   /* bytes of a frame before its payload */
    HD_WIRE_PAYLOAD = 1536 /* most bytes of a payload */
};

enum hd_wire_kind {
    HD_WIRE_HELLO = 1, /* rank r to 0: struct hd_hello */
    HD_WIRE_GO,        /* 0 to all: start; rank r to 0: agreed. No payload */
    HD_WIRE_REFUSE,    /* 0 to all: number = status, payload = text */
    HD_WIRE_DATA,      /* 0 to all: a broadcast */
    HD_WIRE_FAIL,      /* rank r to 0: number = status, payload = text */
    HD_WIRE_LOST,      /* 0 to all: number = rank, payload = text */
    HD_WIRE_BYE,       /* an orderly end */
    HD_WIRE_HEARTBEAT, /* rank r to 0, 0 to all: still there; payload = text */
    HD_WIRE_KINDS
};

struct hd_frame {
    uint32_t magic;
    uint16_t version, kind;
    int32_t number;
    uint32_t bytes; /* of the payload in use */
    char payload[HD_WIRE_PAYLOAD];
};

struct hd_hello {
    int32_t rank, world, pid, links_port;
    uint64_t config_hash;
    char host[HD_HOST_BYTES], boot_id[HD_BOOT_BYTES];
    char fingerprint[HD_FINGERPRINT_BYTES];
};

/* A frame under way; zeroed to begin with. */
struct hd_frame_reader {
    struct hd_frame frame;
    size_t used;
};

enum hd_frame_state {
    HD_FRAME_INCOMPLETE, /* not complete yet */
    HD_FRAME_COMPLETE,   /* a valid frame is in `frame`; the next read starts another */
    HD_FRAME_CLOSED,     /* the peer is gone */
    HD_FRAME_INVALID     /* these bytes are none of ours */
};

/* Reads what is there, without blocking, at most to the end of one frame. */
enum hd_frame_state hd_frame_reader_read(struct hd_frame_reader *reader, int fd);

/* The same, waiting until deadline_ns (of hd_clock_get_ns); HD_FRAME_INCOMPLETE: it passed. */
enum hd_frame_state hd_frame_reader_wait(struct hd_frame_reader *reader, int fd,
                                         int64_t deadline_ns);

/* Sends a frame. Returns false when the peer is gone or deadline_ns passed. */
bool hd_wire_send(int fd, enum hd_wire_kind kind, int number, const void *payload, size_t bytes,
                  int64_t deadline_ns);

/* The payload as printable text; borrowed from the frame. */
const char *hd_frame_get_text(struct hd_frame *frame);

/* Whether the frame is a hello whose every field is sane; then stores it. */
bool hd_frame_read_hello(const struct hd_frame *frame, struct hd_hello *hello_p);

#endif
