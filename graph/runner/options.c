/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options, where each says which subcommands take it. Both spellings of torchrun are
 * accepted: --nproc-per-node and --nproc_per_node. */
#include "graph/runner/options.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/files.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum commands {
    RUN = 1,
    LAUNCH = 2,
    GRAPH = 4,
    EVAL = 8,
    BENCH = 16,
    RECORD = 32,
    REPORT = 64,
    TRACE = 128,
    COMPARE = 256,
    DOCTOR = 512,
    TRAIN = RUN | LAUNCH,
    ONE = TRAIN | GRAPH | EVAL,
    ALL = ONE | BENCH | RECORD,
    LOOK = REPORT | TRACE | COMPARE | DOCTOR
};

/* They are in the order of the bits. */
static const struct {
    const char *name, *arguments, *about;
} commands[] = {
    {"run", "CONFIG", NULL},
    {"launch", "CONFIG", NULL},
    {"graph", "CONFIG", NULL},
    {"eval", "CONFIG", NULL},
    {"bench", "CONFIG", NULL},
    {"record", "CONFIG", NULL},
    {"report", "DIR",
     "Writes a run as one HTML file that needs no network: learning curves, throughput, a "
     "timeline\n"
     "of workers and communication (if the run had --trace), where the time went, memory, config,\n"
     "machine, versions and hashes. A run writes it by itself at its end; of one that still runs\n"
     "or was killed, it shows what there is so far. DIR is the run directory.\n"},
    {"trace", "DIR",
     "Prints where the time of rank 0 went, by name of step: how often, how long in all, how long\n"
     "at least one worker was at it, and what share of the time that was. A run that had --trace\n"
     "has all of it; of others there are totals by verb. DIR/trace.json is for\n"
     "https://ui.perfetto.dev.\n"},
    {"compare", "DIR DIR ...",
     "Compares runs: a table of results, rates and hashes, and the keys of the config\n"
     "that differ from the first run's, on stdout; and their curves as one HTML file.\n"},
    {"doctor", "",
     "Looks at this machine and this program: cores, memory and what limits them, the cores that\n"
     "each of W ranks would get, versions, GPUs; then W processes exchange data for two seconds\n"
     "as ranks do. Says what is wrong and what to do. Exit code 0: nothing is broken, 1: something "
     "is.\n"},
};

/* A COUNT has 64 bits, a SHARE is 0 to 1, an OPTIONAL is a directory or "". */
enum kind { FLAG, INTEGER, COUNT, SHARE, TEXT, SET, AS_SET, OPTIONAL };

