/* SPDX-License-Identifier: Apache-2.0 */
/* Room on the disk for files that are written at the end of a run, when the disk may be full: files
 * of the right length in DIR/.reserve, which are filled and moved to their place. One thread at a
 * time uses a reserve. */
#ifndef HD_RUNTIME_IO_RESERVE_H
#define HD_RUNTIME_IO_RESERVE_H

#include <stdint.h>

struct hd_reserve;

/* Reserves bytes[n] for n files of a run directory; warns if there is no room. Returns HD_OK or
 * HD_ERR_NOMEM. hd_reserve_destroy (accepts NULL) gives back what was not used. */
int hd_reserve_create(const char *dir, const int64_t *bytes, int n, struct hd_reserve **reserve_p);
void hd_reserve_destroy(struct hd_reserve *reserve);

/* Replaces the file at `path`, whose folder's parent exists, by data[bytes], wholly or not at all,
 * in the room that file `i` has; without that room like hd_file_write_atomic, with the same
 * errors. */
int hd_reserve_write(struct hd_reserve *reserve, int i, const char *path, const void *data,
                     int64_t bytes);

#endif
