/* SPDX-License-Identifier: Apache-2.0 */
/* A client of c10d's TCPStore, the key-value store of PyTorch's torchrun: sets a key and gets one
 * that another process sets. It speaks with both kinds of server: since PyTorch 2.1 a client
 * identifies itself by a VALIDATE query, and the numbers of all queries are higher by one.
 *
 * The store knows no secret: whoever reaches it may read and change all keys, so nothing that it
 * says is believed before the ranks have proved who they are. The bytes it sends are bounded. One
 * thread at a time uses a client. */
#pragma once

#include <stdint.h>

enum { HD_TCP_STORE_TEXT = 512 /* most bytes of a key or value, with its zero */ };

struct hd_tcp_store {
    int fd;       /* the connection; non-blocking */
    int shift;    /* added to the numbers that queries had before PyTorch 2.1 */
    char at[320]; /* "HOST port N", for messages */
};

/* Connects to the server at address:port, again and again until deadline_ns (of hd_clock_get_ns),
 * and finds out which kind it is. Returns HD_OK or HD_ERR_SYSTEM (logged). */
int hd_tcp_store_open(const char *address, int port, int64_t deadline_ns,
                      struct hd_tcp_store *store_p);

/* Sets key to value, and returns when the server has it: HD_OK or HD_ERR_SYSTEM (logged). */
int hd_tcp_store_set(struct hd_tcp_store *store, const char *key, const char *value,
                     int64_t deadline_ns);

/* Waits until key is set, at most until deadline_ns, and stores its value. Returns HD_OK, or
 * HD_ERR_SYSTEM (logged) when it is not set in time, is longer than value_p or has bytes that are
 * not printable, or when the server is gone. */
int hd_tcp_store_get(struct hd_tcp_store *store, const char *key, char value_p[HD_TCP_STORE_TEXT],
                     int64_t deadline_ns);

/* Ends the connection; the keys stay. */
void hd_tcp_store_close(struct hd_tcp_store *store);
