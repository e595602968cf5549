/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options, where each says which subcommands take it. Both spellings of torchrun are
 * accepted: --nproc-per-node and --nproc_per_node. */
#include "runner/base/options.h"

#include "runner/base/torchrun.h"
#include "runtime/base/alloc.h"
#include "runtime/base/config/diag.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "runtime/io/video/video.h"
#include "tasks/base/run_keys.h"

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
    KEYS = 1024,
    VERBS = 2048,
    CALIBRATE = 4096,
    SIMULATE = 8192,
    WATCH = 16384,
    CHECK_ENV = 32768,
    TRAIN = RUN | LAUNCH,
    ONE = TRAIN | GRAPH | EVAL | WATCH | CHECK_ENV,
    ALL = ONE | BENCH | RECORD | CALIBRATE | SIMULATE
};

/* They are in the order of the bits. */
static const struct command {
    const char *name, *arguments;
    const char *noun; /* what an argument is */
    int min, max;     /* how many it takes */
    const char *about;
} commands[] = {
    {"run", "CONFIG", "config", 1, 1, NULL},
    {"launch", "CONFIG", "config", 1, 1, NULL},
    {"graph", "CONFIG", "config", 1, 1, NULL},
    {"eval", "CONFIG|DIR|WEIGHTS", "config, run directory or file of weights", 1, 1,
     "Plays episodes with given weights, also as a video, or prints the net's outputs for given\n"
     "observations. Of a run directory it takes the config and the best weights, or if there are\n"
     "none the last that were saved.\n"},
    {"bench", "CONFIG", "config", 1, 1, NULL},
    {"record", "CONFIG|DIR|WEIGHTS", "config, run directory or file of weights", 1, 1, NULL},
    {"report", "DIR", "run directory", 1, 1,
     "Writes a run as one HTML file that needs no network: learning curves, throughput, a "
     "timeline\n"
     "of workers and communication (if the run had --trace), where the time went, memory, config,\n"
     "machine, versions and hashes. A run writes it by itself at its end; of one that still runs\n"
     "or was killed, it shows what there is so far. DIR is the run directory.\n"},
    {"trace", "DIR", "run directory", 1, 1,
     "Prints where the time of rank 0 went, by name of step: how often, how long in all, how long\n"
     "at least one worker was at it, and what share of the time that was. A run that had --trace\n"
     "has all of it; of others there are totals by verb. DIR/trace.json is for\n"
     "https://ui.perfetto.dev.\n"},
    {"compare", "DIR ...", "run directory", 1, HD_DIRS_MAX,
     "Compares runs: a table of results, rates and hashes, and the keys of the config\n"
     "that differ from the first run's, on stdout; and their curves as one HTML file. DIR is a "
     "run\n"
     "directory, or a folder of run directories.\n"
     "--group-by has a row for each group of repeats in place of one for each run: means and\n"
     "interquartile means of returns, and how probably a run of a group beats one of the first\n"
     "group, with bootstrap intervals of 95 %. The first group is that of the first DIR.\n"},
    {"doctor", "", "argument", 0, 0,
     "Looks at this machine and this program: cores, memory and what limits them, the cores that\n"
     "each of W ranks would get, versions, GPUs; then W processes exchange data for two seconds\n"
     "as ranks do. Says what is wrong and what to do. Exit code 0: nothing is broken, 1: something "
     "is.\n"},
    {"keys", "[KEY]", "key", 0, 1,
     "Prints the keys of a config, each with its default, its meaning and the values that it "
     "takes.\n"
     "KEY is one key or a section: policy.learn.learning_rate, policy.learn.\n"},
    {"verbs", "[VERB]", "verb", 0, 1,
     "Prints the verbs that the steps of a graph may have, each with its ports and options.\n"},
    {"calibrate", "CONFIG", "config", 1, 1,
     "Trains with each strategy for a while, as one rank with one worker, and writes how long "
     "each\n"
     "task takes on this machine: what `runner simulate` needs. Nothing else should run "
     "meanwhile.\n"},
    {"simulate", "CONFIG", "config", 1, 1,
     "Computes how fast a cluster would train, for each strategy on 1, 2, 4, ... N nodes: what "
     "each\n"
     "rank would submit, with task times of `runner calibrate` and the network of SimGrid\n"
     "(libsimgrid-dev). Efficiency is the rate of environment steps per node, relative to one "
     "node.\n"},
    {"watch", "CONFIG|DIR|WEIGHTS", "config, run directory or file of weights", 1, 1,
     "Plays with given weights and shows it in the terminal, or on a page for a browser on this\n"
     "host. Of a run directory it plays the best weights so far, and those that follow while the\n"
     "run trains. q or Ctrl-C ends it.\n"},
    {"check-env", "CONFIG", "config", 1, 1,
     "Plays the environments of a config by drawn actions and tells where they break rules that\n"
     "training depends on: seeds, saved states, what a step returns. Exit code 1: some are "
     "broken.\n"},
};

