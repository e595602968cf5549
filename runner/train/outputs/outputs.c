/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a run to open its directory, then once an iteration for the progress line. */
#include "runner/train/outputs/outputs.h"

#include "runner/train/outputs/results.h"
#include "runner/train/outputs/videos.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/logbook.h"
#include "tasks/output/eval_seeds.h"
#include "tasks/output/inspect.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The run directory ------------------------------------------------------------------------- */

static int write_config(const struct hd_train *train)
{
    char *text = hd_run_spec_format(&train->run_spec),
         *path = hd_format("%s/total_config.yaml", train->dir);
    int status =
        text && path ? hd_file_write_atomic(path, text, (int64_t)strlen(text)) : HD_ERR_NOMEM;
    free(text);
    hd_free(path);
    return status;
}

/* Says that collects drop samples, and whose. */
static void announce_surplus(const struct hd_config *config)
{
    const int64_t surplus = hd_inspect_surplus(config),
                  n_sample = hd_config_get_int(config, "policy.collect.n_sample");
    const char *key = hd_config_get_text(config, "policy.collect.surplus");
    if (surplus > 0)
        hd_log(HD_LOG_WARN,
               "%" PRId64 " environments make %" PRId64 " samples in a collect of n_sample %" PRId64
               ", of which %" PRId64 " are dropped, %s (policy.collect.surplus: %s); turns drops "
               "those of each environment in turn, and keep, off-policy, none",
               hd_config_get_int(config, "env.collector_env_num"), n_sample + surplus, n_sample,
               surplus,
               strcmp(key, "turns") == 0 ? "of each in turn" : "always of the last environments",
               key);
}

/* Says that episodes of an evaluation are played again from the same start. */
static void announce_starts(const struct hd_config *config)
{
    const struct hd_eval_seeds seeds = hd_eval_seeds_read(config);
    if (!seeds.of_episodes)
        hd_log(HD_LOG_WARN,
               "%" PRId64 " episodes of an evaluation have %" PRId64 " starts (policy.eval.seeds: "
               "env); policy.eval.seeds: episode gives each its own",
               seeds.episodes, seeds.envs);
}

/* Logs ranks, shards and the global batch side by side, which a user may confuse. */
static void announce(const struct hd_train *train)
{
    const struct hd_config *config = train->run_spec.config;
    const struct hd_workers *workers = &train->workers;
    char batch[160], quota[64] = "";
    const int64_t unused = hd_inspect_batch(config, batch, sizeof batch);
    if (workers->quota > 0)
        snprintf(quota, sizeof quota, " (the host's quota is %.3g cores' worth of time)",
                 workers->quota);
    hd_log(HD_LOG_INFO,
           "%s: %d %s, %" PRId64 " %s; %d %s in rank 0%s; a global batch is %" PRId64
           " x %s; effective config in %s/total_config.yaml",
           train->run_spec.settings.exp_name, train->ranks.world.world,
           train->ranks.world.world == 1 ? "rank" : "ranks", train->run_spec.shards,
           train->run_spec.shards == 1 ? "shard" : "shards", workers->n,
           workers->n == 1 ? "worker" : "workers", quota, train->run_spec.shards, batch,
           train->dir);
    if (unused > 0)
        hd_log(HD_LOG_WARN,
               "an epoch leaves %" PRId64 " samples of a collect out, as in DI-engine, because a "
               "batch has more than these (policy.learn.batch_size times accumulate); "
               "policy.learn.minibatch_tail: short uses all",
               unused);
    announce_surplus(config);
    announce_starts(config);
}

/* A run that goes on has not ended. */
static int remove_result(const char *dir)
{
    char *path = hd_format("%s/result.json", dir);
    if (!path)
        return HD_ERR_NOMEM;
    const bool removed = unlink(path) == 0 || errno == ENOENT;
    const int status = removed ? HD_OK : hd_fail(HD_ERR_SYSTEM, "%s cannot be removed: %m", path);
    hd_free(path);
    return status;
}

static int describe_policy(struct hd_train *train)
{
    char *policy = hd_run_spec_describe_policy(&train->run_spec),
         *origins = json_dumps(train->origins, JSON_COMPACT);
    const char *stated = json_object_size(train->origins) > 0 ? origins : NULL;
    const int status = policy && origins
                           ? hd_logbook_set_policy(train->outputs.logbook, policy, stated)
                           : HD_ERR_NOMEM;
    free(policy);
    free(origins);
    return status;
}

