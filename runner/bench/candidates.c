/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/bench/candidates.h"

#include "runner/base/run_spec.h"
#include "runner/bench/strategies.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <inttypes.h>
#include <string.h>

/* -- Lists ------------------------------------------------------------------------------------- */

enum { VALUES_MAX = 64 };

/* A list of values to choose from: of --strategies, whose key is NULL, or of a --grid. */
struct axis {
    const char *key;
    char *values[VALUES_MAX];
    int n;
};

/* Cuts a list at the commas outside of brackets. */
static int cut_list(const char *option, char *text, struct axis *axis)
{
    int depth = 0;
    bool ended = false;
    for (char *at = text; !ended; at++) {
        ended = *at == '\0';
        depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (!ended && (*at != ',' || depth > 0))
            continue;
        *at = '\0';
        if (text[0] == '\0')
            return hd_fail(HD_ERR_INPUT, "%s: a %s is missing in its list", option,
                           axis->key ? "value" : "name");
        if (axis->n == VALUES_MAX)
            return hd_fail(HD_ERR_INPUT, "%s: more than %d in its list", option, VALUES_MAX);
        axis->values[axis->n++] = text;
        text = at + 1;
    }
    return HD_OK;
}

/* These keys end runs, unless --updates does: then they are measured for their rate. */
static const char *const limits[] = {"max_train_iter", "max_env_step", "env.stop_value"};

static bool is_listed(const char *name, const char *const *list, size_t n)
{
    while (n > 0 && strcmp(list[n - 1], name) != 0)
        n--;
    return n > 0;
}

static int read_grid(char *text, bool to_goal, struct axis *axis)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return hd_fail(HD_ERR_INPUT, "--grid needs KEY=a,b,c, found '%s'", text);
    *equals = '\0';
    axis->key = text;
    if (strcmp(text, "strategy") == 0)
        return hd_fail(HD_ERR_INPUT, "--grid strategy: --strategies lists strategies");
    if (!to_goal && is_listed(text, limits, sizeof limits / sizeof *limits))
        return hd_fail(HD_ERR_INPUT,
                       "--grid %s: runs end after --warmup and --updates, unless --to-goal lets "
                       "them go on until they stop",
                       text);
    return cut_list("--grid", equals + 1, axis);
}

/* The first axis is that of strategies. */
static int read_axes(const struct hd_options *options, const struct hd_run_spec *base,
                     struct hd_candidates *candidates, struct axis *axes)
{
    char **texts = candidates->texts;
    texts[0] = options->strategies ? hd_strdup(options->strategies)
                                   : hd_strategies_list(options->config, base);
    if (!texts[0])
        return options->strategies ? HD_ERR_NOMEM : HD_ERR_INPUT;
    HD_TRY(cut_list("--strategies", texts[0], &axes[0]));
    for (int i = 0; i < options->grid.n; i++) {
        texts[i + 1] = hd_strdup(options->grid.texts[i]);
        if (!texts[i + 1])
            return HD_ERR_NOMEM;
        HD_TRY(read_grid(texts[i + 1], options->to_goal, &axes[i + 1]));
    }
    return HD_OK;
}

/* Adds the candidate of a number whose digits, the last one the lowest, are values of the axes. */
static int add_candidate(const struct axis *axes, int n_axes, int64_t number,
                         struct hd_candidates *candidates)
{
    struct hd_candidate *candidate = &candidates->list[candidates->n++];
    int digits[HD_NAMES_MAX + 1];
    for (int i = n_axes - 1; i >= 0; number /= axes[i--].n)
        digits[i] = (int)(number % axes[i].n);
    candidate->strategy = axes[0].values[digits[0]];
    candidate->name = hd_strdup(candidate->strategy);
    for (int i = 1; i < n_axes && candidate->name; i++) {
        char *set = hd_format("%s=%s", axes[i].key, axes[i].values[digits[i]]);
        char *name = set ? hd_format("%s %s", candidate->name, set) : NULL;
        candidate->sets[candidate->n_sets++] = set;
        hd_free(candidate->name);
        candidate->name = name;
    }
    return candidate->name ? HD_OK : HD_ERR_NOMEM;
}

static int multiply_axes(const struct axis *axes, int n_axes, struct hd_candidates *candidates)
{
    int64_t n = 1;
    for (int i = 0; i < n_axes && n <= HD_CANDIDATES_MAX; i++)
        n *= axes[i].n;
    if (n > HD_CANDIDATES_MAX)
        return hd_fail(HD_ERR_INPUT, "more than %d combinations of --strategies and --grid",
                       HD_CANDIDATES_MAX);
    for (int64_t number = 0; number < n; number++)
        HD_TRY(add_candidate(axes, n_axes, number, candidates));
    return HD_OK;
}

/* -- Options ----------------------------------------------------------------------------------- */

static int64_t whole_iterations(int64_t updates, int64_t of)
{
    return of > 0 ? (updates + of - 1) / of * of : updates;
}

