/* SPDX-License-Identifier: Apache-2.0 */
/* Functions by which the program around a graph uses values: it writes and reads weights, prints
 * outputs for given observations, reads an evaluation's returns and writes transition logs as data
 * sets. One thread at a time for each value. */
#pragma once

#include "runtime/value.h"
#include "tasks/types/base/policy_arrays.h"

/* The values that a policy consists of: parameters; moments by which observations are normalised
 * (obs_norm NULL: they are not); running statistics of the net's batch norms (NULL: it has none).
 * Borrowed. */
struct hd_weights {
    const struct hd_spec *params;
    void *data;
    const struct hd_spec *obs_norm;
    void *obs_norm_data;
    const char *strip_prefix; /* of the names in a file to load; NULL: none */
    const struct hd_spec *batch_norm_stats;
    void *batch_norm_stats_data;
    /* Written beside them (tasks/types/base/policy_file.h); NULL: nothing. */
    const char *about, *origins;
};

struct hd_file_put;
struct hd_env_actions;

/* Returns the actions that a value of type envs takes; NULL: it is of another type. */
const struct hd_env_actions *hd_inspect_actions(const struct hd_spec *spec);

/* Writes a line for each step of the net of a value of type params on CPUs, unless it starts as
 * another value of that type. Errors of the file are the caller's to look for (ferror). */
void hd_inspect_print_net(const struct hd_spec *spec, FILE *file);

/* Writes a line about the parts of observations, where they have any. */
void hd_inspect_print_parts(const struct hd_config *config, FILE *file);

/* Reads the best mean return of all evaluations, and after how many updates it was, from an
 * instance of type envs and role evaluator. *mean_p stays as it is where nothing was evaluated. */
void hd_inspect_best(const struct hd_spec *spec, const void *data, double *mean_p,
                     int64_t *update_p);

/* Writes a policy to a safetensors file by `put` (runtime/io/base/files.h), which appears whole or
 * not at all. It holds tensors of DI-engine's names and shapes; running_mean, running_var and
 * num_batches_tracked of batch norms as in PyTorch; obs_norm.scale and obs_norm.shift for each
 * element of an observation; and, as metadata, the number of updates and hashes of the content. A
 * file that has these hashes already is left alone. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_SYSTEM
 * (logged). */
int hd_weights_save(const struct hd_weights *weights, const struct hd_file_put *put,
                    const char *path, int64_t train_iter);

/* Writes a policy so from the body of a step with a logbook, to `path`, which it releases (NULL:
 * there was no memory for it); a spare file is given up first when the disk is full. Returns HD_OK,
 * HD_ERR_NOMEM, or an error of hd_body_fail. */
int hd_weights_save_in_step(struct hd_context *context, const struct hd_weights *weights,
                            char *path, bool spare);

/* Reads such a file into the instances. The file must have every tensor of the net in its shape,
 * and those of obs_norm and batch_norm_stats if these are given; num_batches_tracked is not read.
 * Returns HD_OK, HD_ERR_NOMEM, HD_ERR_SYSTEM or HD_ERR_FORMAT (logged, naming file and tensor). */
int hd_weights_load(const struct hd_weights *weights, const char *path);

/* Reads tensor `obs` [N][obs_shape…] of a safetensors file and writes a line for each of the N
 * observations to `file`: the net's outputs as %.9e, separated by spaces. A recurrent net takes
 * them for the steps of one episode. Errors as for hd_weights_load. */
int hd_weights_print_outputs(const struct hd_weights *weights, const char *obs_path, FILE *file);

struct hd_config;

/* Writes what an update of a shard sees to text[bytes]: "64; an epoch uses 256 of 256 samples in 4
 * minibatches". Returns how many samples of a collect an epoch leaves out. */
int64_t hd_inspect_batch(const struct hd_config *config, char *text, size_t bytes);

/* Returns the most steps of an environment that become samples together. */
int64_t hd_inspect_fragment(const struct hd_config *config);

/* Returns how many samples more than n_sample all envs of a shard make in a collect that no end of
 * an episode interrupts; 0 where the next collect has them. */
int64_t hd_inspect_surplus(const struct hd_config *config);

/* Returns the returns [*n_p] of an instance of type `eval_result`. Borrowed. */
const double *hd_eval_result_get_returns(const void *data, int64_t *n_p);

struct hd_dataset_info;
struct hd_dataset_writer;

/* Fills all of *info but seed, policy and epsilon for the data set that a step `record` with these
 * values makes. Its texts are borrowed from the config and the env. */
void hd_transition_log_describe(const struct hd_spec *log, const struct hd_spec *envs,
                                struct hd_dataset_info *info);

/* Returns the number of rounds, each a file, of which the data set consists. */
int64_t hd_transition_log_get_rounds(const struct hd_spec *log);

/* Writes round `round`, counted from 0, as the next file of a data set. Returns HD_OK, HD_ERR_NOMEM
 * or HD_ERR_SYSTEM (logged). */
int hd_transition_log_write(const struct hd_spec *log, const void *data, int64_t round,
                            struct hd_dataset_writer *writer);

/* Adds the number of episodes that ended in a round to *episodes_p and their returns to *returns_p.
 */
void hd_transition_log_add_episodes(const struct hd_spec *log, const void *data,
                                    int64_t *episodes_p, double *returns_p);

/* Writes the name and version of the library that convolutions use, and the processor features it
 * uses, to text[bytes], for the arithmetic fingerprint: "onednn 2.6.3 isa 0x3e7 amx". */
void hd_arithmetic_describe_libraries(char *text, size_t bytes);

/* Returns the name of the instruction set that the kernels are compiled for: "x86-64-v4-bf16". */
const char *hd_arithmetic_get_isa(void);