static const struct option {
    const char *name, *argument;
    int commands;
    enum kind kind;
    size_t offset;
    long long min, max;
    const char *help; /* NULL: for the runs of `runner bench` only */
    const char *set;  /* AS_SET: printf form of the --set it stands for */
} table[] = {
#define FIELD(name) offsetof(struct hd_options, name)
    {"set", "KEY=VALUE", ALL, SET, 0, 0, 0, "override any key of the config; may be repeated",
     NULL},
    {"seed", "N", ALL, AS_SET, 0, 0, 0, "seed of everything random (seed=N)", "seed=%s"},
    {"strategy", "NAME", ONE, AS_SET, 0, 0, 0,
     "strategies/NAME.yaml beside the config (or a path ending in .yaml)",
     "strategy=strategies/%s.yaml"},
    {"dir", "DIR", TRAIN, TEXT, FIELD(dir), 0, 0,
     "the run directory itself (default ./<exp_name>, with _1, _2, … when that exists)", NULL},
    {"resume", "[DIR]", TRAIN, OPTIONAL, FIELD(resume), 0, 0,
     "go on from the newest good checkpoint of the run directory DIR (default: --dir, else the "
     "newest of <exp_name>), or begin there if it has none",
     NULL},
    {"strategies", "A,B,...", BENCH, TEXT, FIELD(strategies), 0, 0,
     "what to measure: names as --strategy of `runner run` takes them", NULL},
    {"trace", NULL, TRAIN, FLAG, FIELD(trace), 0, 0, "write rank 0's trace.json, for Perfetto",
     NULL},
    {"trace", NULL, BENCH, FLAG, FIELD(trace), 0, 0,
     "write rank 0's trace of each strategy's last run into ./trace_<strategy>.json", NULL},
    {"quiet", NULL, ALL | REPORT | COMPARE, FLAG, FIELD(quiet), 0, 0, "errors and warnings only",
     NULL},
    {"nproc-per-node", "N", LAUNCH, INTEGER, FIELD(nproc_per_node), 1, 4096,
     "ranks to start on this node (default 1)", NULL},
    {"nnodes", "N", LAUNCH, INTEGER, FIELD(nnodes), 1, 4096, "nodes of the run (default 1)", NULL},
    {"node-rank", "N", LAUNCH, INTEGER, FIELD(node_rank), 0, 4095,
     "number of this node (default 0; under srun the number of its node)", NULL},
    {"master-addr", "HOST", LAUNCH, TEXT, FIELD(master_addr), 0, 0,
     "where rank 0 is (default 127.0.0.1; under srun its first node)", NULL},
    {"master-port", "PORT", LAUNCH, INTEGER, FIELD(master_port), 0, 65535,
     "where rank 0 listens; 0, the default on one node: a free port", NULL},
    {"standalone", NULL, LAUNCH, FLAG, FIELD(standalone), 0, 0, "one node, a free port", NULL},
    {"secret-file", "FILE", TRAIN, TEXT, FIELD(secret_file), 0, 0,
     "the secret by which the ranks of several nodes know each other (or HEDDLE_SECRET_FILE, "
     "HEDDLE_SECRET)",
     NULL},
    {"insecure", NULL, TRAIN, FLAG, FIELD(insecure), 0, 0,
     "no secret: whoever reaches the ranks' ports may join", NULL},
    {"max-restarts", "N", LAUNCH, INTEGER, FIELD(max_restarts), 0, 1000,
     "start all ranks again after a failure, from the newest good checkpoint", NULL},
    {"updates", "N", BENCH, INTEGER, FIELD(updates), 1, 1000000000,
     "updates to measure in each run (default 200)", NULL},
    {"warmup", "N", BENCH, INTEGER, FIELD(warmup), 1, 1000000000, "updates before (default 50)",
     NULL},
    {"repeats", "N", BENCH, INTEGER, FIELD(repeats), 1, 1000,
     "runs of each strategy, every other time in reverse order (default 4)", NULL},
    {"json", "FILE", BENCH, TEXT, FIELD(json), 0, 0, "append a line of JSON for each strategy",
     NULL},
    {"json", NULL, DOCTOR, FLAG, FIELD(as_json), 0, 0, "as one JSON object on stdout", NULL},
    {"evaluate", NULL, BENCH, FLAG, FIELD(evaluate), 0, 0,
     "keep the evaluations, which are left out otherwise", NULL},
    {"measure-after", "N", TRAIN, INTEGER, FIELD(measure_after), 1, 1000000000, NULL, NULL},
    {"keep-evaluations", NULL, TRAIN, FLAG, FIELD(evaluate), 0, 0, NULL, NULL},
    {"ranks", "W", GRAPH | BENCH, INTEGER, FIELD(ranks), 1, 4096, "number of ranks (default 1)",
     NULL},
    {"ranks", "W", DOCTOR, INTEGER, FIELD(ranks), 1, 64,
     "ranks to share the cores out to, and of the self test (default 2)", NULL},
    {"rank", "R", GRAPH, INTEGER, FIELD(rank), 0, 4095, "whose plan (default 0)", NULL},
    {"dot", NULL, GRAPH, FLAG, FIELD(dot), 0, 0, "as a Graphviz graph", NULL},
    {"allow-plugin", NULL, GRAPH, FLAG, FIELD(allow_plugin), 0, 0,
     "load the code of a plug-in that the config names by its path (or HEDDLE_ALLOW_PLUGIN=1)",
     NULL},
    {"weights", "FILE", EVAL | RECORD, TEXT, FIELD(weights), 0, 0,
     "policy.safetensors of a run: what plays", NULL},
    {"episodes", "N", EVAL, COUNT, FIELD(episodes), 1, 4096,
     "episodes to play (default env.n_evaluator_episode)", NULL},
    {"obs", "FILE", EVAL, TEXT, FIELD(obs), 0, 0,
     "safetensors with tensor `obs`: print one line of outputs per row instead", NULL},
    {"transitions", "N", RECORD, COUNT, FIELD(transitions), 1, 1000000000,
     "steps to record, over all collector envs", NULL},
    {"out", "DIR", RECORD, TEXT, FIELD(out), 0, 0, "the data set, a new directory", NULL},
    {"out", "FILE", REPORT, TEXT, FIELD(out), 0, 0, "the page (default DIR/report.html)", NULL},
    {"out", "FILE", COMPARE, TEXT, FIELD(out), 0, 0, "the page (default ./compare.html)", NULL},
    {"epsilon", "E", RECORD, SHARE, FIELD(epsilon), 0, 1,
     "share of random actions (default 0: the greedy ones)", NULL},
#undef FIELD
};

