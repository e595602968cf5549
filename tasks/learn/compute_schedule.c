/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `compute_schedule`: computes the numbers that have a schedule
 * (tasks/types/output/schedule.h) from a counter where the step stands in program order, so that no
 * lag changes which count it sees: environment steps of all shards, or updates. Before a collect
 * these are what CleanRL's annealing counts, behind it what Stable-Baselines3's does. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/scalars.h"
#include "tasks/types/output/schedule.h"

#include <string.h>

enum { TOTALS, SCHEDULE };

static const struct hd_port ports[] = {
    [TOTALS] = {"totals", "env_counters", .mode = HD_READ, .optional = true},
    [SCHEDULE] = {"schedule", "scalars", .mode = HD_UPDATE, .none = true},
    {0},
};

struct args {
    bool updates; /* are counted, else environment steps */
    double total;
    int n;
    struct hd_schedule schedules[HD_SCHEDULED]; /* in the order of the value's fields */
};

static int read_schedules(const struct hd_setup *setup, struct args *args,
                          struct hd_scalar_field fields[HD_SCHEDULED])
{
    args->n = 0;
    for (int i = 0; i < HD_SCHEDULED; i++) {
        struct hd_schedule *schedule = &args->schedules[args->n];
        HD_TRY(hd_schedule_read(setup->config, i, setup->diag, schedule));
        if (schedule->n > 0)
            fields[args->n++] = (struct hd_scalar_field){hd_scheduled_names[i], HD_MEAN, 1};
    }
    return HD_OK;
}

static int compute_schedule_declare(const struct hd_setup *setup)
{
    struct args args;
    struct hd_scalar_field fields[HD_SCHEDULED];
    HD_TRY(read_schedules(setup, &args, fields));
    return hd_scalars_declare(setup, setup->specs[SCHEDULE], "learner", fields, args.n);
}

static int compute_schedule_prepare(const struct hd_setup *setup, void **args_p)
{
    static const char total[] = "policy.learn.schedule.total",
                      over[] = "policy.learn.schedule.over";
    struct args *args = hd_alloc(1, sizeof *args);
    struct hd_scalar_field fields[HD_SCHEDULED];
    if (!args)
        return HD_ERR_NOMEM;
    *args_p = args;
    HD_TRY(read_schedules(setup, args, fields));
    args->updates = strcmp(hd_config_get_text(setup->config, over), "update") == 0;
    args->total = (double)hd_config_get_int(setup->config, total);
    if (!args->updates && !setup->specs[TOTALS])
        return hd_diag_add_error(
            setup->diag, hd_config_locate(setup->config, over, setup->location),
            "%s: env_step needs a value of type env_counters under `reads` of compute_schedule; "
            "this graph collects nothing: update counts updates",
            over);
    return HD_OK;
}

static int compute_schedule_body(struct hd_context *context, const struct hd_view *views,
                                 const void *memory)
{
    const struct args *args = memory;
    const struct hd_env_counters *totals = views[TOTALS].data;
    const double done = (double)(args->updates ? context->update : totals->env_step);
    for (int i = 0; i < args->n; i++)
        hd_scalars_push(views[SCHEDULE].spec, views[SCHEDULE].data, i,
                        hd_schedule_compute(&args->schedules[i], done / args->total), 1);
    return HD_OK;
}

const struct hd_verb hd_verb_compute_schedule = {
    .name = "compute_schedule",
    .stream_id = 0x5e1fa90c27b8d643,
    .ports = ports,
    .declare = compute_schedule_declare,
    .prepare = compute_schedule_prepare,
    .body = compute_schedule_body,
    .help = "computes the numbers of policy.learn that have a schedule",
};
