/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/process.h"
#include "runner/base/signals.h"
#include "runner/history/history.h"
#include "runner/train/outputs/fields.h"
#include "runner/train/outputs/results.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/result.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- What the directory says ------------------------------------------------------------------- */

static void read_history(const struct hd_history *history, struct hd_result *result)
{
    const size_t n = json_array_size(history->samples);
    const json_t *last = n > 0 ? json_array_get(history->samples, n - 1) : NULL;
    const char *hash = json_string_value(json_object_get(history->start, "fingerprint"));
    const struct hd_evaluations evaluations = hd_curves_find_evaluations(&history->curves);
    result->train_iter = json_integer_value(json_object_get(last, "update"));
    result->env_step = json_integer_value(json_object_get(last, "env_step"));
    result->eval_value = evaluations.last;
    result->eval_train_iter = evaluations.last_update;
    result->best_value = evaluations.best;
    result->best_train_iter = evaluations.best_update;
    result->last_value = NAN;
    result->train_value = hd_curves_find_training_return(&history->curves);
    result->fingerprint = hash ? strtoull(hash, NULL, 16) : 0;
    result->shards = atoll(hd_history_get_key(history, "world.shards"));
    result->seed = atoll(hd_history_get_key(history, "seed"));
    result->env = hd_history_get_key(history, "env.type");
}

static int write_result(const struct hd_end *end, const struct hd_history *history)
{
    char command[HD_COMMAND_BYTES];
    struct hd_result result = {.skipped = -1,
                               .reason = end->reason,
                               .detail = end->detail,
                               .wall_s = end->wall_s,
                               .ranks = end->ranks,
                               .command = command};
    hd_process_get_command(command);
    read_history(history, &result);
    if (end->checkpointed) {
        result.train_iter = end->train_iter;
        result.env_step = end->env_step;
    }
    char *path = hd_format("%s/result.json", end->dir);
    const struct hd_file_put put = {hd_results_put, (void *)end->dir};
    int status = path ? hd_result_write(&put, path, &result) : HD_ERR_NOMEM;
    hd_free(path);
    return status;
}

void hd_end_write(const struct hd_end *end)
{
    struct hd_history history;
    if (hd_history_read(end->dir, &history) != HD_OK)
        return;
    if (write_result(end, &history) == HD_OK && end->options->write_report)
        end->options->write_report(end->dir);
    hd_history_release(&history);
}

bool hd_end_exists(const char *dir)
{
    char *path = hd_format("%s/result.json", dir);
    const bool exists = path && access(path, F_OK) == 0;
    hd_free(path);
    return exists;
}

/* -- What this rank says ----------------------------------------------------------------------- */

/* Returns whether this rank writes how the run ended. */
static bool is_writer(const struct hd_train *train, int status)
{
    const struct hd_world *world = &train->ranks.world;
    const bool lost = status == HD_ERR_PEER &&
                      (!train->session || hd_session_get_cause(train->session) == HD_ERR_PEER);
    if (!train->outputs.opened || (lost && world->supervised))
        return false;
    return world->rank == 0 || (lost && world->rank == 1 && train->lost_rank == 0);
}

/* Returns the signal that stopped the run, perhaps by way of another rank that got it, or 0. */
static int find_signal(const struct hd_train *train, int status)
{
    if (train->checkpoints.stop_signal)
        return train->checkpoints.stop_signal;
    if (status == HD_ERR_PEER && train->session)
        status = hd_session_get_cause(train->session);
    if (!hd_status_is_stop(status))
        return 0;
    return hd_asked_to_stop ? hd_asked_to_stop : status == HD_ERR_INTERRUPTED ? SIGINT : SIGTERM;
}

void hd_end_record(struct hd_train *train, int status)
{
    char detail[HD_MESSAGE_BYTES] = "";
    if (!is_writer(train, status))
        return;
    const int number = find_signal(train, status);
    if (number)
        snprintf(detail, sizeof detail, "SIG%s", sigabbrev_np(number));
    else if (train->session)
        snprintf(detail, sizeof detail, "%s", hd_session_get_message(train->session));
    if (!detail[0])
        hd_log_get_last_error(detail, sizeof detail);
    const bool checkpointed = train->checkpoints.can_resume;
    hd_end_write(&(struct hd_end){
        .options = train->options,
        .checkpointed = checkpointed,
        .train_iter = checkpointed ? hd_executor_get_counter(train->executor, "update") : 0,
        .env_step = checkpointed ? (int64_t)hd_fields_count_env_steps(train) : 0,
        .dir = train->dir,
        .reason = number ? HD_RESULT_STOPPED : HD_RESULT_FAILED,
        .detail = detail,
        .wall_s = (double)(hd_clock_get_ns() - train->timing.begin_ns) * 1e-9,
        .ranks = train->ranks.world.world,
    });
}