enum { N_OPTIONS = sizeof table / sizeof *table };

static int command_bit(const char *command)
{
    for (int i = 0; i < (int)(sizeof commands / sizeof *commands); i++)
        if (strcmp(command, commands[i].name) == 0)
            return 1 << i;
    return 0;
}

static const char *arguments_of(const char *command)
{
    for (int i = 0; i < (int)(sizeof commands / sizeof *commands); i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].arguments;
    return "";
}

static void print_help(const char *command)
{
    const char *arguments = arguments_of(command);
    printf("usage: runner %s%s%s [OPTION ...]\n", command, arguments[0] ? " " : "", arguments);
    for (int i = 0; i < (int)(sizeof commands / sizeof *commands); i++)
        if (strcmp(command, commands[i].name) == 0 && commands[i].about)
            printf("\n%s", commands[i].about);
    printf("\noptions:\n");
    for (int i = 0; i < N_OPTIONS; i++) {
        if (!(table[i].commands & command_bit(command)) || !table[i].help)
            continue;
        char left[64];
        snprintf(left, sizeof left, "--%s%s%s", table[i].name, table[i].argument ? " " : "",
                 table[i].argument ? table[i].argument : "");
        printf("  %-22s %s\n", left, table[i].help);
    }
    printf("  %-22s %s\n  %-22s %s\n", "--version", "print the version", "--help",
           "print this help");
}

static bool same_name(const char *name, const char *given, size_t length)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != given[i] && !(name[i] == '-' && given[i] == '_'))
            return false;
    return true;
}

static const struct option *find(const char *command, const char *given, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if ((table[i].commands & command_bit(command)) && same_name(table[i].name, given, length))
            return &table[i];
    return NULL;
}

static int unknown_option(const char *command, const char *given)
{
    const char *names[N_OPTIONS];
    for (int i = 0; i < N_OPTIONS; i++)
        names[i] = table[i].commands & command_bit(command) && table[i].help ? table[i].name : NULL;
    const char *nearest = hd_find_nearest_name(given, names, N_OPTIONS);
    return hd_fail(HD_ERR_INPUT, "unknown option '--%s'%s%s%s; see 'runner %s --help'", given,
                   nearest ? " (did you mean '--" : "", nearest ? nearest : "",
                   nearest ? "'?)" : "", command);
}

static int add_set(struct hd_options *options, const char *text)
{
    const int max = HD_SETS_MAX - HD_OWNED_SETS_MAX;
    if (options->n_sets >= max)
        return hd_fail(HD_ERR_INPUT, "more than %d --set options", max);
    options->sets[options->n_sets++] = text;
    return HD_OK;
}

int hd_options_add_set(struct hd_options *options, char *text)
{
    if (!text)
        return HD_ERR_NOMEM;
    if (options->n_owned == HD_OWNED_SETS_MAX || options->n_sets == HD_SETS_MAX) {
        hd_free(text);
        return hd_fail(HD_ERR_INPUT, "too many options");
    }
    options->owned[options->n_owned++] = text;
    options->sets[options->n_sets++] = text;
    return HD_OK;
}

static int add_as_set(struct hd_options *options, const struct option *option, const char *value)
{
    bool path = strcmp(option->name, "strategy") == 0 && strlen(value) > 5 &&
                strcmp(value + strlen(value) - 5, ".yaml") == 0;
    return hd_options_add_set(options, hd_format(path ? "strategy=%s" : option->set, value));
}

static int store_integer(struct hd_options *options, const struct option *option, const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < option->min || number > option->max)
        return hd_fail(HD_ERR_INPUT, "--%s: expected an integer in [%lld, %lld], found '%s'",
                       option->name, option->min, option->max, value);
    if (option->kind == COUNT)
        *(int64_t *)((char *)options + option->offset) = number;
    else
        *(int *)((char *)options + option->offset) = (int)number;
    return HD_OK;
}

static int store_share(struct hd_options *options, const struct option *option, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number <= 1))
        return hd_fail(HD_ERR_INPUT, "--%s: expected a number in [0, 1], found '%s'", option->name,
                       value);
    *(double *)((char *)options + option->offset) = number;
    return HD_OK;
}

