/* SPDX-License-Identifier: Apache-2.0 */
/* Type `td_errors`: the squared temporal-difference errors of the rows of a batch, in which each
 * microbatch has a partial. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_td_errors;

/* Returns the errors of row `row` of the batch and of later rows of its microbatch. */
float *hd_td_errors_get(const struct hd_spec *spec, void *data, int64_t row);
