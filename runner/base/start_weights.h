/* SPDX-License-Identifier: Apache-2.0 */
/* Files of weights with which values of a graph begin (`init: {file: F}`). One thread at a time. */
#pragma once

#include "graph/language/graph.h"

#include <jansson.h>

/* Copies a graph into `document`, with the file of --weights as what `policy` begins with. Returns
 * HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT after adding a mistake to `diag`: there is no such value, or
 * it begins otherwise. */
int hd_start_weights_name(struct hd_document *document, const struct hd_node *graph,
                          const char *file, bool skips, struct hd_diag *diag,
                          const struct hd_node **graph_p);

/* Does what hd_run_spec_read_weights does; nodes are made in `document`, which outlives the graph.
 * Returns HD_OK, HD_ERR_NOMEM, or an error of hd_warm_start_inspect (in `diag`). */
int hd_start_weights_read(struct hd_config *config, struct hd_graph *graph,
                          struct hd_document *document, const json_t *then, bool tells,
                          struct hd_diag *diag);
