/* SPDX-License-Identifier: Apache-2.0 */
/* runner compare: several runs over each other, as a table of text and as a page. */
#include "runner/base/commands.h"
#include "runner/base/options.h"
#include "runner/history/history.h"
#include "runner/report/page.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct runs {
    int n;
    struct hd_history *list;
};

/* The outcome is compared; NaN, "": the run left none. */
struct outcome {
    const char *reason, *param_hash, *fingerprint;
    double last, best, train;           /* returns: of evaluations, of training episodes late */
    double updates, env_steps, seconds; /* of training */
    double best_update;
    double goal_updates, goal_env_steps,
        goal_seconds; /* at the first evaluation at the stop value */
    double ranks, shards;
};

/* -- Outcomes ---------------------------------------------------------------------------------- */

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
static void find_goal(const struct hd_history *history, struct outcome *outcome)
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

/* Reads returns; those of result.json count weights that were evaluated when the run was over. */
static void read_evaluations(const struct hd_history *history, struct outcome *outcome)
{
    const struct hd_evaluations logged = hd_curves_find_evaluations(&history->curves);
    const double last = number(history->result, "last_value"),
                 best = number(history->result, "best_value");
    outcome->last = isnan(last) ? logged.last : last;
    outcome->best = isnan(best) ? logged.best : best;
    outcome->best_update = isnan(outcome->best) ? NAN
                           : isnan(best)        ? (double)logged.best_update
                                                : number(history->result, "best_train_iter");
}

static struct outcome outcome_of(const struct hd_history *history)
{
    const size_t n = json_array_size(history->samples);
    const json_t *last = n > 0 ? json_array_get(history->samples, n - 1) : NULL;
    const json_t *result = history->result;
    struct outcome outcome = {
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
    return outcome;
}

/* -- What differs ------------------------------------------------------------------------------ */

/* Returns whether a difference of this key counts; the name of a run does not. */
static bool counts(const char *key)
{
    return strcmp(key, "exp_name") != 0;
}

static bool listed(const json_t *differences, const char *key)
{
    size_t i;
    json_t *row;
    json_array_foreach(differences, i, row) if (strcmp(json_string_value(json_array_get(row, 0)),
                                                       key) == 0) return true;
    return false;
}

static bool differs(const struct runs *runs, const char *key)
{
    const char *first = hd_history_get_key(&runs->list[0], key);
    for (int r = 1; r < runs->n; r++)
        if (strcmp(first, hd_history_get_key(&runs->list[r], key)) != 0)
            return true;
    return false;
}

/* [[key, text in the first run, in the second, …], …], "" where a run has no such key. */
static json_t *find_differences(const struct runs *runs)
{
    json_t *differences = json_array();
    for (int r = 0; r < runs->n; r++) {
        size_t i;
        json_t *leaf;
        json_array_foreach(runs->list[r].config, i, leaf)
        {
            const char *key = json_string_value(json_array_get(leaf, 0));
            if (!counts(key) || !differs(runs, key) || listed(differences, key))
                continue;
            json_t *row = json_pack("[s]", key);
            for (int k = 0; k < runs->n; k++)
                json_array_append_new(row, json_string(hd_history_get_key(&runs->list[k], key)));
            json_array_append_new(differences, row);
        }
    }
    return differences;
}

/* -- Text -------------------------------------------------------------------------------------- */

static void print_number(double value)
{
    if (isnan(value))
        printf("  %14s", "-");
    else
        printf("  %14.*f", value == floor(value) ? 0 : fabs(value) < 100 ? 3 : 1, value);
}

static void print_rows(const struct runs *runs, const struct outcome *outcomes)
{
    int width = 3;
    for (int r = 0; r < runs->n; r++)
        width = (int)strlen(runs->list[r].dir) > width ? (int)strlen(runs->list[r].dir) : width;
    printf("%-*s  %-12s  %14s  %14s  %14s  %14s  %14s  %14s  %14s  %14s  %14s\n", width, "run",
           "ended by", "last return", "best return", "of update", "in training", "updates",
           "env steps", "training s", "updates/s", "env steps/s");
    for (int r = 0; r < runs->n; r++) {
        const struct outcome *o = &outcomes[r];
        printf("%-*s  %-12s", width, runs->list[r].dir, o->reason[0] ? o->reason : "-");
        const double numbers[] = {o->last,
                                  o->best,
                                  o->best_update,
                                  o->train,
                                  o->updates,
                                  o->env_steps,
                                  o->seconds,
                                  o->updates / o->seconds,
                                  o->env_steps / o->seconds};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            print_number(numbers[i]);
        printf("\n");
    }
    printf("\n%-*s  %14s  %14s  %14s  %6s  %6s  %-16s  %-16s\n", width, "run", "goal: updates",
           "env steps", "seconds", "ranks", "shards", "param_hash", "arithmetic");
    for (int r = 0; r < runs->n; r++) {
        const struct outcome *o = &outcomes[r];
        printf("%-*s", width, runs->list[r].dir);
        print_number(o->goal_updates);
        print_number(o->goal_env_steps);
        print_number(o->goal_seconds);
        printf("  %6.0f  %6.0f  %-16s  %-16s\n", o->ranks, o->shards,
               o->param_hash[0] ? o->param_hash : "-", o->fingerprint[0] ? o->fingerprint : "-");
    }
}

static void print_hashes(const struct runs *runs, const struct outcome *outcomes)
{
    int same = 0, known = 0;
    for (int r = 0; r < runs->n; r++) {
        known += outcomes[r].param_hash[0] != '\0';
        same += strcmp(outcomes[r].param_hash, outcomes[0].param_hash) == 0;
    }
    printf("\nparameters at the end: %s\n", known < runs->n   ? "not known for every run"
                                            : same == runs->n ? "the same bits"
                                                              : "different bits (param_hash)");
}

static void print_differences(const struct runs *runs, const json_t *differences)
{
    enum { SHOWN_MAX = 40 };
    const size_t n = json_array_size(differences);
    if (n == 0) {
        printf("config: the same\n");
        return;
    }
    printf("config: %zu %s; the first: %s\n", n, n == 1 ? "key differs" : "keys differ",
           json_string_value(json_array_get(json_array_get(differences, 0), 0)));
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        const json_t *row = json_array_get(differences, i);
        printf("  %s:", json_string_value(json_array_get(row, 0)));
        for (int r = 0; r < runs->n; r++) {
            const char *text = json_string_value(json_array_get(row, (size_t)r + 1));
            printf("%s %s", r > 0 ? " |" : "", text && text[0] ? text : "-");
        }
        printf("\n");
    }
    if (n > SHOWN_MAX)
        printf("  ... and %zu more\n", n - SHOWN_MAX);
}

