/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of `runner` share: options, the loaded run file, one function each. */
#ifndef HD_GRAPH_RUNNER_APP_H
#define HD_GRAPH_RUNNER_APP_H

#include "graph/plan/plan.h"

enum { HD_SETS_MAX = 256, HD_DIRS_MAX = 32 };

/* Command line of a subcommand. Strings are argv's. */
struct hd_options {
    const char *config;            /* report, trace: the run directory */
    const char *dirs[HD_DIRS_MAX]; /* compare */
    int n_dirs;
    const char *sets[HD_SETS_MAX]; /* --set, in order, then what other options stand for */
    int n_sets;
    char *owned[8]; /* texts of sets made from other options */
    int n_owned;
    const char *dir;
    const char *resume; /* run, launch: NULL: a new run; "": find the directory */
    bool trace, quiet;

    int nproc_per_node, nnodes, node_rank, master_port, max_restarts; /* launch */
    const char *master_addr;
    bool standalone;

    int rank, ranks; /* graph, bench */
    bool dot;

    const char *strategies, *json; /* bench */
    int updates, warmup, repeats;
    bool evaluate;
    int measure_after; /* bench's runs: updates after which their rates are measured; -1: never */

    const char *weights; /* eval, record */
    const char *obs;     /* eval */
    int64_t episodes;    /* eval */
    const char *out;     /* record, report, compare */
    bool as_json;        /* doctor */
    int64_t transitions;
    double epsilon;
};

/* Reads the options of subcommand `command` from argv (argv[0] is its name). Returns HD_OK;
 * HD_ERR_INPUT after a message; or 1 when --help was given and has been printed. Release with
 * hd_options_release. */
int hd_options_read(const char *command, int argc, char **argv, struct hd_options *options_p);
void hd_options_release(struct hd_options *options);

/* As --strategy NAME does. Errors: HD_ERR_INPUT, HD_ERR_NOMEM (logged). */
int hd_options_use_strategy(struct hd_options *options, const char *name);

/* As --set KEY=NUMBER does. */
int hd_options_set_number(struct hd_options *options, const char *key, int64_t number);

/* A run file with everything it names, checked. */
struct hd_run_spec {
    struct hd_diag *diag;
    struct hd_document *documents[3]; /* graph, strategy, overrides */
    struct hd_config *config;
    struct hd_graph *graph;
    int64_t shards;
    bool shards_are_ranks; /* nobody said how many */
    int64_t param_check_interval;
};

/* Loads options->config for `ranks` ranks. Mistakes are logged with their places. Release with
 * hd_run_spec_release. Errors: HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_run_spec_load(const struct hd_options *options, int ranks, struct hd_run_spec *run_spec_p);
void hd_run_spec_release(struct hd_run_spec *run_spec);

/* Hash of everything that must be equal on all ranks. */
uint64_t hd_run_spec_hash(const struct hd_run_spec *run_spec);

/* Prints every config key. */
void hd_run_spec_print_keys(FILE *file);

/* The subcommands; each returns the exit code. */
int hd_command_run(int argc, char **argv);
int hd_command_launch(int argc, char **argv);
int hd_command_graph(int argc, char **argv);
int hd_command_eval(int argc, char **argv);
int hd_command_bench(int argc, char **argv);
int hd_command_record(int argc, char **argv);
int hd_command_report(int argc, char **argv);
int hd_command_trace(int argc, char **argv);
int hd_command_compare(int argc, char **argv);
int hd_command_doctor(int argc, char **argv);

#endif
