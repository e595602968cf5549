/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/options/table.h"

#include "runtime/io/video/video.h"

#include <string.h>

/* The commands are in the order of the bits. */
enum commands {
    RUN = 1 << 0,
    LAUNCH = 1 << 1,
    GRAPH = 1 << 2,
    EVAL = 1 << 3,
    WATCH = 1 << 4,
    RECORD = 1 << 5,
    BENCH = 1 << 6,
    CALIBRATE = 1 << 7,
    SIMULATE = 1 << 8,
    REPORT = 1 << 9,
    TRACE = 1 << 10,
    COMPARE = 1 << 11,
    DOCTOR = 1 << 12,
    CHECK_ENV = 1 << 13,
    KEYS = 1 << 14,
    VERBS = 1 << 15,
    COMPLETION = 1 << 16,
    TRAIN = RUN | LAUNCH,
    ONE = TRAIN | GRAPH | EVAL | WATCH | CHECK_ENV,
    ALL = ONE | BENCH | RECORD | CALIBRATE | SIMULATE
};

static const struct hd_command commands[] = {
    {"run", "CONFIG", "train: one rank, or this rank when RANK and WORLD_SIZE are set",
     "train|start|resume", "config", 1, 1, NULL},
    {"launch", "CONFIG", "train: start and supervise the ranks of this node", "torchrun", "config",
     1, 1, NULL},
    {"graph", "CONFIG", "print the plan of any rank without starting anything", "plan", "config", 1,
     1, NULL},
    {"eval", "CONFIG|DIR|WEIGHTS", "evaluate weights, or print their outputs for observations",
     "evaluate|test|infer", "config, run directory or file of weights", 1, 1,
     "Plays episodes with given weights, also as a video, or prints the net's outputs for given\n"
     "observations. Of a run directory it takes the config and the best weights, or if there are\n"
     "none the last that were saved.\n"},
    {"watch", "CONFIG|DIR|WEIGHTS", "play with weights in the terminal or on a page, live",
     "play|render|show|enjoy", "config, run directory or file of weights", 1, 1,
     "Plays with given weights and shows it in the terminal, or on a page for a browser on this\n"
     "host. Of a run directory it plays the best weights so far, and those that follow while the\n"
     "run trains. q or Ctrl-C ends it.\n"},
    {"record", "CONFIG|DIR|WEIGHTS", "play with weights and write a data set of transitions",
     "collect", "config, run directory or file of weights", 1, 1, NULL},
    {"bench", "CONFIG|RESULTS", "train with several strategies in turns and compare their speed",
     "benchmark", "config or file of results", 1, 1,
     "Trains with each strategy, and with each combination of the values of --grid, in turns, and\n"
     "compares their speed turn by turn: how much faster than the first one, with a bootstrap\n"
     "interval of 95 %. Runs whose bits may not differ must end in the same parameters. With\n"
     "--to-goal it compares the time, env steps and updates until a run stops, over seeds.\n"
     "RESULTS is a file of --json, named *.jsonl: shows earlier results and trains not at all.\n"},
    {"calibrate", "CONFIG", "measure how long tasks take, for simulate", NULL, "config", 1, 1,
     "Trains with each strategy for a while, as one rank with one worker, and writes how long "
     "each\n"
     "task takes on this machine: what `runner simulate` needs. Nothing else should run "
     "meanwhile.\n"},
    {"simulate", "CONFIG", "compute how fast a cluster would train", "predict", "config", 1, 1,
     "Computes how fast a cluster would train, for each strategy on 1, 2, 4, ... N nodes: what "
     "each\n"
     "rank would submit, with task times of `runner calibrate` and the network of SimGrid\n"
     "(libsimgrid-dev). Efficiency is the rate of environment steps per node, relative to one "
     "node.\n"},
    {"report", "DIR|TRACE", "write a run as one HTML page", NULL, "run directory or trace", 1, 1,
     "Writes a run as one HTML file that needs no network: learning curves, throughput, the "
     "graph,\n"
     "a timeline of workers and communication (if the run had --trace), where the time went, "
     "memory,\n"
     "config, machine, versions and hashes. A run writes it by itself at its end; of one that "
     "still runs\n"
     "or was killed, it shows what there is so far. DIR is the run directory. Of the trace that\n"
     "`runner bench --trace` wrote, it shows the timeline.\n"},
    {"trace", "DIR|TRACE", "print where the time of a run went", "profile",
     "run directory or trace", 1, 1,
     "Prints where the time of rank 0 went, by name of step: how often, how long in all, how long\n"
     "at least one worker was at it, and what share of the time that was. A run that had --trace\n"
     "has all of it, the bounds of its rate (work, critical path, cable), and the step whose\n"
     "improvement would help most; of others there are totals by verb. TRACE is a file that\n"
     "`runner bench --trace` wrote. DIR/trace.json is for https://ui.perfetto.dev.\n"},
    {"compare", "DIR ...", "compare several runs", "diff", "run directory", 1, HD_DIRS_MAX,
     "Compares runs: a table of results, rates and hashes, and the keys of the config\n"
     "that differ from the first run's, on stdout; and their curves as one HTML file. DIR is a "
     "run\n"
     "directory, or a folder of run directories.\n"
     "--group-by has a row for each group of repeats in place of one for each run: means and\n"
     "interquartile means of returns, and how probably a run of a group beats one of the first\n"
     "group, with bootstrap intervals of 95 %. The first group is that of the first DIR.\n"},
    {"doctor", "", "look at the machine, the program and the path between ranks", "check",
     "argument", 0, 0,
     "Looks at this machine and this program: cores, memory and what limits them, the cores that\n"
     "each of W ranks would get, versions, GPUs; then W processes exchange data for two seconds\n"
     "as ranks do. Says what is wrong and what to do. Exit code 0: nothing is broken, 1: something "
     "is.\n"},
    {"check-env", "CONFIG", "play an environment and tell which rules it breaks", "check_env|env",
     "config", 1, 1,
     "Plays the environments of a config by drawn actions and tells where they break rules that\n"
     "training depends on: seeds, saved states, what a step returns. Exit code 1: some are "
     "broken.\n"},
    {"keys", "[KEY]", "print the keys of a config with their ranges and defaults", NULL, "key", 0,
     1,
     "Prints the keys of a config, each with its default, its meaning and the values that it "
     "takes.\n"
     "KEY is one key or a section: policy.learn.learning_rate, policy.learn.\n"},
    {"verbs", "[VERB]", "print the verbs of a graph with their ports and options", NULL, "verb", 0,
     1, "Prints the verbs that the steps of a graph may have, each with its ports and options.\n"},
    {"completion", "SHELL", "print completion of the command line for bash or zsh",
     "completions|complete", "shell", 1, 1,
     "Prints what completes commands, options, files and keys in a shell, bash or zsh:\n"
     "source <(runner completion bash). An installation has it where both shells look.\n"},
};

