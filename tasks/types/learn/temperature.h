/* SPDX-License-Identifier: Apache-2.0 */
/* Type `temperature`: the weight of the entropy in soft actor-critic, and what Adam remembers of
 * it. Its field `alpha` is the weight. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_temperature;

/* An instance; it starts as policy.learn.alpha says. */
struct hd_temperature {
    float log_alpha;
    float first, second; /* moments of its gradient */
    float unused;
    int64_t updates; /* so far */
};

/* Returns the weight of the instance at `data`. */
float hd_temperature_get(const void *data);