static int store(struct hd_options *options, const struct option *option, const char *value)
{
    switch (option->kind) {
    case FLAG:
        *(bool *)((char *)options + option->offset) = true;
        return HD_OK;
    case INTEGER:
    case COUNT:
        return store_integer(options, option, value);
    case SHARE:
        return store_share(options, option, value);
    case TEXT:
    case OPTIONAL:
        *(const char **)((char *)options + option->offset) = value;
        return HD_OK;
    case SET:
        return add_set(options, value);
    case AS_SET:
        return add_as_set(options, option, value);
    }
    return HD_OK;
}

/* Reads one option at argv[*i]; its value may follow '=' or be the next argument. */
static int read_option(const char *command, int argc, char **argv, int *i,
                       struct hd_options *options)
{
    const char *given = argv[*i] + 2;
    size_t length = strcspn(given, "=");
    const char *value = given[length] == '=' ? given + length + 1 : NULL;
    const struct option *option = find(command, given, length);
    if (!option)
        return unknown_option(command, given);
    if (option->kind == FLAG && value)
        return hd_fail(HD_ERR_INPUT, "--%s takes no value", option->name);
    if (option->kind == OPTIONAL && !value)
        value = *i + 1 < argc && hd_folder_exists(argv[*i + 1]) ? argv[++*i] : "";
    if (option->kind != FLAG && !value) {
        if (*i + 1 == argc)
            return hd_fail(HD_ERR_INPUT, "--%s needs a value: %s", option->name, option->argument);
        value = argv[++*i];
    }
    return store(options, option, value);
}

static int add_argument(const char *command, char *argument, struct hd_options *options)
{
    const int bit = command_bit(command);
    if (bit & COMPARE) {
        if (options->n_dirs == HD_DIRS_MAX)
            return hd_fail(HD_ERR_INPUT, "more than %d runs", HD_DIRS_MAX);
        options->dirs[options->n_dirs++] = argument;
        return HD_OK;
    }
    if (bit & DOCTOR)
        return hd_fail(HD_ERR_INPUT, "doctor takes no argument: found '%s'", argument);
    if (options->config)
        return hd_fail(HD_ERR_INPUT, "one %s at a time: found '%s' and '%s'",
                       bit & LOOK ? "run" : "config", options->config, argument);
    options->config = argument;
    return HD_OK;
}

static int check_arguments(const char *command, const struct hd_options *options)
{
    const int bit = command_bit(command);
    if (bit & COMPARE && options->n_dirs < 2)
        return hd_fail(HD_ERR_INPUT,
                       "missing runs; usage: runner compare DIR DIR ... [OPTION ...]");
    if (!(bit & (COMPARE | DOCTOR)) && !options->config)
        return hd_fail(HD_ERR_INPUT, "missing %s; usage: runner %s %s [OPTION ...]",
                       bit & LOOK ? "run directory" : "config", command, arguments_of(command));
    return HD_OK;
}

static int read_arguments(const char *command, int argc, char **argv, struct hd_options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command);
            return 1;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("heddle %s\n", HD_VERSION);
            return 1;
        }
        if (strncmp(argv[i], "--", 2) == 0)
            HD_TRY(read_option(command, argc, argv, &i, options));
        else if (argv[i][0] == '-')
            return unknown_option(command, argv[i] + 1);
        else
            HD_TRY(add_argument(command, argv[i], options));
    }
    return check_arguments(command, options);
}

int hd_options_read(int argc, char **argv, struct hd_options *options_p)
{
    const char *command = argv[0];
    *options_p = (struct hd_options){.argc = argc,
                                     .argv = argv,
                                     .nproc_per_node = 1,
                                     .nnodes = 1,
                                     .node_rank = -1,
                                     .ranks = command_bit(command) & DOCTOR ? 2 : 1,
                                     .updates = 200,
                                     .warmup = 50,
                                     .repeats = 4,
                                     .measure_after = -1};
    int status = read_arguments(command, argc, argv, options_p);
    if (status != HD_OK)
        hd_options_release(options_p);
    if (options_p->quiet)
        hd_log_set_level(HD_LOG_WARN);
    return status;
}

void hd_options_release(struct hd_options *options)
{
    for (int i = 0; i < options->n_owned; i++)
        hd_free(options->owned[i]);
    options->n_owned = 0;
}

int hd_options_use_strategy(struct hd_options *options, const char *name)
{
    return add_as_set(options, find("run", "strategy", strlen("strategy")), name);
}