int hd_outputs_open(struct hd_train *train)
{
    const char *wanted = train->options->dir;
    const json_t *log = NULL;
    if (!train->dir)
        HD_TRY(hd_rundir_create(wanted ? wanted : train->run_spec.settings.exp_name, wanted != NULL,
                                &train->dir));
    else if (train->resume_from)
        log = json_object_get(
            json_object_get(hd_checkpoint_get_metadata(train->resume_from), "run"), "log");
    HD_TRY(hd_rundir_lock(train->dir, &train->outputs.dir_lock));
    HD_TRY(remove_result(train->dir));
    HD_TRY(write_config(train));
    HD_TRY(hd_logbook_create(train->dir, log, &train->outputs.logbook));
    HD_TRY(describe_policy(train));
    train->outputs.opened = true;
    hd_results_reserve(train);
    hd_videos_open(train);
    announce(train);
    return HD_OK;
}

/* -- Progress ---------------------------------------------------------------------------------- */

enum { TERMINAL_MS = 100, LOG_FILE_MS = 5000 };

/* Returns the share of the way to the nearest limit, 0 to 1. */
static double share_done(const struct hd_train *train, int64_t updates, int64_t env_steps)
{
    double by_steps = (double)env_steps / (double)train->run_spec.settings.max_env_step;
    double by_updates = (double)updates / (double)train->run_spec.settings.max_train_iter;
    return by_steps > by_updates ? by_steps : by_updates;
}

/* Writes the two largest units of a time: "1 h 22 min". */
static void format_duration(double seconds, char *text, size_t bytes)
{
    static const struct {
        const char *name;
        int64_t seconds;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}, {"s", 1}};
    enum { LAST = sizeof units / sizeof *units - 1 };
    const int64_t whole = (int64_t)ceil(seconds);
    int i = 0;
    while (i < LAST && whole < units[i].seconds)
        i++;
    const int64_t rest = whole % units[i].seconds;
    const int used =
        snprintf(text, bytes, "%" PRId64 " %s", whole / units[i].seconds, units[i].name);
    if (i < LAST && rest >= units[i + 1].seconds)
        snprintf(text + used, bytes - (size_t)used, " %" PRId64 " %s", rest / units[i + 1].seconds,
                 units[i + 1].name);
}

/* Writes which task a long iteration waits for. */
static int format_wait(const struct hd_train *train, int64_t now_ns, char *text, size_t bytes)
{
    enum { LONG_NS = 1000000000 };
    const int64_t waited_ns = now_ns - train->outputs.iteration_ns;
    const char *name = hd_session_get_running(train->session);
    if (waited_ns < LONG_NS || !name)
        return 0;
    return snprintf(text, bytes, "  in %s for %.0f s", name, (double)waited_ns * 1e-9);
}

static void format_progress(const struct hd_train *train, int64_t now_ns, char *line, size_t bytes)
{
    struct hd_progress progress = hd_logbook_get_progress(train->outputs.logbook);
    int64_t updates = hd_executor_get_counter(train->executor, "update");
    double seconds = (double)(now_ns - train->timing.train_ns) * 1e-9;
    char left[32];
    const struct hd_run_timing *timing = &train->timing;
    const double share = share_done(train, updates, progress.env_step);
    const double here = share - share_done(train, timing->first_update, timing->first_env_step);
    int used = snprintf(line, bytes, "update %" PRId64 "  ", updates);
    if (progress.env_step > 0)
        used += snprintf(line + used, bytes - (size_t)used, "env step %" PRId64 "  ",
                         progress.env_step);
    used += snprintf(line + used, bytes - (size_t)used, "%.0f updates/s",
                     (double)(updates - timing->first_update) / seconds);
    if (!isnan(progress.eval_mean))
        used += snprintf(line + used, bytes - (size_t)used, "  return %.1f (best %.1f)",
                         progress.eval_mean, progress.best);
    used += format_wait(train, now_ns, line + used, bytes - (size_t)used);
    if (here > 0.001 && share < 1) {
        format_duration(seconds * (1 - share) / here, left, sizeof left);
        snprintf(line + used, bytes - (size_t)used, "  ETA <= %s", left);
    }
}

/* The first evaluation waits for what Python has to import. */
static bool runs_python(const struct hd_train *train)
{
    return strcmp(hd_config_get_text(train->run_spec.config, "env.type"), "gymnasium") == 0;
}

void hd_outputs_show_progress(struct hd_train *train)
{
    bool terminal = hd_log_can_show_progress();
    int64_t now_ns = hd_clock_get_ns();
    int64_t wait_ns = (terminal ? TERMINAL_MS : LOG_FILE_MS) * INT64_C(1000000);
    if (train->options->quiet || now_ns - train->outputs.shown_ns < wait_ns)
        return;
    bool first = train->outputs.shown_ns == 0;
    train->outputs.shown_ns = now_ns;
    if (first && terminal && runs_python(train))
        hd_log_show_progress("starting Python for the environments");
    if (first)
        return;
    char line[256];
    format_progress(train, now_ns, line, sizeof line);
    if (terminal)
        hd_log_show_progress(line);
    else
        hd_log(HD_LOG_INFO, "%s", line);
}
