/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `save`: writes parameters, running statistics of batch norms and the normalisation of
 * observations to ckpt/<as>/policy.safetensors of the run directory, whenever there is a new
 * version. While they cannot be written, training goes on and the logbook keeps the newest. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/io/logbook.h"
#include "tasks/base/builtin.h"
#include "tasks/output/inspect.h"
#include "tasks/types/learn/batch_norm_stats.h"

enum { PARAMS, OBS_NORM, BATCH_NORM_STATS };

static const struct hd_port ports[] = {
    [PARAMS] = {"params", "params", .mode = HD_READ},
    [OBS_NORM] = {"obs_norm", "moments", .mode = HD_READ, .optional = true},
    [BATCH_NORM_STATS] = {"batch_norm_stats", "batch_norm_stats", .mode = HD_READ,
                          .optional = true},
    {0},
};

static const struct hd_option options[] = {{"as", NULL, true}, {0}};

static int save_prepare(const struct hd_setup *setup, void **args_p)
{
    HD_TRY(hd_batch_norm_stats_check(setup, setup->specs[PARAMS], BATCH_NORM_STATS));
    *args_p = hd_strdup(hd_setup_get_option(setup, "as"));
    return *args_p ? HD_OK : HD_ERR_NOMEM;
}

static int save_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const char *as = args;
    if (!context->logbook)
        return HD_OK;
    char *path =
        hd_format("%s/ckpt/%s/policy.safetensors", hd_logbook_get_dir(context->logbook), as);
    const struct hd_weights weights = {.params = views[PARAMS].spec,
                                       .data = views[PARAMS].data,
                                       .obs_norm = views[OBS_NORM].spec,
                                       .obs_norm_data = views[OBS_NORM].data,
                                       .batch_norm_stats = views[BATCH_NORM_STATS].spec,
                                       .batch_norm_stats_data = views[BATCH_NORM_STATS].data};
    return hd_weights_save_in_step(context, &weights, path, false);
}

const struct hd_verb hd_verb_save = {
    .name = "save",
    .stream_id = 0x319236a0c2cc5206,
    .ports = ports,
    .options = options,
    .logs = true,
    .prepare = save_prepare,
    .body = save_body,
    .help = "writes parameters to the run directory",
};
