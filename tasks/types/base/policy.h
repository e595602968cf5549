/* SPDX-License-Identifier: Apache-2.0 */
/* The facts about an algorithm that types and verbs need: its row of tasks/base/policies.h. Thread
 * safe.
 */
#pragma once

#include "tasks/base/registry.h"
#include "tasks/types/base/outputs.h"

enum hd_policy_actions {
    HD_POLICY_ONE_CHOICE,
    HD_POLICY_ANY_ACTIONS, /* also several choices or real numbers */
    HD_POLICY_REAL_NUMBERS /* within bounds */
};

struct hd_policy {
    const char *name;
    const struct hd_outputs *outputs; /* of its net */
    bool on_policy; /* learns from minibatches of a collect, else from batches that are drawn */
    enum hd_policy_actions actions; /* that it chooses */
    const char *graph;              /* a file of configs/graphs/, without .yaml */
};

/* Return the algorithm of this name, or NULL, and the one that policy.type names. */
const struct hd_policy *hd_policy_find(const char *name);
const struct hd_policy *hd_policy_get(const struct hd_config *config);

/* Check that policy.type is the algorithm of a loss, unless that is a loss of other nets, and
 * that the policy is on-policy, for a verb that says `why`. Return HD_OK, or HD_ERR_INPUT after
 * adding a mistake to setup->diag, at policy.type. */
int hd_policy_check_loss(const struct hd_setup *setup, const char *loss);
int hd_policy_check_on_policy(const struct hd_setup *setup, const char *why);
