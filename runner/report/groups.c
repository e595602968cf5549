/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/groups.h"

#include "runner/report/interval_json.h"
#include "runtime/base/alloc.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { KEYS_MAX = 16, THRESHOLDS = 101 };

struct group {
    int first;    /* a run of it */
    int n;        /* its runs that count */
    double *last; /* [n] their last returns */
};

struct groups {
    const struct hd_runs *runs;
    const json_t *run_differences;
    int n_keys, n;
    char *keys[KEYS_MAX];
    int of_run[HD_DIRS_MAX];
    struct group list[HD_DIRS_MAX];
    double *last; /* of all groups, one after another */
    int status;   /* of the intervals computed so far */
};

/* -- Keys -------------------------------------------------------------------------------------- */

static const char *get_value(const struct groups *groups, int run, int key)
{
    return hd_history_get_key(&groups->runs->list[run], groups->keys[key]);
}

/* Returns a key of the config whose last part is what was typed, or which is spelled nearly so. */
static const char *suggest(const json_t *config, const char *typed)
{
    const size_t n = json_array_size(config);
    const char *suggestion = NULL, **names = hd_alloc((int64_t)n, sizeof *names);
    for (size_t i = 0; names && i < n; i++) {
        names[i] = json_string_value(json_array_get(json_array_get(config, i), 0));
        const char *dot = strrchr(names[i], '.');
        if (dot && strcmp(dot + 1, typed) == 0 && !suggestion)
            suggestion = names[i];
    }
    if (names && !suggestion)
        suggestion = hd_find_nearest_name(typed, names, (int64_t)n);
    hd_free(names);
    return suggestion;
}

static int check_key(const struct groups *groups, int key)
{
    for (int r = 0; r < groups->runs->n; r++)
        if (get_value(groups, r, key)[0])
            return HD_OK;
    const char *near = suggest(groups->runs->list[0].config, groups->keys[key]);
    return hd_fail(HD_ERR_INPUT, "--group-by: no run has a key '%s'%s%s%s; see 'runner keys'",
                   groups->keys[key], near ? " (did you mean '" : "", near ? near : "",
                   near ? "'?)" : "");
}

static int read_keys(struct groups *groups, const struct hd_names *names)
{
    for (int i = 0; i < names->n; i++)
        for (const char *at = names->texts[i]; at; at = strchr(at, ',')) {
            at += *at == ',';
            if (groups->n_keys == KEYS_MAX)
                return hd_fail(HD_ERR_INPUT, "--group-by: more than %d keys", KEYS_MAX);
            groups->keys[groups->n_keys] = hd_format("%.*s", (int)strcspn(at, ","), at);
            if (!groups->keys[groups->n_keys])
                return HD_ERR_NOMEM;
            HD_TRY(check_key(groups, groups->n_keys++));
        }
    return HD_OK;
}

/* -- Groups ------------------------------------------------------------------------------------ */

static bool is_alike(const struct groups *groups, int run, int other)
{
    for (int k = 0; k < groups->n_keys; k++)
        if (strcmp(get_value(groups, run, k), get_value(groups, other, k)) != 0)
            return false;
    return true;
}

static void put_into_group(struct groups *groups, int run)
{
    int g = 0;
    while (g < groups->n && !is_alike(groups, run, groups->list[g].first))
        g++;
    if (g == groups->n)
        groups->list[groups->n++] = (struct group){.first = run};
    groups->of_run[run] = g;
}

static bool is_member(const struct groups *groups, int g, int run)
{
    return groups->of_run[run] == g && !groups->runs->outcomes[run].missing;
}

static int make_groups(struct groups *groups)
{
    double *last = groups->last = hd_alloc(groups->runs->n, sizeof *last);
    if (!last)
        return HD_ERR_NOMEM;
    for (int r = 0; r < groups->runs->n; r++)
        put_into_group(groups, r);
    for (int g = 0; g < groups->n; g++) {
        struct group *group = &groups->list[g];
        group->last = last;
        for (int r = 0; r < groups->runs->n; r++)
            if (is_member(groups, g, r))
                group->last[group->n++] = groups->runs->outcomes[r].last;
        last += group->n;
    }
    return HD_OK;
}