/* A COUNT has 64 bits, a SHARE is 0 to 1, an OPTIONAL is a directory or "", NAMES may be repeated.
 */
enum kind { FLAG, INTEGER, COUNT, SHARE, TEXT, SET, AS_SET, OPTIONAL, NAMES };

static const struct option {
    const char *name, *argument; /* the name as it is typed */
    int commands;
    enum kind kind;
    size_t offset;
    long long min, max;
    const char *help; /* NULL: for the runs of `runner bench` only */
    const char *set;  /* AS_SET: printf form of the --set it stands for */
} table[] = {
#define FIELD(name) offsetof(struct hd_options, name)
    {"--set", "KEY=VALUE", ALL, SET, 0, 0, 0, "override any key of the config; may be repeated",
     NULL},
    {"--seed", "N", ALL, AS_SET, 0, 0, 0, "seed of everything random (seed=N)", "seed=%s"},
    {"--strategy", "NAME", ONE, AS_SET, 0, 0, 0,
     "strategies/NAME.yaml beside the config (or a path ending in .yaml)",
     "strategy=strategies/%s.yaml"},
    {"--dir", "DIR", TRAIN, TEXT, FIELD(dir), 0, 0,
     "the run directory itself (default ./<exp_name>, with _1, _2, … when that exists)", NULL},
    {"--resume", "[DIR]", TRAIN, OPTIONAL, FIELD(resume), 0, 0,
     "go on from the newest good checkpoint of the run directory DIR (default: --dir, else the "
     "newest of <exp_name>), or begin there if it has none",
     NULL},
    {"--strategies", "A,B,...", CALIBRATE | SIMULATE, TEXT, FIELD(strategies), 0, 0,
     "which strategies (default serial,bucketed,pipelined)", NULL},
    {"--strategies", "A,B,...", BENCH, TEXT, FIELD(strategies), 0, 0,
     "what to measure: names as --strategy of `runner run` takes them", NULL},
    {"--trace", NULL, TRAIN, FLAG, FIELD(trace), 0, 0, "write rank 0's trace.json, for Perfetto",
     NULL},
    {"--trace", NULL, BENCH, FLAG, FIELD(trace), 0, 0,
     "write rank 0's trace of each strategy's last run into ./trace_<strategy>.json", NULL},
    {"--quiet", NULL, ALL | REPORT | COMPARE, FLAG, FIELD(quiet), 0, 0, "errors and warnings only",
     NULL},
    {"--nproc-per-node", "N", LAUNCH, TEXT, FIELD(nproc_per_node), 0, 0,
     "ranks to start on this node (default 1); cpu: one per core; gpu: one per GPU; auto: per GPU, "
     "or per core without any",
     NULL},
    {"--nnodes", "N", LAUNCH, TEXT, FIELD(nnodes), 0, 0, "nodes of the run (default 1)", NULL},
    {"--node-rank", "N", LAUNCH, INTEGER, FIELD(node_rank), 0, 4095,
     "number of this node (default 0; under srun the number of its node)", NULL},
    {"--master-addr", "HOST", LAUNCH, TEXT, FIELD(master_addr), 0, 0,
     "where rank 0 is (default 127.0.0.1; under srun its first node)", NULL},
    {"--master-port", "PORT", LAUNCH, INTEGER, FIELD(master_port), 0, 65535,
     "where rank 0 listens; 0, the default on one node: a free port", NULL},
    {"--standalone", NULL, LAUNCH, FLAG, FIELD(standalone), 0, 0, "one node, a free port", NULL},
    {"--secret-file", "FILE", TRAIN, TEXT, FIELD(secret_file), 0, 0,
     "the secret by which the ranks of several nodes know each other (or HEDDLE_SECRET_FILE, "
     "HEDDLE_SECRET)",
     NULL},
    {"--insecure", NULL, TRAIN, FLAG, FIELD(insecure), 0, 0,
     "no secret: whoever reaches the ranks' ports may join", NULL},
    {"--max-restarts", "N", LAUNCH, INTEGER, FIELD(max_restarts), 0, 1000,
     "start all ranks again after a failure, from the newest good checkpoint", NULL},
    {"--updates", "N", CALIBRATE, INTEGER, FIELD(updates), 1, 1000000000,
     "updates to measure (default 200)", NULL},
    {"--from", "DIR", CALIBRATE, TEXT, FIELD(from), 0, 0,
     "take the times from a run of one rank with --trace, whose directory this is, and train not "
     "at "
     "all",
     NULL},
    {"--nodes", "N", SIMULATE, INTEGER, FIELD(nodes), 1, 4096, "nodes of the cluster (default 1)",
     NULL},
    {"--ranks-per-node", "R", SIMULATE, INTEGER, FIELD(ranks_per_node), 1, 4096,
     "ranks on each node (default 1)", NULL},
    {"--shards-per-rank", "K", SIMULATE, INTEGER, FIELD(shards_per_rank), 1, 1 << 20,
     "weak scaling: K shards for every rank; without it as many as world.shards says, on any "
     "number "
     "of nodes (strong scaling)",
     NULL},
    {"--gpus", "G", SIMULATE, INTEGER, FIELD(gpus), 0, 16,
     "GPUs of each rank (default 0), with --gpu-speedup", NULL},
    {"--gpu-speedup", "F", SIMULATE, TEXT, FIELD(gpu_speedup), 0, 0,
     "a GPU does a step F times as fast as the calibration's worker", NULL},
    {"--gpu-link", "RATE", SIMULATE, TEXT, FIELD(gpu_link), 0, 0,
     "rate of copies between host and GPU: 200Gbit (the default)", NULL},
    {"--network", "RATE,LATENCY", SIMULATE, TEXT, FIELD(network), 0, 0,
     "links of the nodes to one switch: 100Gbit,2us (default 10Gbit,20us)", NULL},
    {"--platform", "FILE", SIMULATE, TEXT, FIELD(platform), 0, 0,
     "a platform file of SimGrid, whose hosts are the nodes, in place of --network", NULL},
    {"--calibration", "FILE", SIMULATE, TEXT, FIELD(calibration), 0, 0,
     "what runner calibrate wrote (default ./calibration.json)", NULL},
    {"--scale", "F", SIMULATE, TEXT, FIELD(scale), 0, 0,
     "task times are F times those of the calibration (default 1)", NULL},
    {"--iterations", "N", SIMULATE, INTEGER, FIELD(iterations), 4, 100000,
     "iterations to simulate from the first update on (default 50)", NULL},
    {"--trace-rank", "R", SIMULATE, INTEGER, FIELD(rank), 0, 4095,
     "whose trace --trace-out writes (default 0)", NULL},
    {"--trace-out", "FILE", SIMULATE, TEXT, FIELD(trace_out), 0, 0,
     "trace of a rank on the most nodes, with the last strategy, for Perfetto", NULL},
    {"--json", "FILE", SIMULATE, TEXT, FIELD(json), 0, 0, "write all results as JSON", NULL},
    {"--page", "FILE", SIMULATE, TEXT, FIELD(page), 0, 0,
     "write all results as one HTML file with curves", NULL},
    {"--out", "FILE", CALIBRATE, TEXT, FIELD(out), 0, 0, "default ./calibration.json", NULL},
    {"--updates", "N", BENCH, INTEGER, FIELD(updates), 1, 1000000000,
     "updates to measure in each run (default 200)", NULL},
    {"--warmup", "N", BENCH, INTEGER, FIELD(warmup), 1, 1000000000, "updates before (default 50)",
     NULL},
    {"--repeats", "N", BENCH, INTEGER, FIELD(repeats), 1, 1000,
     "runs of each strategy, every other time in reverse order (default 4)", NULL},
    {"--json", "FILE", BENCH, TEXT, FIELD(json), 0, 0, "append a line of JSON for each strategy",
     NULL},
    {"--json", NULL, DOCTOR | EVAL, FLAG, FIELD(as_json), 0, 0, "as one JSON object on stdout",
     NULL},
    {"--json", NULL, COMPARE, FLAG, FIELD(as_json), 0, 0,
     "as one JSON object on stdout; the page is written only where --out names it", NULL},
    {"--group-by", "KEY[,KEY]", COMPARE, NAMES, FIELD(group_by), 0, 0,
     "put runs of equal values of these keys together, as repeats by seed; may be repeated", NULL},
    {"--json-schema", NULL, KEYS, FLAG, FIELD(as_schema), 0, 0,
     "print all keys as a JSON Schema of run files, for editors", NULL},
    {"--evaluate", NULL, BENCH, FLAG, FIELD(evaluate), 0, 0,
     "keep the evaluations, which are left out otherwise", NULL},
    {"--measure-after", "N", TRAIN, INTEGER, FIELD(measure_after), 1, 1000000000, NULL, NULL},
    {"--keep-evaluations", NULL, TRAIN, FLAG, FIELD(evaluate), 0, 0, NULL, NULL},
    {"--ranks", "W", GRAPH | BENCH, INTEGER, FIELD(ranks), 1, 4096, "number of ranks (default 1)",
     NULL},
    {"--ranks", "W", DOCTOR, INTEGER, FIELD(ranks), 1, 64,
     "ranks to share the cores out to, and of the self test (default 2)", NULL},
    {"--rank", "R", GRAPH, INTEGER, FIELD(rank), 0, 4095, "whose plan (default 0)", NULL},
    {"--dot", NULL, GRAPH, FLAG, FIELD(dot), 0, 0, "as a Graphviz graph", NULL},
    {"--allow-plugin", NULL, GRAPH | CALIBRATE | SIMULATE, FLAG, FIELD(allow_plugin), 0, 0,
     "load a plug-in that the config names by its path, start Python (or HEDDLE_ALLOW_PLUGIN=1)",
     NULL},
    {"--weights", "FILE", TRAIN, TEXT, FIELD(start_weights), 0, 0,
     "file of weights with which the policy begins: each tensor is taken from that of its name",
     NULL},
    {"--skip-mismatch", NULL, TRAIN, FLAG, FIELD(skip_mismatch), 0, 0,
     "leave tensors that have another shape in the file of --weights as they are drawn", NULL},
    {"--weights", "FILE", EVAL | RECORD | WATCH, TEXT, FIELD(weights), 0, 0,
     "policy.safetensors of a run: what plays (eval, watch: of a run directory, its best)", NULL},
    {"--strip-prefix", "TEXT", EVAL | RECORD | WATCH, TEXT, FIELD(strip_prefix), 0, 0,
     "what the file's tensors have before their names, such as module.", NULL},
    {"--episodes", "N", EVAL | WATCH, COUNT, FIELD(episodes), 1, 4096,
     "episodes to play (default env.n_evaluator_episode; watch: without end)", NULL},
    {"--video", "FILE", EVAL, TEXT, FIELD(video), 0, 0,
     "the episodes as a video: .gif, .png (animated), or .mp4 by ffmpeg", NULL},
    {"--fps", "N", EVAL | WATCH, INTEGER, FIELD(fps), 1, HD_VIDEO_FPS_MAX,
     "steps to show in a second (default 30)", NULL},
    {"--display", "FORM", WATCH, TEXT, FIELD(display), 0, 0,
     "blocks (half blocks in 24 bits of colour), 256, sixel, kitty; default auto: what the "
     "environment says of the terminal",
     NULL},
    {"--http", "PORT", WATCH, INTEGER, FIELD(http), 0, 65535,
     "show it at http://127.0.0.1:PORT/ in place of the terminal; 0: a free port", NULL},
    {"--http", "PORT", REPORT | COMPARE, INTEGER, FIELD(http), 0, 65535,
     "show the page at http://127.0.0.1:PORT/ while runs go on; 0: a free port", NULL},
    {"--scale", "K", EVAL, INTEGER, FIELD(zoom), 1, HD_VIDEO_SCALE_MAX,
     "show a pixel as K x K ones (default 1)", NULL},
    {"--max-frames", "N", EVAL, COUNT, FIELD(max_frames), 1, 1000000000,
     "end the video after N pictures", NULL},
    {"--obs", "FILE", EVAL, TEXT, FIELD(obs), 0, 0,
     "safetensors with tensor `obs`: print one line of outputs per row instead", NULL},
    {"--transitions", "N", RECORD, COUNT, FIELD(transitions), 1, 1000000000,
     "steps to record, over all collector envs", NULL},
    {"--out", "DIR", RECORD, TEXT, FIELD(out), 0, 0, "the data set, a new directory", NULL},
    {"--out", "FILE", REPORT, TEXT, FIELD(out), 0, 0, "the page (default DIR/report.html)", NULL},
    {"--csv", "FILE", REPORT, TEXT, FIELD(csv), 0, 0,
     "in place of the page, all numbers that were logged as CSV; -: to stdout", NULL},
    {"--out", "FILE", COMPARE, TEXT, FIELD(out), 0, 0, "the page (default ./compare.html)", NULL},
    {"--epsilon", "E", RECORD, SHARE, FIELD(epsilon), 0, 1,
     "share of random actions (default 0: the greedy ones)", NULL},
#undef FIELD
};

