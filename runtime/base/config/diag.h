/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the mistakes in what a user wrote, with their locations, to report them together. One
 * thread at a time uses a collection. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A location in a file; lines and columns count from 1, and line 0 means the file as a whole. For a
 * command line option `file` is "--set" and `line` is the option's number. The file name outlives
 * the location. */
struct hd_source_location {
    const char *file;
    int line, column;
};

struct hd_diag;

/* Creates an empty collection, which hd_diag_destroy (accepts NULL) releases. Returns HD_OK or
 * HD_ERR_NOMEM (logged). */
int hd_diag_create(struct hd_diag **diag_p);
void hd_diag_destroy(struct hd_diag *diag);

/* Adds one mistake, once if it is repeated exactly, and returns HD_ERR_INPUT. */
int hd_diag_add_error(struct hd_diag *diag, struct hd_source_location location, const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

/* Returns the number of mistakes so far. */
int64_t hd_diag_count(const struct hd_diag *diag);

/* Logs every mistake as "file:line:column: text" in order of location (at most 50, then a count of
 * the rest). Returns HD_ERR_INPUT if there was any, else HD_OK. */
int hd_diag_report(const struct hd_diag *diag);

/* Returns the i-th mistake in order of location as one line; NULL past the end. Borrowed. */
const char *hd_diag_get_line(const struct hd_diag *diag, int64_t i);

/* Returns whether `name` is one of the names in a text "a|b|c". Thread safe. */
bool hd_names_contain(const char *names, const char *name);

/* Returns the one of names[count] nearest to `name` by edit distance, or NULL when none is near
 * enough to suggest (distance above 1 + length / 3 or above half the length). It skips entries that
 * are NULL. Thread safe. */
const char *hd_find_nearest_name(const char *name, const char *const *names, int64_t count);
