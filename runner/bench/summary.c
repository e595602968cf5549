/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/bench/summary.h"

#include "runner/bench/load.h"
#include "runner/bench/results.h"
#include "runner/report/interval_json.h"
#include "runner/report/outcome.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <string.h>

/* With fewer pairs, all of them on one side of zero are no rarity: 1 in 2^(n-1). */
enum { ENOUGH = 6 };

/* The runs of one candidate, in order. */
struct runs {
    const char *name;
    json_t *lines;
};

struct summing {
    const json_t *lines;
    bool goal;
    double mhz;   /* the highest frequency of a run; 0: not known */
    json_t *bits; /* numbers of what must have the same bits */
    int status;   /* of the intervals computed so far */
};

/* -- Samples ----------------------------------------------------------------------------------- */

static double get_number(const json_t *line, const char *key)
{
    return hd_result_get_number(line, key);
}

static const char *get_name(const json_t *line)
{
    return hd_result_get_text(line, "candidate");
}

static bool is_counted(const struct summing *summing, const json_t *line)
{
    return !summing->goal || json_is_true(json_object_get(line, "reached"));
}

/* Estimates the mean of a list of numbers. */
static struct hd_interval estimate(struct summing *summing, const json_t *numbers)
{
    struct hd_interval interval = {NAN, NAN, NAN};
    double *values = hd_alloc((int64_t)json_array_size(numbers) + 1, sizeof *values);
    struct hd_sample sample = {values, 0};
    size_t i;
    json_t *value;
    json_array_foreach(numbers, i, value)
        if (values)
            values[sample.n++] = json_number_value(value);
    const int status = values ? hd_interval_estimate(hd_statistic_mean, &sample, 1, NULL, &interval)
                              : HD_ERR_NOMEM;
    summing->status = summing->status == HD_OK ? status : summing->status;
    hd_free(values);
    return interval;
}

/* Describes a number of the runs that count. */
static json_t *measure(struct summing *summing, const struct runs *runs, const char *key)
{
    json_t *all = json_array(), *line;
    size_t i;
    json_array_foreach(runs->lines, i, line)
        if (is_counted(summing, line))
            json_array_append_new(all, json_real(get_number(line, key)));
    const struct hd_interval interval = estimate(summing, all);
    json_t *json = hd_interval_build_json(&interval);
    json_object_set_new(json, "all", all);
    return json;
}

static json_t *average(const struct runs *runs, const char *key)
{
    double sum = 0;
    size_t i;
    json_t *line;
    json_array_foreach(runs->lines, i, line)
        sum += get_number(line, key);
    return hd_json_number(sum / (double)json_array_size(runs->lines));
}

static json_t *average_verbs(const struct runs *runs)
{
    const double n = (double)json_array_size(runs->lines);
    json_t *verbs = json_object(), *line, *share;
    const char *verb;
    size_t i;
    json_array_foreach(runs->lines, i, line)
        json_object_foreach(json_object_get(line, "verbs"), verb, share)
            json_object_set_new(verbs, verb,
                                json_real(json_number_value(json_object_get(verbs, verb)) +
                                          json_number_value(share) / n));
    return verbs;
}

/* -- Comparisons ------------------------------------------------------------------------------- */

static const json_t *find_pair(const struct runs *runs, const json_t *line)
{
    size_t i;
    json_t *other;
    json_array_foreach(runs->lines, i, other)
        if (get_number(other, "call") == get_number(line, "call") &&
            get_number(other, "turn") == get_number(line, "turn"))
            return other;
    return NULL;
}

/* Estimates the geometric mean of the ratios of pairs, less 1, and counts the pairs. */
static struct hd_interval compare(struct summing *summing, const struct runs *first,
                                  const struct runs *runs, const char *key, size_t *n_p)
{
    json_t *logarithms = json_array(), *line;
    size_t i;
    json_array_foreach(runs->lines, i, line) {
        const json_t *pair = find_pair(first, line);
        if (pair && is_counted(summing, line) && is_counted(summing, pair))
            json_array_append_new(logarithms,
                                  json_real(log(get_number(line, key) / get_number(pair, key))));
    }
    const struct hd_interval found = estimate(summing, logarithms);
    *n_p = json_array_size(logarithms);
    json_decref(logarithms);
    return (struct hd_interval){expm1(found.value), expm1(found.low), expm1(found.high)};
}

struct words {
    const char *key, *noun, *more, *less;
};

/* Says what an interval of a ratio claims. */
static json_t *say(const char *name, const char *first, const struct words *words,
                   struct hd_interval interval)
{
    const double value = 100 * interval.value, low = 100 * interval.low, high = 100 * interval.high;
    if (low > 0)
        return json_sprintf("%s %s %s by %.1f %% (%.1f to %.1f)", name, words->more, first, value,
                            low, high);
    if (high < 0)
        return json_sprintf("%s %s %s by %.1f %% (%.1f to %.1f)", name, words->less, first, -value,
                            -high, -low);
    return json_sprintf("no difference seen between the %s of %s and %s: %.1f %% (%.1f to %.1f)",
                        words->noun, name, first, value, low, high);
}

