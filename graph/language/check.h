/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a parsed graph and completes it. One thread at a time. */
#pragma once

#include "graph/language/graph.h"

/* Checks what crosses steps: types, ports, placement, lags; completes the specs of values, gives
 * every step its random stream and builds the task objects. Errors: HD_ERR_INPUT (reported to
 * diag), HD_ERR_NOMEM. */
int hd_graph_check(struct hd_graph *graph, struct hd_diag *diag);
