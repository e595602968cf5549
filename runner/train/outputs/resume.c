/* SPDX-License-Identifier: Apache-2.0 */
/* Called once a run, before it starts. */
#include "runner/train/outputs/resume.h"

#include "runner/base/config_leaves.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/io/result.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- The config -------------------------------------------------------------------------------- */

/* These say only when a run ends. */
static const char *const limits[] = {"max_env_step", "max_train_iter", "env.stop_value",
                                     "policy.learn.train_epoch"};

enum { N_LIMITS = sizeof limits / sizeof *limits };

/* Returns whether a key does not touch the bits so far. */
static bool may_differ(const char *path)
{
    static const char *const keys[] = {"exp_name",
                                       "runtime.nan_skips_max",
                                       "policy.collect.data_path", /* its content is compared */
                                       "runtime.executor",
                                       "runtime.workers",
                                       "runtime.gpus",
                                       "runtime.cuda_devices",
                                       "policy.eval.at_limit",
                                       "runtime.scheduler",
                                       "runtime.performance_models",
                                       "runtime.max_inflight_iterations",
                                       "runtime.param_check_interval",
                                       "runtime.watchdog_s",
                                       "runtime.sigterm_grace_s",
                                       "runtime.heartbeat_timeout_s",
                                       "runtime.link_timeout_s",
                                       "runtime.link_hash",
                                       "runtime.open_exchanges",
                                       "runtime.checkpoint_interval_s",
                                       "runtime.checkpoint_keep",
                                       "runtime.checkpoint_timeout_s",
                                       "runtime.allow_fingerprint_mismatch",
                                       "runtime.allow_origin_mismatch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(path, keys[i]) == 0)
            return true;
    for (int i = 0; i < N_LIMITS; i++)
        if (strcmp(path, limits[i]) == 0)
            return true;
    return false;
}

static int list_leaves(const char *name, const char *text, json_t **list_p)
{
    json_t *list = json_array();
    const int status = hd_config_list_leaves(name, text, (int64_t)strlen(text), list);
    if (status == HD_OK)
        *list_p = list;
    else
        json_decref(list);
    return status;
}

/* Reads a number, which may stand alone in a list: 3 or [3]. */
static bool read_number(const char *text, double *value_p)
{
    const bool list = text[0] == '[';
    char *end;
    *value_p = strtod(text + list, &end);
    return end != text + list && strcmp(end, list ? "]" : "") == 0;
}

/* Numbers are equal however they are written. */
static bool are_equal(const char *a, const char *b)
{
    double x, y;
    if (!a || !b)
        return false;
    return strcmp(a, b) == 0 || (read_number(a, &x) && read_number(b, &y) && x == y);
}

/* A run that goes on does not read files of weights again, of which it takes the hash. */
static bool is_file_hash(const char *path)
{
    static const char begin[] = "graph.values.", end[] = ".init.hash";
    const size_t length = strlen(path);
    return strncmp(path, begin, sizeof begin - 1) == 0 && length > sizeof end &&
           strcmp(path + length - (sizeof end - 1), end) == 0;
}

static int report_difference(const char *path, const char *then, const char *now, const char *where)
{
    if (may_differ(path) || are_equal(then, now) || (!now && is_file_hash(path)))
        return 0;
    hd_log(HD_LOG_ERROR, "  %s: %s in %s, %s now", path, then ? then : "absent", where,
           now ? now : "absent");
    return 1;
}

static int count_differences(const json_t *then, const json_t *now, const char *where)
{
    size_t i;
    json_t *leaf;
    int n = 0;
    json_array_foreach(then, i, leaf) {
        const char *path = json_string_value(json_array_get(leaf, 0));
        n += report_difference(path, hd_config_find_leaf(then, path),
                               hd_config_find_leaf(now, path), where);
    }
    json_array_foreach(now, i, leaf) {
        const char *path = json_string_value(json_array_get(leaf, 0));
        if (!hd_config_find_leaf(then, path))
            n += report_difference(path, NULL, hd_config_find_leaf(now, path), where);
    }
    return n;
}

static int list_now(const struct hd_train *train, json_t **now_p)
{
    char *text = hd_run_spec_format(&train->run_spec);
    const int status = text ? list_leaves("the config", text, now_p) : HD_ERR_NOMEM;
    free(text);
    return status;
}

/* Refuses a run whose config was another one; `where` says in which file that stands. */
static int check_config(const struct hd_train *train, const json_t *then, const char *where)
{
    json_t *now;
    HD_TRY(list_now(train, &now));
    const int n = count_differences(then, now, where);
    json_decref(now);
    if (n == 0)
        return HD_OK;
    return hd_fail(
        HD_ERR_INPUT,
        "the config is not that of the run in %s, of which nothing was touched. These "
        "may differ: limits (max_env_step, max_train_iter, env.stop_value, "
        "policy.learn.train_epoch), exp_name, policy.collect.data_path where the same data "
        "set lies and, of runtime.*, all but precision, reduction, on_nan and transport",
        train->dir);
}

/* -- Finding ----------------------------------------------------------------------------------- */

/* Stores the last of name, name_1, … that exists, or NULL. What cannot be looked at for a while is
 * no end of the row. */
static int find_newest(const char *name, char **newest_p)
{
    *newest_p = NULL;
    for (int i = 0;; i++) {
        char *next = i == 0 ? hd_strdup(name) : hd_format("%s_%d", name, i);
        if (next && hd_folder_exists(next)) {
            hd_free(*newest_p);
            *newest_p = next;
            continue;
        }
        const bool ends = errno == ENOENT || errno == ENOTDIR || errno == EEXIST;
        const int status = !next  ? HD_ERR_NOMEM
                           : ends ? HD_OK
                                  : hd_fail(HD_ERR_SYSTEM, "%s cannot be read: %m", next);
        hd_free(next);
        return status;
    }
}

int hd_resume_check(const struct hd_train *train)
{
    if (!train->resume_from)
        return HD_OK;
    const json_t *run = json_object_get(hd_checkpoint_get_metadata(train->resume_from), "run");
    const char *then = json_string_value(json_object_get(run, "fingerprint"));
    if (then && strcmp(then, train->fingerprint.text) == 0)
        return HD_OK;
    if (train->run_spec.settings.allow_fingerprint_mismatch) {
        hd_log(HD_LOG_WARN, "the checkpoint was made with other arithmetic: bits will differ");
        return HD_OK;
    }
    return hd_fail(HD_ERR_INPUT,
                   "the checkpoint was made with other arithmetic (%s, now %s): the run would not "
                   "be the one that was interrupted; runtime.allow_fingerprint_mismatch: true lets "
                   "it go on",
                   then ? then : "unknown", train->fingerprint.text);
}

/* Takes the run's value of a key that the config leaves open. */
static int adopt(struct hd_train *train, const char *key, const char *text)
{
    HD_TRY(hd_options_add_set(train->options, hd_format("%s=%s", key, text), NULL));
    hd_run_spec_release(&train->run_spec);
    return hd_run_spec_load(train->options, train->ranks.world.world, &train->run_spec);
}

/* Takes the run's number of shards. */
static int adopt_shards(struct hd_train *train, const json_t *then)
{
    const char *text = hd_config_find_leaf(then, "world.shards");
    const int64_t shards = text ? atoll(text) : 0;
    if (shards == train->run_spec.shards || !train->run_spec.shards_are_ranks)
        return HD_OK;
    return adopt(train, "world.shards", text ? text : "0");
}

/* Lets schedules end where they did when the run began, whatever its limits are now. */
static int adopt_total(struct hd_train *train, const json_t *then)
{
    static const char key[] = "policy.learn.schedule.total";
    const char *text = hd_config_find_leaf(then, key);
    double number;
    if (!train->run_spec.schedule_is_limited || !text || !read_number(text, &number) ||
        number == (double)hd_config_get_int(train->run_spec.config, key))
        return HD_OK;
    if (train->ranks.world.rank == 0)
        hd_log(HD_LOG_INFO, "%s stays %s, the limit with which the run began", key, text);
    return adopt(train, key, text);
}

/* Finds the run directory that --resume means. */
static int find_dir(struct hd_train *train)
{
    const struct hd_options *options = train->options;
    if (options->resume[0])
        train->dir = hd_strdup(options->resume);
    else if (options->dir)
        train->dir = hd_folder_exists(options->dir) ? hd_strdup(options->dir) : NULL;
    else
        return find_newest(train->run_spec.settings.exp_name, &train->dir);
    return HD_OK;
}

/* Lists the config that the run directory holds; NULL: the directory is empty. */
static int list_then(const struct hd_train *train, json_t **then_p)
{
    char *text, *path = hd_format("%s/total_config.yaml", train->dir);
    *then_p = NULL;
    if (!path)
        return HD_ERR_NOMEM;
    int status = HD_OK;
    if (access(path, F_OK) == 0) {
        status = hd_file_read(path, HD_INPUT_RUN, &text, NULL);
        if (status == HD_OK) {
            status = list_leaves(path, text, then_p);
            hd_free(text);
        }
    } else if (!hd_folder_is_empty(train->dir)) {
        status = hd_fail(HD_ERR_INPUT,
                         "%s is not the directory of a run (there is no total_config.yaml in it), "
                         "so --resume cannot go on there; nothing was touched",
                         train->dir);
    }
    hd_free(path);
    return status;
}

/* -- Ended runs -------------------------------------------------------------------------------- */

static bool are_limits_equal(const json_t *then, const json_t *now)
{
    for (int i = 0; i < N_LIMITS; i++)
        if (!are_equal(hd_config_find_leaf(then, limits[i]), hd_config_find_leaf(now, limits[i])))
            return false;
    return true;
}

static double number(const json_t *result, const char *key)
{
    const json_t *value = json_object_get(result, key);
    return json_is_number(value) ? json_number_value(value) : -INFINITY;
}

/* Returns whether the run as it ended would stop at once under the limits of today. */
static bool is_limit_reached(const struct hd_run_spec *run_spec, const json_t *result)
{
    return number(result, "train_iter") >= (double)run_spec->settings.max_train_iter ||
           number(result, "env_step") >= (double)run_spec->settings.max_env_step ||
           number(result, "eval_value") >= run_spec->settings.stop_value;
}

/* Returns HD_RESUME_ENDED for a run that a stop step has ended, unless other limits let it go on;
 * signals and failures have not ended it for good. */
static int check_ended(const struct hd_train *train, const json_t *then)
{
    json_t *now, *result;
    HD_TRY(list_now(train, &now));
    const bool limits_equal = are_limits_equal(then, now);
    json_decref(now);
    HD_TRY(hd_run_dir_read_result(train->dir, &result));
    const char *reason = json_string_value(json_object_get(result, "reason"));
    const bool ended = reason && strcmp(reason, HD_RESULT_STOPPED) != 0 &&
                       strcmp(reason, HD_RESULT_FAILED) != 0 &&
                       (limits_equal || is_limit_reached(&train->run_spec, result));
    if (ended && train->ranks.world.rank == 0)
        hd_log(HD_LOG_INFO, "%s has ended (%s): nothing to do", train->dir, reason);
    json_decref(result);
    return ended ? HD_RESUME_ENDED : HD_OK;
}

/* -- Resuming ---------------------------------------------------------------------------------- */

/* A pickle is code. Whoever goes on from a checkpoint of pickles is told that before any runs. */
static void tell_of_pickles(const struct hd_train *train, const json_t *config)
{
    static const char *const keys[] = {"env.options.save", "env.options.collector.save",
                                       "env.options.evaluator.save"};
    bool pickles = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *text = hd_config_find_leaf(config, keys[i]);
        pickles |= text && strcmp(text, "pickle") == 0;
    }
    if (pickles && train->ranks.world.rank == 0)
        hd_log(HD_LOG_WARN,
               "the checkpoint in %s holds pickles (env.options.save), which Python runs as code: "
               "go on from your own checkpoints only",
               train->dir);
}

