/* SPDX-License-Identifier: Apache-2.0 */
/* Files from outside the program, which are all opened for reading here. A pipe, a device or a
 * socket in place of a file is refused at once: to open or read it could wait for ever. Thread
 * safe. */
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

/* Says where a path comes from. */
enum hd_input {
    HD_INPUT_RUN,     /* a name inside a run directory: a link is not followed */
    HD_INPUT_NAMED,   /* the user names it: it may be a link to a regular file */
    HD_INPUT_COMMAND, /* a config on the command line: it may be a pipe, too */
};

enum { HD_INPUT_WHY = 256 }; /* bytes of what is wrong with a path */

/* Opens a file for reading. Returns its descriptor, or -1 with errno and what is wrong in `why`, to
 * be read behind the path: "cannot be read: Permission denied", "is a pipe, expected a regular
 * file". errno is that of the system; ELOOP for a link, EISDIR for a directory and EINVAL for a
 * pipe and the like. No error is logged. */
int hd_input_open(const char *path, enum hd_input from, char why[HD_INPUT_WHY]);

/* Opens it as a stream, which the caller closes, so; NULL: it cannot be. */
FILE *hd_input_open_stream(const char *path, enum hd_input from, char why[HD_INPUT_WHY]);

/* Returns whether a file can be opened so, else with errno and `why`. */
bool hd_input_check(const char *path, enum hd_input from, char why[HD_INPUT_WHY]);

/* Returns what an entry of a folder is, by the mode that lstat says: "a pipe". */
const char *hd_input_get_kind(mode_t mode);
