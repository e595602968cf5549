/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/momentum.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"

#include <math.h>

static int momentum_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_check_of(spec, setup));
    spec->elements = spec->of->elements;
    spec->buckets = spec->of->buckets;
    spec->bytes = hd_align_up(spec->elements * (int64_t)sizeof(float));
    return HD_OK;
}

static int momentum_check(const struct hd_spec *spec, const void *data,
                          char message[HD_NUMBERS_MESSAGE])
{
    return hd_numbers_check_f32(message, "momentum", data, spec->elements, -INFINITY);
}

const struct hd_type hd_type_momentum = {
    .name = "momentum",
    .used_by_updates = true,
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = momentum_resolve,
    .check = momentum_check,
};
