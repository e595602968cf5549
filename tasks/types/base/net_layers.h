/* SPDX-License-Identifier: Apache-2.0 */
/* Nets as lists of layers in the run file: the policy's (policy.model.layers and
 * policy.model.heads), and others (policy.critic). Called by the thread that builds the graph. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

/* Reads the list, if there is one, and stores it in `fields`, with what the net yields. The source
 * of a layer is its node. The caller releases fields->layers by hd_free. Returns HD_OK,
 * HD_ERR_NOMEM (logged), or HD_ERR_INPUT after adding the mistake to setup->diag at its place. */
int hd_net_layers_read(const struct hd_setup *setup, struct hd_net_fields *fields);

/* Reads likewise a net beside the policy's from the map at `key`, with the keys input, layers and
 * heads, for a value that names it (`net:`). Stores in *action_p whether its input is the
 * observation joined with the action. fields->actions is the number of its outputs. Returns a
 * status as above. */
int hd_net_tree_read(const struct hd_setup *setup, const char *key, struct hd_net_fields *fields,
                     bool *action_p);
