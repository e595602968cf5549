/* SPDX-License-Identifier: Apache-2.0 */
/* A directory for the files of one test, and the messages that were logged meanwhile. */
#pragma once

extern char scratch_dir[64];
extern char scratch_log[4096]; /* all lines logged since the setup, one after another */

void scratch_setup(void);
void scratch_teardown(void);

/* Returns the path of a file of the directory, valid until the next call. */
const char *scratch_path(const char *name);

/* Writes a file of the directory and the folders above it; returns its path likewise. */
const char *scratch_write(const char *name, const char *text);
