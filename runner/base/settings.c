/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/settings.h"

#include "runtime/base/config/config_read.h"

#define SETTING(member, path) HD_FIELD(struct hd_settings, member, path)
#define SETTING_IS(member, path, word) HD_FIELD_IS(struct hd_settings, member, path, word)

/* The program only tells of these: a graph that does not ask for one does nothing by it. */
static const struct hd_field fields_of_graph[] = {
    SETTING(max_env_step, "max_env_step"),
    SETTING(max_train_iter, "max_train_iter"),
    SETTING(eval_freq, "policy.eval.evaluator.eval_freq"),
    SETTING(eval_episodes, "env.n_evaluator_episode"),
    SETTING(eval_max_step, "env.max_evaluator_step"),
    SETTING(stop_value, "env.stop_value"),
    {0},
};

static const struct hd_field fields[] = {
    SETTING(exp_name, "exp_name"),
    SETTING(env_type, "env.type"),
    SETTING(env_id, "env.env_id"),
    SETTING(seed, "seed"),
    SETTING(param_check_interval, "runtime.param_check_interval"),
    SETTING(multi_gpu, "policy.multi_gpu"),
    SETTING(evaluates_at_limit, "policy.eval.at_limit"),
    SETTING_IS(sequential, "runtime.executor", "sequential"),
    SETTING(workers, "runtime.workers"),
    SETTING(gpus, "runtime.gpus"),
    SETTING_IS(requires_gpus, "policy.cuda", "true"),
    SETTING_IS(disables_gpus, "policy.cuda", "false"),
    SETTING(scheduler, "runtime.scheduler"),
    SETTING(performance_models, "runtime.performance_models"),
    SETTING(transport, "runtime.transport"),
    SETTING(exchange, "runtime.exchange"),
    SETTING(precision, "runtime.precision"),
    SETTING_IS(library_order, "runtime.reduction", "nccl"),
    SETTING(allow_fingerprint_mismatch, "runtime.allow_fingerprint_mismatch"),
    SETTING(allow_origin_mismatch, "runtime.allow_origin_mismatch"),
    SETTING(window, "runtime.max_inflight_iterations"),
    SETTING(watchdog_s, "runtime.watchdog_s"),
    SETTING(heartbeat_timeout_s, "runtime.heartbeat_timeout_s"),
    SETTING(link_timeout_s, "runtime.link_timeout_s"),
    SETTING(link_hash, "runtime.link_hash"),
    SETTING(open_exchanges, "runtime.open_exchanges"),
    SETTING(checkpoint_interval_s, "runtime.checkpoint_interval_s"),
    SETTING(checkpoint_timeout_s, "runtime.checkpoint_timeout_s"),
    SETTING(checkpoint_keep, "runtime.checkpoint_keep"),
    SETTING(sigterm_grace_s, "runtime.sigterm_grace_s"),
    {0},
};

void hd_settings_read(const struct hd_config *config, struct hd_settings *settings_p)
{
    hd_config_read(config, fields, settings_p);
    hd_config_read(config, fields_of_graph, settings_p);
    for (const struct hd_field *field = fields_of_graph; field->path; field++)
        hd_config_forget_use(config, field->path);
}
