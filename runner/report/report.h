/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a run. One thread at a time. */
#pragma once

/* Writes the run in directory `dir` as a page to `out` (NULL: DIR/report.html) and stores its path
 * in *path_p (or NULL), to be freed with hd_free. Errors (logged): those of hd_history_read and
 * hd_page_write. */
int hd_report_write(const char *dir, const char *out, char **path_p);
