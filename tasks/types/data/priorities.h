/* SPDX-License-Identifier: Apache-2.0 */
/* Type `priorities`: the priorities of the transitions in a shard's replay
 * (kernels/replay/priorities.h), by which policy.priority draws them. An instance is a struct
 * hd_priorities. Thread safe. */
#pragma once

#include "kernels/replay/priorities.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_priorities;

/* Returns the shape of a value of type priorities. Borrowed. */
const struct hd_priorities_shape *hd_priorities_get_shape(const struct hd_spec *spec);

/* Checks that a step has `value`, of its port `port`, if policy.priority is true, and else has not.
 * Returns HD_OK, or HD_ERR_INPUT after adding a mistake to setup->diag, at policy.priority. */
int hd_priorities_check_use(const struct hd_setup *setup, const struct hd_spec *value,
                            const char *port);