enum { N_OPTIONS = sizeof table / sizeof *table };

static const struct command *find_command(const char *name)
{
    const struct command *command = commands;
    while (strcmp(command->name, name) != 0)
        command++;
    return command;
}

static int get_bit(const struct command *command)
{
    return 1 << (command - commands);
}

static void print_option(const struct option *option)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s", option->name, option->argument ? " " : "",
             option->argument ? option->argument : "");
    printf("  %-22s %s\n", left, option->help);
}

static void print_help(const struct command *command)
{
    printf("usage: runner %s%s%s [OPTION ...]\n", command->name, command->arguments[0] ? " " : "",
           command->arguments);
    if (command->about)
        printf("\n%s", command->about);
    printf("\noptions:\n");
    for (int i = 0; i < N_OPTIONS; i++)
        if (table[i].commands & get_bit(command) && table[i].help)
            print_option(&table[i]);
    printf("  %-22s %s\n  %-22s %s\n", "--version", "print the version", "--help",
           "print this help");
}

static const struct option *find(const struct command *command, const char *given, size_t length)
{
    for (int i = 0; i < N_OPTIONS; i++)
        if ((table[i].commands & get_bit(command)) &&
            hd_torchrun_option_has_name(table[i].name, given, length))
            return &table[i];
    return NULL;
}

