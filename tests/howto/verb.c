/* SPDX-License-Identifier: Apache-2.0 */
/* keep_near: to = from - limit or from + limit, where it is further away, by buckets. The example
 * of docs/howto/verb.md. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"
#include "tests/howto/howto.h"

#include <math.h>
#include <stdlib.h>

static const struct hd_port ports[] = {
    {"from", "params", .mode = HD_READ},
    {"to", "params", .mode = HD_UPDATE},
    {0},
};

static const struct hd_option options[] = {{.name = "limit", .required = true}, {0}};

struct args {
    float limit;
};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    const char *text = hd_setup_get_option(setup, "limit");
    const float limit = text ? strtof(text, NULL) : -1;
    if (!(limit >= 0))
        return hd_diag_add_error(setup->diag, setup->location,
                                 "keep_near: expected a limit from 0 on, found %s", text);
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    args->limit = limit;
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
        to[i] = fminf(fmaxf(to[i], from[i] - args->limit), from[i] + args->limit);
    hd_net_refresh(hd_params_get_net(views[1].spec), to, lo, hi);
    return HD_OK;
}

const struct hd_verb hd_verb_keep_near = {
    .name = "keep_near",
    .stream_id = 0x9d1c6b0f4ae27358,
    .ports = ports,
    .options = options,
    .by_bucket = true,
    .prepare = prepare,
    .body = body,
    .help = "keeps parameters within a limit of others",
};
