/* SPDX-License-Identifier: Apache-2.0 */
/* What the program around a graph asks of values: weights as files, outputs for given observations,
 * the returns of an evaluation, recordings as data sets. */
#ifndef HD_TASKS_OUTPUT_INSPECT_H
#define HD_TASKS_OUTPUT_INSPECT_H

#include "runtime/value.h"

/* What makes a policy: an instance of type params; where its observations are normalised, one of
 * type moments (obs_norm NULL: they are not); one of type batch_norm_stats if its net has batch
 * norms (NULL: or none). */
struct hd_weights {
    const struct hd_spec *params;
    void *data;
    const struct hd_spec *obs_norm;
    void *obs_norm_data;
    const struct hd_spec *batch_norm_stats;
    void *batch_norm_stats_data;
};

/* Writes a policy as safetensors, atomically: DI-engine's tensor names and shapes, batch norms'
 * running_mean, running_var and num_batches_tracked as PyTorch has them, and obs_norm.scale and
 * obs_norm.shift per element of an observation; the number of updates and hashes of what is written
 * as metadata. A file that holds this very policy already is left alone. Errors: HD_ERR_SYSTEM
 * (logged). */
int hd_weights_save(const struct hd_weights *weights, const char *path, int64_t train_iter);

/* Reads such a file into instances; every tensor of the net must be there with its shape, and those
 * of obs_norm and batch_norm_stats if they are given (but for num_batches_tracked, which nothing
 * here goes by). Errors: HD_ERR_SYSTEM, HD_ERR_FORMAT (logged, naming file and tensor). */
int hd_weights_load(const struct hd_weights *weights, const char *path);

/* Whether the policy in a file normalises observations. Errors: as for load. */
int hd_weights_has_obs_norm(const char *path, bool *normalised_p);

/* Reads tensor `obs` [N][obs_shape…] of a safetensors file and writes one line per row to `file`:
 * the net's outputs as %.9e, space separated. Errors as above. */
int hd_weights_print_outputs(const struct hd_weights *weights, const char *obs_path, FILE *file);

/* The returns of an instance of type `eval_result`: returns[n], borrowed; n stored in *n_p. */
const double *hd_eval_result_get_returns(const void *data, int64_t *n_p);

struct hd_dataset_info;
struct hd_dataset_writer;

/* What values of types `transition_log` and `envs` say of the data set that they make: all of *info
 * but seed, policy and epsilon; its texts are the config's and the env's. How many rounds make it,
 * each a file. */
void hd_transition_log_describe(const struct hd_spec *log, const struct hd_spec *envs,
                                struct hd_dataset_info *info);
int64_t hd_transition_log_get_rounds(const struct hd_spec *log);

/* Writes round `round`, from 0, as the next file of a data set. Errors: HD_ERR_NOMEM,
 * HD_ERR_SYSTEM (logged). */
int hd_transition_log_write(const struct hd_spec *log, const void *data, int64_t round,
                            struct hd_dataset_writer *writer);

/* Adds the episodes that ended in a round to *episodes_p, and their returns to *returns_p. */
void hd_transition_log_add_episodes(const struct hd_spec *log, const void *data,
                                    int64_t *episodes_p, double *returns_p);

/* Names and versions of the libraries that bodies compute with, and what they use of the processor:
 * "onednn 2.6.3 isa 0x3e7 amx". */
void hd_arithmetic_describe_libraries(char *text, size_t bytes);

#endif
