/* SPDX-License-Identifier: Apache-2.0 */
/* The nets of values, as the run file describes them: the policy's (policy.type, policy.model,
 * runtime.precision), and a critic's (policy.critic). Called by the thread that builds the graph.
 */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/registry.h"

/* Creates the net of `spec`, a value of type params, which `net:` of its declaration names; freed
 * by hd_net_destroy. Returns HD_OK, HD_ERR_NOMEM, or HD_ERR_INPUT after adding the mistake to
 * setup->diag at its key. */
int hd_policy_net_create(const struct hd_spec *spec, const struct hd_setup *setup,
                         struct hd_net **net_p);

/* Checks, from a verb's `prepare`, that `net` yields as many numbers as the policy's actions are
 * read from, which the net of something else may not. Returns HD_OK, or HD_ERR_INPUT (in
 * setup->diag). */
int hd_policy_net_check(const struct hd_setup *setup, const struct hd_net *net);
