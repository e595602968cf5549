/* SPDX-License-Identifier: Apache-2.0 */
/* Mistakes in what a user wrote: collected with their places, reported together. */
#ifndef HD_RUNTIME_BASE_CONFIG_DIAG_H
#define HD_RUNTIME_BASE_CONFIG_DIAG_H

#include <stdint.h>
#include <stdio.h>

/* A place in a file, counted from 1. `file` is "--set" for a command line option; then `line` is
 * the number of that option. line 0: the file as a whole. The file name outlives the location. */
struct hd_source_location {
    const char *file;
    int line, column;
};

struct hd_diag;

/* Creates an empty collection; released by hd_diag_destroy (accepts NULL). */
int hd_diag_create(struct hd_diag **diag_p);
void hd_diag_destroy(struct hd_diag *diag);

/* Adds one mistake and returns HD_ERR_INPUT. Exact repetitions are kept once. */
int hd_diag_add_error(struct hd_diag *diag, struct hd_source_location location, const char *format,
                      ...) __attribute__((format(printf, 3, 4)));

/* Number of mistakes so far. */
int64_t hd_diag_count(const struct hd_diag *diag);

/* Logs every mistake as "file:line:column: text", in order of place (at most 50, then a count of
 * the rest). Returns HD_ERR_INPUT if there was any, else HD_OK. */
int hd_diag_report(const struct hd_diag *diag);

/* The i-th mistake as one line, in order of place; NULL past the end. Borrowed. */
const char *hd_diag_get_line(const struct hd_diag *diag, int64_t i);

/* The name of names[count] nearest to `name` by edit distance, or NULL when none is near enough to
 * suggest (distance above 1 + length / 3). Entries may be NULL and are then skipped. */
const char *hd_find_nearest_name(const char *name, const char *const *names, int64_t count);

#endif
