/* SPDX-License-Identifier: Apache-2.0 */
/* Verb `log`: writes what it reads to rank 0's logs, under DI-engine's tags (docs/di-engine.md
 * 8.2), and leaves out values that are none. Times come from the runtime (context->timing) and are
 * no part of what must be bitwise identical. */
#include "runtime/base/status.h"
#include "runtime/io/logbook.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/eval_result.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct hd_port ports[] = {
    {"value", NULL, .mode = HD_READ, .none = true},
    {0},
};

enum { ITEMS_MAX = 32 };

static double seconds_of(const struct hd_context *context, const char *verb)
{
    for (const struct hd_timing *timing = context->timing; timing && timing->verb; timing++)
        if (strcmp(timing->verb, verb) == 0)
            return (double)timing->busy_ns * 1e-9;
    return 0;
}

static double since_last(struct hd_context *context, const char *key, double now)
{
    return now - hd_logbook_replace_value(context->logbook, key, now);
}

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

/* -- Evaluations ------------------------------------------------------------------------------- */

static int log_eval_result(struct hd_context *context, const struct hd_view *view)
{
    const struct hd_eval_result *result = view->data;
    struct hd_logbook *book = context->logbook;
    double seconds = since_last(context, "evaluate", seconds_of(context, "evaluate"));
    double episodes = (double)result->episodes, steps = (double)result->steps;
    const struct hd_log_item items[] = {
        {"episode_count", episodes, false},
        {"envstep_count", steps, false},
        {"avg_envstep_per_episode", steps / episodes, false},
        {"evaluate_time", seconds, false},
        {"avg_envstep_per_sec", rate(steps, seconds), false},
        {"avg_time_per_episode", rate(episodes, seconds),
         false}, /* DI-engine's name; it is episodes per second */
        {"reward_mean", result->mean, false},
        {"reward_std", result->std, false},
        {"reward_max", result->max, false},
        {"reward_min", result->min, false},
        {"eval_episode_return_mean", result->mean, false},
    };
    struct hd_progress progress = hd_logbook_get_progress(book);
    progress.eval_mean = result->mean;
    if (hd_eval_result_is_better(result->mean, result->train_iter, progress.best,
                                 progress.best_update)) {
        progress.best = result->mean;
        progress.best_update = result->train_iter;
    }
    if (result->env_step > progress.env_step)
        progress.env_step = result->env_step;
    hd_logbook_set_progress(book, progress);
    for (int64_t i = 0; i < result->episodes; i++)
        HD_TRY(hd_logbook_write_line(book, "evaluator",
                                     "[EVALUATOR]env %lld finish episode, final reward: %.4f",
                                     (long long)i, result->returns[i]));
    return hd_logbook_write_table(book, "evaluator", "=== Evaluation ===", result->train_iter,
                                  result->env_step, items, sizeof items / sizeof *items);
}

/* -- Statistics -------------------------------------------------------------------------------- */

static int log_scalars(struct hd_context *context, const struct hd_view *view, int64_t env_step)
{
    struct hd_log_item items[ITEMS_MAX];
    char title[64];
    const char *name;
    int n = 0;
    for (int i = 0; n < ITEMS_MAX && (name = view->spec->type->field_name(view->spec, i)); i++) {
        double value = view->spec->type->field(view->spec, view->data, i);
        if (!isnan(value))
            items[n++] = (struct hd_log_item){name, value, false};
    }
    if (n == 0)
        return HD_OK;
    snprintf(title, sizeof title,
             "[RANK0]: === Training Iteration %lld Result ===", (long long)context->update);
    return hd_logbook_write_table(context->logbook, hd_scalars_get_component(view->spec), title,
                                  context->update, env_step, items, n);
}

/* Running statistics stand beside those of the learner, under the value's name; of observations
 * those of the first number. */
static int log_moments(struct hd_context *context, const struct hd_view *view, int64_t env_step)
{
    struct hd_log_item items[ITEMS_MAX];
    char names[ITEMS_MAX][64], title[64];
    const char *field;
    int n = 0;
    for (; n < ITEMS_MAX && (field = view->spec->type->field_name(view->spec, n)); n++) {
        snprintf(names[n], sizeof names[n], "%s_%s", view->spec->name, field);
        items[n] = (struct hd_log_item){names[n],
                                        view->spec->type->field(view->spec, view->data, n), false};
    }
    snprintf(title, sizeof title, "running statistics of update %lld", (long long)context->update);
    return hd_logbook_write_table(context->logbook, "learner", title, context->update, env_step,
                                  items, n);
}

