/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic fingerprint: all that the bits of a result may depend on, besides config and seed.
 * Runs with equal fingerprints give bitwise identical results. Thread safe. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { HD_FINGERPRINT_BYTES = 1024 };

struct hd_fingerprint {
    char text[HD_FINGERPRINT_BYTES]; /* "isa=…; exe=…; precision=f32; …" */
    uint64_t hash;                   /* of the text */
};

/* Makes the fingerprint of this program on this machine. `isa` is the instruction set that its
 * kernels are compiled for; `libraries` has names, versions and what they use, "onednn 2.7.4 isa
 * 0x7"; `precision` is the config's. Returns HD_OK, HD_ERR_SYSTEM when this program cannot be read,
 * or HD_ERR_INPUT when the text would not fit (both logged). */
int hd_fingerprint_create(const char *isa, const char *libraries, const char *precision,
                          struct hd_fingerprint *fingerprint_p);

/* Writes the differences between two fingerprint texts, "isa: avx2 against avx512f; …", to
 * text[bytes]; "" when there are none. Accepts any strings. */
void hd_fingerprint_diff(const char *a, const char *b, char *text, size_t bytes);