static int add_limits(const struct hd_candidate *candidate, struct hd_options *run_options)
{
    const int64_t limit = whole_iterations(run_options->warmup, candidate->unit) +
                          whole_iterations(run_options->updates, candidate->unit);
    HD_TRY(hd_options_add_set(run_options, hd_format("max_train_iter=%" PRId64, limit + 1), NULL));
    HD_TRY(hd_options_add_set(run_options, hd_strdup("max_env_step=1e15"), NULL));
    return hd_options_add_set(run_options, hd_strdup("env.stop_value=1e300"), NULL);
}

static int add_sets(const struct hd_candidate *candidate, int64_t seed,
                    struct hd_options *run_options)
{
    if (candidate->strategy)
        HD_TRY(hd_options_use_strategy(run_options, candidate->strategy));
    for (int i = 0; i < candidate->n_sets; i++)
        HD_TRY(hd_options_add_set(run_options, hd_strdup(candidate->sets[i]), "--grid"));
    if (seed >= 0)
        HD_TRY(hd_options_add_set(run_options, hd_format("seed=%" PRId64, seed), "--seeds"));
    return run_options->to_goal ? HD_OK : add_limits(candidate, run_options);
}

int hd_candidate_complete_options(const struct hd_candidate *candidate,
                                  const struct hd_options *options, int64_t seed,
                                  struct hd_options *run_options_p)
{
    *run_options_p = *options;
    run_options_p->n_owned = 0;
    const int status = add_sets(candidate, seed, run_options_p);
    if (status != HD_OK)
        hd_options_release(run_options_p);
    return status;
}

/* -- Configs ----------------------------------------------------------------------------------- */

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

/* Names of a run, and what docs/determinism.md says cannot change its bits. */
static const char *const without_bits[] = {"exp_name",
                                           "runtime.scheduler",
                                           "runtime.executor",
                                           "runtime.performance_models",
                                           "runtime.workers",
                                           "runtime.max_inflight_iterations",
                                           "runtime.open_exchanges",
                                           "runtime.transport",
                                           "runtime.exchange",
                                           "strategy"};
static const char *const parameters_without_bits[] = {"bucket_mb", "batch_buffers",
                                                      "shard_optimizer_above_mb"};

static uint64_t hash_bits(const struct hd_run_spec *run_spec)
{
    const size_t n_keys = sizeof without_bits / sizeof *without_bits;
    const size_t n_parameters = sizeof parameters_without_bits / sizeof *parameters_without_bits;
    const struct hd_graph *graph = run_spec->graph;
    uint64_t hash = hd_config_hash(run_spec->config, without_bits, (int)n_keys);
    for (int i = 0; i < graph->n_parameters; i++) {
        const struct hd_strategy_parameter *parameter = &graph->parameters[i];
        if (is_listed(parameter->name, parameters_without_bits, n_parameters))
            continue;
        hash = hd_hash_mix(hash, hd_hash_text(parameter->name));
        hash = hd_hash_mix(hash, parameter->word
                                     ? hd_hash_text(parameter->word)
                                     : hd_hash_bytes(&parameter->value, sizeof parameter->value));
    }
    return hash;
}

/* Reads the config of a candidate's runs. */
static int load_candidate(const struct hd_options *options, const struct hd_candidate *candidate,
                          struct hd_run_spec *run_spec_p)
{
    struct hd_options run_options;
    HD_TRY(hd_candidate_complete_options(candidate, options, -1, &run_options));
    const int status = hd_run_spec_load(&run_options, run_options.ranks, run_spec_p);
    hd_options_release(&run_options);
    return status;
}

static int check_candidate(const struct hd_options *options, struct hd_candidate *candidate)
{
    struct hd_run_spec run_spec;
    HD_TRY(load_candidate(options, candidate, &run_spec));
    candidate->unit = count_updates(run_spec.graph, run_spec.graph->steps, run_spec.graph->n_steps);
    candidate->lag = find_lag(run_spec.graph);
    candidate->config_hash = hd_config_hash(run_spec.config, without_bits, 1);
    candidate->bits_hash = hash_bits(&run_spec);
    hd_run_spec_release(&run_spec);
    return HD_OK;
}

int hd_candidates_list(const struct hd_options *options, struct hd_candidates *candidates)
{
    struct axis axes[HD_NAMES_MAX + 1] = {0};
    struct hd_run_spec base;
    struct hd_options without_limits = *options;
    without_limits.to_goal = true;
    HD_TRY(load_candidate(&without_limits, &(struct hd_candidate){0}, &base));
    candidates->base_hash = hd_config_hash(base.config, without_bits, 1);
    const int status = read_axes(options, &base, candidates, axes);
    hd_run_spec_release(&base);
    HD_TRY(status);
    HD_TRY(multiply_axes(axes, options->grid.n + 1, candidates));
    for (int i = 0; i < candidates->n; i++)
        HD_TRY(check_candidate(options, &candidates->list[i]));
    return HD_OK;
}

void hd_candidates_release(struct hd_candidates *candidates)
{
    for (int i = 0; i < candidates->n; i++) {
        hd_free(candidates->list[i].name);
        for (int k = 0; k < candidates->list[i].n_sets; k++)
            hd_free(candidates->list[i].sets[k]);
    }
    for (int i = 0; i < HD_NAMES_MAX + 1; i++)
        hd_free(candidates->texts[i]);
}