/* Opens the newest good checkpoint, whose config is the run's unless somebody changed files. */
static int open_checkpoint(struct hd_train *train)
{
    json_t *then;
    HD_TRY(hd_checkpoint_open(train->dir, &train->resume_from));
    if (!train->resume_from)
        return HD_OK;
    const json_t *run = json_object_get(hd_checkpoint_get_metadata(train->resume_from), "run");
    const char *text = json_string_value(json_object_get(run, "config"));
    if (!text)
        return hd_fail(HD_ERR_FORMAT, "the checkpoint in %s does not say its config", train->dir);
    HD_TRY(list_leaves("the checkpoint's config", text, &then));
    int status = check_config(train, then, "the checkpoint");
    if (status == HD_OK)
        status = hd_run_spec_read_weights(&train->run_spec, then, false);
    if (status == HD_OK)
        tell_of_pickles(train, then);
    json_decref(then);
    return status;
}

static int check_run(struct hd_train *train, const json_t *then)
{
    HD_TRY(adopt_shards(train, then));
    HD_TRY(adopt_total(train, then));
    HD_TRY(check_config(train, then, "its total_config.yaml"));
    HD_TRY(check_ended(train, then));
    return open_checkpoint(train);
}

/* Refuses a new run where there is one. */
static int check_unused(const struct hd_train *train)
{
    const char *dir = train->options->dir;
    char *path = dir ? hd_format("%s/total_config.yaml", dir) : NULL;
    const bool used = path && access(path, F_OK) == 0;
    hd_free(path);
    if (!used)
        return HD_OK;
    json_t *result;
    HD_TRY(hd_run_dir_read_result(dir, &result));
    const char *reason = json_string_value(json_object_get(result, "reason"));
    if (train->ranks.world.rank == 0)
        hd_log(HD_LOG_ERROR, "%s is a run (%s): --resume goes on with it, or name another --dir",
               dir, reason ? reason : "unfinished");
    json_decref(result);
    return HD_ERR_INPUT;
}

