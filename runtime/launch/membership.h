/* SPDX-License-Identifier: Apache-2.0 */
/* A launcher's membership in a job whose nodes come and go: what launchers and the coordinator tell
 * each other, and the launchers' end of it. A launcher joins by the handshake of ranks, as rank 0
 * of the purpose "launchers", and then hears
 *
 *   ROUND  struct hd_round: start ranks, or wait as a spare node
 *   STOP   number = the signal by which to end the ranks of the round
 *   END    number = the exit code, payload = why: the job has ended
 *   REFUSE number = status, payload = why: this launcher does not fit into the job
 *
 * and says
 *
 *   LISTENS number = the port at which rank 0 of the round listens
 *   ENDED   struct hd_round_end: the ranks of the round have ended
 *   BYE     number = the signal: this node is about to leave
 *
 * A launcher that does not hear the coordinator for the heartbeat's time kills its ranks before the
 * coordinator has others go on without them. One thread. */
#ifndef HD_RUNTIME_LAUNCH_MEMBERSHIP_H
#define HD_RUNTIME_LAUNCH_MEMBERSHIP_H

#include "runtime/launch/connection.h"
#include "runtime/launch/launch_options.h"

enum { HD_NODE_SPARE = -1, HD_DIR_BYTES = 1024, HD_WHY_BYTES = 256, HD_LAUNCHER_ID = 32 };

struct hd_launcher_hello {
    int32_t rank; /* 0: a part of the connection's keys */
    int32_t pid, nproc_per_node, nnodes_min, nnodes, reserved;
    int64_t shards;
    uint64_t config_hash;
    uint8_t id[HD_LAUNCHER_ID]; /* the same when a launcher joins again */
    char host[HD_HOST_BYTES], fingerprint[HD_FINGERPRINT_BYTES];
};

struct hd_round {
    int32_t number;             /* from 1 */
    int32_t nnodes, node_rank;  /* HD_NODE_SPARE: not of this round */
    int32_t port;               /* of rank 0's rendezvous; 0: this node is to choose one */
    uint8_t nonce[HD_WIRE_KEY]; /* ranks of other rounds do not know this round's secret */
    char dir[HD_DIR_BYTES];     /* of the run, "" when nobody has told it so far */
};

struct hd_round_end {
    int32_t code; /* 0: all ranks returned 0, 75: they were stopped, HD_EXIT_PEER: no more than a
                     rank of another node was lost; else the exit code of a failure */
    char dir[HD_DIR_BYTES], why[HD_WHY_BYTES];
};

struct hd_membership {
    struct hd_connection coordinator;
    int64_t timeout_ns;
    uint8_t id[HD_LAUNCHER_ID]; /* random */
    bool has_round, has_ended;  /* and that was not dealt with so far */
    struct hd_round round;
    int stop_signal; /* by which the coordinator wants the ranks to end; 0: it does not */
    int code;        /* of the job that has ended */
    bool refused;    /* this launcher, by a job that goes on */
    char why[HD_WHY_BYTES];
};

/* Fills in what this launcher says of itself. */
void hd_launcher_hello_fill(const struct hd_launch_options *options,
                            struct hd_launcher_hello *hello_p);

/* Makes the key of handshakes between launchers with this secret. */
void hd_launcher_make_key(const uint8_t secret[HD_SECRET_BYTES], uint8_t key_p[HD_WIRE_KEY]);

/* Connects to the coordinator at options->master_addr and says hello, once. Returns NULL, or why
 * that failed (a borrowed text). */
const char *hd_membership_join(struct hd_membership *membership,
                               const struct hd_launch_options *options, int64_t deadline_ns);

/* Reads what the coordinator has said, sends heartbeats, and closes the connection to a coordinator
 * that is silent. Cannot fail: coordinator.fd < 0 says that it is lost. */
void hd_membership_attend(struct hd_membership *membership);

/* Tells the coordinator that the ranks of the round have ended, with the members of hd_round_end;
 * `dir` is left out where it is too long, and --dir then names it. Cannot fail. */
void hd_membership_report(struct hd_membership *membership, int code, const char *dir,
                          const char *why);

#endif
