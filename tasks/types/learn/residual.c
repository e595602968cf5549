/* SPDX-License-Identifier: Apache-2.0 */
/* Type `residual`, `of` a value of type params: what rounding took from the sums of a shard's
 * gradient so far, a float for each element (error feedback; Seide et al. 2014). A mean that rounds
 * adds it to the shard's next sum. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/params.h"

#include <math.h>

static int residual_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    HD_TRY(hd_params_resolve_floats(spec, setup));
    if (spec->placement != HD_SHARD)
        return hd_diag_add_error(setup->diag, spec->location,
                                 "'%s' of type residual is a shard's: add `per: shard`",
                                 spec->name);
    return HD_OK;
}

static int residual_check(const struct hd_spec *spec, const void *data,
                          char message[HD_NUMBERS_MESSAGE])
{
    return hd_numbers_check_f32(message, "residuals", data, spec->elements, -INFINITY);
}

const struct hd_type hd_type_residual = {
    .name = "residual",
    .used_by_updates = true,
    .size_key = "policy.model.encoder_hidden_size_list",
    .flat = true,
    .resolve = residual_resolve,
    .check = residual_check,
};
