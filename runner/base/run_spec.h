/* SPDX-License-Identifier: Apache-2.0 */
/* A run file with everything it names, checked. One thread at a time. */
#pragma once

#include "graph/plan/plan.h"
#include "runner/base/options.h"
#include "runner/base/settings.h"
#include "runtime/engine/session.h"

#include <jansson.h>

struct dirent;

struct hd_run_spec {
    struct hd_diag *diag;
    struct hd_document *documents[3]; /* graph, strategy, overrides */
    struct hd_config *config;
    struct hd_graph *graph;
    int64_t shards;
    bool shards_are_ranks;    /* the config leaves their number open */
    bool schedule_is_limited; /* and policy.learn.schedule.total, which is a limit of the run */
    struct hd_settings settings;
};

/* Loads options->config for `ranks` ranks. Mistakes are logged with their places.
 * hd_run_spec_release releases it. Errors: HD_ERR_INPUT, HD_ERR_NOMEM. */
int hd_run_spec_load(const struct hd_options *options, int ranks, struct hd_run_spec *run_spec_p);
void hd_run_spec_release(struct hd_run_spec *run_spec);

/* Stores the paths of a folder beside a config, and of that among the program's own files; NULL
 * (logged) without memory. Both are freed with hd_free. */
void hd_run_spec_find_folders(const char *config, const char *name, char **beside_p,
                              char **installed_p);

/* Lists the files of a folder that end in .yaml, in order of their names, as scandir does: returns
 * their number, or -1 on an error, with errno. */
int hd_run_spec_find_files(const char *folder, struct dirent ***entries_p);

/* Reads the files with which values begin, tells, where `tells`, what is taken of them, and states
 * their hashes in the graph of the config. A run that goes on from a checkpoint has read them: it
 * takes the hashes from `then`, a list of hd_config_list_leaves; NULL: it does not go on. Returns
 * HD_OK, HD_ERR_NOMEM, or an error of hd_warm_start_inspect (logged). */
int hd_run_spec_read_weights(struct hd_run_spec *run_spec, const json_t *then, bool tells);

/* Warns of keys that the config gives but this run, with or without GPUs, does not use, and of what
 * its graph is hardly meant to do (hd_graph.warnings), and says what a number of shards costs that
 * the config leaves open (world.shards: auto). Called when all that reads the config at the start
 * has read it. */
void hd_run_spec_explain(const struct hd_run_spec *run_spec, bool gpus);

/* Returns how hosts exchange vectors (runtime.exchange). */
enum hd_host_exchange hd_run_spec_get_exchange(const struct hd_run_spec *run_spec);

/* Returns a hash of everything that must be equal on all ranks. */
uint64_t hd_run_spec_hash(const struct hd_run_spec *run_spec);

/* Returns what the hash is made of, as hd_config_list writes it, to be freed with free; NULL: no
 * memory. */
char *hd_run_spec_list(const struct hd_run_spec *run_spec);

/* Returns the effective config as YAML, to be freed with free; NULL: no memory. */
char *hd_run_spec_format(const struct hd_run_spec *run_spec);

/* Returns what files of weights say of their policy (tasks/types/base/policy_file.h), to be freed
 * with free; NULL: no memory. */
char *hd_run_spec_describe_policy(const struct hd_run_spec *run_spec);
