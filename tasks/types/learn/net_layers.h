/* SPDX-License-Identifier: Apache-2.0 */
/* The policy's net as a list of layers in the run file (policy.model.layers and
 * policy.model.heads). Called by the thread that builds the graph. */
#ifndef HD_TASKS_TYPES_LEARN_NET_LAYERS_H
#define HD_TASKS_TYPES_LEARN_NET_LAYERS_H

#include "kernels/net/net.h"
#include "tasks/registry.h"

/* Reads the list, if there is one, and stores it in `fields`, with what the net yields. The source
 * of a layer is its node. The caller releases fields->layers by hd_free. Returns HD_OK,
 * HD_ERR_NOMEM (logged), or HD_ERR_INPUT after adding the mistake to setup->diag at its place. */
int hd_net_layers_read(const struct hd_setup *setup, struct hd_net_fields *fields);

#endif
