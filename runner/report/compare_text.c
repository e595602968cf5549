/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/compare_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void print_number(double value)
{
    if (isnan(value))
        printf("  %14s", "-");
    else
        printf("  %14.*f", value == floor(value) ? 0 : fabs(value) < 100 ? 3 : 1, value);
}

static void print_rows(const struct hd_runs *runs)
{
    int width = 3;
    for (int r = 0; r < runs->n; r++)
        width = (int)strlen(runs->list[r].dir) > width ? (int)strlen(runs->list[r].dir) : width;
    printf("%-*s  %-12s  %14s  %14s  %14s  %14s  %14s  %14s  %14s  %14s  %14s\n", width, "run",
           "ended by", "last return", "best return", "of update", "in training", "updates",
           "env steps", "training s", "updates/s", "env steps/s");
    for (int r = 0; r < runs->n; r++) {
        const struct hd_outcome *o = &runs->outcomes[r];
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
        const struct hd_outcome *o = &runs->outcomes[r];
        printf("%-*s", width, runs->list[r].dir);
        print_number(o->goal_updates);
        print_number(o->goal_env_steps);
        print_number(o->goal_seconds);
        printf("  %6.0f  %6.0f  %-16s  %-16s\n", o->ranks, o->shards,
               o->param_hash[0] ? o->param_hash : "-", o->fingerprint[0] ? o->fingerprint : "-");
    }
}

static void print_hashes(const struct hd_runs *runs)
{
    int same = 0, known = 0;
    for (int r = 0; r < runs->n; r++) {
        known += runs->outcomes[r].param_hash[0] != '\0';
        same += strcmp(runs->outcomes[r].param_hash, runs->outcomes[0].param_hash) == 0;
    }
    printf("\nparameters at the end: %s\n", known < runs->n   ? "not known for every run"
                                            : same == runs->n ? "the same bits"
                                                              : "different bits (param_hash)");
}

/* A cell is a text, or a list of the texts that a group has. */
static void print_cell(const json_t *cell)
{
    const size_t n = json_is_array(cell) ? json_array_size(cell) : 1;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_is_array(cell) ? json_array_get(cell, i) : cell);
        printf("%s %s", i > 0 ? " or" : "", text && text[0] ? text : "-");
    }
}

void hd_compare_print_keys(const json_t *rows)
{
    enum { SHOWN_MAX = 40 };
    const size_t n = json_array_size(rows);
    for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
        const json_t *row = json_array_get(rows, i);
        printf("  %s:", json_string_value(json_array_get(row, 0)));
        for (size_t k = 1; k < json_array_size(row); k++) {
            printf("%s", k > 1 ? " |" : "");
            print_cell(json_array_get(row, k));
        }
        printf("\n");
    }
    if (n > SHOWN_MAX)
        printf("  ... and %zu more\n", n - SHOWN_MAX);
}

static void print_differences(const json_t *differences)
{
    const size_t n = json_array_size(differences);
    if (n == 0) {
        printf("config: the same\n");
        return;
    }
    printf("config: %zu %s; the first: %s\n", n, n == 1 ? "key differs" : "keys differ",
           json_string_value(json_array_get(json_array_get(differences, 0), 0)));
    hd_compare_print_keys(differences);
}

void hd_compare_print_runs(const struct hd_runs *runs, const json_t *differences)
{
    print_rows(runs);
    print_hashes(runs);
    print_differences(differences);
}