bool hd_option_is_for_launcher(const char *argument, bool *takes_value_p)
{
    const size_t length = strcspn(argument, "=");
    const struct option *option = find(find_command("launch"), argument, length);
    *takes_value_p = option && option->kind != FLAG && argument[length] != '=';
    return option && !(option->commands & RUN);
}

/* Lists the keys of a config that an option may mean, as `--lr` or `--batch-size`. */
static void list_keys_called(const char *name, size_t length, char list[HD_DESCRIPTION_BYTES])
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    char *key = hd_format("%.*s", (int)length, name);
    list[0] = '\0';
    for (char *c = key; c && *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (key)
        hd_schema_list_called(tables, n, key, list);
    hd_free(key);
}

static int unknown_option(const struct command *command, const char *typed)
{
    const char *name = typed + strspn(typed, "-"), *names[N_OPTIONS];
    char keys[HD_DESCRIPTION_BYTES];
    for (int i = 0; i < N_OPTIONS; i++)
        names[i] = table[i].commands & get_bit(command) && table[i].help ? table[i].name + 2 : NULL;
    const char *nearest = hd_find_nearest_name(name, names, N_OPTIONS);
    if (get_bit(command) & LAUNCH)
        HD_TRY(hd_torchrun_option_refuse(typed));
    list_keys_called(name, strcspn(name, "="), keys);
    if (keys[0] && !nearest && get_bit(command) & ALL)
        return hd_fail(HD_ERR_INPUT,
                       "unknown option '%s': a key of the config is set by --set KEY=VALUE (did "
                       "you mean %s?)",
                       typed, keys);
    return hd_fail(HD_ERR_INPUT, "unknown option '%s'%s%s%s; see 'runner %s --help'", typed,
                   nearest ? " (did you mean '--" : "", nearest ? nearest : "",
                   nearest ? "'?)" : "", command->name);
}

