/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what runner compare says on stdout. One thread at a time. */
#pragma once

#include "runner/report/differences.h"

/* Prints a table with a row for each run, and what differs (hd_differences_build_json). */
void hd_compare_print_runs(const struct hd_runs *runs, const json_t *differences);

/* Prints rows of what differs, [key, a text or a list of texts, ...], up to 40 of them. */
void hd_compare_print_keys(const json_t *rows);

/* Prints a table with a row for each group (hd_groups_build_json), the runs that do not count, and
 * warnings where those of a group are no repeats. */
void hd_compare_print_groups(const struct hd_runs *runs, const json_t *groups);
