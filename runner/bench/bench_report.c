/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of runner bench: numbers of several runs, a table, lines of JSON. */
#include "runner/bench/bench.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* -- Numbers ----------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *sorted, int n)
{
    qsort(sorted, (size_t)n, sizeof *sorted, compare_numbers);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

enum { RUNS_MAX = 1000 }; /* the range of --repeats */

static struct hd_range get_range(const struct hd_bench_strategy *strategy,
                                 double (*number)(const struct hd_rates *rates))
{
    double values[RUNS_MAX];
    int n = strategy->n_runs;
    for (int i = 0; i < n; i++)
        values[i] = number(&strategy->runs[i]);
    double median = middle(values, n);
    return (struct hd_range){median, values[0], values[n - 1]};
}

static double share_of(const struct hd_rates *rates, const char *verb)
{
    for (int i = 0; i < rates->n_verbs; i++)
        if (strcmp(rates->verbs[i].verb, verb) == 0)
            return rates->verbs[i].seconds / rates->seconds;
    return 0;
}

static double get_verb_share(const struct hd_bench_strategy *strategy, const char *verb)
{
    double values[RUNS_MAX];
    for (int i = 0; i < strategy->n_runs; i++)
        values[i] = share_of(&strategy->runs[i], verb);
    return middle(values, strategy->n_runs);
}

int hd_bench_compare(const struct hd_bench *bench)
{
    const struct hd_bench_strategy *serial = NULL;
    for (int i = 0; i < bench->n_strategies; i++) {
        const struct hd_bench_strategy *strategy = &bench->strategies[i];
        if (strategy->lag == 0 && !serial)
            serial = strategy;
        const struct hd_bench_strategy *like = strategy->lag == 0 ? serial : strategy;
        for (int j = 0; j < strategy->n_runs; j++)
            if (strategy->runs[j].param_hash != like->runs[0].param_hash)
                return hd_fail(HD_ERR_DIVERGED,
                               "run %d of %s ended in other parameters than run 1 of %s", j + 1,
                               strategy->name, like->name);
    }
    return HD_OK;
}

/* -- Table ------------------------------------------------------------------------------------- */

static void print_heading(const struct hd_bench *bench, int width, FILE *file)
{
    const struct hd_rates *run = &bench->strategies[0].runs[0];
    fprintf(file,
            "%s: %" PRId64 " %s x %" PRId64 " %s, %" PRId64 " %s; %" PRId64
            " updates measured after %d, median of %d %s (+- half the range)\n\n",
            bench->options->config, run->ranks, run->ranks == 1 ? "rank" : "ranks", run->workers,
            run->workers == 1 ? "worker" : "workers", run->shards,
            run->shards == 1 ? "shard" : "shards", run->updates, bench->options->warmup,
            bench->options->repeats, bench->options->repeats == 1 ? "run" : "runs");
    fprintf(file, "%-*s %4s %15s %17s %6s%s %8s %6s  %-17s %s\n", width, "strategy", "lag",
            "updates/s", "env steps/s", "busy", run->gpus > 0 ? "    GPU" : "", "exposed", "idle",
            "param_hash", "largest tasks, % of time");
}

static void print_rate(struct hd_range rate, int width, FILE *file)
{
    char text[32] = "-";
    if (rate.max > 0)
        snprintf(text, sizeof text, "%.*f +-%.0f %%", rate.median < 100 ? 2 : 0, rate.median,
                 50 * (rate.max - rate.min) / rate.median);
    fprintf(file, " %*s", width, text);
}

struct cost {
    const char *verb;
    double share;
};

static int more_expensive(const void *a, const void *b)
{
    const struct cost *x = a, *y = b;
    return (x->share < y->share) - (x->share > y->share);
}

static void print_tasks(const struct hd_bench_strategy *strategy, FILE *file)
{
    enum { SHOWN = 5 };
    struct cost costs[HD_RATES_VERBS];
    const struct hd_rates *run = &strategy->runs[0];
    for (int i = 0; i < run->n_verbs; i++)
        costs[i] = (struct cost){run->verbs[i].verb, get_verb_share(strategy, run->verbs[i].verb)};
    qsort(costs, (size_t)run->n_verbs, sizeof *costs, more_expensive);
    for (int i = 0; i < run->n_verbs && i < SHOWN; i++)
        fprintf(file, "%s%s %.1f", i > 0 ? ", " : "", costs[i].verb, 100 * costs[i].share);
}

static void print_strategy(const struct hd_bench_strategy *strategy, int width, FILE *file)
{
    const struct hd_rates *run = &strategy->runs[0];
    fprintf(file, "%-*s %4d", width, strategy->name, strategy->lag);
    print_rate(get_range(strategy, hd_rates_get_updates_per_s), 15, file);
    print_rate(get_range(strategy, hd_rates_get_env_steps_per_s), 17, file);
    fprintf(file, " %4.0f %%", 100 * get_range(strategy, hd_rates_get_busy).median);
    if (run->gpus > 0)
        fprintf(file, " %4.0f %%", 100 * get_range(strategy, hd_rates_get_gpu_busy).median);
    if (run->ranks > 1)
        fprintf(file, " %6.1f %%", 100 * get_range(strategy, hd_rates_get_exposed).median);
    else
        fprintf(file, " %8s", "-");
    fprintf(file, " %4.0f %%  %016" PRIx64 "  ",
            100 * get_range(strategy, hd_rates_get_idle).median, run->param_hash);
    print_tasks(strategy, file);
    fprintf(file, "\n");
}

void hd_bench_print(const struct hd_bench *bench, FILE *file)
{
    int width = (int)strlen("strategy"), lagged = 0;
    for (int i = 0; i < bench->n_strategies; i++) {
        int length = (int)strlen(bench->strategies[i].name);
        width = length > width ? length : width;
        lagged += bench->strategies[i].lag > 0;
    }
    print_heading(bench, width, file);
    for (int i = 0; i < bench->n_strategies; i++)
        print_strategy(&bench->strategies[i], width, file);
    fprintf(file, "\nStrategies of lag 0 must end in the same parameters%s.\n",
            lagged ? "; others may not" : "");
}

/* -- JSON -------------------------------------------------------------------------------------- */

static json_t *range_of(const struct hd_bench_strategy *strategy,
                        double (*number)(const struct hd_rates *rates))
{
    struct hd_range range = get_range(strategy, number);
    return json_pack("{s:f, s:f, s:f}", "median", range.median, "min", range.min, "max", range.max);
}

static json_t *verbs_of(const struct hd_bench_strategy *strategy)
{
    json_t *verbs = json_object();
    for (int i = 0; i < strategy->runs[0].n_verbs; i++) {
        const char *verb = strategy->runs[0].verbs[i].verb;
        json_object_set_new(verbs, verb, json_real(get_verb_share(strategy, verb)));
    }
    return verbs;
}

static json_t *sets_of(const struct hd_options *options)
{
    json_t *sets = json_array();
    for (int i = 0; i < options->n_sets; i++)
        json_array_append_new(sets, json_string(options->sets[i].text));
    return sets;
}

/* Returns what `git describe` says in the folder of this program; null outside a checkout. */
static json_t *commit(void)
{
    char program[4096], text[64] = "";
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(program, '/');
    if (!slash || strchr(program, '\''))
        return json_null();
    *slash = '\0';
    char *command = hd_format("git -C '%s' describe --always --dirty 2>/dev/null", program);
    FILE *pipe = command ? popen(command, "r") : NULL;
    if (pipe && !fgets(text, sizeof text, pipe))
        text[0] = '\0';
    if (pipe)
        pclose(pipe);
    hd_free(command);
    text[strcspn(text, "\n")] = '\0';
    return text[0] ? json_string(text) : json_null();
}

static json_t *machine(void)
{
    char line[256], name[160] = "unknown", text[200];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %159[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
    snprintf(text, sizeof text, "%s, %ld CPUs", name, sysconf(_SC_NPROCESSORS_ONLN));
    return json_string(text);
}

static json_t *date(void)
{
    char text[16];
    time_t now = time(NULL);
    struct tm local;
    strftime(text, sizeof text, "%Y-%m-%d", localtime_r(&now, &local));
    return json_string(text);
}

static json_t *line_of(const struct hd_bench *bench, const struct hd_bench_strategy *strategy)
{
    const struct hd_rates *run = &strategy->runs[0];
    char hash[24], fingerprint[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, run->param_hash);
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, run->fingerprint);
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:s, s:s, s:o, s:o, s:o}",
        "case", "strategy", "config", bench->options->config, "strategy", strategy->name, "lag",
        strategy->lag, "ranks", (json_int_t)run->ranks, "shards", (json_int_t)run->shards,
        "workers", (json_int_t)run->workers, "updates", (json_int_t)run->updates, "warmup",
        bench->options->warmup, "repeats", strategy->n_runs, "sets", sets_of(bench->options),
        "updates_per_s", range_of(strategy, hd_rates_get_updates_per_s), "env_steps_per_s",
        range_of(strategy, hd_rates_get_env_steps_per_s), "busy",
        range_of(strategy, hd_rates_get_busy), "exposed", range_of(strategy, hd_rates_get_exposed),
        "idle", range_of(strategy, hd_rates_get_idle), "tasks", verbs_of(strategy), "param_hash",
        hash, "fingerprint", fingerprint, "commit", commit(), "machine", machine(), "date", date());
}

int hd_bench_save(const struct hd_bench *bench, const char *path)
{
    FILE *file = fopen(path, "a");
    if (!file)
        return hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", path);
    int status = HD_OK;
    for (int i = 0; i < bench->n_strategies && status == HD_OK; i++) {
        json_t *json = line_of(bench, &bench->strategies[i]);
        char *text = json ? json_dumps(json, JSON_REAL_PRECISION(8)) : NULL;
        json_decref(json);
        if (text)
            fprintf(file, "%s\n", text);
        else
            status = hd_fail(HD_ERR_NOMEM, "%s: no memory", path);
        free(text);
    }
    bool failed = ferror(file) != 0;
    if ((fclose(file) != 0 || failed) && status == HD_OK)
        status = hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", path);
    return status;
}
