/* SPDX-License-Identifier: Apache-2.0 */
/* Golden numbers: tests/golden/<name>.json, objects that tests/golden/regen_*.py write, each with
 * its CRC-32. They are in the program, which may run elsewhere. Whatever is missing ends the test;
 * a message on stderr names it, too, as .runs is evaluated outside of any test. One thread at a
 * time. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A file, or a value in it. */
struct golden {
    const char *file;
    const json_t *json;
};

/* Returns a file: "sac" is sac.json. It is parsed once, if its CRC-32 is right, and stays until the
 * program ends. */
struct golden golden_open(const char *name);

/* Return a value in `of`: a path is keys and indices with slashes between them, a format for
 * printf: golden_number(file, "updates/%d/alpha", t). golden_count counts a list's elements. */
struct golden golden_get(struct golden of, const char *path, ...)
    __attribute__((format(printf, 2, 3)));
int golden_count(struct golden of, const char *path, ...) __attribute__((format(printf, 2, 3)));
double golden_number(struct golden of, const char *path, ...) __attribute__((format(printf, 2, 3)));
const char *golden_text(struct golden of, const char *path, ...)
    __attribute__((format(printf, 2, 3)));

/* Copies a list, which has to have n numbers. */
void golden_read(struct golden of, const char *key, int n, double *numbers);

/* The files; the last one has no name. */
struct golden_file {
    const char *name, *text;
};
extern const struct golden_file golden_files[];

/* Returns whether a file's text has the CRC-32 that its first line says. */
bool golden_is_whole(const char *text);

/* Returns zlib's CRC-32. */
uint32_t golden_crc32(const void *bytes, size_t n);

/* Returns U(k, j), the deterministic fill of the inputs (docs/di-engine.md 9.1). */
static inline double fill(uint64_t k, uint64_t j)
{
    uint64_t z = (k << 32) + j + 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (double)(z >> 40) / 16777216.0;
}
