/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of `runner` and their options as tables, and what the options are read into.
 * Thread safe. */
#pragma once

#include "runtime/base/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_SETS_MAX = 256, HD_OWNED_SETS_MAX = 16, HD_DIRS_MAX = 256, HD_NAMES_MAX = 8 };

/* The values of an option that may be repeated, as typed. */
struct hd_names {
    const char *texts[HD_NAMES_MAX];
    int n;
};

/* Strings are argv's, but for owned[]. */
struct hd_options {
    const char *config; /* the first argument: a config, run directory, key or verb; or NULL */
    const char *dirs[HD_DIRS_MAX]; /* all arguments */
    int n_dirs;
    struct hd_set sets[HD_SETS_MAX]; /* in order */
    int n_sets;
    char *owned[HD_OWNED_SETS_MAX]; /* texts of sets made from other options */
    int n_owned;
    const char *dir;
    const char *resume; /* run, launch: NULL: a new run; "": find the directory */
    bool trace, quiet;

    const char *nproc_per_node, *nnodes;      /* launch: as typed; NULL: 1 */
    int node_rank, master_port, max_restarts; /* launch */
    const char *master_addr;
    bool standalone;
    const char *secret_file; /* run, launch: NULL: none */
    bool insecure;           /* run, launch: ranks need no secret */
    int argc;                /* what the subcommand was called with; argv[0] is its name */
    char **argv;

    int rank, ranks;      /* graph, bench */
    bool dot;             /* graph */
    bool allow_plugin;    /* graph, calibrate, simulate */
    bool refuses_plugins; /* loads no code that the config names by path, starts no Python */

    const char *strategies, *json; /* bench, calibrate, simulate */
    int updates, warmup;
    int repeats; /* bench: 0: the default */
    bool evaluate;
    struct hd_names grid; /* bench: KEY=a,b,c */
    bool to_goal;         /* bench: runs go on until they stop */
    const char *seeds;    /* bench: "0-9"; NULL: the config's */
    int measure_after; /* bench's runs: updates after which their rates are measured; -1: never */

    int nodes, ranks_per_node, iterations; /* simulate; texts NULL: the default */
    int shards_per_rank;                   /* 0: as the config says */
    int gpus;                              /* of each rank */
    const char *gpu_speedup, *gpu_link;
    bool rdma;
    const char *network, *platform, *calibration, *scale, *trace_out, *page;
    const char *from; /* calibrate: a run directory; NULL: it trains itself */

    const char *weights;       /* eval, record, watch */
    const char *start_weights; /* run, launch: NULL: none */
    bool skip_mismatch;
    const char *strip_prefix;
    const char *obs;          /* eval */
    int64_t episodes;         /* eval, watch */
    const char *video;        /* eval: NULL: none */
    int fps, zoom;            /* eval, watch */
    const char *display;      /* watch */
    int http;                 /* watch: a port; -1: none */
    int64_t max_frames;       /* eval: 0: no limit */
    const char *out;          /* record, report, compare, calibrate */
    const char *csv;          /* report: NULL: a page */
    const char *perfetto;     /* trace: NULL: print */
    int link;                 /* trace, report: Mbit/s; 0: unknown */
    bool as_json;             /* doctor, eval, compare */
    bool as_schema;           /* keys */
    struct hd_names group_by; /* compare: KEY or KEY,KEY */
    int64_t transitions;
    double epsilon;

    /* run, launch: writes the report of a run that has ended; a failure is logged. NULL: none. */
    void (*write_report)(const char *dir);
};

struct hd_command {
    const char *name, *arguments; /* "CONFIG"; "": it takes none */
    const char *help;             /* in one line */
    const char *aliases;          /* what others call it, "a|b", for suggestions; or NULL */
    const char *noun;             /* what an argument is */
    int min, max;                 /* how many it takes */
    const char *about;            /* lines for its own help; or NULL */
};

/* A COUNT has 64 bits, a SHARE is 0 to 1, an OPTIONAL is a directory or "", NAMES may be repeated.
 */
enum hd_option_kind {
    HD_OPTION_FLAG,
    HD_OPTION_INTEGER,
    HD_OPTION_COUNT,
    HD_OPTION_SHARE,
    HD_OPTION_TEXT,
    HD_OPTION_SET,
    HD_OPTION_AS_SET,
    HD_OPTION_OPTIONAL,
    HD_OPTION_NAMES
};

struct hd_command_option {
    const char *name;     /* as it is typed: "--seed" */
    const char *argument; /* what its value is: "N", "FILE"; FLAG: NULL */
    int commands;         /* those that take it, for hd_command_has_option */
    enum hd_option_kind kind;
    size_t offset; /* in struct hd_options */
    long long min, max;
    const char *help; /* NULL: for the runs of `runner bench` only */
    const char *set;  /* AS_SET: printf form of the --set it stands for */
};

/* Return tables of *n_p entries. One option may stand there several times, for other commands. */
const struct hd_command *hd_commands_get(int *n_p);
const struct hd_command_option *hd_command_options_get(int *n_p);

/* Returns the command of a name; NULL: there is none. */
const struct hd_command *hd_command_find(const char *name);

/* Returns whether a command, one of hd_commands_get, takes an option. */
bool hd_command_has_option(const struct hd_command *command,
                           const struct hd_command_option *option);
