/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs and types that come with the program: a file each, listed in builtin.c. Thread safe. */
#pragma once

#include "tasks/base/registry.h"

extern const struct hd_type hd_type_adam_state, hd_type_advantages, hd_type_batch,
    hd_type_batch_norm_stats, hd_type_critic_batch, hd_type_dataset, hd_type_env_counters,
    hd_type_envs, hd_type_eval_result, hd_type_grad, hd_type_minibatch, hd_type_moments,
    hd_type_momentum, hd_type_params, hd_type_permutation, hd_type_priorities, hd_type_replay,
    hd_type_residual, hd_type_sampler_state, hd_type_scalars, hd_type_td_errors,
    hd_type_temperature, hd_type_trajectories, hd_type_transition_block, hd_type_transition_log;

extern const struct hd_verb hd_verb_adam, hd_verb_adapt_lr, hd_verb_compute_schedule,
    hd_verb_adapt_temperature, hd_verb_barrier, hd_verb_broadcast, hd_verb_collect,
    hd_verb_collect_on_policy, hd_verb_compute_advantages, hd_verb_compute_obs_stats,
    hd_verb_compute_targets, hd_verb_copy, hd_verb_evaluate, hd_verb_grad_norm, hd_verb_keep_best,
    hd_verb_log, hd_verb_loss_grad, hd_verb_max, hd_verb_mean, hd_verb_merge_stats, hd_verb_min,
    hd_verb_normalize_rewards, hd_verb_outer_step, hd_verb_polyak_update, hd_verb_push_replay,
    hd_verb_record, hd_verb_record_video, hd_verb_reduce, hd_verb_sample_dataset,
    hd_verb_sample_minibatch, hd_verb_sample_replay, hd_verb_save, hd_verb_shuffle, hd_verb_stop,
    hd_verb_sum, hd_verb_update_priorities;

/* The config keys that these verbs and types read, mostly env.* and policy.* (tasks/base/keys.c);
 * ended by path == NULL. */
extern const struct hd_key hd_task_keys[];

/* Returns the registry of all these. Static memory. */
const struct hd_registry *hd_registry_get_builtin(void);