static int add_set(struct hd_options *options, const char *text, const char *next)
{
    const int max = HD_SETS_MAX - HD_OWNED_SETS_MAX;
    if (!strchr(text, '='))
        return hd_fail(HD_ERR_INPUT, "--set needs KEY=VALUE, found '%s'; write --set %s=%s", text,
                       text, next && next[0] != '-' ? next : "VALUE");
    if (options->n_sets >= max)
        return hd_fail(HD_ERR_INPUT, "more than %d --set options", max);
    options->sets[options->n_sets++] = (struct hd_set){.text = text};
    return HD_OK;
}

int hd_options_add_set(struct hd_options *options, char *text, const char *option)
{
    if (!text)
        return HD_ERR_NOMEM;
    if (options->n_owned == HD_OWNED_SETS_MAX || options->n_sets == HD_SETS_MAX) {
        hd_free(text);
        return hd_fail(HD_ERR_INPUT, "too many options");
    }
    options->owned[options->n_owned++] = text;
    options->sets[options->n_sets++] = (struct hd_set){text, option};
    return HD_OK;
}

static int add_as_set(struct hd_options *options, const struct option *option, const char *value)
{
    bool path = strcmp(option->name, "--strategy") == 0 && strlen(value) > 5 &&
                strcmp(value + strlen(value) - 5, ".yaml") == 0;
    return hd_options_add_set(options, hd_format(path ? "strategy=%s" : option->set, value),
                              option->name);
}

