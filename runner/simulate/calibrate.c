/* SPDX-License-Identifier: Apache-2.0 */
/* runner calibrate: how long tasks take, from traces of short runs of one rank with one worker, or
 * of a run that there is. */
#include "runner/base/commands.h"
#include "runner/bench/bench.h"
#include "runner/simulate/facts.h"
#include "runner/simulate/samples.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"

#include <stdlib.h>
#include <string.h>

enum { HD_STRATEGY_BYTES = 256 };

struct calibrating {
    json_t *strategies, *facts;
};

/* Completes a calibration by a run's trace, and adds it as the strategy's. */
static int add(const struct hd_run_spec *run_spec, const char *dir, const char *strategy,
               struct hd_calibration *calibration, struct calibrating *calibrating)
{
    const int status = hd_calibration_measure(run_spec, dir, calibration);
    if (status == HD_OK) {
        json_object_set_new(calibrating->strategies, strategy, hd_calibration_write(calibration));
        json_decref(calibrating->facts);
        calibrating->facts = hd_facts_list(run_spec);
    }
    hd_calibration_release(calibration);
    return status;
}

/* -- Runs of its own --------------------------------------------------------------------------- */

static int look_at(void *arg, const char *strategy, const struct hd_rates *rates,
                   const struct hd_options *run_options, const char *dir)
{
    struct calibrating *calibrating = arg;
    struct hd_calibration calibration = {.shards = rates->shards,
                                         .updates_per_s = hd_rates_get_updates_per_s(rates)};
    struct hd_run_spec run_spec;
    calibration.env_steps_per_update =
        rates->env_steps / (double)rates->updates / (double)rates->shards;
    HD_TRY(hd_run_spec_load(run_options, 1, &run_spec));
    const int status = add(&run_spec, dir, strategy, &calibration, calibrating);
    hd_run_spec_release(&run_spec);
    return status;
}

static int train(struct hd_options *options, struct calibrating *calibrating)
{
    struct hd_bench bench = {.options = options, .look_at = look_at, .arg = calibrating};
    options->strategies = options->strategies ? options->strategies : HD_ALL_STRATEGIES;
    options->repeats = 1;
    options->evaluate = true;
    const int status = hd_options_add_set(options, hd_strdup("runtime.workers=1"), NULL);
    const int code = status == HD_OK ? hd_bench_measure(&bench) : hd_status_get_exit_code(status);
    hd_bench_release(&bench);
    return code;
}

/* -- A run that there is ----------------------------------------------------------------------- */

/* Stores the numbers of result.json and the length of the trace. */
static int read_rates(const char *dir, struct hd_calibration *calibration)
{
    json_t *json;
    HD_TRY(hd_run_dir_read_result(dir, &json));
    json_int_t ranks, shards, updates, env_steps;
    double seconds;
    int status = HD_OK;
    if (json_unpack(json, "{s:I, s:I, s:I, s:I, s:F}", "ranks", &ranks, "shards", &shards,
                    "train_iter", &updates, "env_step", &env_steps, "wall_s", &seconds) != 0 ||
        updates == 0)
        status = hd_fail(HD_ERR_INPUT, "%s: its run has not ended, or made no update", dir);
    else if (ranks != 1)
        status = hd_fail(HD_ERR_INPUT,
                         "%s is of %d ranks: a calibration needs a run of one, as others make a "
                         "rank wait",
                         dir, (int)ranks);
    else
        *calibration = (struct hd_calibration){
            .shards = shards,
            .updates_per_s = (double)updates / seconds,
            .env_steps_per_update = (double)env_steps / (double)updates / (double)shards};
    json_decref(json);
    return status;
}

static int load_config(const struct hd_options *options, const char *config, const char *strategy,
                       struct hd_run_spec *run_spec_p)
{
    struct hd_options load_options = *options;
    load_options.config = config;
    load_options.n_owned = 0;
    int status = strategy ? hd_options_use_strategy(&load_options, strategy) : HD_OK;
    if (status == HD_OK)
        status = hd_run_spec_load(&load_options, 1, run_spec_p);
    hd_options_release(&load_options);
    return status;
}