static const struct hd_command_option options[] = {
#define FIELD(name) offsetof(struct hd_options, name)
    {"--set", "KEY=VALUE", ALL, HD_OPTION_SET, 0, 0, 0,
     "override any key of the config; may be repeated", NULL},
    {"--seed", "N", ALL, HD_OPTION_AS_SET, 0, 0, 0, "seed of everything random (seed=N)",
     "seed=%s"},
    {"--strategy", "NAME", ONE, HD_OPTION_AS_SET, 0, 0, 0,
     "strategies/NAME.yaml beside the config (or a path ending in .yaml)",
     "strategy=strategies/%s.yaml"},
    {"--dir", "DIR", TRAIN, HD_OPTION_TEXT, FIELD(dir), 0, 0,
     "the run directory itself (default ./<exp_name>, with _1, _2, … when that exists)", NULL},
    {"--resume", "[DIR]", TRAIN, HD_OPTION_OPTIONAL, FIELD(resume), 0, 0,
     "go on from the newest good checkpoint of the run directory DIR (default: --dir, else the "
     "newest of <exp_name>), or begin there if it has none",
     NULL},
    {"--strategies", "A,B,...", CALIBRATE | SIMULATE, HD_OPTION_TEXT, FIELD(strategies), 0, 0,
     "which strategies (default serial,bucketed,pipelined)", NULL},
    {"--strategies", "A,B,...", BENCH, HD_OPTION_TEXT, FIELD(strategies), 0, 0,
     "which, as --strategy of `runner run` takes them (default: all in strategies/ beside the "
     "config, or else the program's own)",
     NULL},
    {"--grid", "KEY=A,B,...", BENCH, HD_OPTION_NAMES, FIELD(grid), 0, 0,
     "each strategy with each of these values of a key; may be repeated", NULL},
    {"--trace", NULL, TRAIN, HD_OPTION_FLAG, FIELD(trace), 0, 0,
     "write trace.json, of all ranks, for Perfetto and `runner trace`", NULL},
    {"--trace", NULL, BENCH, HD_OPTION_FLAG, FIELD(trace), 0, 0,
     "write the trace of the last turn's runs into ./trace_<strategy>.json", NULL},
    {"--quiet", NULL, ALL | REPORT | COMPARE, HD_OPTION_FLAG, FIELD(quiet), 0, 0,
     "errors and warnings only", NULL},
    {"--nproc-per-node", "N", LAUNCH, HD_OPTION_TEXT, FIELD(nproc_per_node), 0, 0,
     "ranks to start on this node (default 1); cpu: one per core; gpu: one per GPU; auto: per GPU, "
     "or per core without any",
     NULL},
    {"--nnodes", "N", LAUNCH, HD_OPTION_TEXT, FIELD(nnodes), 0, 0, "nodes of the run (default 1)",
     NULL},
    {"--node-rank", "N", LAUNCH, HD_OPTION_INTEGER, FIELD(node_rank), 0, 4095,
     "number of this node (default 0; under srun the number of its node)", NULL},
    {"--master-addr", "HOST", LAUNCH, HD_OPTION_TEXT, FIELD(master_addr), 0, 0,
     "where rank 0 is (default 127.0.0.1; under srun its first node)", NULL},
    {"--master-port", "PORT", LAUNCH, HD_OPTION_INTEGER, FIELD(master_port), 0, 65535,
     "where rank 0 listens; 0, the default on one node: a free port", NULL},
    {"--standalone", NULL, LAUNCH, HD_OPTION_FLAG, FIELD(standalone), 0, 0, "one node, a free port",
     NULL},
    {"--secret-file", "FILE", TRAIN, HD_OPTION_TEXT, FIELD(secret_file), 0, 0,
     "the secret by which the ranks of several nodes know each other (or HEDDLE_SECRET_FILE, "
     "HEDDLE_SECRET)",
     NULL},
    {"--insecure", NULL, TRAIN, HD_OPTION_FLAG, FIELD(insecure), 0, 0,
     "no secret: whoever reaches the ranks' ports may join", NULL},
    {"--max-restarts", "N", LAUNCH, HD_OPTION_INTEGER, FIELD(max_restarts), 0, 1000,
     "start all ranks again after a failure, from the newest good checkpoint", NULL},
    {"--updates", "N", CALIBRATE, HD_OPTION_INTEGER, FIELD(updates), 1, 1000000000,
     "updates to measure (default 200)", NULL},
    {"--from", "DIR", CALIBRATE, HD_OPTION_TEXT, FIELD(from), 0, 0,
     "take the times from a run of one rank with --trace, whose directory this is, and train not "
     "at "
     "all",
     NULL},
    {"--nodes", "N", SIMULATE, HD_OPTION_INTEGER, FIELD(nodes), 1, 4096,
     "nodes of the cluster (default 1)", NULL},
    {"--ranks-per-node", "R", SIMULATE, HD_OPTION_INTEGER, FIELD(ranks_per_node), 1, 4096,
     "ranks on each node (default 1)", NULL},
    {"--shards-per-rank", "K", SIMULATE, HD_OPTION_INTEGER, FIELD(shards_per_rank), 1, 1 << 20,
     "weak scaling: K shards for every rank; without it as many as world.shards says, on any "
     "number "
     "of nodes (strong scaling)",
     NULL},
    {"--gpus", "G", SIMULATE, HD_OPTION_INTEGER, FIELD(gpus), 0, 16,
     "GPUs of each rank (default 0), with --gpu-speedup", NULL},
    {"--gpu-speedup", "F", SIMULATE, HD_OPTION_TEXT, FIELD(gpu_speedup), 0, 0,
     "a GPU does a step F times as fast as the calibration's worker", NULL},
    {"--gpu-link", "RATE", SIMULATE, HD_OPTION_TEXT, FIELD(gpu_link), 0, 0,
     "rate of copies between host and GPU: 200Gbit (the default)", NULL},
    {"--rdma", NULL, SIMULATE, HD_OPTION_FLAG, FIELD(rdma), 0, 0,
     "network cards move the bytes of messages, in place of processors", NULL},
    {"--network", "RATE,LATENCY", SIMULATE, HD_OPTION_TEXT, FIELD(network), 0, 0,
     "links of the nodes to one switch: 100Gbit,2us (default 10Gbit,20us)", NULL},
    {"--platform", "FILE", SIMULATE, HD_OPTION_TEXT, FIELD(platform), 0, 0,
     "a platform file of SimGrid, whose hosts are the nodes, in place of --network", NULL},
    {"--calibration", "FILE", SIMULATE, HD_OPTION_TEXT, FIELD(calibration), 0, 0,
     "what runner calibrate wrote (default ./calibration.json)", NULL},
    {"--scale", "F", SIMULATE, HD_OPTION_TEXT, FIELD(scale), 0, 0,
     "task times are F times those of the calibration (default 1)", NULL},
    {"--iterations", "N", SIMULATE, HD_OPTION_INTEGER, FIELD(iterations), 4, 100000,
     "iterations to simulate from the first update on (default 50)", NULL},
    {"--trace-rank", "R", SIMULATE, HD_OPTION_INTEGER, FIELD(rank), 0, 4095,
     "whose trace --trace-out writes (default 0)", NULL},
    {"--trace-out", "FILE", SIMULATE, HD_OPTION_TEXT, FIELD(trace_out), 0, 0,
     "trace of a rank on the most nodes, with the last strategy, for Perfetto", NULL},
    {"--json", "FILE", SIMULATE, HD_OPTION_TEXT, FIELD(json), 0, 0, "write all results as JSON",
     NULL},
    {"--page", "FILE", SIMULATE, HD_OPTION_TEXT, FIELD(page), 0, 0,
     "write all results as one HTML file with curves", NULL},
    {"--out", "FILE", CALIBRATE, HD_OPTION_TEXT, FIELD(out), 0, 0, "default ./calibration.json",
     NULL},
    {"--updates", "N", BENCH, HD_OPTION_INTEGER, FIELD(updates), 1, 1000000000,
     "updates to measure in each run (default 200)", NULL},
    {"--warmup", "N", BENCH | CALIBRATE, HD_OPTION_INTEGER, FIELD(warmup), 1, 1000000000,
     "updates before (default 50)", NULL},
    {"--repeats", "N", BENCH, HD_OPTION_INTEGER, FIELD(repeats), 1, 1000,
     "turns, every other one in reverse order (default 6)", NULL},
    {"--json", "FILE", BENCH, HD_OPTION_TEXT, FIELD(json), 0, 0,
     "append a line of JSON for each run; what the file has of the same comparison counts, too",
     NULL},
    {"--page", "FILE", BENCH, HD_OPTION_TEXT, FIELD(page), 0, 0,
     "write the comparison as one HTML file", NULL},
    {"--to-goal", NULL, BENCH, HD_OPTION_FLAG, FIELD(to_goal), 0, 0,
     "let each run go on until it stops, and compare the time to env.stop_value", NULL},
    {"--seeds", "0-9", BENCH, HD_OPTION_TEXT, FIELD(seeds), 0, 0,
     "with --to-goal: a turn for each seed, as 0-9 or 0,1,7 (default: the config's)", NULL},
    {"--json", NULL, DOCTOR | EVAL, HD_OPTION_FLAG, FIELD(as_json), 0, 0,
     "as one JSON object on stdout", NULL},
    {"--json", NULL, COMPARE, HD_OPTION_FLAG, FIELD(as_json), 0, 0,
     "as one JSON object on stdout; the page is written only where --out names it", NULL},
    {"--group-by", "KEY[,KEY]", COMPARE, HD_OPTION_NAMES, FIELD(group_by), 0, 0,
     "put runs of equal values of these keys together, as repeats by seed; may be repeated", NULL},
    {"--json-schema", NULL, KEYS, HD_OPTION_FLAG, FIELD(as_schema), 0, 0,
     "print all keys as a JSON Schema of run files, for editors", NULL},
    {"--evaluate", NULL, BENCH, HD_OPTION_FLAG, FIELD(evaluate), 0, 0,
     "keep the evaluations, which are left out otherwise", NULL},
    {"--measure-after", "N", TRAIN, HD_OPTION_INTEGER, FIELD(measure_after), 1, 1000000000, NULL,
     NULL},
    {"--keep-evaluations", NULL, TRAIN, HD_OPTION_FLAG, FIELD(evaluate), 0, 0, NULL, NULL},
    {"--ranks", "W", GRAPH | BENCH, HD_OPTION_INTEGER, FIELD(ranks), 1, 4096,
     "number of ranks (default 1)", NULL},
    {"--ranks", "W", DOCTOR, HD_OPTION_INTEGER, FIELD(ranks), 1, 64,
     "ranks to share the cores out to, and of the self test (default 2)", NULL},
    {"--rank", "R", GRAPH, HD_OPTION_INTEGER, FIELD(rank), 0, 4095, "whose plan (default 0)", NULL},
    {"--dot", NULL, GRAPH, HD_OPTION_FLAG, FIELD(dot), 0, 0, "as a Graphviz graph", NULL},
    {"--allow-plugin", NULL, GRAPH | CALIBRATE | SIMULATE, HD_OPTION_FLAG, FIELD(allow_plugin), 0,
     0, "load a plug-in that the config names by its path, start Python (or HEDDLE_ALLOW_PLUGIN=1)",
     NULL},
    {"--weights", "FILE", TRAIN, HD_OPTION_TEXT, FIELD(start_weights), 0, 0,
     "file of weights with which the policy begins: each tensor is taken from that of its name",
     NULL},
    {"--skip-mismatch", NULL, TRAIN, HD_OPTION_FLAG, FIELD(skip_mismatch), 0, 0,
     "leave tensors that have another shape in the file of --weights as they are drawn", NULL},
    {"--weights", "FILE", EVAL | RECORD | WATCH, HD_OPTION_TEXT, FIELD(weights), 0, 0,
     "policy.safetensors of a run: what plays (eval, watch: of a run directory, its best)", NULL},
    {"--strip-prefix", "TEXT", EVAL | RECORD | WATCH, HD_OPTION_TEXT, FIELD(strip_prefix), 0, 0,
     "what the file's tensors have before their names, such as module.", NULL},
    {"--episodes", "N", EVAL | WATCH, HD_OPTION_COUNT, FIELD(episodes), 1, 4096,
     "episodes to play (default env.n_evaluator_episode; watch: without end)", NULL},
    {"--video", "FILE", EVAL, HD_OPTION_TEXT, FIELD(video), 0, 0,
     "the episodes as a video: .gif, .png (animated), or .mp4 by ffmpeg", NULL},
    {"--fps", "N", EVAL | WATCH, HD_OPTION_INTEGER, FIELD(fps), 1, HD_VIDEO_FPS_MAX,
     "steps to show in a second (default 30)", NULL},
    {"--display", "FORM", WATCH, HD_OPTION_TEXT, FIELD(display), 0, 0,
     "blocks (half blocks in 24 bits of colour), 256, sixel, kitty; default auto: what the "
     "environment says of the terminal",
     NULL},
    {"--http", "PORT", WATCH, HD_OPTION_INTEGER, FIELD(http), 0, 65535,
     "show it at http://127.0.0.1:PORT/ in place of the terminal; 0: a free port", NULL},
    {"--http", "PORT", REPORT | COMPARE, HD_OPTION_INTEGER, FIELD(http), 0, 65535,
     "show the page at http://127.0.0.1:PORT/ while runs go on; 0: a free port", NULL},
    {"--scale", "K", EVAL, HD_OPTION_INTEGER, FIELD(zoom), 1, HD_VIDEO_SCALE_MAX,
     "show a pixel as K x K ones (default 1)", NULL},
    {"--max-frames", "N", EVAL, HD_OPTION_COUNT, FIELD(max_frames), 1, 1000000000,
     "end the video after N pictures", NULL},
    {"--obs", "FILE", EVAL, HD_OPTION_TEXT, FIELD(obs), 0, 0,
     "safetensors with tensor `obs`: print one line of outputs per row instead", NULL},
    {"--transitions", "N", RECORD, HD_OPTION_COUNT, FIELD(transitions), 1, 1000000000,
     "steps to record, over all collector envs", NULL},
    {"--out", "DIR", RECORD, HD_OPTION_TEXT, FIELD(out), 0, 0, "the data set, a new directory",
     NULL},
    {"--out", "FILE", REPORT, HD_OPTION_TEXT, FIELD(out), 0, 0,
     "the page (default DIR/report.html, TRACE.html)", NULL},
    {"--csv", "FILE", REPORT, HD_OPTION_TEXT, FIELD(csv), 0, 0,
     "in place of the page, all numbers that were logged as CSV; -: to stdout", NULL},
    {"--perfetto", "FILE", TRACE, HD_OPTION_TEXT, FIELD(perfetto), 0, 0,
     "in place of that, write the trace as Perfetto's protobuf, which is smaller than the JSON",
     NULL},
    {"--link", "MBIT", TRACE, HD_OPTION_INTEGER, FIELD(link), 1, 10000000,
     "rate of the cable between hosts in Mbit/s (default: what the trace reached)", NULL},
    {"--out", "FILE", COMPARE, HD_OPTION_TEXT, FIELD(out), 0, 0,
     "the page (default ./compare.html)", NULL},
    {"--epsilon", "E", RECORD, HD_OPTION_SHARE, FIELD(epsilon), 0, 1,
     "share of random actions (default 0: the greedy ones)", NULL},
#undef FIELD
};

const struct hd_command *hd_commands_get(int *n_p)
{
    *n_p = sizeof commands / sizeof *commands;
    return commands;
}

const struct hd_command *hd_command_find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

const struct hd_command_option *hd_command_options_get(int *n_p)
{
    *n_p = sizeof options / sizeof *options;
    return options;
}

bool hd_command_has_option(const struct hd_command *command, const struct hd_command_option *option)
{
    return option->commands >> (command - commands) & 1;
}
