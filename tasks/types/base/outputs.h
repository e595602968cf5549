/* SPDX-License-Identifier: Apache-2.0 */
/* The table of what nets of policies yield, a row for each kind: how actions come from it, wherever
 * they are chosen (in collects, evaluations and libheddle-infer). Nothing else knows. Thread safe.
 */
#pragma once

#include "kernels/envs/actions.h"
#include "kernels/net/net.h"
#include "runtime/base/rng.h"
#include "tasks/base/registry.h"

enum hd_outputs_kind {
    HD_OUTPUTS_LOGITS,            /* of each choice */
    HD_OUTPUTS_ACTION_VALUES,     /* by dueling heads, if policy.model.dueling says so */
    HD_OUTPUTS_QUANTILES,         /* [choice][policy.model.num_quantiles] of the return */
    HD_OUTPUTS_ACTOR_CRITIC,      /* what a distribution of actions needs, then a value */
    HD_OUTPUTS_SQUASHED_GAUSSIAN, /* means and logarithms of deviations of numbers that tanh maps */
    HD_OUTPUTS_KINDS
};

/* A head of a net that is a list of layers: its name, and the types that it may have ("a|b"). */
struct hd_head {
    const char *name, *types;
    enum hd_output output;
};

struct hd_outputs {
    const char *what; /* for messages */
    enum hd_heads heads;
    struct hd_head head[HD_NET_STREAMS]; /* ended by name == NULL, if fewer */
    bool squashed; /* actions are numbers in [-1, 1], which hd_act_scale maps to an env's bounds */
    /* Returns how many numbers, the first of a row, actions come from. */
    int64_t (*count)(const struct hd_config *config, const struct hd_env_actions *actions);
    /* Writes the best action[dims] from the n numbers at `out`. */
    void (*choose)(const struct hd_env_actions *actions, int64_t n, const float *out,
                   union hd_action_number *action);
    /* Draws action[dims], number d by item first + d of rng. NULL: there is no distribution. */
    void (*draw)(const struct hd_env_actions *actions, const float *out, const struct hd_rng *rng,
                 uint32_t first, union hd_action_number *action);
    bool argmax; /* the best choice is the largest number: GPUs choose such actions, and no others
                  */
};

extern const struct hd_outputs hd_outputs[];
