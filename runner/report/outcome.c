/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/outcome.h"

#include "runtime/io/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Finds the first evaluation at the stop value. */
static void find_goal(const struct hd_history *history, struct hd_outcome *outcome)
{
    const struct hd_table *table = hd_curves_find_table(&history->curves, "evaluator");
    const int column = table ? hd_table_find_column(table, "eval_episode_return_mean") : -1;
    const char *stop = hd_history_get_key(history, "env.stop_value");
    char *end;
    const double goal = strtod(stop, &end);
    for (int64_t i = 0; end != stop && column >= 0 && i < table->n_rows; i++) {
        const double *row = table->rows[i];
        if (isnan(row[column]) || row[column] < goal)
            continue;
        outcome->goal_updates = row[HD_CURVES_ITER];
        outcome->goal_env_steps = row[HD_CURVES_ENV_STEP];
        outcome->goal_seconds = row[HD_CURVES_WALL];
        return;
    }
}

/* Reads returns: those of result.json, whose last one may be that of weights that were evaluated
 * when the run was over; else what was logged. */
static void read_evaluations(const struct hd_history *history, struct hd_outcome *outcome)
{
    const struct hd_evaluations logged = hd_curves_find_evaluations(&history->curves);
    const double last = number(history->result, "last_value"),
                 during = number(history->result, "eval_value"),
                 best = number(history->result, "best_value");
    outcome->last = !isnan(last) ? last : isnan(during) ? logged.last : during;
    outcome->best = isnan(best) ? logged.best : best;
    outcome->best_update = isnan(outcome->best) ? NAN
                           : isnan(best)        ? (double)logged.best_update
                                                : number(history->result, "best_train_iter");
}

static const char *find_gap(const struct hd_history *history, const struct hd_outcome *outcome)
{
    if (!history->result)
        return "it has not ended";
    if (strcmp(outcome->reason, HD_RESULT_STOPPED) == 0)
        return "it was stopped and can be resumed";
    if (strcmp(outcome->reason, HD_RESULT_FAILED) == 0)
        return "it failed";
    return isnan(outcome->last) ? "it has no evaluation" : NULL;
}

struct hd_outcome hd_outcome_read(const struct hd_history *history)
{
    const size_t n = json_array_size(history->samples);
    const json_t *last = n > 0 ? json_array_get(history->samples, n - 1) : NULL;
    const json_t *result = history->result;
    struct hd_outcome outcome = {
        .reason = result ? word(result, "reason") : word(history->end, "reason"),
        .param_hash = word(result, "param_hash"),
        .fingerprint = word(result ? result : history->start, "fingerprint"),
        .train = number(result, "train_value"),
        .updates = number(result ? result : last, result ? "train_iter" : "update"),
        .env_steps = number(result ? result : last, "env_step"),
        .seconds = last ? number(last, "s") : number(result, "wall_s"),
        .goal_updates = NAN,
        .goal_env_steps = NAN,
        .goal_seconds = NAN,
        .ranks = number(result ? result : history->start, "ranks"),
        .shards = number(result ? result : history->start, "shards"),
    };
    read_evaluations(history, &outcome);
    find_goal(history, &outcome);
    outcome.missing = find_gap(history, &outcome);
    return outcome;
}

json_t *hd_json_number(double value)
{
    if (!isfinite(value))
        return json_null();
    return value == floor(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value)
                                                       : json_real(value);
}

json_t *hd_outcome_build_json(const struct hd_outcome *o)
{
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?}",
        "reason", o->reason, "param_hash", o->param_hash, "fingerprint", o->fingerprint, "last",
        hd_json_number(o->last), "best", hd_json_number(o->best), "best_update",
        hd_json_number(o->best_update), "train", hd_json_number(o->train), "updates",
        hd_json_number(o->updates), "env_steps", hd_json_number(o->env_steps), "seconds",
        hd_json_number(o->seconds), "goal_updates", hd_json_number(o->goal_updates),
        "goal_env_steps", hd_json_number(o->goal_env_steps), "goal_seconds",
        hd_json_number(o->goal_seconds), "ranks", hd_json_number(o->ranks), "shards",
        hd_json_number(o->shards), "missing", o->missing);
}