/* -- Collecting: episodes of all shards, and counts since the last log ------------------------- */

static double field(const struct hd_view *view, const char *name)
{
    int i = hd_value_find_field(view->spec, name);
    return i < 0 ? NAN : view->spec->type->field(view->spec, view->data, i);
}

static int log_collector(struct hd_context *context, const struct hd_view *episodes,
                         const struct hd_view *totals)
{
    const struct hd_env_counters *counters = totals->data;
    double mean = field(episodes, "reward_mean");
    if (isnan(mean))
        return HD_OK;
    double steps = since_last(context, "env_step", (double)counters->env_step);
    double ended = since_last(context, "episode", (double)counters->episode);
    double samples = since_last(context, "sample", (double)counters->sample);
    double seconds =
        since_last(context, "collect",
                   seconds_of(context, "collect") + seconds_of(context, "collect_on_policy"));
    double variance = field(episodes, "reward_square") - mean * mean;
    const struct hd_log_item items[] = {
        {"episode_count", ended, false},
        {"envstep_count", steps, false},
        {"train_sample_count", samples, false},
        {"avg_envstep_per_episode", field(episodes, "avg_envstep_per_episode"), false},
        {"avg_sample_per_episode", ended > 0 ? samples / ended : samples, false},
        {"avg_envstep_per_sec", rate(steps, seconds), false},
        {"avg_train_sample_per_sec", rate(samples, seconds), false},
        {"avg_episode_per_sec", rate(ended, seconds), false},
        {"reward_mean", mean, false},
        {"reward_std", variance > 0 ? sqrt(variance) : 0, false},
        {"reward_max", field(episodes, "reward_max"), false},
        {"reward_min", field(episodes, "reward_min"), false},
        {"total_envstep_count", (double)counters->env_step, true},
        {"total_train_sample_count", (double)counters->sample, false},
        {"total_episode_count", (double)counters->episode, false},
        {"total_dropped_sample_count", (double)counters->dropped, false}, /* where there are any */
    };
    const int n = sizeof items / sizeof *items - (counters->dropped == 0);
    return hd_logbook_write_table(context->logbook, "collector", "collect end:", context->update,
                                  counters->env_step, items, n);
}

static bool is_component(const struct hd_view *view, const char *component)
{
    return view->spec->type == &hd_type_scalars &&
           strcmp(hd_scalars_get_component(view->spec), component) == 0;
}

static const struct hd_view *find_counters(const struct hd_view *views, int n)
{
    for (int i = 0; i < n; i++)
        if (views[i].spec->type == &hd_type_env_counters)
            return &views[i];
    return NULL;
}

static int log_view(struct hd_context *context, const struct hd_view *view,
                    const struct hd_view *totals, int64_t env_step)
{
    if (view->spec->type->none && view->version == 0)
        return HD_OK;
    if (view->spec->type == &hd_type_eval_result)
        return log_eval_result(context, view);
    if (is_component(view, "collector"))
        return totals ? log_collector(context, view, totals) : HD_OK;
    if (view->spec->type == &hd_type_scalars)
        return log_scalars(context, view, env_step);
    if (view->spec->type == &hd_type_moments)
        return log_moments(context, view, env_step);
    return HD_OK;
}

static int log_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    if (!context->logbook)
        return HD_OK;
    const struct hd_view *totals = find_counters(views, context->n_views);
    struct hd_progress progress = hd_logbook_get_progress(context->logbook);
    if (totals)
        progress.env_step = ((const struct hd_env_counters *)totals->data)->env_step;
    hd_logbook_set_progress(context->logbook, progress);
    for (int i = 0; i < context->n_views; i++)
        if (log_view(context, &views[i], totals, progress.env_step) != HD_OK)
            return hd_body_fail(context, "the logs of %s cannot be written",
                                hd_logbook_get_dir(context->logbook));
    return HD_OK;
}

const struct hd_verb hd_verb_log = {
    .name = "log",
    .stream_id = 0x3e9db079ffc99ceb,
    .ports = ports,
    .many = true,
    .logs = true,
    .body = log_body,
    .help = "writes what it reads to the logs",
};
