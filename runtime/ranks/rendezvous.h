/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous and mutual watch of the ranks of a run (env:// with MASTER_ADDR and MASTER_PORT).
 *
 * Every rank connects to rank 0 by TCP and says who it is; rank 0 checks that the ranks fit
 * together and answers all of them with one "go" or one refusal. The connections stay open for the
 * whole run: the end of one without a goodbye means that the peer died.
 *
 * Order of calls: create, broadcast and agree (any number, the same on all ranks), watch, destroy.
 * `fail` may be called at any time after create and from any thread; the rest from one thread. A
 * world of one rank needs no rendezvous: create gives NULL, which every function accepts. */
#ifndef HD_RUNTIME_RANKS_RENDEZVOUS_H
#define HD_RUNTIME_RANKS_RENDEZVOUS_H

#include "runtime/ranks/world.h"

#include <stdint.h>

enum {
    HD_RENDEZVOUS_TEXT = 512,      /* most bytes of a failure's text, with its zero */
    HD_RENDEZVOUS_MAX_BYTES = 1024 /* most bytes of one broadcast */
};

struct hd_rendezvous;

struct hd_rendezvous_options {
    const struct hd_world *world;
    uint64_t config_hash;            /* must be equal on all ranks */
    const char *fingerprint;         /* text of the arithmetic fingerprint, must be equal too */
    bool allow_fingerprint_mismatch; /* unless this is set */
    bool one_host;                   /* all ranks must be on one host (shared memory) */
    int links_port;     /* where this rank listens for hd_tcp_open_links; 0: it does not */
    int64_t timeout_ns; /* of the rendezvous and of a broadcast; 0: HD_RENDEZVOUS_TIMEOUT_S
                           from the environment, else 60 s */
};

/* Meets the other ranks; returns when all are there and fit together.
 * Errors (logged once a host when a launcher of ours supervises, else by every rank):
 * HD_ERR_INPUT when ranks do not fit together (the text names them), HD_ERR_SYSTEM for a taken port
 * or ranks that did not join in time, HD_ERR_PEER when a rank disconnected during the rendezvous.
 */
int hd_rendezvous_create(const struct hd_rendezvous_options *options,
                         struct hd_rendezvous **rendezvous_p);

/* data[bytes] of rank 0 becomes everybody's; bytes must be equal on all ranks.
 * Errors: HD_ERR_PEER, HD_ERR_SYSTEM (logged). */
int hd_rendezvous_broadcast(struct hd_rendezvous *rendezvous, void *data, int64_t bytes);

/* Rank 0: where rank `rank` is, as rank 0 sees it (its own: ""), and its links_port. */
void hd_rendezvous_get_address(const struct hd_rendezvous *rendezvous, int rank,
                               char address_p[HD_ADDR_BYTES], int32_t *port_p);

/* How long a rank waits for the others, of hd_rendezvous_options. */
int64_t hd_rendezvous_get_timeout_ns(const struct hd_rendezvous *rendezvous);

/* Whether all ranks run under one kernel, told to all. Errors: those of hd_rendezvous_broadcast. */
int hd_rendezvous_check_one_host(struct hd_rendezvous *rendezvous, bool *one_host_p);

/* Whether all ranks succeeded in something: `status` HD_OK, or this rank's error with its `text`
 * (not logged before). Returns HD_OK when all did; else the error of the lowest failed rank, on all
 * ranks, logged as for create. */
int hd_rendezvous_agree(struct hd_rendezvous *rendezvous, int status, const char *text);

struct hd_rendezvous_watch_options {
    /* Called at most once, when a peer is lost or fails: `rank` is the first that was lost, `text`
     * (borrowed for the call) says it in one line: "rank 1 (pid 17 on node3) died" or "rank 1
     * failed: <its text>". `status` is what rank 0 heard from a rank that failed, HD_ERR_PEER for
     * one that died and on other ranks. */
    void (*on_lost)(void *arg, int rank, int status, const char *text);
    /* Puts where this rank is into a line, for rank 0 to show; NULL: nothing. */
    void (*describe)(void *arg, char *text, int64_t bytes);
    void *arg;
    double heartbeat_timeout_s; /* a peer that says nothing for so long is lost; 0: never */
};

/* Starts the thread that watches the peers and says twice a second that this rank is there; the
 * functions are called from it. */
int hd_rendezvous_watch(struct hd_rendezvous *rendezvous,
                        const struct hd_rendezvous_watch_options *watch);

/* Rank 0: a line for each other rank, with what it last said and when. Thread safe. */
void hd_rendezvous_describe_peers(struct hd_rendezvous *rendezvous, char *text, int64_t bytes);

/* Tells the others that this rank leaves because of `status` and `text`, before it goes down.
 * Thread safe, takes at most a second; only the first call counts. on_lost is not called here
 * afterwards.
 */
void hd_rendezvous_fail(struct hd_rendezvous *rendezvous, int status, const char *text);

/* Says goodbye (unless this rank failed), stops the watch, closes the connections. */
void hd_rendezvous_destroy(struct hd_rendezvous *rendezvous);

/* A socket that listens at address:port, close-on-exec; port 0 picks a free one. With several hosts
 * (one_host false) it listens on all interfaces. Owned by the caller.
 * Errors: HD_ERR_SYSTEM (logged, naming the port), HD_ERR_INPUT for an unknown address. */
int hd_rendezvous_listen(const char *address, int port, bool one_host, int *fd_p, int *port_p);

/* Connects to address:port, tried once, for at most timeout_ms; the socket, which does not block
 * and is the caller's, or -errno. */
int hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms);

#endif
