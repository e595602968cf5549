/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/launch/membership.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/handshake.h"
#include "runtime/ranks/peer.h"
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CONNECT_MS = 2000, CHALLENGE_MS = 10000 };

_Static_assert(sizeof(struct hd_launcher_hello) + HD_SECRET_BYTES < HD_WIRE_PAYLOAD,
               "a hello fits");
_Static_assert(sizeof(struct hd_round) < HD_WIRE_PAYLOAD, "a round fits into a frame");
_Static_assert(sizeof(struct hd_round_end) < HD_WIRE_PAYLOAD, "an end fits into a frame");

void hd_launcher_hello_fill(const struct hd_launch_options *options,
                            struct hd_launcher_hello *hello_p)
{
    *hello_p = (struct hd_launcher_hello){.pid = getpid(),
                                          .nproc_per_node = options->nproc_per_node,
                                          .nnodes_min = options->nnodes_min,
                                          .nnodes = options->nnodes,
                                          .shards = options->shards,
                                          .config_hash = options->config_hash};
    hd_host_get_name(hello_p->host);
    snprintf(hello_p->fingerprint, sizeof hello_p->fingerprint, "%s",
             options->fingerprint ? options->fingerprint : "");
}

void hd_launcher_make_key(const uint8_t secret[HD_SECRET_BYTES], uint8_t key_p[HD_WIRE_KEY])
{
    hd_handshake_make_key(secret, "launchers", NULL, 0, key_p);
}

static const char *introduce(struct hd_membership *membership,
                             const struct hd_launch_options *options)
{
    struct hd_connection *coordinator = &membership->coordinator;
    const int64_t soon_ns = hd_clock_get_ns() + CHALLENGE_MS * INT64_C(1000000);
    uint8_t key[HD_WIRE_KEY];
    struct hd_launcher_hello hello;
    hd_launcher_make_key(options->secret, key);
    hd_launcher_hello_fill(options, &hello);
    memcpy(hello.id, membership->id, sizeof hello.id);
    hd_rendezvous_set_keepalive(coordinator->fd);
    const char *why = hd_handshake_join(coordinator->fd, key, &hello, sizeof hello, soon_ns,
                                        &coordinator->reader, &coordinator->out);
    return !why && hd_peer_is_foreign(coordinator->fd)
               ? "the peer belongs to another user of this host"
               : why;
}

const char *hd_membership_join(struct hd_membership *membership,
                               const struct hd_launch_options *options, int64_t deadline_ns)
{
    struct hd_connection *coordinator = &membership->coordinator;
    const int64_t left_ms = (deadline_ns - hd_clock_get_ns()) / 1000000;
    const char *why = "no time is left";
    memset(coordinator, 0, sizeof *coordinator);
    coordinator->fd = hd_rendezvous_connect_once(options->master_addr, options->master_port,
                                                 left_ms < CONNECT_MS ? left_ms : CONNECT_MS, &why);
    if (coordinator->fd < 0) {
        coordinator->fd = -1;
        return why;
    }
    why = introduce(membership, options);
    if (why)
        hd_connection_close(coordinator);
    hd_connection_start(coordinator);
    return why;
}

static void note_end(struct hd_membership *membership, int code, struct hd_frame *frame)
{
    membership->has_ended = true;
    membership->code = code;
    snprintf(membership->why, sizeof membership->why, "%s", hd_frame_get_text(frame));
}

/* Notes what the frame says. Returns false for one that no coordinator sends. */
static bool take_frame(struct hd_membership *membership, struct hd_frame *frame)
{
    struct hd_round round;
    switch (frame->kind) {
    case HD_WIRE_ROUND:
        if (frame->bytes != sizeof round)
            return false;
        memcpy(&round, frame->payload, sizeof round);
        if (round.nnodes < 1 || round.node_rank < HD_NODE_SPARE ||
            round.node_rank >= round.nnodes || round.port < 0 || round.port > 65535 ||
            memchr(round.dir, '\0', sizeof round.dir) == NULL)
            return false;
        membership->round = round;
        membership->has_round = true;
        membership->stop_signal = 0;
        return true;
    case HD_WIRE_STOP:
        membership->stop_signal = frame->number;
        return true;
    case HD_WIRE_END:
        note_end(membership, frame->number, frame);
        return true;
    case HD_WIRE_REFUSE:
        note_end(membership, hd_status_get_exit_code(frame->number), frame);
        membership->refused = true;
        return true;
    default:
        return false;
    }
}

void hd_membership_attend(struct hd_membership *membership)
{
    struct hd_connection *coordinator = &membership->coordinator;
    while (hd_connection_read(coordinator))
        if (!take_frame(membership, &coordinator->reader.frame))
            hd_connection_close(coordinator);
    if (coordinator->fd >= 0 && !hd_connection_beat(coordinator, membership->timeout_ns))
        hd_connection_close(coordinator);
}

void hd_membership_report(struct hd_membership *membership, int code, const char *dir,
                          const char *why)
{
    struct hd_round_end end = {.code = code};
    if (strlen(dir) < sizeof end.dir)
        memcpy(end.dir, dir, strlen(dir));
    snprintf(end.why, sizeof end.why, "%s", why);
    hd_connection_send(&membership->coordinator, HD_WIRE_ENDED, 0, &end, sizeof end);
}
