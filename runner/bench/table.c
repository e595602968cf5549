/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of runner bench as tables. */
#include "runner/bench/results.h"
#include "runner/bench/summary.h"
#include "runner/report/interval_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double get_number(const json_t *object, const char *key)
{
    return hd_result_get_number(object, key);
}

static const char *get_text(const json_t *object, const char *key)
{
    return hd_result_get_text(object, key);
}

static const char *choose_form(double n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

static int find_width(const json_t *candidates)
{
    size_t i, width = strlen("candidate");
    json_t *candidate;
    json_array_foreach(candidates, i, candidate) {
        const size_t length = strlen(get_text(candidate, "name"));
        width = length > width ? length : width;
    }
    return (int)width;
}

static void print_interval(const json_t *candidate, const char *key, FILE *file)
{
    char text[HD_INTERVAL_TEXT];
    hd_interval_write(json_object_get(candidate, key), text);
    fprintf(file, "  %-26s", text);
}

static void print_share(const json_t *candidate, const char *key, FILE *file)
{
    const double share = get_number(candidate, key);
    if (isnan(share))
        fprintf(file, " %8s", "-");
    else
        fprintf(file, " %6.1f %%", 100 * share);
}

/* Prints sentences, of each candidate and of all of them. */
static void print_sentences(const json_t *part, FILE *file)
{
    size_t i, k;
    json_t *candidate, *sentence;
    fprintf(file, "\n");
    json_array_foreach(json_object_get(part, "candidates"), i, candidate)
        json_array_foreach(json_object_get(candidate, "said"), k, sentence)
            fprintf(file, "%s\n", json_string_value(sentence));
    json_array_foreach(json_object_get(part, "candidates"), i, candidate)
        if (get_text(candidate, "disturbed")[0])
            fprintf(file, "disturbed: %s, %s\n", get_text(candidate, "name"),
                    get_text(candidate, "disturbed"));
    json_array_foreach(json_object_get(part, "notes"), i, sentence)
        fprintf(file, "%s\n", json_string_value(sentence));
}

/* -- Rates ------------------------------------------------------------------------------------- */

struct cost {
    const char *verb;
    double share;
};

static int more_expensive(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    return (x->share < y->share) - (x->share > y->share);
}

static void print_tasks(json_t *verbs, FILE *file)
{
    enum { SHOWN = 5, VERBS = 64 };
    struct cost costs[VERBS];
    const char *verb;
    json_t *share;
    int n = 0;
    json_object_foreach(verbs, verb, share)
        if (n < VERBS)
            costs[n++] = (struct cost){verb, json_number_value(share)};
    qsort(costs, (size_t)n, sizeof *costs, more_expensive);
    for (int i = 0; i < n && i < SHOWN; i++)
        fprintf(file, "%s%s %.1f", i > 0 ? ", " : "", costs[i].verb, 100 * costs[i].share);
}

static void print_rates_of(const json_t *candidate, int width, bool gpus, FILE *file)
{
    fprintf(file, "%-*s %4.0f %5.0f", width, get_text(candidate, "name"),
            get_number(candidate, "lag"), get_number(candidate, "n"));
    print_interval(candidate, "updates_per_s", file);
    print_interval(candidate, "env_steps_per_s", file);
    print_share(candidate, "busy", file);
    if (gpus)
        print_share(candidate, "gpu_busy", file);
    print_share(candidate, "exposed", file);
    print_share(candidate, "idle", file);
    fprintf(file, " %4.0f  %s  ", get_number(candidate, "bits"), get_text(candidate, "param_hash"));
    print_tasks(json_object_get(candidate, "verbs"), file);
    fprintf(file, "\n");
}

static void print_rates(const json_t *summary, const json_t *rates, FILE *file)
{
    const json_t *candidates = json_object_get(rates, "candidates");
    const int width = find_width(candidates);
    const bool gpus = get_number(rates, "gpus") > 0;
    const double ranks = get_number(summary, "ranks"), workers = get_number(rates, "workers"),
                 shards = get_number(summary, "shards");
    size_t i;
    json_t *candidate;
    fprintf(file,
            "%s: %.0f %s x %.0f %s, %.0f %s; %.0f updates measured after %.0f, means and intervals "
            "of %.0f %%\n\n",
            get_text(summary, "config"), ranks, choose_form(ranks, "rank", "ranks"), workers,
            choose_form(workers, "worker", "workers"), shards,
            choose_form(shards, "shard", "shards"), get_number(rates, "measured"),
            get_number(rates, "warmup"), 100 * get_number(summary, "confidence"));
    fprintf(file, "%-*s %4s %5s  %-26s  %-26s %8s%s %8s %8s %4s  %-16s  %s\n", width, "candidate",
            "lag", "turns", "updates/s", "env steps/s", "busy", gpus ? "      GPU" : "", "exposed",
            "idle", "bits", "param_hash", "largest tasks, % of the workers' time");
    json_array_foreach(candidates, i, candidate)
        print_rates_of(candidate, width, gpus, file);
    print_sentences(rates, file);
    fprintf(file, "Candidates with the same number under bits must end in the same parameters.\n");
}

/* -- Goals ------------------------------------------------------------------------------------- */

static void print_missed(const json_t *candidate, FILE *file)
{
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(candidate, "missed"), i, pair)
        fprintf(file, "%s%.0f (%s)", i == 0 ? ", not by seed " : ", ",
                json_number_value(json_array_get(pair, 0)),
                json_string_value(json_array_get(pair, 1)));
}

static void print_goal(const json_t *summary, const json_t *goal, FILE *file)
{
    const json_t *candidates = json_object_get(goal, "candidates");
    const int width = find_width(candidates);
    size_t i;
    json_t *candidate;
    fprintf(file, "%s: to the goal, means of the runs that reached it and intervals of %.0f %%\n\n",
            get_text(summary, "config"), 100 * get_number(summary, "confidence"));
    fprintf(file, "%-*s %4s  %-26s  %-26s  %-26s  %s\n", width, "candidate", "lag", "seconds",
            "env steps", "updates", "reached");
    json_array_foreach(candidates, i, candidate) {
        fprintf(file, "%-*s %4.0f", width, get_text(candidate, "name"),
                get_number(candidate, "lag"));
        print_interval(candidate, "seconds", file);
        print_interval(candidate, "env_steps", file);
        print_interval(candidate, "updates", file);
        fprintf(file, "  %.0f of %.0f", get_number(candidate, "reached"),
                get_number(candidate, "n"));
        print_missed(candidate, file);
        fprintf(file, "\n");
    }
    print_sentences(goal, file);
}

void hd_bench_print(const json_t *summary, FILE *file)
{
    const json_t *rates = json_object_get(summary, "rates"),
                 *goal = json_object_get(summary, "goal");
    if (json_is_object(rates))
        print_rates(summary, rates, file);
    if (json_is_object(rates) && json_is_object(goal))
        fprintf(file, "\n");
    if (json_is_object(goal))
        print_goal(summary, goal, file);
}
