/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a connection show each other that they know the run's secret, before any
 * other byte counts:
 *
 *   listener  CHALLENGE  a nonce, tagged by the key of the purpose
 *   caller    HELLO      a nonce of its own, then its body, which begins with its rank
 *   listener  WELCOME    anything
 *
 * HELLO and WELCOME, and all frames after them, are tagged by two keys, one for each direction,
 * made from the key of the purpose, both nonces and the rank. Whoever does not know the secret can
 * make none of these frames, and what was recorded of another connection fits no other nonce.
 * Thread safe. */
#pragma once

#include "runtime/ranks/wire.h"

enum { HD_NONCE_BYTES = HD_SECRET_BYTES };

/* Makes the key of a purpose ("rendezvous") of the run with this secret; `token`[bytes] (may be
 * NULL, 0) tells runs apart that share a secret. */
void hd_handshake_make_key(const uint8_t secret[HD_SECRET_BYTES], const char *purpose,
                           const void *token, size_t bytes, uint8_t key_p[HD_WIRE_KEY]);

/* Makes the keys of both directions of a connection from what is fresh on both sides. */
void hd_handshake_make_session_keys(const uint8_t key[HD_WIRE_KEY],
                                    const uint8_t listeners_nonce[HD_NONCE_BYTES],
                                    const uint8_t callers_nonce[HD_NONCE_BYTES], const void *rank,
                                    struct hd_wire_key *to_listener_p,
                                    struct hd_wire_key *to_caller_p);

/* Listener: sends a challenge to a fresh connection and stores its nonce. Returns false when the
 * peer is gone. */
bool hd_handshake_challenge(int fd, const uint8_t key[HD_WIRE_KEY],
                            uint8_t nonce_p[HD_NONCE_BYTES]);

/* Listener: checks the HELLO in reader->frame, which was read without a key. Returns its body,
 * which is borrowed from the frame and has *bytes_p bytes; from then on the reader reads by the
 * connection's key, and *out_p is the key to send by. Returns NULL for what is no hello of somebody
 * who knows the secret. */
const void *hd_handshake_check(struct hd_frame_reader *reader, const uint8_t key[HD_WIRE_KEY],
                               const uint8_t nonce[HD_NONCE_BYTES], size_t *bytes_p,
                               struct hd_wire_key *out_p);

/* Caller: answers the challenge that comes by `fd` before deadline_ns with body[bytes], which
 * begins with the rank as an int32_t, and waits half a minute for the welcome, which is then in
 * reader->frame. The reader, zeroed, reads by the connection's key afterwards, and *out_p is the
 * key to send by. Returns NULL, or why there was no welcome (a borrowed text: "the peer ...").
 */
const char *hd_handshake_join(int fd, const uint8_t key[HD_WIRE_KEY], const void *body,
                              size_t bytes, int64_t deadline_ns, struct hd_frame_reader *reader,
                              struct hd_wire_key *out_p);
