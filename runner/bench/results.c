/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/bench/results.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

double hd_result_get_number(const json_t *line, const char *key)
{
    const json_t *value = json_object_get(line, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

const char *hd_result_get_text(const json_t *line, const char *key)
{
    const char *text = json_string_value(json_object_get(line, key));
    return text ? text : "";
}

bool hd_result_is(const json_t *line, const char *key, const char *text)
{
    return strcmp(hd_result_get_text(line, key), text) == 0;
}

/* -- Reading ----------------------------------------------------------------------------------- */

/* Returns the name of a member that a line must have and has not; NULL: it has all. */
static const char *find_missing(const json_t *line)
{
    static const char *const texts[] = {"candidate",   "config",    "machine",    "base_hash",
                                        "config_hash", "bits_hash", "param_hash", "fingerprint"};
    static const char *const numbers[] = {"call", "turn", "ranks", "shards", "lag"};
    static const char *const of_rates[] = {"updates_per_s", "measured"};
    static const char *const of_goals[] = {"seconds", "env_steps", "updates", "seed"};
    const bool rates = hd_result_is(line, "case", HD_BENCH_RATES);
    const char *const *more = rates ? of_rates : of_goals;
    const size_t n_more =
        rates ? sizeof of_rates / sizeof *of_rates : sizeof of_goals / sizeof *of_goals;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!hd_result_get_text(line, texts[i])[0])
            return texts[i];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (isnan(hd_result_get_number(line, numbers[i])))
            return numbers[i];
    for (size_t i = 0; i < n_more; i++)
        if (!(hd_result_get_number(line, more[i]) >= 0))
            return more[i];
    return rates && !(hd_result_get_number(line, "updates_per_s") > 0) ? "updates_per_s" : NULL;
}

static int add_line(const char *path, int number, const char *text, json_t *lines, int *others_p)
{
    json_error_t error;
    json_t *line = json_loads(text, 0, &error);
    const char *missing = NULL;
    if (!json_is_object(line)) {
        json_decref(line);
        return hd_fail(HD_ERR_INPUT, "%s:%d: no line of JSON: %s", path, number,
                       line ? "no object" : error.text);
    }
    const bool ours =
        hd_result_is(line, "case", HD_BENCH_RATES) || hd_result_is(line, "case", HD_BENCH_GOAL);
    if (ours)
        missing = find_missing(line);
    *others_p += !ours;
    if (ours && !missing)
        return json_array_append_new(lines, line) == 0 ? HD_OK : HD_ERR_NOMEM;
    json_decref(line);
    return missing ? hd_fail(HD_ERR_INPUT, "%s:%d: a result of runner bench without a valid '%s'",
                             path, number, missing)
                   : HD_OK;
}

int hd_results_read(const char *path, bool exists, json_t *lines)
{
    char *text, *rest, *line;
    int status = HD_OK, number = 0, others = 0;
    if (!exists && access(path, F_OK) != 0 && errno == ENOENT)
        return HD_OK;
    HD_TRY(hd_file_read(path, HD_INPUT_COMMAND, &text, NULL));
    for (rest = text; status == HD_OK && (line = strsep(&rest, "\n"));) {
        number++;
        if (line[strspn(line, " \t\r")])
            status = add_line(path, number, line, lines, &others);
    }
    hd_free(text);
    if (status == HD_OK && others > 0)
        hd_log(HD_LOG_WARN, "%s: %d %s no %s of runner bench", path, others,
               others == 1 ? "line is" : "lines are", others == 1 ? "result" : "results");
    return status;
}

/* -- Comparisons ------------------------------------------------------------------------------- */

/* Returns the newest line of the same case, and candidate if that is asked for. */
static const json_t *find_newest(const json_t *lines, const json_t *like, bool candidate)
{
    size_t i = json_array_size(lines);
    while (i-- > 0) {
        const json_t *line = json_array_get(lines, i);
        if (hd_result_is(line, "case", hd_result_get_text(like, "case")) &&
            (!candidate || hd_result_is(line, "candidate", hd_result_get_text(like, "candidate"))))
            return line;
    }
    return like;
}

static bool is_same(const json_t *line, const json_t *other, const char *key)
{
    json_t *a = json_object_get(line, key), *b = json_object_get(other, key);
    return a == b || (a && b && json_equal(a, b));
}

/* Returns what keeps a line out of the comparison, in words; NULL: nothing. */
static const char *find_objection(const json_t *lines, const json_t *line)
{
    enum { ANY, OF_CASE, OF_CANDIDATE, N_KINDS };
    static const struct {
        const char *key, *words;
        int than; /* which newest line it must agree with */
    } objections[] = {
        {"machine", "another machine", ANY},
        {"commit", "another commit", ANY},
        {"ranks", "other --ranks", ANY},
        {"updates", "other --updates", OF_CASE},
        {"warmup", "other --warmup", OF_CASE},
        {"evaluations", "--evaluate", OF_CASE},
        {"base_hash", "another config", ANY},
        {"config_hash", "another strategy file", OF_CANDIDATE},
        {"fingerprint", "another program", OF_CANDIDATE},
    };
    const json_t *newest[N_KINDS] = {json_array_get(lines, json_array_size(lines) - 1),
                                     find_newest(lines, line, false),
                                     find_newest(lines, line, true)};
    const bool goal = hd_result_is(line, "case", HD_BENCH_GOAL);
    for (size_t i = 0; i < sizeof objections / sizeof *objections; i++)
        if (!(goal && objections[i].than == OF_CASE) &&
            !is_same(line, newest[objections[i].than], objections[i].key))
            return objections[i].words;
    return NULL;
}

/* Returns whether a later one of the lines is of the same seed. */
static bool is_repeated(const json_t *lines, size_t i)
{
    const json_t *line = json_array_get(lines, i);
    for (size_t k = i + 1; k < json_array_size(lines); k++) {
        const json_t *later = json_array_get(lines, k);
        if (is_same(line, later, "case") && is_same(line, later, "candidate") &&
            is_same(line, later, "seed"))
            return hd_result_is(line, "case", HD_BENCH_GOAL);
    }
    return false;
}

/* Counts a line that is left out, by what keeps it out. */
static void count_objection(json_t *counts, const char *words)
{
    const json_t *count = json_object_get(counts, words);
    json_object_set_new(counts, words, json_integer(json_integer_value(count) + 1));
}

static void tell_objections(json_t *counts)
{
    const char *words;
    json_t *count;
    json_object_foreach(counts, words, count)
        hd_log(HD_LOG_WARN, "%lld earlier %s left out, because of %s", json_integer_value(count),
               json_integer_value(count) == 1 ? "result is" : "results are", words);
}

json_t *hd_results_select(const json_t *lines)
{
    json_t *agreed = json_array(), *selected = json_array(), *counts = json_object(), *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        const char *objection = find_objection(lines, line);
        if (objection)
            count_objection(counts, objection);
        else
            json_array_append(agreed, line);
    }
    json_array_foreach(agreed, i, line)
        if (!is_repeated(agreed, i))
            json_array_append(selected, line);
    tell_objections(counts);
    json_decref(counts);
    json_decref(agreed);
    return selected;
}

