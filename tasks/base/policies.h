/* SPDX-License-Identifier: Apache-2.0 */
/* The list of algorithms, which policy.type names: X(name, outputs, on_policy, actions, graph)
 * stands for the loss hd_loss_<name> and says what its net yields and which actions that chooses
 * (tasks/types/base/policy.h), whether it learns from minibatches of a collect, and which graph in
 * configs/graphs/ is the simplest that it learns by. */
#pragma once

/* clang-format off */
#define HD_POLICIES(X, AND)                                                                        \
    X(a2c, ACTOR_CRITIC, true, ONE_CHOICE, "a2c") AND                                              \
    X(bc, LOGITS, false, ONE_CHOICE, "bc") AND                                                     \
    X(dqn, ACTION_VALUES, false, ONE_CHOICE, "dqn") AND                                            \
    X(ppo, ACTOR_CRITIC, true, ANY_ACTIONS, "ppo") AND                                             \
    X(qrdqn, QUANTILES, false, ONE_CHOICE, "dqn") AND                                              \
    X(sac, SQUASHED_GAUSSIAN, false, REAL_NUMBERS, "sac") AND                                      \
    X(vtrace, ACTOR_CRITIC, true, ONE_CHOICE, "vtrace")

/* The losses hd_loss_<name> of nets that are no policies: X(name). */
#define HD_OTHER_LOSSES(X, AND)                                                                    \
    X(sac_critic)
/* clang-format on */

/* The names of algorithms and of losses, for keys and options that choose among them:
 * "a2c|bc|...". */
#define HD_POLICY_NAME(name, ...) #name
#define HD_POLICY_NAMES HD_POLICIES(HD_POLICY_NAME, "|")
#define HD_OTHER_LOSS_NAME(name) #name
#define HD_LOSS_NAMES HD_POLICY_NAMES "|" HD_OTHER_LOSSES(HD_OTHER_LOSS_NAME, "|")
