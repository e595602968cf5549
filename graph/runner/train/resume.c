/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/train/resume.h"

#include "graph/runner/config_leaves.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* -- Differences ------------------------------------------------------------------------------- */

/* Makes an effective config an object {path: value}. */
static int list_keys(const char *name, const char *text, json_t *keys)
{
    json_t *leaves = json_array(), *leaf;
    size_t i;
    int status = hd_config_list_leaves(name, text, (int64_t)strlen(text), leaves);
    json_array_foreach(leaves, i, leaf)
    {
        json_object_set(keys, json_string_value(json_array_get(leaf, 0)), json_array_get(leaf, 1));
    }
    json_decref(leaves);
    return status;
}

/* Returns whether a key does not touch the bits so far, or says only when a run ends. */
static bool may_differ(const char *path)
{
    static const char *const keys[] = {"exp_name",
                                       "max_env_step",
                                       "max_train_iter",
                                       "env.stop_value",
                                       "runtime.executor",
                                       "runtime.workers",
                                       "runtime.gpus",
                                       "runtime.cuda_devices",
                                       "runtime.scheduler",
                                       "runtime.max_inflight_iterations",
                                       "runtime.param_check_interval",
                                       "runtime.watchdog_s",
                                       "runtime.sigterm_grace_s",
                                       "runtime.heartbeat_timeout_s",
                                       "runtime.checkpoint_interval_s",
                                       "runtime.checkpoint_keep",
                                       "runtime.checkpoint_timeout_s",
                                       "runtime.allow_fingerprint_mismatch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(path, keys[i]) == 0)
            return true;
    return false;
}

static int report_difference(const char *path, const json_t *then, const json_t *now)
{
    if (may_differ(path) || (then && now && json_equal(then, now)))
        return 0;
    hd_log(HD_LOG_ERROR, "  %s: %s in the checkpoint, %s now", path,
           then ? json_string_value(then) : "absent", now ? json_string_value(now) : "absent");
    return 1;
}

/* Logs the keys that differ and must not; returns how many. */
static int report_differences(const json_t *then, const json_t *now)
{
    const char *path;
    json_t *value;
    int n = 0;
    json_object_foreach((json_t *)then, path, value)
    {
        n += report_difference(path, value, json_object_get(now, path));
    }
    json_object_foreach((json_t *)now, path, value)
    {
        n += json_object_get(then, path) ? 0 : report_difference(path, NULL, value);
    }
    return n;
}

static int compare_configs(const char *then_text, const char *now_text, int *differences_p)
{
    json_t *then = json_object(), *now = json_object();
    int status = list_keys("the checkpoint's config", then_text, then);
    if (status == HD_OK)
        status = list_keys("the config", now_text, now);
    if (status == HD_OK)
        *differences_p = report_differences(then, now);
    json_decref(then);
    json_decref(now);
    return status;
}

static int check_config(const struct hd_train *train, const json_t *run)
{
    const char *then = json_string_value(json_object_get(run, "config"));
    int n = 0;
    if (!then)
        return hd_fail(HD_ERR_FORMAT, "the checkpoint does not say its config");
    char *now = hd_run_spec_format(&train->run_spec);
    int status = now ? compare_configs(then, now, &n) : HD_ERR_NOMEM;
    free(now);
    if (status != HD_OK || n == 0)
        return status;
    return hd_fail(HD_ERR_INPUT,
                   "the config is not that of the checkpoint in %s. These may differ: limits "
                   "(max_env_step, max_train_iter, env.stop_value), exp_name and, of runtime.*, "
                   "all but precision, reduction, on_nan and transport",
                   train->dir);
}

/* -- Finding ----------------------------------------------------------------------------------- */

/* Returns the last of name, name_1, … that exists; NULL: none, or no memory. */
static char *newest_of(const char *name)
{
    char *newest = NULL;
    for (int i = 0;; i++) {
        char *next = i == 0 ? hd_strdup(name) : hd_format("%s_%d", name, i);
        if (!next || !hd_folder_exists(next)) {
            hd_free(next);
            return newest;
        }
        hd_free(newest);
        newest = next;
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
    if (hd_config_get_bool(train->run_spec.config, "runtime.allow_fingerprint_mismatch")) {
        hd_log(HD_LOG_WARN, "the checkpoint was made with other arithmetic: bits will differ");
        return HD_OK;
    }
    return hd_fail(HD_ERR_INPUT,
                   "the checkpoint was made with other arithmetic (%s, now %s): the run would not "
                   "be the one that was interrupted; runtime.allow_fingerprint_mismatch: true lets "
                   "it go on",
                   then ? then : "unknown", train->fingerprint.text);
}

/* Takes the checkpoint's number of shards where the config leaves it open. */
static int adopt_shards(struct hd_train *train, const json_t *executor)
{
    const int64_t shards = json_integer_value(json_object_get(executor, "shards"));
    if (shards == train->run_spec.shards || !train->run_spec.shards_are_ranks)
        return HD_OK;
    HD_TRY(hd_options_add_set(train->options, hd_format("world.shards=%" PRId64, shards), NULL));
    hd_run_spec_release(&train->run_spec);
    return hd_run_spec_load(train->options, train->ranks.world.world, &train->run_spec);
}

int hd_resume_find(struct hd_train *train)
{
    const struct hd_options *options = train->options;
    if (!options->resume)
        return HD_OK;
    if (options->resume[0])
        train->dir = hd_strdup(options->resume);
    else if (options->dir)
        train->dir = hd_folder_exists(options->dir) ? hd_strdup(options->dir) : NULL;
    else
        train->dir = newest_of(hd_config_get_text(train->run_spec.config, "exp_name"));
    if (!train->dir)
        return HD_OK;
    HD_TRY(hd_checkpoint_open(train->dir, &train->resume_from));
    if (!train->resume_from)
        return HD_OK;
    const json_t *metadata = hd_checkpoint_get_metadata(train->resume_from);
    HD_TRY(adopt_shards(train, json_object_get(metadata, "executor")));
    return check_config(train, json_object_get(metadata, "run"));
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
