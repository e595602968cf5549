/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `polyak_update`: moves a target net's parameters by the share policy.learn.target_theta
 * towards those of the net that learns, bucket by bucket. */
#include "kernels/learn/polyak.h"
#include "kernels/net/net.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/params.h"

enum { NET, TARGET };

static const struct hd_port ports[] = {
    [NET] = {"net", "params", .mode = HD_READ},
    [TARGET] = {"target", "params", .mode = HD_UPDATE},
    {0},
};

struct args {
    float share;
};

static int polyak_update_prepare(const struct hd_setup *setup, void **args_p)
{
    struct args *args = hd_alloc(1, sizeof *args);
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    args->share = (float)hd_config_get_real(setup->config, "policy.learn.target_theta");
    return hd_params_check_same_net(setup, setup->specs[NET], setup->specs[TARGET]);
}

/* Moves whole blocks one after another, each with its shadow weights while it is in cache. */
static int polyak_update_body(struct hd_context *context, const struct hd_view *views,
                              const void *memory)
{
    (void)context;
    const struct args *args = memory;
    const struct hd_view *target = &views[TARGET];
    const float *from = views[NET].data;
    float *to = target->data;
    int64_t lo, hi;
    hd_spec_get_bucket(target->spec, target->bucket, &lo, &hi);
    for (int64_t at = lo; at < hi; at += HD_BLOCK) {
        const int64_t end = hi - at < HD_BLOCK ? hi : at + HD_BLOCK;
        hd_polyak_move(args->share, end - at, from + at, to + at);
        hd_net_refresh(hd_params_get_net(target->spec), to, at, end);
    }
    return HD_OK;
}

#if HD_CUDA
static int polyak_update_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                     const void *memory)
{
    const struct args *args = memory;
    const struct hd_view *target = &views[TARGET];
    const float *from = views[NET].data;
    float *to = target->data;
    int64_t lo, hi;
    hd_spec_get_bucket(target->spec, target->bucket, &lo, &hi);
    HD_TRY(hd_polyak_move_cuda(args->share, hi - lo, from + lo, to + lo, context->stream));
    return hd_net_refresh_cuda(hd_params_get_net(target->spec), to, lo, hi, context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = polyak_update_body_on_gpu,
                                          .graph_capturable = true};
#endif

const struct hd_verb hd_verb_polyak_update = {
    .name = "polyak_update",
    .stream_id = 0x2e90b6d4f1573ac8,
    .ports = ports,
    .by_bucket = true,
    .prepare = polyak_update_prepare,
    .body = polyak_update_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "moves a target net's parameters a share of the way towards those of another value",
};
