/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the program itself, which every run file has. Graphs,
 * verbs and types read their own. One thread at a time. */
#pragma once

#include "runtime/base/config/config.h"

/* Texts belong to the config. */
struct hd_settings {
    const char *exp_name, *env_type, *env_id;
    int64_t seed, max_env_step, max_train_iter;
    int64_t param_check_interval;
    bool multi_gpu;
    bool evaluates_at_limit;           /* the last weights */
    int64_t eval_freq;                 /* updates between evaluations, at least */
    int64_t eval_episodes;             /* of an evaluation */
    int64_t eval_max_step;             /* most steps of its episodes; 0: no limit */
    double stop_value;                 /* mean return of an evaluation that ends the run */
    bool sequential;                   /* without StarPU */
    int workers, gpus;                 /* 0: as many as there are */
    bool requires_gpus, disables_gpus; /* neither: takes those that are there */
    const char *scheduler, *transport, *exchange, *precision;
    bool performance_models; /* also with a scheduler that needs none */
    bool library_order;      /* NCCL adds gradients in its own order */
    bool allow_fingerprint_mismatch;
    bool allow_origin_mismatch;
    int window; /* iterations submitted before the oldest has ended */
    double watchdog_s, heartbeat_timeout_s;
    double checkpoint_interval_s, checkpoint_timeout_s;
    int checkpoint_keep, sigterm_grace_s, link_timeout_s;
    bool link_hash;
    int open_exchanges; /* 0: auto */
};

/* Reads them. Cannot fail. */
void hd_settings_read(const struct hd_config *config, struct hd_settings *settings_p);