static bool has_same_strategy(const struct hd_graph *a, const struct hd_graph *b)
{
    bool same = a->n_parameters == b->n_parameters;
    for (int i = 0; same && i < a->n_parameters; i++) {
        const struct hd_strategy_parameter *left = &a->parameters[i], *right = &b->parameters[i];
        same = strcmp(left->name, right->name) == 0 && left->value == right->value &&
               strcmp(left->word ? left->word : "", right->word ? right->word : "") == 0;
    }
    return same;
}

/* A run knows the parameters of its strategy, not its name: tries names on the config. */
static int find_strategy(const struct hd_options *options, const struct hd_run_spec *run,
                         char *name_p)
{
    json_t *facts = hd_facts_list(run);
    const char *list = options->strategies ? options->strategies : HD_ALL_STRATEGIES;
    char *names = hd_strdup(list), *rest = names;
    bool found = false;
    int status = names ? HD_OK : HD_ERR_NOMEM;
    for (char *name; status == HD_OK && !found && rest && (name = strsep(&rest, ","));) {
        struct hd_run_spec run_spec;
        status = load_config(options, options->config, name, &run_spec);
        if (status != HD_OK)
            break;
        found = has_same_strategy(run->graph, run_spec.graph);
        if (found)
            status = hd_facts_compare(facts, &run_spec, "the run is of another config");
        snprintf(name_p, HD_STRATEGY_BYTES, "%s", name);
        hd_run_spec_release(&run_spec);
    }
    hd_free(names);
    json_decref(facts);
    if (status == HD_OK && !found)
        return hd_fail(HD_ERR_INPUT, "%s: its strategy is none of %s (--strategies)", options->from,
                       list);
    return status;
}

static int read_run(const struct hd_options *options, struct calibrating *calibrating)
{
    char *path, name[HD_STRATEGY_BYTES];
    struct hd_options plain = *options;
    struct hd_calibration calibration;
    struct hd_run_spec run;
    plain.n_sets = plain.n_owned = 0;
    HD_TRY(hd_run_dir_find_policy(options->from, &path, NULL));
    int status = read_rates(options->from, &calibration);
    if (status == HD_OK)
        status = load_config(&plain, path, NULL, &run);
    hd_free(path);
    HD_TRY(status);
    status = find_strategy(options, &run, name);
    if (status == HD_OK)
        status = add(&run, options->from, name, &calibration, calibrating);
    hd_run_spec_release(&run);
    return status;
}

/* -- The file ---------------------------------------------------------------------------------- */

static int write_file(const struct hd_options *options, const struct calibrating *calibrating)
{
    const char *path = options->out ? options->out : "calibration.json";
    char *from = options->from ? hd_format("the run in %s", options->from)
                               : hd_format("runs of %d updates", options->updates);
    json_t *json =
        json_pack("{s:i, s:s, s:s, s:s, s:O, s:O}", "format", HD_CALIBRATION_FORMAT, "heddle",
                  HD_VERSION, "config", options->config, "from", from ? from : "", "facts",
                  calibrating->facts, "strategies", calibrating->strategies);
    hd_free(from);
    char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text)
        return hd_fail(HD_ERR_NOMEM, "%s: no memory for the calibration", path);
    const int status = hd_file_write_atomic(path, text, (int64_t)strlen(text));
    free(text);
    return status;
}

int hd_command_calibrate(struct hd_options *options)
{
    struct calibrating calibrating = {.strategies = json_object()};
    if (options->from) /* else it trains, with all code that the config names */
        hd_options_refuse_plugins(options);
    int code = options->from ? hd_status_get_exit_code(read_run(options, &calibrating))
                             : train(options, &calibrating);
    if (code == 0)
        code = hd_status_get_exit_code(write_file(options, &calibrating));
    json_decref(calibrating.strategies);
    json_decref(calibrating.facts);
    return code;
}
