/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic fingerprint: everything beside config and seed that the bits of a result may
 * depend on. Runs with equal fingerprints give equal bits. */
#ifndef HD_RUNTIME_RANKS_FINGERPRINT_H
#define HD_RUNTIME_RANKS_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

enum { HD_FINGERPRINT_BYTES = 1024 };

struct hd_fingerprint {
    char text[HD_FINGERPRINT_BYTES]; /* "exe=…; isa=…; precision=f32; …" */
    uint64_t hash;                   /* of the text */
};

/* libraries: names and versions, "onednn 2.7.4, starpu 1.3.10"; precision: as in the config.
 * Errors: HD_ERR_SYSTEM when this program cannot be read, HD_ERR_INPUT when the text would not fit
 * (logged). */
int hd_fingerprint_create(const char *libraries, const char *precision,
                          struct hd_fingerprint *fingerprint_p);

/* Writes what differs between two fingerprint texts, "isa: avx2 against avx512f; …", into
 * text[bytes]; "" when nothing does. Accepts any strings. Thread safe. */
void hd_fingerprint_diff(const char *a, const char *b, char *text, size_t bytes);

#endif