/* -- Intervals --------------------------------------------------------------------------------- */

static json_t *estimate(struct groups *groups, hd_statistic *statistic,
                        const struct hd_sample *samples, int n, const void *argument)
{
    struct hd_interval interval = {NAN, NAN, NAN};
    if (groups->status == HD_OK)
        groups->status = hd_interval_estimate(statistic, samples, n, argument, &interval);
    return hd_interval_build_json(&interval);
}

/* Describes a number of the outcomes of a group's runs, over those that have it. */
static json_t *measure(struct groups *groups, int g, size_t offset)
{
    double values[HD_DIRS_MAX], most = NAN;
    struct hd_sample sample = {values, 0};
    for (int r = 0; r < groups->runs->n; r++) {
        const double value = *(const double *)((const char *)&groups->runs->outcomes[r] + offset);
        if (!is_member(groups, g, r) || !isfinite(value))
            continue;
        values[sample.n++] = value;
        most = fmax(most, value);
    }
    return json_pack("{s:I, s:o, s:o, s:o}", "n", (json_int_t)sample.n, "mean",
                     estimate(groups, hd_statistic_mean, &sample, 1, NULL), "iqm",
                     estimate(groups, hd_statistic_iqm, &sample, 1, NULL), "max",
                     hd_json_number(most));
}

static json_t *build_improvement(struct groups *groups, int g)
{
    const struct group *first = &groups->list[0], *group = &groups->list[g];
    const struct hd_sample samples[] = {{group->last, group->n}, {first->last, first->n}};
    return g == 0 ? json_null() : estimate(groups, hd_statistic_improvement, samples, 2, NULL);
}

/* Lists returns from the lowest to the highest of all runs that count. */
static json_t *build_thresholds(const struct groups *groups)
{
    double low = INFINITY, high = -INFINITY;
    json_t *thresholds = json_array();
    for (int g = 0; g < groups->n; g++)
        for (int i = 0; i < groups->list[g].n; i++) {
            low = fmin(low, groups->list[g].last[i]);
            high = fmax(high, groups->list[g].last[i]);
        }
    for (int i = 0; i < THRESHOLDS && low <= high; i++)
        json_array_append_new(thresholds, json_real(low + (high - low) * i / (THRESHOLDS - 1)));
    return thresholds;
}

static json_t *build_profile(struct groups *groups, int g, const json_t *thresholds)
{
    const struct hd_sample sample = {groups->list[g].last, groups->list[g].n};
    json_t *profile = json_array(), *at;
    size_t i;
    json_array_foreach(thresholds, i, at) {
        const double threshold = json_real_value(at);
        json_array_append_new(profile,
                              estimate(groups, hd_statistic_share_above, &sample, 1, &threshold));
    }
    return profile;
}

/* -- As JSON ----------------------------------------------------------------------------------- */

static json_t *text(const char *string)
{
    json_t *json = json_string(string);
    return json ? json : json_string("(not UTF-8)");
}

static json_t *build_values(const struct groups *groups, int g)
{
    json_t *values = json_array();
    for (int k = 0; k < groups->n_keys; k++)
        json_array_append_new(values, text(get_value(groups, groups->list[g].first, k)));
    return values;
}

static json_t *list_members(const struct groups *groups, int g)
{
    json_t *list = json_array();
    for (int r = 0; r < groups->runs->n; r++)
        if (is_member(groups, g, r))
            json_array_append_new(list, json_integer(r));
    return list;
}

static json_t *list_left_out(const struct groups *groups, int g)
{
    json_t *list = json_array();
    for (int r = 0; r < groups->runs->n; r++)
        if (groups->of_run[r] == g && groups->runs->outcomes[r].missing)
            json_array_append_new(list, json_pack("[i, s]", r, groups->runs->outcomes[r].missing));
    return list;
}

