/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/data/td_errors.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/learn.h"

static int td_errors_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    struct hd_learn_shape *shape = hd_alloc(1, sizeof *shape);
    if (!shape)
        return HD_ERR_NOMEM;
    *shape = hd_learn_shape_read(setup->config);
    spec->shape = shape;
    spec->partials = shape->partials;
    spec->bytes = shape->partials * hd_align_up(shape->micro * (int64_t)sizeof(float));
    return HD_OK;
}

float *hd_td_errors_get(const struct hd_spec *spec, void *data, int64_t row)
{
    const struct hd_learn_shape *shape = spec->shape;
    const int64_t partial = spec->bytes / spec->partials;
    return (float *)((char *)data + row / shape->micro * partial) + row % shape->micro;
}

const struct hd_type hd_type_td_errors = {.name = "td_errors",
                                          .none = true,
                                          .size_key = "policy.learn.batch_size",
                                          .resolve = td_errors_resolve,
                                          .check = hd_value_accept};
