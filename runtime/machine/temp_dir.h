/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary folders that no other process has, in $TMPDIR or else /tmp. Any thread may call. */
#pragma once

#include <stdint.h>

/* Makes an empty folder where files of `bytes` bytes find room, and stores its path, which
 * hd_temp_dir_remove frees. Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_SYSTEM (logged; it names TMPDIR)
 * where the folder cannot be made or the room is missing. */
int hd_temp_dir_make(int64_t bytes, char **path_p);

/* Removes a folder with all that is in it, and frees `path`. It follows no link, and warns of what
 * it cannot remove. NULL is no folder. */
void hd_temp_dir_remove(char *path);