/* Lists runs of a group that ended in the parameters of one before them: they tell nothing new. */
static json_t *list_repeated(const struct groups *groups, int g)
{
    const struct hd_outcome *outcomes = groups->runs->outcomes;
    json_t *list = json_array();
    for (int r = 0; r < groups->runs->n; r++)
        for (int before = 0; is_member(groups, g, r) && before < r; before++)
            if (is_member(groups, g, before) && outcomes[r].param_hash[0] &&
                strcmp(outcomes[r].param_hash, outcomes[before].param_hash) == 0) {
                json_array_append_new(list, json_pack("[i, i]", r, before));
                break;
            }
    return list;
}

static json_t *build_group(struct groups *groups, int g, const json_t *thresholds)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "values",
                     build_values(groups, g), "runs", list_members(groups, g), "left_out",
                     list_left_out(groups, g), "repeated", list_repeated(groups, g), "last",
                     measure(groups, g, offsetof(struct hd_outcome, last)), "best",
                     measure(groups, g, offsetof(struct hd_outcome, best)), "train",
                     measure(groups, g, offsetof(struct hd_outcome, train)), "goal_env_steps",
                     measure(groups, g, offsetof(struct hd_outcome, goal_env_steps)), "improvement",
                     build_improvement(groups, g), "profile", build_profile(groups, g, thresholds));
}

static bool is_expected(const struct groups *groups, const char *key)
{
    for (int k = 0; k < groups->n_keys; k++)
        if (strcmp(groups->keys[k], key) == 0)
            return true;
    return strcmp(key, "seed") == 0;
}

/* Lists the different texts that a row of differences has for the runs of a group. */
static json_t *list_values(const struct groups *groups, int g, const json_t *row)
{
    json_t *values = json_array();
    for (int r = 0; r < groups->runs->n; r++) {
        json_t *value = json_array_get(row, (size_t)r + 1);
        size_t i = 0;
        while (i < json_array_size(values) && !json_equal(json_array_get(values, i), value))
            i++;
        if (groups->of_run[r] == g && i == json_array_size(values))
            json_array_append(values, value);
    }
    return values;
}

static json_t *build_differences(const struct groups *groups)
{
    json_t *differences = json_array(), *row;
    size_t i;
    json_array_foreach(groups->run_differences, i, row) {
        json_t *key = json_array_get(row, 0);
        if (is_expected(groups, json_string_value(key)))
            continue;
        json_t *lists = json_array();
        json_array_append(lists, key);
        for (int g = 0; g < groups->n; g++)
            json_array_append_new(lists, list_values(groups, g, row));
        json_array_append_new(differences, lists);
    }
    return differences;
}

static int build(struct groups *groups, json_t **json_p)
{
    json_t *keys = json_array(), *list = json_array(), *thresholds = build_thresholds(groups);
    for (int k = 0; k < groups->n_keys; k++)
        json_array_append_new(keys, text(groups->keys[k]));
    for (int g = 0; g < groups->n; g++)
        json_array_append_new(list, build_group(groups, g, thresholds));
    json_t *json =
        json_pack("{s:o, s:f, s:i, s:o, s:o, s:o}", "keys", keys, "confidence",
                  HD_INTERVAL_CONFIDENCE, "resamples", HD_INTERVAL_RESAMPLES, "thresholds",
                  thresholds, "groups", list, "differences", build_differences(groups));
    if (!json || groups->status != HD_OK) {
        json_decref(json);
        return HD_ERR_NOMEM;
    }
    *json_p = json;
    return HD_OK;
}

int hd_groups_build_json(const struct hd_runs *runs, const json_t *differences,
                         const struct hd_names *names, json_t **json_p)
{
    struct groups *groups = hd_alloc(1, sizeof *groups);
    if (!groups)
        return HD_ERR_NOMEM;
    groups->runs = runs;
    groups->run_differences = differences;
    int status = read_keys(groups, names);
    if (status == HD_OK)
        status = make_groups(groups);
    if (status == HD_OK)
        status = build(groups, json_p);
    for (int k = 0; k < groups->n_keys; k++)
        hd_free(groups->keys[k]);
    hd_free(groups->last);
    hd_free(groups);
    return status;
}