static const struct words of_rates[] = {
    {"updates_per_s", "updates/s", "is faster than", "is slower than"}, {NULL}};
static const struct words of_goals[] = {
    {"seconds", "time to the goal", "takes more time to the goal than",
     "takes less time to the goal than"},
    {"env_steps", "env steps to the goal", "needs more env steps to the goal than",
     "needs fewer env steps to the goal than"},
    {"updates", "updates to the goal", "needs more updates to the goal than",
     "needs fewer updates to the goal than"},
    {NULL}};

/* Adds what a candidate says beside the first one: nothing with fewer than two pairs. */
static void add_comparison(struct summing *summing, const struct runs *first,
                           const struct runs *runs, json_t *candidate)
{
    json_t *said = json_array();
    json_object_set_new(candidate, "said", said);
    for (const struct words *words = summing->goal ? of_goals : of_rates; words->key; words++) {
        size_t pairs;
        const struct hd_interval interval = compare(summing, first, runs, words->key, &pairs);
        json_object_set_new(candidate, "pairs", json_integer((json_int_t)pairs));
        if (!summing->goal)
            json_object_set_new(candidate, "faster", hd_interval_build_json(&interval));
        if (pairs > 1 && strcmp(first->name, runs->name) != 0)
            json_array_append_new(said, say(runs->name, first->name, words, interval));
    }
}

/* -- Candidates -------------------------------------------------------------------------------- */

/* Numbers what must have the same bits, in the order in which lines bring them. */
static json_t *number_bits(struct summing *summing, const json_t *line)
{
    char key[64];
    snprintf(key, sizeof key, "%.24s %.24s", hd_result_get_text(line, "bits_hash"),
             hd_result_get_text(line, "fingerprint"));
    if (!json_object_get(summing->bits, key))
        json_object_set_new(summing->bits, key,
                            json_integer((json_int_t)json_object_size(summing->bits) + 1));
    return json_incref(json_object_get(summing->bits, key));
}

static json_t *describe_disturbance(const struct summing *summing, const struct runs *runs)
{
    char text[256];
    json_t *loads = json_array(), *line;
    size_t i;
    json_array_foreach(runs->lines, i, line)
        json_array_append(loads, json_object_get(line, "load"));
    hd_load_describe(loads, summing->mhz, text, sizeof text);
    json_decref(loads);
    return json_string(text);
}

static json_t *list_missed(const struct summing *summing, const struct runs *runs)
{
    json_t *missed = json_array(), *line;
    size_t i;
    json_array_foreach(runs->lines, i, line)
        if (!is_counted(summing, line))
            json_array_append_new(missed, json_pack("[f, s]", get_number(line, "seed"),
                                                    hd_result_get_text(line, "reason")));
    return missed;
}

static json_t *find_trace(const struct runs *runs)
{
    size_t i = json_array_size(runs->lines);
    while (i-- > 0) {
        json_t *trace = json_object_get(json_array_get(runs->lines, i), "trace");
        if (trace)
            return json_incref(trace);
    }
    return json_null();
}

static json_t *build_rates(struct summing *summing, const struct runs *runs)
{
    const json_t *last = json_array_get(runs->lines, json_array_size(runs->lines) - 1);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "updates_per_s",
                     measure(summing, runs, "updates_per_s"), "env_steps_per_s",
                     measure(summing, runs, "env_steps_per_s"), "busy", average(runs, "busy"),
                     "exposed", average(runs, "exposed"), "idle", average(runs, "idle"), "gpu_busy",
                     average(runs, "gpu_busy"), "verbs", average_verbs(runs), "param_hash",
                     hd_result_get_text(last, "param_hash"), "trace", find_trace(runs));
}

static json_t *build_goal(struct summing *summing, const struct runs *runs)
{
    json_t *missed = list_missed(summing, runs);
    const size_t reached = json_array_size(runs->lines) - json_array_size(missed);
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "reached", (json_int_t)reached, "missed", missed,
                     "seconds", measure(summing, runs, "seconds"), "env_steps",
                     measure(summing, runs, "env_steps"), "updates",
                     measure(summing, runs, "updates"));
}

