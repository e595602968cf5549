/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files of a run that could not be written and wait in memory until there is room. What waits
 * is bounded: beyond that the oldest files are given up, with a warning, those first that a run can
 * best do without. Nothing here ends a run. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HD_LATE_FILES_MAX = 64 << 20 }; /* most bytes that wait, but for one larger file */

struct hd_late_file {
    char *path;
    void *data; /* [bytes] */
    int64_t bytes;
    bool spare; /* given up before others */
};

/* All zero at first. */
struct hd_late_files {
    struct hd_late_file *files; /* [n], the oldest first */
    int64_t n, capacity, bytes;
};

/* Replaces a file by data[bytes], wholly or not at all, and what waits for its path. If it cannot
 * be written, warns and keeps a copy. */
void hd_late_files_put(struct hd_late_files *late, const char *path, const void *data,
                       int64_t bytes, bool spare);

/* Tries again to write what waits. */
void hd_late_files_write(struct hd_late_files *late);

/* Tries for the last time, warns of what is lost, and releases. */
void hd_late_files_end(struct hd_late_files *late);
