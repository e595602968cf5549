/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a subcommand of `runner`. One thread at a time. */
#ifndef HD_RUNNER_BASE_OPTIONS_H
#define HD_RUNNER_BASE_OPTIONS_H

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
    int updates, warmup, repeats;
    bool evaluate;
    int measure_after; /* bench's runs: updates after which their rates are measured; -1: never */

    int nodes, ranks_per_node, iterations; /* simulate; texts NULL: the default */
    int shards_per_rank;                   /* 0: as the config says */
    int gpus;                              /* of each rank */
    const char *gpu_speedup, *gpu_link;
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
    bool as_json;             /* doctor, eval, compare */
    bool as_schema;           /* keys */
    struct hd_names group_by; /* compare: KEY or KEY,KEY */
    int64_t transitions;
    double epsilon;

    /* run, launch: writes the report of a run that has ended; a failure is logged. NULL: none. */
    void (*write_report)(const char *dir);
};

/* Reads the options of subcommand argv[0]. hd_options_release releases them. Returns HD_OK;
 * HD_ERR_INPUT or HD_ERR_NOMEM (logged); or 1 when --help or --version was given and answered. */
int hd_options_read(int argc, char **argv, struct hd_options *options_p);
void hd_options_release(struct hd_options *options);

/* Returns whether an argument of `runner launch` is an option that `runner run` does not have, and
 * whether the next argument is its value. */
bool hd_option_is_for_launcher(const char *argument, bool *takes_value_p);

/* Adds a `KEY=VALUE` as --set does, for an option, which messages name ("--seed"), or for none
 * (NULL). Takes the text, which is freed with hd_free (NULL counts as no memory). Returns HD_OK,
 * HD_ERR_INPUT or HD_ERR_NOMEM (logged). */
int hd_options_add_set(struct hd_options *options, char *text, const char *option);

/* Lets the config be looked at before it is trusted: refuses plug-ins from now on, unless
 * --allow-plugin or HEDDLE_ALLOW_PLUGIN=1 allows them. Cannot fail. */
void hd_options_refuse_plugins(struct hd_options *options);

/* Does what --strategy NAME does. Returns HD_OK, HD_ERR_INPUT or HD_ERR_NOMEM (logged). */
int hd_options_use_strategy(struct hd_options *options, const char *name);

#endif
