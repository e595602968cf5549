/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a trace, with arrows and counters. The stream knows whether that failed. One thread at a
 * time. */
#pragma once

#include "runner/trace/trace_file.h"

#include <stdio.h>

/* Writes JSON (trace_file.h), or Perfetto's protobuf. Returns HD_OK or HD_ERR_NOMEM. */
int hd_trace_file_write_json(const struct hd_trace_file *trace, FILE *file);
int hd_trace_file_write_perfetto(const struct hd_trace_file *trace, FILE *file);
