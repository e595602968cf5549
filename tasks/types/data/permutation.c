/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/permutation.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

static int permutation_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_minibatch_split *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = hd_minibatch_split_read(setup->config);
    spec->shape = shape;
    spec->bytes =
        (int64_t)sizeof(struct hd_permutation) + shape->samples * (int64_t)sizeof(int32_t);
    return HD_OK;
}

const struct hd_minibatch_split *hd_permutation_get_split(const struct hd_spec *spec)
{
    return spec->shape;
}

static int permutation_check(const struct hd_spec *spec, const void *data,
                             char message[HD_NUMBERS_MESSAGE])
{
    const struct hd_minibatch_split *split = spec->shape;
    const struct hd_permutation *permutation = data;
    HD_TRY(hd_number_check(message, "taken", -1, permutation->taken, 0, split->count));
    return hd_numbers_check_i32(message, "sample", permutation->sample, split->samples, 0,
                                split->samples - 1);
}

const struct hd_type hd_type_permutation = {.name = "permutation",
                                            .used_by_updates = true,
                                            .none = true,
                                            .size_key = "policy.collect.n_sample",
                                            .pinned = true,
                                            .resolve = permutation_resolve,
                                            .check = permutation_check};
