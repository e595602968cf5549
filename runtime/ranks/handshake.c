/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/handshake.h"

#include "runtime/base/clock.h"

#include <sodium.h>
#include <string.h>

enum { SEND_MS = 1000, WELCOME_MS = 30000 };

_Static_assert((int)HD_WIRE_KEY == (int)crypto_generichash_KEYBYTES, "keys fit the hash");

static int64_t after(int64_t ms)
{
    return hd_clock_get_ns() + ms * 1000000;
}

void hd_handshake_make_key(const uint8_t secret[HD_SECRET_BYTES], const char *purpose,
                           const void *token, size_t bytes, uint8_t key_p[HD_WIRE_KEY])
{
    static const char protocol[] = "heddle ranks 3";
    crypto_generichash_state state;
    crypto_generichash_init(&state, secret, HD_SECRET_BYTES, HD_WIRE_KEY);
    crypto_generichash_update(&state, (const uint8_t *)protocol, sizeof protocol);
    crypto_generichash_update(&state, (const uint8_t *)purpose, strlen(purpose) + 1);
    if (bytes > 0)
        crypto_generichash_update(&state, token, bytes);
    crypto_generichash_final(&state, key_p, HD_WIRE_KEY);
}

void hd_handshake_make_session_keys(const uint8_t key[HD_WIRE_KEY],
                                    const uint8_t listeners_nonce[HD_NONCE_BYTES],
                                    const uint8_t callers_nonce[HD_NONCE_BYTES], const void *rank,
                                    struct hd_wire_key *to_listener_p,
                                    struct hd_wire_key *to_caller_p)
{
    uint8_t both[2 * HD_WIRE_KEY];
    crypto_generichash_state state;
    crypto_generichash_init(&state, key, HD_WIRE_KEY, sizeof both);
    crypto_generichash_update(&state, listeners_nonce, HD_NONCE_BYTES);
    crypto_generichash_update(&state, callers_nonce, HD_NONCE_BYTES);
    crypto_generichash_update(&state, rank, sizeof(int32_t));
    crypto_generichash_final(&state, both, sizeof both);
    *to_listener_p = *to_caller_p = (struct hd_wire_key){.count = 0};
    memcpy(to_listener_p->key, both, HD_WIRE_KEY);
    memcpy(to_caller_p->key, both + HD_WIRE_KEY, HD_WIRE_KEY);
}

static void copy_key(const uint8_t key[HD_WIRE_KEY], struct hd_wire_key *key_p)
{
    memcpy(key_p->key, key, HD_WIRE_KEY);
    key_p->count = 0;
}

bool hd_handshake_challenge(int fd, const uint8_t key[HD_WIRE_KEY], uint8_t nonce_p[HD_NONCE_BYTES])
{
    struct hd_wire_key once;
    copy_key(key, &once);
    hd_secret_draw(nonce_p);
    return hd_wire_send(fd, &once, HD_WIRE_CHALLENGE, 0, nonce_p, HD_NONCE_BYTES, after(SEND_MS));
}

const void *hd_handshake_check(struct hd_frame_reader *reader, const uint8_t key[HD_WIRE_KEY],
                               const uint8_t nonce[HD_NONCE_BYTES], size_t *bytes_p,
                               struct hd_wire_key *out_p)
{
    const struct hd_frame *frame = &reader->frame;
    const uint8_t *theirs = (const uint8_t *)frame->payload;
    struct hd_wire_key in, out;
    if (frame->kind != HD_WIRE_HELLO || frame->bytes < HD_NONCE_BYTES + sizeof(int32_t))
        return NULL;
    hd_handshake_make_session_keys(key, nonce, theirs, theirs + HD_NONCE_BYTES, &in, &out);
    if (!hd_frame_check_tag(frame, &in))
        return NULL;
    reader->key = in;
    reader->keyed = true;
    *out_p = out;
    *bytes_p = frame->bytes - HD_NONCE_BYTES;
    return theirs + HD_NONCE_BYTES;
}

/* Waits for a frame of the kind. Returns NULL, or why there is none. */
static const char *await(struct hd_frame_reader *reader, int fd, enum hd_wire_kind kind,
                         int64_t deadline_ns)
{
    switch (hd_frame_reader_wait(reader, fd, deadline_ns)) {
    case HD_FRAME_INCOMPLETE:
        return "the peer does not answer";
    case HD_FRAME_CLOSED:
        return kind == HD_WIRE_WELCOME ? "the peer closed the connection after the hello"
                                       : "the peer closed the connection";
    case HD_FRAME_INVALID:
        return "the peer is no rank of this run: it does not know the run's secret";
    case HD_FRAME_COMPLETE:
        break;
    }
    return reader->frame.kind == kind ? NULL : "the peer sent another message than expected";
}

const char *hd_handshake_join(int fd, const uint8_t key[HD_WIRE_KEY], const void *body,
                              size_t bytes, int64_t deadline_ns, struct hd_frame_reader *reader,
                              struct hd_wire_key *out_p)
{
    uint8_t hello[HD_WIRE_PAYLOAD], nonce[HD_NONCE_BYTES];
    struct hd_wire_key in, out;
    copy_key(key, &reader->key);
    reader->keyed = true;
    const char *why = await(reader, fd, HD_WIRE_CHALLENGE, deadline_ns);
    if (why)
        return why;
    if (reader->frame.bytes != sizeof nonce || bytes >= sizeof hello - sizeof nonce)
        return "the peer sent another challenge than expected";
    memcpy(nonce, reader->frame.payload, sizeof nonce);
    hd_secret_draw(hello);
    memcpy(hello + HD_NONCE_BYTES, body, bytes);
    hd_handshake_make_session_keys(key, nonce, hello, body, &out, &in);
    reader->key = in;
    if (!hd_wire_send(fd, &out, HD_WIRE_HELLO, 0, hello, HD_NONCE_BYTES + bytes, after(SEND_MS)))
        return "the peer closed the connection";
    why = await(reader, fd, HD_WIRE_WELCOME, after(WELCOME_MS));
    if (!why)
        *out_p = out;
    return why;
}
