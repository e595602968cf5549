/* SPDX-License-Identifier: Apache-2.0 */
/* The videos of a run, for its page. Thread safe. */
#pragma once

#include <jansson.h>

/* Returns a list of objects, in order of updates: `update`, and `gif`, the file
 * video/iteration_<update>.gif of a run directory in base64, or null where it and those before are
 * more than a page should hold. An empty list where there are none; NULL: no memory. */
json_t *hd_videos_build_json(const char *dir);
