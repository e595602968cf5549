/* SPDX-License-Identifier: Apache-2.0 */
/* The list of algorithms, which policy.type names: X(name, outputs, on_policy, any_actions) stands
 * for the loss hd_loss_<name> and says what its net yields (tasks/types/learn/policy.h), whether it
 * learns from minibatches of a collect, and whether actions may be several choices or real numbers.
 */
#ifndef HD_TASKS_POLICIES_H
#define HD_TASKS_POLICIES_H

#define HD_POLICIES(X, AND)                                                                        \
    X(a2c, ACTOR_CRITIC, true, false)                                                              \
    AND X(bc, LOGITS, false, false) AND X(dqn, ACTION_VALUES, false, false) AND X(                 \
        ppo, ACTOR_CRITIC, true, true)

/* Their names, for keys and options that choose among them: "a2c|bc|...". */
#define HD_POLICY_NAME(name, outputs, on_policy, any_actions) #name
#define HD_POLICY_NAMES HD_POLICIES(HD_POLICY_NAME, "|")

#endif
