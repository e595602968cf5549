/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `copy`: copies parameters to another value, bucket by bucket. */
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "tasks/base/builtin.h"
#include "tasks/types/learn/params.h"

static const struct hd_port ports[] = {
    {"from", "params", .mode = HD_READ},
    {"to", "params", .mode = HD_WRITE},
    {0},
};

static int copy_prepare(const struct hd_setup *setup, void **args_p)
{
    (void)args_p;
    if (setup->specs[0]->buckets != setup->specs[1]->buckets)
        return hd_diag_add_error(
            setup->diag, setup->location,
            "copy: '%s' and '%s' must be cut in the same buckets (`bucket_mb:`)",
            setup->specs[0]->name, setup->specs[1]->name);
    return hd_params_check_same_net(setup, setup->specs[0], setup->specs[1]);
}

static int copy_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_get_bucket(views[1].spec, views[1].bucket, &lo, &hi);
    return hd_value_copy_range(views[1].spec, lo, hi, views[1].data, views[0].data);
}

#if HD_CUDA
static int copy_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)args;
    const float *from = views[0].data;
    float *to = views[1].data;
    int64_t lo, hi;
    hd_spec_get_bucket(views[1].spec, views[1].bucket, &lo, &hi);
    HD_TRY(hd_device_copy(to + lo, from + lo, (hi - lo) * (int64_t)sizeof(float), context->stream));
    return hd_net_refresh_cuda(hd_params_get_net(views[1].spec), to, lo, hi, context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = copy_body_on_gpu, .graph_capturable = true};
#endif

const struct hd_verb hd_verb_copy = {
    .name = "copy",
    .stream_id = 0x6768761f34e1f655,
    .ports = ports,
    .by_bucket = true,
    .prepare = copy_prepare,
    .body = copy_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "copies parameters to another value",
};
