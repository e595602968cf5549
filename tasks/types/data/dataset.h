/* SPDX-License-Identifier: Apache-2.0 */
/* Type `dataset`: the recorded transitions of policy.collect.data_path, whose files every rank
 * maps. Nothing changes it. An instance holds only the data set's identity, so that a run cannot be
 * resumed with another one. Thread safe. */
#pragma once

#include "runtime/io/dataset.h"
#include "tasks/base/registry.h"

extern const struct hd_type hd_type_dataset;

/* Returns the open data set of a value of type dataset. Borrowed. */
const struct hd_dataset *hd_spec_get_dataset(const struct hd_spec *spec);
