/* SPDX-License-Identifier: Apache-2.0 */
/* Rendezvous of the ranks of a run (env:// with MASTER_ADDR and MASTER_PORT), and their watch over
 * each other.
 *
 * Every rank connects to rank 0 by TCP, both show that they know the run's secret (handshake.h),
 * and the rank says hello; rank 0 checks that the ranks fit together and answers all of them with
 * one "go" or one refusal. The connections stay open for the whole run: a connection that ends
 * without a goodbye means that the peer died. Whoever does not know the secret, and on one host
 * whoever is another user, is dropped, counted and told of once, and changes nothing. When all
 * ranks have joined, rank 0 listens no more.
 *
 * The order of calls is create, broadcast and agree (any number, the same on all ranks), watch,
 * destroy. Any thread may call `fail` at any time after create; one thread calls the others, unless
 * they say otherwise. A world of one rank needs no rendezvous: create stores NULL, which every
 * function accepts except gather_all and those that read an address and the timeout. */
#pragma once

#include "runtime/ranks/world.h"

#include <stdint.h>

enum {
    HD_RENDEZVOUS_TEXT = 512,       /* most bytes of a failure's text, with its zero */
    HD_RENDEZVOUS_MAX_BYTES = 1024, /* most bytes of one broadcast */
    HD_RENDEZVOUS_MAX_MESSAGE = 64 << 20,
    HD_LINK_TIMEOUT_S = 30 /* silence of a host after which a connection to it ends by default */
};

struct hd_rendezvous;

struct hd_rendezvous_options {
    const struct hd_world *world;
    /* Called on another rank than 0 before each attempt to reach rank 0: stores in
     * root->master_addr and root->master_port where it is. NULL: there where `world` says. */
    int (*find_root)(const struct hd_world *world, int64_t deadline_ns, struct hd_world *root);
    uint64_t config_hash;            /* must be equal on all ranks */
    const char *config;              /* lines of "key<TAB>hash<TAB>value", from which a difference
                                        is named; NULL: it is not */
    const char *fingerprint;         /* text of the arithmetic fingerprint, must be equal too */
    bool allow_fingerprint_mismatch; /* unless this is set */
    bool one_host;                   /* all ranks must be on one host (shared memory) */
    int link_timeout_s;              /* silence of a host that ends its connections; 0: the default
                                      */
    int64_t timeout_ns; /* of the rendezvous and of a broadcast; 0: HD_RENDEZVOUS_TIMEOUT_S
                           from the environment, else 60 s */
};

/* Meets the other ranks and returns when all have joined and fit together. Returns HD_OK,
 * HD_ERR_INPUT when ranks do not fit together (the message names them), HD_ERR_SYSTEM for a taken
 * port or ranks that did not join in time, HD_ERR_PEER when a rank disconnected meanwhile, or
 * HD_ERR_NOMEM. Errors are logged once a host when `runner launch` supervises, else by every rank.
 */
int hd_rendezvous_create(const struct hd_rendezvous_options *options,
                         struct hd_rendezvous **rendezvous_p);

/* Copies rank 0's data[bytes] to all ranks; bytes must be equal on all ranks. Returns HD_OK,
 * HD_ERR_PEER, HD_ERR_SYSTEM, or HD_ERR_INPUT for more than HD_RENDEZVOUS_MAX_BYTES (all logged).
 */
int hd_rendezvous_broadcast(struct hd_rendezvous *rendezvous, void *data, int64_t bytes);

/* Stores in world->master_addr and world->master_port where this rank found rank 0. */
void hd_rendezvous_get_root(const struct hd_rendezvous *rendezvous, struct hd_world *world);

/* Shows each rank's data[bytes], 1 byte to a MiB, to all ranks: calls receive(arg, rank, data,
 * bytes) for the ranks in order, with data borrowed for the call. Returns HD_OK, HD_ERR_PEER,
 * HD_ERR_SYSTEM, HD_ERR_NOMEM (logged), or the first error that receive returned. */
int hd_rendezvous_gather_all(struct hd_rendezvous *rendezvous, const void *data, int64_t bytes,
                             int (*receive)(void *arg, int rank, const void *data, int64_t bytes),
                             void *arg);

/* Stores the numeric address by which this rank and rank 0 reach each other, rank 0 the one by
 * which it reaches the first rank that is not on loopback, if there is one; "" if there is none. */
void hd_rendezvous_get_address(const struct hd_rendezvous *rendezvous,
                               char address_p[HD_ADDR_BYTES]);

/* Stores timeout_ns of the options: `given_ns`, or where it is 0 what the environment says. Returns
 * HD_OK or HD_ERR_INPUT (logged). */
