/* SPDX-License-Identifier: Apache-2.0 */
/* Files that grow during a run: logs. A disk that is full or read-only, or a folder that vanished,
 * stops nothing: what cannot be written waits in memory and is written, in order, when it can be;
 * what does not fit there is dropped. A warning tells when that begins and what it came to. One
 * thread at a time uses an appender. */
#pragma once

#include <stdint.h>

struct hd_appender;

enum { HD_APPEND_WAITING_MAX = 4 << 20 }; /* most bytes that wait */
#define HD_APPEND_AFTER_ALL INT64_MAX

/* Makes an appender of the file at `path`, whose first `keep` bytes stay (HD_APPEND_AFTER_ALL: all
 * of them) and whose others are cut off; fewer are warned of. Missing folders are made. Returns
 * HD_OK or HD_ERR_NOMEM (logged). hd_appender_destroy (accepts NULL) writes what waits, or warns
 * that it is lost, and releases. */
int hd_appender_create(const char *path, int64_t keep, struct hd_appender **appender_p);
void hd_appender_destroy(struct hd_appender *appender);

/* Appends a record, wholly or not at all, to what waits. */
void hd_appender_add(struct hd_appender *appender, const void *data, int64_t bytes);

/* Writes what waits, as far as possible. */
void hd_appender_flush(struct hd_appender *appender);

/* Returns the path, borrowed, and the bytes of the file once all that waits is written. */
const char *hd_appender_get_path(const struct hd_appender *appender);
int64_t hd_appender_get_length(const struct hd_appender *appender);
