/* SPDX-License-Identifier: Apache-2.0 */
/* runner bench: trains with several candidates in turns, forwards and backwards, so that a slow
 * minute of the machine hits all alike. What their runs left is kept, compared and shown. */
#include "runner/bench/bench.h"

#include "runner/base/commands.h"
#include "runner/bench/results.h"
#include "runner/bench/summary.h"
#include "runner/report/page.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/machine/temp_dir.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* -- Turns ------------------------------------------------------------------------------------- */

enum { SEEDS_MAX = 1000, REPEATS = 6 };

struct seeds {
    int64_t list[SEEDS_MAX];
    int n;
};

/* Reads "0-9" or "0,1,7". */
static int read_seeds(const char *text, struct seeds *seeds)
{
    for (const char *at = text; at;) {
        long long first, last;
        int length = 0;
        if (sscanf(at, "%lld%n-%lld%n", &first, &length, &last, &length) == 1)
            last = first;
        if (length == 0 || (at[length] != '\0' && at[length] != ',') || first < 0 || last < first)
            return hd_fail(HD_ERR_INPUT, "--seeds: expected 0-9 or 0,1,7, found '%s'", text);
        if (last - first >= SEEDS_MAX - seeds->n)
            return hd_fail(HD_ERR_INPUT, "--seeds: more than %d", SEEDS_MAX);
        for (long long seed = first; seed <= last; seed++)
            seeds->list[seeds->n++] = seed;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    return HD_OK;
}

static void show_progress(const struct hd_bench *bench, int number, int all, const char *name)
{
    char line[256];
    snprintf(line, sizeof line, "run %d of %d: %s", number + 1, all, name);
    if (bench->options->quiet)
        return;
    if (hd_log_can_show_progress())
        hd_log_show_progress(line);
    else
        hd_log(HD_LOG_INFO, "%s", line);
}

static int run_all(struct hd_bench *bench, const struct seeds *seeds, const char *scratch)
{
    const int repeats = bench->options->repeats > 0 ? bench->options->repeats : REPEATS;
    const int n = bench->candidates.n, turns = seeds->n > 0 ? seeds->n : repeats;
    int code = 0;
    for (int number = 0; number < n * turns && code == 0; number++) {
        const int turn = number / n, at = number % n;
        const struct hd_bench_run run = {.candidate = turn % 2 == 1 ? n - 1 - at : at,
                                         .turn = turn + 1,
                                         .seed = seeds->n > 0 ? seeds->list[turn] : -1,
                                         .is_last = turn == turns - 1,
                                         .scratch = scratch};
        show_progress(bench, number, n * turns, bench->candidates.list[run.candidate].name);
        code = hd_bench_make_run(bench, &run);
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

static int take_turns(struct hd_bench *bench, const struct seeds *seeds)
{
    sigset_t before;
    char *scratch;
    hold_signals(&before);
    int code = hd_status_get_exit_code(hd_temp_dir_make(0, &scratch));
    if (code == 0) {
        code = run_all(bench, seeds, scratch);
        hd_temp_dir_remove(scratch);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* -- Before and after -------------------------------------------------------------------------- */

static int check_options(const struct hd_options *options)
{
    if (options->seeds && !options->to_goal)
        return hd_fail(HD_ERR_INPUT, "--seeds needs --to-goal: all runs that measure rates have "
                                     "the same seed (--seed N)");
    if (options->to_goal && options->repeats > 0)
        return hd_fail(HD_ERR_INPUT, "--repeats: the turns of --to-goal are its --seeds");
    if (options->to_goal && options->trace)
        return hd_fail(HD_ERR_INPUT, "--trace is of runs that measure rates, without --to-goal");
    return HD_OK;
}

static int open_file(struct hd_bench *bench)
{
    const char *path = bench->options->json;
    if (!path)
        return HD_OK;
    HD_TRY(hd_results_read(path, false, bench->lines));
    bench->file = fopen(path, "a");
    return bench->file ? HD_OK : hd_fail(HD_ERR_SYSTEM, "%s cannot be written: %m", path);
}

static int prepare(struct hd_bench *bench, struct seeds *seeds)
{
    HD_TRY(check_options(bench->options));
    if (bench->options->seeds)
        HD_TRY(read_seeds(bench->options->seeds, seeds));
    seeds->n += bench->options->to_goal && seeds->n == 0;
    HD_TRY(hd_candidates_list(bench->options, &bench->candidates));
    bench->lines = json_array();
    HD_TRY(open_file(bench));
    return hd_bench_begin_call(bench);
}

int hd_bench_measure(struct hd_bench *bench)
{
    struct seeds seeds = {.list = {-1}};
    const int status = prepare(bench, &seeds);
    return status == HD_OK ? take_turns(bench, &seeds) : hd_status_get_exit_code(status);
}

void hd_bench_release(struct hd_bench *bench)
{
    hd_candidates_release(&bench->candidates);
    json_decref(bench->lines);
    json_decref(bench->common);
    if (bench->file)
        fclose(bench->file);
}

static int write_page(const char *path, json_t *summary)
{
    HD_TRY(hd_page_write(path, json_pack("{s:s, s:s, s:O}", "kind", "bench", "version", HD_VERSION,
                                         "bench", summary)));
    hd_log(HD_LOG_INFO, "%s", path);
    return HD_OK;
}

/* Says what all results of the comparison with the newest one have to say. */
static int report(const struct hd_bench *bench)
{
    json_t *selected = hd_results_select(bench->lines), *summary = NULL;
    int status = selected ? hd_bench_summarize(selected, &summary) : HD_ERR_NOMEM;
    if (status == HD_OK)
        hd_bench_print(summary, stdout);
    if (status == HD_OK && bench->options->page)
        status = write_page(bench->options->page, summary);
    if (status == HD_OK)
        status = hd_results_compare(selected);
    json_decref(summary);
    json_decref(selected);
    return status;
}

/* -- Earlier results --------------------------------------------------------------------------- */

static bool is_results(const char *path)
{
    const size_t length = strlen(path);
    return length > 6 && strcmp(path + length - 6, ".jsonl") == 0;
}

static int read_earlier(struct hd_bench *bench)
{
    const struct hd_options *options = bench->options;
    if (options->strategies || options->grid.n > 0 || options->to_goal || options->json ||
        options->trace || options->n_sets > 0)
        return hd_fail(HD_ERR_INPUT,
                       "%s has results of earlier runs, which are shown: nothing is measured, and "
                       "--page and --quiet are its only options",
                       options->config);
    bench->lines = json_array();
    HD_TRY(hd_results_read(options->config, true, bench->lines));
    return json_array_size(bench->lines) > 0
               ? HD_OK
               : hd_fail(HD_ERR_INPUT, "%s: there is no result of runner bench", options->config);
}

int hd_command_bench(struct hd_options *options)
{
    struct hd_bench bench = {.options = options};
    int code = is_results(options->config) ? hd_status_get_exit_code(read_earlier(&bench))
                                           : hd_bench_measure(&bench);
    if (code == 0)
        code = hd_status_get_exit_code(report(&bench));
    hd_bench_release(&bench);
    return code;
}
