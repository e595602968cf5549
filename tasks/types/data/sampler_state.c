/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/sampler_state.h"

#include "runtime/base/status.h"

static int sampler_state_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    (void)setup;
    spec->bytes = sizeof(struct hd_sampler_state);
    return HD_OK;
}

static int sampler_state_check(const struct hd_spec *spec, const void *data,
                               char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_sampler_state *state = data;
    (void)spec;
    HD_TRY(hd_number_check(message, "epoch", -1, state->epoch, 0, HD_COUNT_MAX));
    return hd_number_check(message, "next", -1, state->next, 0, HD_COUNT_MAX);
}

static const char *const counted[] = {
    [HD_SAMPLER_STATE_BATCHES] = "batches", [HD_SAMPLER_STATE_EPOCH] = "epoch", NULL};

const struct hd_type hd_type_sampler_state = {.name = "sampler_state",
                                              .used_by_updates = true,
                                              .counted = counted,
                                              .resolve = sampler_state_resolve,
                                              .check = sampler_state_check};
