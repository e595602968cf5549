/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a trace, part by part. One thread at a time. */
#pragma once

#include "runner/trace/trace_file.h"

/* Adds what a text says, which is cut into lines; `path` names it in messages. Returns HD_OK,
 * HD_ERR_FORMAT (logged) or HD_ERR_NOMEM. */
int hd_trace_read_lines(struct hd_trace_file *trace, const char *path, char *content);

/* Adds to the times of ranks [first, end). */
void hd_trace_shift(struct hd_trace_file *trace, int first, int end, double by_us);

/* Sorts and adds up what was read. */
void hd_trace_complete(struct hd_trace_file *trace);
