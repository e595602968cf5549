/* SPDX-License-Identifier: Apache-2.0 */
/* A connection between a launcher and the coordinator of nodes that come and go. Both ends say
 * twice a second that they are alive. One thread uses a connection. */
#ifndef HD_RUNTIME_LAUNCH_CONNECTION_H
#define HD_RUNTIME_LAUNCH_CONNECTION_H

#include "runtime/ranks/wire.h"

#include <stdbool.h>
#include <stdint.h>

enum { HD_CONNECTION_BEAT_MS = 500 };

struct hd_connection {
    int fd; /* -1: none, or closed */
    struct hd_frame_reader reader;
    struct hd_wire_key out;
    int64_t heard_ns;  /* when its newest frame came */
    int64_t beaten_ns; /* when this end last looked after its heartbeat */
};

/* Begins to count the time that the other end is silent. */
void hd_connection_start(struct hd_connection *connection);

/* Sends a frame, and closes the connection when that fails. Returns whether it was sent. */
bool hd_connection_send(struct hd_connection *connection, enum hd_wire_kind kind, int number,
                        const void *payload, size_t bytes);

/* Reads the next frame that is no heartbeat, without waiting, into connection->reader. Returns
 * false when there is none; the connection is closed then if the other end is gone. */
bool hd_connection_read(struct hd_connection *connection);

/* Sends a heartbeat if one is due. Returns false when the other end has been silent for timeout_ns
 * (0: it may be); a process that was itself stopped does not count that time. */
bool hd_connection_beat(struct hd_connection *connection, int64_t timeout_ns);

/* Closes the connection if it is open. */
void hd_connection_close(struct hd_connection *connection);

#endif