static int store_integer(struct hd_options *options, const struct option *option, const char *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno || end == value || *end || number < option->min || number > option->max)
        return hd_fail(HD_ERR_INPUT, "%s: expected an integer in [%lld, %lld], found '%s'",
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
        return hd_fail(HD_ERR_INPUT, "%s: expected a number in [0, 1], found '%s'", option->name,
                       value);
    *(double *)((char *)options + option->offset) = number;
    return HD_OK;
}

static int add_name(struct hd_names *names, const struct option *option, const char *value)
{
    if (names->n == HD_NAMES_MAX)
        return hd_fail(HD_ERR_INPUT, "more than %d %s options", HD_NAMES_MAX, option->name);
    names->texts[names->n++] = value;
    return HD_OK;
}

/* `next` is the argument behind the value, or NULL. */
static int store(struct hd_options *options, const struct option *option, const char *value,
                 const char *next)
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
    case NAMES:
        return add_name((struct hd_names *)((char *)options + option->offset), option, value);
    case SET:
        return add_set(options, value, next);
    case AS_SET:
        return add_as_set(options, option, value);
    }
    return HD_OK;
}

/* Reads one option at argv[*i]; its value may follow '=' or be the next argument. */
static int read_option(const struct command *command, int argc, char **argv, int *i,
                       struct hd_options *options)
{
    const char *given = argv[*i];
    size_t length = strcspn(given, "=");
    const char *value = given[length] == '=' ? given + length + 1 : NULL;
    const struct option *option = find(command, given, length);
    if (!option)
        return unknown_option(command, argv[*i]);
    if (option->kind == FLAG && value)
        return hd_fail(HD_ERR_INPUT, "%s takes no value, found '%s'", option->name, value);
    if (option->kind == OPTIONAL && !value)
        value = *i + 1 < argc && hd_folder_exists(argv[*i + 1]) ? argv[++*i] : "";
    if (option->kind != FLAG && !value) {
        if (*i + 1 == argc)
            return hd_fail(HD_ERR_INPUT, "%s needs a value: %s %s", option->name, option->name,
                           option->argument);
        value = argv[++*i];
    }
    return store(options, option, value, argv[*i + 1]);
}

