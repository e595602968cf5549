/* SPDX-License-Identifier: Apache-2.0 */
/* The nets of critics of soft actor-critic (policy.critic). Called by the thread that builds the
 * graph. */
#pragma once

#include "tasks/base/registry.h"

/* Checks, from a verb's `prepare`, that `critic`, a value of type params, has a net that takes an
 * observation joined with an action, yields one value, and can be differentiated by the action.
 * Returns HD_OK, or HD_ERR_INPUT (in setup->diag, with the shapes, at policy.critic). */
int hd_critic_check(const struct hd_setup *setup, const struct hd_spec *critic);
