/* SPDX-License-Identifier: Apache-2.0 */
/* Type `momentum`: the momentum with which a value of type params moves, made `of` it. Starts at
 * zero. */
#ifndef HD_TASKS_TYPES_LEARN_MOMENTUM_H
#define HD_TASKS_TYPES_LEARN_MOMENTUM_H

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_momentum;

#endif
