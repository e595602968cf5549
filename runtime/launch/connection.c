/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/launch/connection.h"

#include "runtime/base/clock.h"

#include <unistd.h>

enum { SEND_MS = 1000 };

static const int64_t BEAT_NS = HD_CONNECTION_BEAT_MS * INT64_C(1000000);

void hd_connection_start(struct hd_connection *connection)
{
    connection->heard_ns = connection->beaten_ns = hd_clock_get_ns();
}

void hd_connection_close(struct hd_connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
}

bool hd_connection_send(struct hd_connection *connection, enum hd_wire_kind kind, int number,
                        const void *payload, size_t bytes)
{
    const int64_t deadline_ns = hd_clock_get_ns() + SEND_MS * INT64_C(1000000);
    if (connection->fd >= 0 &&
        hd_wire_send(connection->fd, &connection->out, kind, number, payload, bytes, deadline_ns))
        return true;
    hd_connection_close(connection);
    return false;
}

bool hd_connection_read(struct hd_connection *connection)
{
    while (connection->fd >= 0) {
        switch (hd_frame_reader_read(&connection->reader, connection->fd)) {
        case HD_FRAME_INCOMPLETE:
            return false;
        case HD_FRAME_COMPLETE:
            connection->heard_ns = hd_clock_get_ns();
            if (connection->reader.frame.kind != HD_WIRE_HEARTBEAT)
                return true;
            break;
        case HD_FRAME_CLOSED:
        case HD_FRAME_INVALID:
            hd_connection_close(connection);
        }
    }
    return false;
}

bool hd_connection_beat(struct hd_connection *connection, int64_t timeout_ns)
{
    const int64_t now_ns = hd_clock_get_ns(), late_ns = now_ns - connection->beaten_ns;
    if (late_ns >= BEAT_NS) {
        connection->beaten_ns = now_ns;
        hd_connection_send(connection, HD_WIRE_HEARTBEAT, 0, NULL, 0);
    }
    if (late_ns > 3 * BEAT_NS)
        connection->heard_ns = now_ns;
    return timeout_ns == 0 || now_ns - connection->heard_ns < timeout_ns;
}