/* Writes what lines of equal parameters have in common. */
static char *name_bits(const json_t *line)
{
    return hd_format("%s %s %s %.0f", hd_result_get_text(line, "case"),
                     hd_result_get_text(line, "bits_hash"), hd_result_get_text(line, "fingerprint"),
                     hd_result_get_number(line, "seed"));
}

static int report_divergence(const json_t *line, const json_t *first)
{
    return hd_fail(
        HD_ERR_DIVERGED,
        "turn %.0f of '%s' ended in the parameters %s, but turn %.0f of '%s' in %s: what "
        "differs between them may not change bits",
        hd_result_get_number(line, "turn"), hd_result_get_text(line, "candidate"),
        hd_result_get_text(line, "param_hash"), hd_result_get_number(first, "turn"),
        hd_result_get_text(first, "candidate"), hd_result_get_text(first, "param_hash"));
}

int hd_results_compare(const json_t *lines)
{
    json_t *firsts = json_object(), *line;
    size_t i;
    int status = HD_OK;
    json_array_foreach(lines, i, line) {
        char *bits = name_bits(line);
        const json_t *first = bits ? json_object_get(firsts, bits) : NULL;
        if (status == HD_OK && first && !is_same(line, first, "param_hash"))
            status = report_divergence(line, first);
        if (bits && !first)
            json_object_set(firsts, bits, line);
        hd_free(bits);
    }
    json_decref(firsts);
    return status;
}
