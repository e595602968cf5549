/* SPDX-License-Identifier: Apache-2.0 */
/* save: writes parameters, and how observations enter the net, to ckpt/<as>/policy.safetensors of
 * the run directory, whenever there is a new version. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/logbook.h"
#include "tasks/builtin.h"
#include "tasks/inspect.h"

static const struct hd_port ports[] = {
    {.name = "params", .type = "params", .mode = HD_READ},
    {.name = "obs_norm", .type = "statistics", .mode = HD_READ, .optional = true},
    {0},
};

static const struct hd_option options[] = {{"as", NULL, true}, {0}};

static int prepare(const struct hd_setup *setup, void **args_p)
{
    *args_p = hd_strdup(hd_setup_option(setup, "as"));
    return *args_p ? HD_OK : HD_ERR_NOMEM;
}

static int body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    const char *as = args;
    if (!context->logbook)
        return HD_OK;
    char *path = hd_format("%s/ckpt/%s/policy.safetensors", hd_logbook_dir(context->logbook), as);
    if (!path)
        return HD_ERR_NOMEM;
    const struct hd_weights weights = {views[0].spec, views[0].data, views[1].spec, views[1].data};
    int status = hd_weights_save(&weights, path, context->update);
    if (status != HD_OK)
        status = hd_body_fail(context, "weights cannot be written to %s", path);
    hd_free(path);
    return status;
}

const struct hd_verb hd_verb_save = {
    .name = "save",
    .ports = ports,
    .options = options,
    .logs = true,
    .prepare = prepare,
    .body = body,
    .help = "writes parameters to the run directory",
};
