/* SPDX-License-Identifier: Apache-2.0 */
/* The machine and this program as JSON, for the logs of a run and for `runner doctor`. Thread safe.
 */
#pragma once

#include "runtime/machine/machine.h"

#include <jansson.h>

/* Returns a machine as an object; NULL without memory. */
json_t *hd_machine_build_json(const struct hd_machine *machine);

/* Returns the versions of what this program is made of as an object, those of GPUs' libraries and
 * driver if ask_gpus; NULL without memory. */
json_t *hd_versions_build_json(bool ask_gpus);
