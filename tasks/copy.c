/* SPDX-License-Identifier: Apache-2.0 */
/* copy: a hard copy of parameters, by parts. */
#include "runtime/base/status.h"
#include "tasks/builtin.h"

static const struct hd_port ports[] = {
    {.name = "from", .type = "params", .mode = HD_READ},
    {.name = "to", .type = "params", .mode = HD_WRITE},
    {0},
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    (void)args_p;
    if (setup->specs[0]->parts != setup->specs[1]->parts)
        return hd_diag_error(setup->diag, setup->mark,
                             "copy: '%s' and '%s' must be cut in the same parts (`parts:`)",
                             setup->specs[0]->name, setup->specs[1]->name);
    return HD_OK;
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_part(views[1].spec, views[1].part, &lo, &hi);
    return hd_value_copy_range(views[1].spec, lo, hi, views[1].data, views[0].data);
}

const struct hd_verb hd_verb_copy = {
    .name = "copy",
    .ports = ports,
    .by_part = true,
    .prepare = prepare,
    .body = body,
    .help = "copies parameters to another value",
};