int hd_rendezvous_read_timeout(int64_t given_ns, int64_t *timeout_ns_p);

/* Finds out whether all ranks succeeded: `status` is HD_OK, or this rank's error with its `text`,
 * which is not logged yet. Returns, on all ranks, HD_OK when all did, else the error of the lowest
 * rank that failed, logged as by hd_rendezvous_create. */
int hd_rendezvous_agree(struct hd_rendezvous *rendezvous, int status, const char *text);

struct hd_rendezvous_watch_options {
    /* Called at most once, when a peer is lost or fails: `rank` is the first that was lost or told
     * of a failure, -1 if only its host knows that one failed, and `text` (borrowed for the call)
     * one line on it: "rank 1 (pid 17 on node3) died" or "rank 1 failed: <its text>". `status` is
     * HD_ERR_PEER, or on rank 0 the status that the failing rank sent. */
    void (*on_lost)(void *arg, int rank, int status, const char *text);
    /* Called for each message, in the order sent: data[bytes], borrowed for the call. NULL: they
     * are dropped. */
    void (*on_message)(void *arg, int rank, const void *data, int64_t bytes);
    /* Returns a count that grows while this rank gets on, which others may wait for; NULL: none. */
    int64_t (*get_progress)(void *arg);
    /* Writes this rank's present work as a line, for rank 0 to show; NULL: nothing. */
    void (*describe)(void *arg, char *text, int64_t bytes);
    void *arg;
    double heartbeat_timeout_s; /* a peer that is silent for so long is lost; 0: never */
};

/* Starts the thread that watches the peers and sends heartbeats twice a second; it calls the
 * options' functions. Returns HD_OK or HD_ERR_SYSTEM (logged). */
int hd_rendezvous_watch(struct hd_rendezvous *rendezvous,
                        const struct hd_rendezvous_watch_options *options);

/* Sends data[bytes], 1 to HD_RENDEZVOUS_MAX_MESSAGE, to a rank that watches: from rank 0 to rank
 * `rank`, from the others to rank 0. Returns HD_OK, or HD_ERR_PEER (not logged) when it is gone or
 * takes nothing for a second. Thread safe. */
int hd_rendezvous_send_message(struct hd_rendezvous *rendezvous, int rank, const void *data,
                               int64_t bytes);

/* Returns a number that changes whenever another rank has got on, as far as heartbeats have told:
 * rank 0 hears of each, the others of all together. Thread safe. */
int64_t hd_rendezvous_get_peer_progress(struct hd_rendezvous *rendezvous);

/* Rank 0: writes a line for each other rank, with its newest heartbeat and its age, to text[bytes].
 * Thread safe. */
void hd_rendezvous_describe_peers(struct hd_rendezvous *rendezvous, char *text, int64_t bytes);

/* Tells the other ranks that this one leaves because of `status` and `text`. Thread safe; takes at
 * most a second; only the first call counts. on_lost is not called on this rank afterwards. */
void hd_rendezvous_fail(struct hd_rendezvous *rendezvous, int status, const char *text);

/* Tells the other ranks that this one leaves because another failed, as its host knows: `rank`, or
 * -1 if that is unknown, with `status`, and `text` that names it. Else as hd_rendezvous_fail. */
void hd_rendezvous_pass_on(struct hd_rendezvous *rendezvous, int rank, int status,
                           const char *text);

/* Stops the watch, says goodbye unless this rank told of a failure, and closes the connections. */
void hd_rendezvous_destroy(struct hd_rendezvous *rendezvous);

/* Opens a socket, close-on-exec and owned by the caller, that listens at address:port; port 0 picks
 * a free one. It listens on all interfaces if the address is "" or none of this host's, such as
 * that of a service in front of it; and, with several hosts (one_host false), if it is a name that
 * leads to loopback here. Returns HD_OK or HD_ERR_SYSTEM (logged, naming the port). Thread safe. */
int hd_rendezvous_listen(const char *address, int port, bool one_host, int *fd_p, int *port_p);

/* Tries once, for at most timeout_ms, to connect to address:port. Returns the socket, non-blocking
 * and owned by the caller; or -errno (no status, not logged) and why in *why_p, a borrowed
 * text. Thread safe. */
int hd_rendezvous_connect_once(const char *address, int port, int64_t timeout_ms,
                               const char **why_p);

/* Makes TCP end a connection whose peer's host has acknowledged nothing for timeout_s (at least 6),
 * and send without delay. Thread safe. */
void hd_rendezvous_set_keepalive(int fd, int timeout_s);
