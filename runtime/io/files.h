/* SPDX-License-Identifier: Apache-2.0 */
/* Directories and whole files. Thread safe on different paths. */
#ifndef HD_RUNTIME_IO_FILES_H
#define HD_RUNTIME_IO_FILES_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the directory of a run, and its parents. Not `exact`: when `wanted` exists, tries wanted_1,
 * wanted_2, …, so that nothing old is touched and racing runs get different ones. `exact`: `wanted`
 * itself, which may exist if it is empty. *dir_p is freed with hd_free.
 * Errors (logged): HD_ERR_INPUT when an exact directory is in use, HD_ERR_SYSTEM. */
int hd_rundir_create(const char *wanted, bool exact, char **dir_p);

/* Holds a directory against other processes that ask likewise, until the descriptor is closed or
 * the process ends. Errors (logged): HD_ERR_INPUT when another one holds it, HD_ERR_SYSTEM. */
int hd_rundir_lock(const char *dir, int *fd_p);

/* Returns whether `path` is a directory that this process can see. */
bool hd_folder_exists(const char *path);

/* Removes a directory and the files in it; it must not hold directories. Returns false, with errno
 * set, when it is still there. */
bool hd_folder_remove(const char *path);

/* Refuses a path that exists and is not an empty directory: HD_ERR_INPUT (logged). */
int hd_path_check_unused(const char *path);

/* Makes all directories above `path`. Errors: HD_ERR_SYSTEM (logged). */
int hd_path_make_parents(const char *path);

/* A whole file with a zero behind it, freed with hd_free, and its length (bytes_p may be NULL).
 * Errors: HD_ERR_INPUT when it cannot be opened or read (logged with the system's reason),
 * HD_ERR_NOMEM. */
int hd_file_read(const char *path, char **content_p, int64_t *bytes_p);

/* Replaces a file by data[bytes], wholly or not at all: written beside it, synced, renamed. Parents
 * are made. Errors: HD_ERR_SYSTEM (logged). */
int hd_file_write_atomic(const char *path, const void *data, int64_t bytes);

#endif
