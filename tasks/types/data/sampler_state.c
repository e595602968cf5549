/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/sampler_state.h"

#include "runtime/base/status.h"

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->bytes = sizeof(struct hd_cursor);
    return HD_OK;
}

static const char *const counted[] = {
    [HD_CURSOR_BATCHES] = "batches", [HD_CURSOR_EPOCH] = "epoch", NULL};

const struct hd_type hd_type_cursor = {
    .name = "sampler_state", .counted = counted, .resolve = resolve};
