/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that one kernel leaves for another in memory that GPUs address, so that the host need not
 * look at them in between. */
#pragma once

#include <stdint.h>

/* An entry of a statistic of type `scalars` (tasks/types/output/scalars.h). */
struct hd_scalar {
    double value, weight; /* weight 0: there is no value yet */
};

/* A statistic that keeps one entry. */
struct hd_scalar_slot {
    int64_t *pushes; /* entries so far */
    struct hd_scalar *entry;
};
