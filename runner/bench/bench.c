/* SPDX-License-Identifier: Apache-2.0 */
/* runner bench: trains with several strategies in turns, forwards and backwards, so that a slow
 * minute of the machine hits all alike. Every run is a `runner run` of its own under the launcher;
 * run directories are temporary. */
#include "runner/bench/bench.h"

#include "runner/base/commands.h"
#include "runner/base/run_spec.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/launch/launch.h"
#include "runtime/machine/temp_dir.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- Strategies -------------------------------------------------------------------------------- */

/* Returns the largest lag of all reads. */
static int find_lag(const struct hd_graph *graph)
{
    int lag = 0;
    for (int i = 0; i < graph->total_steps; i++)
        for (int j = 0; j < graph->all_steps[i]->n_refs; j++)
            if (graph->all_steps[i]->refs[j].lag > lag)
                lag = graph->all_steps[i]->refs[j].lag;
    return lag;
}

/* Counts the updates of one iteration when nothing holds them up. */
static int64_t count_updates(const struct hd_graph *graph, const struct hd_step *steps, int n)
{
    int64_t updates = 0;
    for (int i = 0; i < n; i++) {
        if (!steps[i].verb)
            updates += steps[i].times * count_updates(graph, steps[i].steps, steps[i].n_steps);
        else if (steps[i].counts != HD_NO_COUNTER)
            updates += strcmp(graph->counters[steps[i].counts], "update") == 0;
    }
    return updates;
}

static int64_t whole_iterations(int64_t updates, int64_t of)
{
    return of > 0 ? (updates + of - 1) / of * of : updates;
}

/* Completes the options of one strategy's runs, with no limit but that of updates: one more than
 * asked for, so that an iteration begins when those have been made. */
static int complete_options(const struct hd_bench *bench, int strategy,
                            struct hd_options *run_options_p)
{
    *run_options_p = *bench->options;
    run_options_p->n_owned = 0;
    int64_t unit = bench->strategies[strategy].unit;
    int64_t limit = whole_iterations(run_options_p->warmup, unit) +
                    whole_iterations(run_options_p->updates, unit);
    int status = hd_options_use_strategy(run_options_p, bench->strategies[strategy].name);
    if (status == HD_OK)
        status = hd_options_add_set(run_options_p, hd_format("max_train_iter=%" PRId64, limit + 1),
                                    NULL);
    if (status == HD_OK)
        status = hd_options_add_set(run_options_p, hd_strdup("max_env_step=1e15"), NULL);
    if (status == HD_OK)
        status = hd_options_add_set(run_options_p, hd_strdup("env.stop_value=1e300"), NULL);
    if (status != HD_OK)
        hd_options_release(run_options_p);
    return status;
}

static int check_strategy(struct hd_bench *bench, int i)
{
    struct hd_options run_options;
    struct hd_run_spec run_spec;
    HD_TRY(complete_options(bench, i, &run_options));
    int status = hd_run_spec_load(&run_options, run_options.ranks, &run_spec);
    hd_options_release(&run_options);
    HD_TRY(status);
    bench->strategies[i].unit =
        count_updates(run_spec.graph, run_spec.graph->steps, run_spec.graph->n_steps);
    bench->strategies[i].lag = find_lag(run_spec.graph);
    hd_run_spec_release(&run_spec);
    bench->strategies[i].runs = hd_alloc(bench->options->repeats, sizeof(struct hd_rates));
    return bench->strategies[i].runs ? HD_OK : HD_ERR_NOMEM;
}

static int read_strategies(struct hd_bench *bench)
{
    const char *list = bench->options->strategies;
    if (!list)
        return hd_fail(HD_ERR_INPUT, "missing --strategies A,B,…");
    bench->names = hd_strdup(list);
    if (!bench->names)
        return HD_ERR_NOMEM;
    char *rest = bench->names;
    for (char *name; (name = strsep(&rest, ","));) {
        if (name[0] == '\0')
            return hd_fail(HD_ERR_INPUT, "--strategies %s: a name is missing", list);
        if (bench->n_strategies == HD_BENCH_STRATEGIES)
            return hd_fail(HD_ERR_INPUT, "more than %d strategies", HD_BENCH_STRATEGIES);
        bench->strategies[bench->n_strategies++].name = name;
        HD_TRY(check_strategy(bench, bench->n_strategies - 1));
    }
    return HD_OK;
}

/* -- One run ----------------------------------------------------------------------------------- */

static int launch(const struct hd_options *run_options, const char *dir, bool trace)
{
    char after[16];
    const char *arguments[2 * HD_SETS_MAX + 16];
    int n = 0;
    snprintf(after, sizeof after, "%d", run_options->warmup);
    const char *const first[] = {"runner", "run", run_options->config, "--quiet",
                                 "--dir",  dir,   "--measure-after",   after};
    for (int i = 0; i < (int)(sizeof first / sizeof *first); i++)
        arguments[n++] = first[i];
    if (run_options->evaluate)
        arguments[n++] = "--keep-evaluations";
    if (trace)
        arguments[n++] = "--trace";
    for (int i = 0; i < run_options->n_sets; i++) {
        arguments[n++] = "--set";
        arguments[n++] = run_options->sets[i].text;
    }
    arguments[n] = NULL;
    const struct hd_launch_options options = {
        .nproc_per_node = run_options->ranks, .nnodes = 1, .standalone = true};
    return hd_ranks_launch(&options, (char *const *)arguments);
}

