/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the disk for files that are written at the end of a run, when the disk may be full: files
 * of the right length in DIR/.reserve, each under a name of its own, which are filled and moved to
 * their place, by whichever process is left. One thread at a time for each run directory. */
#pragma once

#include <stdint.h>

/* Reserves `bytes` in a run directory under `name`; warns if there is no room. */
void hd_reserve_make(const char *dir, const char *name, int64_t bytes);

/* Replaces the file at `path`, whose folder's parent exists, by data[bytes], wholly or not at all,
 * in the room that is reserved under `name`; without that room like hd_file_write_atomic, with the
 * same errors. */
int hd_reserve_write(const char *dir, const char *name, const char *path, const void *data,
                     int64_t bytes);

/* Gives back what was not used. */
void hd_reserve_remove(const char *dir);
