/* SPDX-License-Identifier: Apache-2.0 */
/* A server of one page for browsers on this host, and of a stream of events that the page shows as
 * they come. It listens at 127.0.0.1 only, answers only requests that are addressed to this host by
 * its own names, so that a page from elsewhere which a browser shows cannot read it, and takes no
 * input. A browser that is slow misses events. It has no thread: it works in hd_server_serve.
 * Called by one thread. */
#pragma once

#include <stddef.h>

struct hd_server;

/* Listens at `port`; 0: a free one; and logs the address. `page`, HTML without anything from
 * elsewhere, must outlive the server. Returns HD_OK, HD_ERR_INPUT when the port is in use, or
 * another error (logged). hd_server_close accepts NULL. */
int hd_server_open(int port, const char *page, struct hd_server **server_p);
void hd_server_close(struct hd_server *server);

/* Makes a JSON object the newest event of /events; copies it. Returns HD_OK or HD_ERR_NOMEM
 * (logged). */
int hd_server_publish(struct hd_server *server, const char *json);

/* Makes png[bytes] what /picture.png is; copies it. Returns HD_OK or HD_ERR_NOMEM (logged). */
int hd_server_set_picture(struct hd_server *server, const char *png, size_t bytes);

/* Answers requests for `timeout_ms`, or until a signal comes. */
void hd_server_serve(struct hd_server *server, int timeout_ms);
