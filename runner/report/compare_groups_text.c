/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/compare_text.h"
#include "runner/report/interval_json.h"
#include "runtime/base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CELL = 64, NAME = 128 };

/* -- Cells ------------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void print_interval(int width, const json_t *interval)
{
    char cell[HD_INTERVAL_TEXT];
    hd_interval_write(interval, cell);
    printf("  %-*s", width, cell);
}

/* Writes the values of a group's keys. */
static void write_name(const json_t *group, char name[NAME])
{
    const json_t *values = json_object_get(group, "values");
    size_t i, used = 0;
    json_t *value;
    json_array_foreach(values, i, value) {
        const char *text = json_string_value(value);
        const int more = snprintf(name + used, NAME - used, "%s%s", i > 0 ? ", " : "",
                                  text[0] ? text : "(none)");
        used = used + (size_t)more < NAME ? used + (size_t)more : NAME - 1;
    }
}

static int find_width(const json_t *groups)
{
    char name[NAME];
    size_t i;
    json_t *group;
    int width = 5;
    json_array_foreach(groups, i, group) {
        write_name(group, name);
        width = (int)strlen(name) > width ? (int)strlen(name) : width;
    }
    return width;
}

/* -- Tables ------------------------------------------------------------------------------------ */

enum { WIDE = 28 };

static void print_returns(const json_t *groups, int width)
{
    char name[NAME], most[HD_NUMBER_TEXT];
    size_t i;
    json_t *group;
    write_name(json_array_get(groups, 0), name);
    printf("%-*s  %4s  %-*s  %-*s  %10s  P(better than %s)\n", width, "group", "runs", WIDE,
           "last return: mean", WIDE, "interquartile mean", "highest", name);
    json_array_foreach(groups, i, group) {
        const json_t *last = json_object_get(group, "last");
        write_name(group, name);
        snprintf(most, sizeof most, "-");
        if (!isnan(number(last, "max")))
            hd_number_write(number(last, "max"), most);
        printf("%-*s  %4.0f", width, name, number(last, "n"));
        print_interval(WIDE, json_object_get(last, "mean"));
        print_interval(WIDE, json_object_get(last, "iqm"));
        printf("  %10s", most);
        print_interval(0, json_object_get(group, "improvement"));
        printf("\n");
    }
}

static void print_more(const json_t *groups, int width)
{
    char name[NAME];
    size_t i;
    json_t *group;
    printf("\n%-*s  %-*s  %-*s  %7s  %s\n", width, "group", WIDE, "best return: mean", WIDE,
           "in training: mean", "at goal", "env steps to goal: mean");
    json_array_foreach(groups, i, group) {
        const json_t *goal = json_object_get(group, "goal_env_steps");
        char reached[CELL];
        snprintf(reached, CELL, "%.0f of %zu", number(goal, "n"),
                 json_array_size(json_object_get(group, "runs")));
        write_name(group, name);
        printf("%-*s", width, name);
        print_interval(WIDE, json_object_get(json_object_get(group, "best"), "mean"));
        print_interval(WIDE, json_object_get(json_object_get(group, "train"), "mean"));
        printf("  %7s", reached);
        print_interval(0, json_object_get(goal, "mean"));
        printf("\n");
    }
}

/* -- Warnings ---------------------------------------------------------------------------------- */

static const char *get_dir(const struct hd_runs *runs, const json_t *pair, size_t i)
{
    return runs->list[json_integer_value(json_array_get(pair, i))].dir;
}

static void warn_of_runs(const struct hd_runs *runs, const json_t *groups)
{
    size_t i, k;
    json_t *group, *pair;
    json_array_foreach(groups, i, group) {
        json_array_foreach(json_object_get(group, "left_out"), k, pair)
            hd_log(HD_LOG_WARN, "%s is left out: %s", get_dir(runs, pair, 0),
                   json_string_value(json_array_get(pair, 1)));
        json_array_foreach(json_object_get(group, "repeated"), k, pair)
            hd_log(
                HD_LOG_WARN,
                "%s ended in the parameters of %s: it is counted as another run, and is the same",
                get_dir(runs, pair, 0), get_dir(runs, pair, 1));
    }
}

static void print_other_keys(const json_t *differences)
{
    const size_t n = json_array_size(differences);
    if (n == 0)
        return;
    printf("\nconfig: %zu more %s beside the seed, in the order of the groups:\n", n,
           n == 1 ? "key differs" : "keys differ");
    hd_compare_print_keys(differences);
}

/* Returns whether a group has more than one value of a row's key. */
static bool is_mixed(const json_t *row)
{
    for (size_t g = 1; g < json_array_size(row); g++)
        if (json_array_size(json_array_get(row, g)) > 1)
            return true;
    return false;
}

static void warn_of_keys(const json_t *differences)
{
    const char *first = NULL;
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(differences, i, row)
        if (is_mixed(row) && n++ == 0)
            first = json_string_value(json_array_get(row, 0));
    if (n > 0)
        hd_log(HD_LOG_WARN,
               "runs of one group differ by more than their seeds and are no repeats: %zu %s, the "
               "first is %s; --group-by takes several keys",
               n, n == 1 ? "key" : "keys", first);
}

void hd_compare_print_groups(const struct hd_runs *runs, const json_t *json)
{
    const json_t *groups = json_object_get(json, "groups"), *keys = json_object_get(json, "keys"),
                 *differences = json_object_get(json, "differences");
    const int width = find_width(groups);
    size_t i;
    json_t *key;
    printf("groups by ");
    json_array_foreach(keys, i, key)
        printf("%s%s", i > 0 ? ", " : "", json_string_value(key));
    printf("\n\n");
    print_returns(groups, width);
    print_more(groups, width);
    printf("\n[ ]: %.0f %% of %.0f bootstrap draws of a group's runs. Interquartile mean: of the "
           "middle half.\n"
           "P: that a run has a higher last return than one of the first group, equal ones count "
           "half.\n",
           100 * number(json, "confidence"), number(json, "resamples"));
    print_other_keys(differences);
    warn_of_keys(differences);
    warn_of_runs(runs, groups);
}