/* -- The page ---------------------------------------------------------------------------------- */

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *outcome_json(const struct outcome *o)
{
    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "reason", o->reason, "param_hash", o->param_hash, "fingerprint",
                     o->fingerprint, "last", real(o->last), "best", real(o->best), "best_update",
                     real(o->best_update), "train", real(o->train), "updates", real(o->updates),
                     "env_steps", real(o->env_steps), "seconds", real(o->seconds), "goal_updates",
                     real(o->goal_updates), "goal_env_steps", real(o->goal_env_steps),
                     "goal_seconds", real(o->goal_seconds), "ranks", real(o->ranks), "shards",
                     real(o->shards));
}

static int write_page(struct runs *runs, const struct outcome *outcomes, json_t *differences,
                      const char *out)
{
    json_t *list = json_array();
    for (int r = 0; r < runs->n; r++) {
        json_t *run = hd_history_build_json(&runs->list[r], false);
        json_object_set_new(run, "outcome", outcome_json(&outcomes[r]));
        json_array_append_new(list, run);
    }
    HD_TRY(hd_page_write(out, json_pack("{s:s, s:s, s:O, s:o}", "kind", "compare", "version",
                                        HD_VERSION, "differences", differences, "runs", list)));
    hd_log(HD_LOG_INFO, "%s", out);
    return HD_OK;
}

static int compare(struct runs *runs, const struct hd_options *options)
{
    struct outcome outcomes[HD_DIRS_MAX];
    runs->list = hd_alloc(options->n_dirs, sizeof *runs->list);
    if (!runs->list)
        return HD_ERR_NOMEM;
    for (; runs->n < options->n_dirs; runs->n++)
        HD_TRY(hd_history_read(options->dirs[runs->n], &runs->list[runs->n]));
    for (int r = 0; r < runs->n; r++)
        outcomes[r] = outcome_of(&runs->list[r]);
    json_t *differences = find_differences(runs);
    print_rows(runs, outcomes);
    print_hashes(runs, outcomes);
    print_differences(runs, differences);
    int status =
        write_page(runs, outcomes, differences, options->out ? options->out : "compare.html");
    json_decref(differences);
    return status;
}

int hd_command_compare(struct hd_options *options)
{
    struct runs runs = {0};
    int status = compare(&runs, options);
    for (int r = 0; r < runs.n; r++)
        hd_history_release(&runs.list[r]);
    hd_free(runs.list);
    return hd_status_get_exit_code(status);
}