/* trace_<strategy>.json, without the folder and ending of a strategy given as a path. */
static char *trace_name(const char *strategy)
{
    const char *slash = strrchr(strategy, '/'), *name = slash ? slash + 1 : strategy;
    size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".yaml") == 0)
        length -= 5;
    return hd_format("trace_%.*s.json", (int)length, name);
}

static int keep_trace(const char *from, const char *strategy)
{
    char *to = trace_name(strategy), *text = NULL;
    int64_t bytes = 0;
    int status = to ? hd_file_read(from, HD_INPUT_RUN, &text, &bytes) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_file_write_atomic(to, text, bytes);
    hd_free(text);
    hd_free(to);
    return status;
}

static int collect(struct hd_bench_strategy *strategy, const char *dir, bool trace)
{
    char *rates = hd_format("%s/rates.json", dir), *events = hd_format("%s/trace.json", dir);
    int status = rates && events ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = hd_rates_read(rates, &strategy->runs[strategy->n_runs]);
    if (status == HD_OK)
        strategy->n_runs++;
    if (status == HD_OK && trace)
        status = keep_trace(events, strategy->name);
    hd_free(rates);
    hd_free(events);
    return status;
}

/* Returns an exit code. */
static int run_once(struct hd_bench *bench, int i, const char *scratch, bool last)
{
    struct hd_bench_strategy *strategy = &bench->strategies[i];
    struct hd_options run_options;
    char *dir = hd_format("%s/run", scratch);
    int status = dir ? complete_options(bench, i, &run_options) : HD_ERR_NOMEM;
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    bool trace = bench->options->trace && last;
    int code = launch(&run_options, dir, trace || bench->look_at);
    const bool ran = code == 0;
    if (ran)
        code = hd_status_get_exit_code(collect(strategy, dir, trace));
    if (code == 0 && bench->look_at)
        code = hd_status_get_exit_code(bench->look_at(bench, i, &run_options, dir));
    if (!ran && code != hd_status_get_exit_code(HD_ERR_INTERRUPTED))
        hd_log(HD_LOG_ERROR, "the strategy %s could not be measured", strategy->name);
    hd_options_release(&run_options);
    hd_temp_dir_remove(dir);
    return code;
}

/* -- All runs ---------------------------------------------------------------------------------- */

static void show_progress(const struct hd_bench *bench, int number, int i)
{
    char line[256];
    snprintf(line, sizeof line, "run %d of %d: %s", number + 1,
             bench->n_strategies * bench->options->repeats, bench->strategies[i].name);
    if (bench->options->quiet)
        return;
    if (hd_log_can_show_progress())
        hd_log_show_progress(line);
    else
        hd_log(HD_LOG_INFO, "%s", line);
}

static int run_all(struct hd_bench *bench, const char *scratch)
{
    int n = bench->n_strategies, repeats = bench->options->repeats, code = 0;
    for (int number = 0; number < n * repeats && code == 0; number++) {
        int repeat = number / n, i = number % n;
        if (repeat % 2 == 1)
            i = n - 1 - i;
        show_progress(bench, number, i);
        code = run_once(bench, i, scratch, repeat == repeats - 1);
    }
    if (!bench->options->quiet)
        hd_log_show_progress(NULL);
    return code;
}

/* Lets signals wait for the launcher, or for the end: nothing may be left behind. */
static void hold_signals(sigset_t *before_p)
{
    sigset_t held;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    sigaddset(&held, SIGTERM);
    sigaddset(&held, SIGHUP);
    sigprocmask(SIG_BLOCK, &held, before_p);
}

static int measure(struct hd_bench *bench)
{
    sigset_t before;
    char *scratch;
    hold_signals(&before);
    int code = hd_status_get_exit_code(hd_temp_dir_make(0, &scratch));
    if (code == 0) {
        code = run_all(bench, scratch);
        hd_temp_dir_remove(scratch);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

static int report(const struct hd_bench *bench)
{
    hd_bench_print(bench, stdout);
    if (bench->options->json)
        HD_TRY(hd_bench_save(bench, bench->options->json));
    return hd_bench_compare(bench);
}

int hd_bench_measure(struct hd_bench *bench)
{
    int code = hd_status_get_exit_code(read_strategies(bench));
    return code == 0 ? measure(bench) : code;
}

void hd_bench_release(struct hd_bench *bench)
{
    for (int i = 0; i < bench->n_strategies; i++)
        hd_free(bench->strategies[i].runs);
    hd_free(bench->names);
}

int hd_command_bench(struct hd_options *options)
{
    struct hd_bench bench = {.options = options};
    int code = hd_bench_measure(&bench);
    if (code == 0)
        code = hd_status_get_exit_code(report(&bench));
    hd_bench_release(&bench);
    return code;
}