static int add_argument(const struct command *command, char *argument, struct hd_options *options)
{
    if (command->max == 0)
        return hd_fail(HD_ERR_INPUT, "%s takes no argument, found '%s'", command->name, argument);
    if (options->n_dirs == command->max && command->max > 1)
        return hd_fail(HD_ERR_INPUT, "%s compares at most %d runs, found one more: '%s'",
                       command->name, command->max, argument);
    if (options->n_dirs == command->max)
        return hd_fail(HD_ERR_INPUT, "one %s at a time: found '%s' and '%s'", command->noun,
                       options->config, argument);
    options->dirs[options->n_dirs++] = argument;
    options->config = options->dirs[0];
    return HD_OK;
}

/* A run that goes on in a directory has the config that lies there, if none is named. */
static int take_config_of_run(struct hd_options *options)
{
    char *path;
    HD_TRY(hd_run_dir_find_policy(options->resume, &path, NULL));
    if (options->n_owned == HD_OWNED_SETS_MAX) {
        hd_free(path);
        return HD_ERR_NOMEM;
    }
    options->owned[options->n_owned++] = path;
    options->config = path;
    return HD_OK;
}

static int check_arguments(const struct command *command, struct hd_options *options)
{
    if (options->n_dirs >= command->min)
        return HD_OK;
    if (options->resume && options->resume[0])
        return take_config_of_run(options);
    return hd_fail(HD_ERR_INPUT, "missing %s; usage: runner %s %s [OPTION ...]", command->noun,
                   command->name, command->arguments);
}

static int read_argument(const struct command *command, int argc, char **argv, int *i,
                         struct hd_options *options)
{
    if (strncmp(argv[*i], "--", 2) == 0)
        return read_option(command, argc, argv, i, options);
    if (strcmp(argv[*i], "-") == 0)
        return hd_fail(HD_ERR_INPUT,
                       "'-': a %s is not read from standard input; name a file or folder",
                       command->noun);
    if (argv[*i][0] == '-')
        return unknown_option(command, argv[*i]);
    return add_argument(command, argv[*i], options);
}

static int read_arguments(const struct command *command, int argc, char **argv,
                          struct hd_options *options)
{
    bool ended = false; /* by `--`, behind which nothing is an option */
    for (int i = 1; i < argc; i++) {
        if (ended) {
            HD_TRY(add_argument(command, argv[i], options));
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command);
            return 1;
        } else if (strcmp(argv[i], "--version") == 0) {
            printf("heddle %s\n", HD_VERSION);
            return 1;
        } else if (strcmp(argv[i], "--") == 0) {
            ended = true;
        } else {
            HD_TRY(read_argument(command, argc, argv, &i, options));
        }
    }
    return check_arguments(command, options);
}

int hd_options_read(int argc, char **argv, struct hd_options *options_p)
{
    const struct command *command = find_command(argv[0]);
    *options_p = (struct hd_options){.argc = argc,
                                     .argv = argv,
                                     .node_rank = -1,
                                     .ranks = get_bit(command) & DOCTOR ? 2 : 1,
                                     .updates = 200,
                                     .warmup = 50,
                                     .repeats = 4,
                                     .nodes = 1,
                                     .ranks_per_node = 1,
                                     .iterations = 50,
                                     .measure_after = -1,
                                     .fps = 30,
                                     .zoom = 1,
                                     .display = "auto",
                                     .http = -1};
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

void hd_options_refuse_plugins(struct hd_options *options)
{
    const char *allowed = getenv("HEDDLE_ALLOW_PLUGIN");
    options->refuses_plugins = !options->allow_plugin && !(allowed && strcmp(allowed, "1") == 0);
}

int hd_options_use_strategy(struct hd_options *options, const char *name)
{
    return add_as_set(options, find(commands, "--strategy", strlen("--strategy")), name);
}
