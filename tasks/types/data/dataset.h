/* SPDX-License-Identifier: Apache-2.0 */
/* Type `dataset`: the recorded transitions of policy.collect.data_path, whose files every rank
 * maps. Nothing changes it; an instance is only what tells it from other data sets, so that a run
 * cannot go on with another one. */
#ifndef HD_TASKS_TYPES_DATA_DATASET_H
#define HD_TASKS_TYPES_DATA_DATASET_H

#include "runtime/io/dataset.h"
#include "tasks/registry.h"

extern const struct hd_type hd_type_dataset;

/* The open data set of a value of type dataset. Borrowed. */
const struct hd_dataset *hd_spec_get_dataset(const struct hd_spec *spec);

#endif
