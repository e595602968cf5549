/* SPDX-License-Identifier: Apache-2.0 */
/* Type `momentum`: the momentum with which a value of type params moves, made `of` it. Starts at
 * zero. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/params.h"

#include <math.h>

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
    .resolve = hd_params_resolve_floats,
    .check = momentum_check,
};
