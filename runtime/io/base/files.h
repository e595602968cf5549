/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and whole files. Thread safe on different paths. */
#pragma once

#include "runtime/base/input/input.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { HD_FILE_WHY = 1024 }; /* bytes of a sentence about a file that failed */

/* Makes the directory of a run, and its parents. With `exact` it is `wanted` itself, which may
 * exist if it is empty; without, when `wanted` exists, it is the first of wanted_1, wanted_2, …
 * that does not, so that runs that start together get different ones. Returns HD_OK, with *dir_p to
 * be freed with hd_free, HD_ERR_INPUT when an exact directory is in use, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (all logged). */
int hd_rundir_create(const char *wanted, bool exact, char **dir_p);

/* Locks a directory against other processes that lock it, until the descriptor is closed or the
 * process ends. Returns HD_OK, HD_ERR_INPUT when another process holds the lock, or HD_ERR_SYSTEM
 * (both logged).
 */
int hd_rundir_lock(const char *dir, int *fd_p);

/* Returns whether `path` is a directory that this process can see; if not, errno says why, EEXIST
 * for something else. */
bool hd_folder_exists(const char *path);

/* Returns whether `path` is a directory without entries that this process can read. */
bool hd_folder_is_empty(const char *path);

/* Removes a directory, which is no link to one, and the files in it; it must not hold directories.
 * Returns false, with errno set, when it is still there. */
bool hd_folder_remove(const char *path);

/* Returns HD_OK, or HD_ERR_INPUT (logged) when `path` exists and is not an empty directory. */
int hd_path_check_unused(const char *path);

/* Makes all directories above `path`. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (both logged).
 */
int hd_path_make_parents(const char *path);

/* Returns how many blocks of files this process has written so: a count that grows while a slow
 * disk takes a large one. Thread safe. */
int64_t hd_file_count_blocks(void);

/* Does the same, but leaves the sentence about a failure in `why`. Returns HD_OK, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (not logged). */
int hd_path_try_make_parents(const char *path, char why[HD_FILE_WHY]);

/* Reads a whole file, which hd_input_open opens, into memory with a zero behind it, to be freed
 * with hd_free, and its length (bytes_p may be NULL). Returns HD_OK, HD_ERR_INPUT when it cannot be
 * opened or read (logged with the reason), or HD_ERR_NOMEM. */
int hd_file_read(const char *path, enum hd_input from, char **content_p, int64_t *bytes_p);

/* A way to replace a file by data[bytes] that returns what hd_file_write_atomic does. */
struct hd_file_put {
    int (*put)(void *arg, const char *path, const void *data, int64_t bytes);
    void *arg;
};

/* Replaces a file by data[bytes], wholly or not at all: writes them beside it, syncs and renames.
 * Makes missing parents. Returns HD_OK, HD_ERR_SYSTEM or HD_ERR_NOMEM (both logged). */
int hd_file_write_atomic(const char *path, const void *data, int64_t bytes);

/* Does the same, but leaves the sentence about a failure in `why`. Returns HD_OK, HD_ERR_SYSTEM or
 * HD_ERR_NOMEM (not logged). */
int hd_file_try_write_atomic(const char *path, const void *data, int64_t bytes,
                             char why[HD_FILE_WHY]);

/* A file that is written bit by bit and appears whole or not at all, also if the process dies. */
struct hd_file_draft {
    FILE *file; /* to write to; NULL: not open */
    char *path, *beside;
    bool named; /* the file system has no files without a name: there is one at `beside` */
};

/* Opens a draft of the file at `path`, and makes missing parents; hd_file_draft_discard, which
 * accepts one that is not open, closes and releases it. Errors (logged): HD_ERR_SYSTEM,
 * HD_ERR_NOMEM. */
int hd_file_draft_open(const char *path, struct hd_file_draft *draft_p);
void hd_file_draft_discard(struct hd_file_draft *draft);

/* Replaces the file by what was written, on the disk. Returns HD_OK or HD_ERR_SYSTEM (logged), also
 * if an earlier write failed. */
int hd_file_draft_publish(struct hd_file_draft *draft);

/* Waits until the names in a directory are on the disk. Returns HD_OK, or HD_ERR_SYSTEM with a
 * sentence in `why`, not logged. */
int hd_folder_sync(const char *path, char why[HD_FILE_WHY]);
