/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `record_video`: hands a policy that is evaluated to what makes a video of it: writes it to
 * video/iteration_<update>.safetensors of the run directory, which rank 0's process finds there
 * (runner/train/outputs/videos.h). Its ports are those that `evaluate` reads, by the same names. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/logbook.h"
#include "tasks/base/builtin.h"
#include "tasks/output/inspect.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/output/moments.h"

enum { POLICY, TOTALS, OBS_NORM, BATCH_NORM_STATS };

static const struct hd_port ports[] = {
    [POLICY] = {"policy", "params", .mode = HD_READ},
    [TOTALS] = {"totals", "env_counters", .mode = HD_READ, .optional = true},
    [OBS_NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [BATCH_NORM_STATS] = {"batch_norm_stats", "batch_norm_stats", .mode = HD_READ,
                          .optional = true},
    {0},
};

static int record_video_declare(const struct hd_setup *setup)
{
    return hd_moments_declare_obs(setup, setup->specs[OBS_NORM]);
}

static int record_video_prepare(const struct hd_setup *setup, void **args_p)
{
    (void)args_p;
    return hd_batch_norm_stats_check(setup, setup->specs[POLICY], BATCH_NORM_STATS);
}

static int record_video_body(struct hd_context *context, const struct hd_view *views,
                             const void *args)
{
    (void)args;
    if (!context->logbook)
        return HD_OK;
    char *path = hd_format("%s/video/iteration_%lld.safetensors",
                           hd_logbook_get_dir(context->logbook), (long long)context->update);
    const struct hd_weights weights = {.params = views[POLICY].spec,
                                       .data = views[POLICY].data,
                                       .obs_norm = views[OBS_NORM].spec,
                                       .obs_norm_data = views[OBS_NORM].data,
                                       .batch_norm_stats = views[BATCH_NORM_STATS].spec,
                                       .batch_norm_stats_data = views[BATCH_NORM_STATS].data};
    return hd_weights_save_in_step(context, &weights, path, true);
}

const struct hd_verb hd_verb_record_video = {
    .name = "record_video",
    .stream_id = 0x9b1de0c47a52f683,
    .ports = ports,
    .logs = true,
    .declare = record_video_declare,
    .prepare = record_video_prepare,
    .body = record_video_body,
    .help = "hands an evaluated policy to what makes a video of it",
};