/* Says that nothing is continued, so that nobody takes a new run for an old one. */
static void tell_new(const struct hd_train *train)
{
    const char *wanted =
        train->options->dir ? train->options->dir : train->run_spec.settings.exp_name;
    if (train->ranks.world.rank > 0)
        return;
    if (train->dir)
        hd_log(HD_LOG_INFO, "--resume: %s has no checkpoint, so the run begins anew there",
               train->dir);
    else
        hd_log(HD_LOG_INFO, "--resume: there is no run %s, so a new one begins", wanted);
}

static int find_checkpoint(struct hd_train *train)
{
    json_t *then = NULL;
    HD_TRY(hd_run_dir_check_logs(train->dir));
    HD_TRY(list_then(train, &then));
    const int status = then ? check_run(train, then) : HD_OK;
    json_decref(then);
    return status;
}

static int find(struct hd_train *train)
{
    if (!train->options->resume)
        return check_unused(train);
    HD_TRY(find_dir(train));
    if (train->dir)
        HD_TRY(find_checkpoint(train));
    if (!train->resume_from)
        tell_new(train);
    return HD_OK;
}

int hd_resume_find(struct hd_train *train)
{
    HD_TRY(find(train));
    if (train->resume_from)
        return HD_OK;
    return hd_run_spec_read_weights(&train->run_spec, NULL, train->ranks.world.rank == 0);
}

int hd_resume_restore(struct hd_train *train)
{
    if (!train->resume_from)
        return HD_OK;
    HD_TRY(hd_executor_restore(
        train->executor, train->resume_from,
        json_object_get(hd_checkpoint_get_metadata(train->resume_from), "executor")));
    if (train->ranks.world.rank == 0)
        hd_log(HD_LOG_INFO,
               "resuming from update %" PRId64 ", the checkpoint of iteration %" PRId64 " in %s",
               hd_executor_get_counter(train->executor, "update"),
               hd_checkpoint_get_iteration(train->resume_from), train->dir);
    hd_checkpoint_close(train->resume_from);
    train->resume_from = NULL;
    return HD_OK;
}