static json_t *build_candidate(struct summing *summing, const struct runs *first,
                               const struct runs *runs)
{
    const json_t *line = json_array_get(runs->lines, 0);
    json_t *candidate =
        json_pack("{s:s, s:f, s:o, s:I, s:o}", "name", runs->name, "lag", get_number(line, "lag"),
                  "bits", number_bits(summing, line), "n", (json_int_t)json_array_size(runs->lines),
                  "disturbed", describe_disturbance(summing, runs));
    json_t *more = summing->goal ? build_goal(summing, runs) : build_rates(summing, runs);
    if (!candidate || !more)
        summing->status = HD_ERR_NOMEM;
    else
        json_object_update(candidate, more);
    json_decref(more);
    add_comparison(summing, first, runs, candidate);
    return candidate;
}

/* -- All of it --------------------------------------------------------------------------------- */

static const json_t *get_newest(const json_t *lines)
{
    return json_array_get(lines, json_array_size(lines) - 1);
}

/* Returns sentences on what the intervals leave open. */
static json_t *list_notes(const struct summing *summing, const json_t *candidates)
{
    json_t *notes = json_array(), *candidate;
    const char *first = hd_result_get_text(json_array_get(candidates, 0), "name");
    size_t i, none = 0, few = 0;
    json_array_foreach(candidates, i, candidate) {
        none += i > 0 && get_number(candidate, "pairs") < 2;
        const double n = get_number(candidate, summing->goal ? "reached" : "n");
        few += n > 1 && n < ENOUGH;
    }
    if (none > 0)
        json_array_append_new(
            notes, json_sprintf("Nothing is claimed of candidates that have fewer than two %s in "
                                "common with %s.",
                                summing->goal ? "seeds that reached the goal" : "turns", first));
    if (few > 0)
        json_array_append_new(
            notes, json_sprintf("Intervals of fewer than %d runs are too narrow.", ENOUGH));
    if (!summing->goal && json_object_size(summing->bits) > 1)
        json_array_append_new(
            notes,
            json_string("Candidates of other bits learn otherwise and may need more updates: "
                        "--to-goal measures that."));
    return notes;
}

/* Returns the lines of the case, by candidate. */
static json_t *group_lines(const struct summing *summing)
{
    json_t *groups = json_object(), *line;
    size_t i;
    json_array_foreach(summing->lines, i, line) {
        if (!hd_result_is(line, "case", summing->goal ? HD_BENCH_GOAL : HD_BENCH_RATES))
            continue;
        if (!json_object_get(groups, get_name(line)))
            json_object_set_new(groups, get_name(line), json_array());
        json_array_append(json_object_get(groups, get_name(line)), line);
    }
    return groups; /* jansson keeps the order of insertion */
}

static json_t *build_case(struct summing *summing)
{
    json_t *groups = group_lines(summing), *candidates = json_array();
    struct runs first = {NULL, NULL}, runs;
    summing->bits = json_object();
    json_object_foreach(groups, runs.name, runs.lines) {
        if (!first.name)
            first = runs;
        json_array_append_new(candidates, build_candidate(summing, &first, &runs));
    }
    const json_t *newest = first.name ? get_newest(runs.lines) : NULL;
    json_t *built = newest ? json_pack("{s:o, s:o, s:O?, s:O?, s:O?, s:O?}", "notes",
                                       list_notes(summing, candidates), "candidates", candidates,
                                       "measured", json_object_get(newest, "measured"), "warmup",
                                       json_object_get(newest, "warmup"), "workers",
                                       json_object_get(newest, "workers"), "gpus",
                                       json_object_get(newest, "gpus"))
                           : json_null();
    if (!newest)
        json_decref(candidates);
    json_decref(summing->bits);
    json_decref(groups);
    return built;
}

static double find_highest_mhz(const json_t *lines)
{
    double highest = 0;
    size_t i;
    json_t *line;
    json_array_foreach(lines, i, line)
        highest = fmax(highest, hd_load_get_mhz(json_object_get(line, "load")));
    return highest;
}

int hd_bench_summarize(const json_t *lines, json_t **summary_p)
{
    struct summing rates = {.lines = lines, .mhz = find_highest_mhz(lines)}, goal = rates;
    goal.goal = true;
    const json_t *newest = get_newest(lines);
    json_t *summary = json_pack(
        "{s:s, s:s, s:O?, s:O?, s:f, s:f, s:O?, s:f, s:i, s:o, s:o}", "config",
        hd_result_get_text(newest, "config"), "machine", hd_result_get_text(newest, "machine"),
        "commit", json_object_get(newest, "commit"), "date", json_object_get(newest, "date"),
        "ranks", get_number(newest, "ranks"), "shards", get_number(newest, "shards"), "sets",
        json_object_get(newest, "sets"), "confidence", HD_INTERVAL_CONFIDENCE, "resamples",
        HD_INTERVAL_RESAMPLES, "rates", build_case(&rates), "goal", build_case(&goal));
    if (!summary || rates.status != HD_OK || goal.status != HD_OK) {
        json_decref(summary);
        return HD_ERR_NOMEM;
    }
    *summary_p = summary;
    return HD_OK;
}
