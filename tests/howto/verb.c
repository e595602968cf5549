/* SPDX-License-Identifier: Apache-2.0 */
/* soft_update: to += tau (from - to), by buckets. The example of docs/howto/verb.md. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"
#include "tests/howto/howto.h"

#include <stdlib.h>

static const struct hd_port ports[] = {
    {.name = "from", .type = "params", .mode = HD_READ},
    {.name = "to", .type = "params", .mode = HD_UPDATE},
    {0},
};

static const struct hd_option options[] = {{.name = "tau", .required = true}, {0}};

struct args {
    float tau;
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    const char *text = hd_setup_get_option(setup, "tau");
    const float tau = text ? strtof(text, NULL) : 0;
    if (!(tau > 0 && tau <= 1))
        return hd_diag_add_error(setup->diag, setup->location,
                                 "soft_update: tau must be above 0 and at most 1");
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    args->tau = tau;
    *args_p = args;
    return HD_OK;
}

static int body(struct hd_context *context, const struct hd_view *views, const void *memory)
{
    (void)context;
    const struct args *args = memory;
    const float *from = views[0].data;
    float *to = views[1].data;
    int64_t lo, hi;
    hd_spec_get_bucket(views[1].spec, views[1].bucket, &lo, &hi);
    for (int64_t i = lo; i < hi; i++)
        to[i] += args->tau * (from[i] - to[i]);
    hd_net_refresh(hd_params_get_net(views[1].spec), to, lo, hi);
    return HD_OK;
}

const struct hd_verb hd_verb_soft_update = {
    .name = "soft_update",
    .stream_id = 0x736f66745f757064,
    .ports = ports,
    .options = options,
    .by_bucket = true,
    .prepare = prepare,
    .body = body,
    .help = "moves parameters a fraction of the way towards others",
};
