/* SPDX-License-Identifier: Apache-2.0 */
/* JSON in files from outside. Thread safe. */
#pragma once

#include "runtime/base/input/input.h"
#include "runtime/io/base/files.h"

#include <jansson.h>

/* Reads a file. Returns its content, owned by the caller; NULL with a sentence in `why` that begins
 * with the path, and errno: of hd_input_open, of the read that failed, or 0 when it is no JSON. */
json_t *hd_json_file_read(const char *path, enum hd_input from, char why[HD_FILE_WHY]);
