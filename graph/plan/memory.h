/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that the values of a plan take on a host. One thread at a time. */
#ifndef HD_GRAPH_PLAN_MEMORY_H
#define HD_GRAPH_PLAN_MEMORY_H

#include "graph/plan/plan.h"

/* Writes a line for each value, with its bytes, and their sum. Errors of the file are the caller's
 * to look for (ferror). */
void hd_plan_dump_memory(const struct hd_plan *plan, FILE *file);

/* Returns HD_OK if `ranks` ranks like the plan's fit in `available` bytes, else HD_ERR_INPUT
 * (logged, with the largest value and the key that decides on it). */
int hd_plan_check_memory(const struct hd_plan *plan, int ranks, int64_t available);

/* Logs that there is no memory for a value, and which key decides on its size. */
void hd_plan_report_no_memory(const struct hd_graph_value *value, int64_t bytes);

#endif
