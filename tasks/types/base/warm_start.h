/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters that begin with those of a file (`init: {file: F}` of a value of type params): each
 * tensor of its net, spec->shape, is taken from the tensor of its name. One thread at a time. */
#pragma once

#include "tasks/base/registry.h"

/* Checks the map spec->start: `file`, and perhaps `mismatch` (error or skip: what is done with a
 * tensor of another shape) and `hash`, of the file. Returns HD_OK, or HD_ERR_INPUT (in `diag`). */
int hd_warm_start_check(const struct hd_spec *spec, struct hd_diag *diag);

/* Reads the file, and logs, where `tells`, which tensors are taken and which not, and why. Stores
 * the hash of the file. Returns HD_OK; HD_ERR_INPUT after adding a mistake to `diag`: no tensor
 * would be taken, one is of another shape and not skipped, or the file is not that of `hash`; or
 * what hd_safetensors_open does. */
int hd_warm_start_inspect(const struct hd_spec *spec, bool tells, struct hd_diag *diag,
                          uint64_t *hash_p);

/* Puts what is taken into an instance. Errors as above, logged. */
int hd_warm_start_load(const struct hd_spec *spec, void *data);
