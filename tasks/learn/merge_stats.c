/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `merge_stats`: adds the moments of new samples to running ones. */
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/moments.h"

enum { NEW, RUNNING };

static const struct hd_port ports[] = {
    [NEW] = {"new", "moments", .mode = HD_READ},
    [RUNNING] = {"running", "moments", .mode = HD_UPDATE},
    {0},
};

static int merge_stats_declare(const struct hd_setup *setup)
{
    return hd_moments_declare_like(setup, setup->specs[RUNNING], setup->specs[NEW]);
}

static int merge_stats_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)args;
    hd_moments_join(views[RUNNING].spec, views[RUNNING].data, views[NEW].data);
    return HD_OK;
}

#if HD_CUDA
static int merge_stats_body_on_gpu(struct hd_context *context, const struct hd_view *views,
                                   const void *args)
{
    (void)args;
    return hd_moments_join_on_gpu(views[RUNNING].spec, views[RUNNING].data, views[NEW].data,
                                  context->stream);
}

static const struct hd_gpu_verb on_gpu = {.body = merge_stats_body_on_gpu,
                                          .graph_capturable = true};
#endif

const struct hd_verb hd_verb_merge_stats = {
    .name = "merge_stats",
    .stream_id = 0xc1b237e0d91b9322,
    .ports = ports,
    .run_on_change = true,
    .declare = merge_stats_declare,
    .body = merge_stats_body,
    .gpu = HD_ON_GPU(on_gpu),
    .help = "adds the moments of new samples to running ones",
};
