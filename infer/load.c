/* SPDX-License-Identifier: Apache-2.0 */
/* Loads policies: the net as the run file describes it, and the weights. */
#include "infer/call_internal.h"
#include "infer/policy_internal.h"
#include "infer/spaces_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"
#include "runtime/io/base/run_dir.h"
#include "tasks/base/run_keys.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/env_options.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/policy_file.h"
#include "tasks/types/base/policy_net.h"
#include "tasks/types/base/spaces.h"

#include <string.h>
#include <unistd.h>

/* Finds both files that make a policy; the paths are freed with hd_free, after an error too. */
static int find_files(const char *config, const char *weights, char **config_p, char **weights_p)
{
    if (!config)
        return hd_fail(HD_ERR_INPUT, "a policy needs a run directory or a run file");
    const bool run = hd_folder_exists(config);
    if (!weights && hd_policy_file_is_named(config))
        weights = config;
    if (weights && !(*weights_p = hd_strdup(weights)))
        return HD_ERR_NOMEM;
    if (run)
        return hd_run_dir_find_policy(config, config_p, weights ? NULL : weights_p);
    if (!(*config_p = hd_strdup(config)))
        return HD_ERR_NOMEM;
    if (access(config, R_OK) != 0)
        return hd_fail(HD_ERR_INPUT, "%s cannot be read: %m", config);
    if (weights)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT, "%s is a run file: its weights have to be named", config);
}

/* -- The policy -------------------------------------------------------------------------------- */

static int read_config(struct hd_diag *diag, const char *path, const char *weights,
                       struct hd_config **config_p)
{
    int n;
    const struct hd_key *const *tables = hd_run_keys_get(&n);
    struct hd_document *document;
    HD_TRY(hd_policy_file_is_named(path) ? hd_policy_file_read(path, diag, &document)
                                         : hd_document_read(path, HD_INPUT_NAMED, diag, &document));
    int status = hd_config_create(tables, n, document, NULL, 0, diag, config_p);
    if (status != HD_OK) {
        hd_document_destroy(document);
        return status;
    }
    HD_TRY(hd_env_options_resolve(*config_p, diag));
    HD_TRY(hd_policy_file_complete(*config_p, weights, diag));
    return hd_spaces_resolve(*config_p, false, diag);
}

static int describe(struct heddle_policy *policy, const struct hd_setup *setup)
{
    const struct hd_obs_shape obs = hd_obs_shape_read(policy->config);
    bool stated;
    policy->algorithm = hd_policy_get(policy->config);
    policy->actions = hd_actions_read(policy->config);
    for (int i = 0; i < policy->actions.dims && policy->actions.kind == HD_ENV_BOX; i++) {
        policy->actions.low[i] = -__builtin_inff();
        policy->actions.high[i] = __builtin_inff();
    }
    if (policy->algorithm->outputs->squashed)
        HD_TRY(hd_policy_find_bounds(setup, policy));
    policy->bounds = policy->actions;
    if (policy->actions.kind == HD_ENV_BOX)
        HD_TRY(hd_actions_read_bounds(setup, &policy->bounds, &stated));
    policy->spec = (struct heddle_policy_spec){
        .obs = hd_obs_publish(&obs),
        .actions = hd_actions_publish(&policy->actions),
        .outputs = hd_net_count_outputs(policy->net),
        .state_size = hd_net_count_state(policy->net),
        .can_draw = policy->algorithm->outputs->draw != NULL,
    };
    policy->parts = hd_obs_publish_parts(&obs);
    return HD_OK;
}

static int make_net(struct heddle_policy *policy, struct hd_diag *diag, const char *path)
{
    const struct hd_source_location location = {path, 0, 0};
    const struct hd_setup setup = {
        .config = policy->config, .diag = diag, .location = location, .shards = 1};
    const struct hd_spec spec = {.name = "policy", .location = location};
    HD_TRY(hd_actions_check_policy(&setup, location));
    HD_TRY(hd_policy_net_create(&spec, &setup, &policy->net));
    return describe(policy, &setup);
}

static int make_arrays(struct heddle_policy *policy, bool normalised)
{
    const struct hd_net *net = policy->net;
    struct hd_policy_arrays *arrays = &policy->arrays;
    const int64_t n = normalised ? hd_net_count_obs(net) : 0;
    arrays->net = net;
    arrays->params = hd_alloc(hd_net_get_params_bytes(net), 1);
    if (!arrays->params)
        return HD_ERR_NOMEM;
    if (hd_net_count_norms(net) > 0 &&
        !(arrays->running = hd_alloc(hd_net_count_running(net), sizeof(float))))
        return HD_ERR_NOMEM;
    if (!normalised)
        return HD_OK;
    arrays->clip = (float)hd_config_get_real(policy->config, "policy.collect.clip_obs");
    arrays->scale = hd_alloc(n, sizeof(float));
    arrays->shift = hd_alloc(n, sizeof(float));
    return arrays->scale && arrays->shift ? HD_OK : HD_ERR_NOMEM;
}

static int load_weights(struct heddle_policy *policy, const char *path)
{
    bool normalised;
    HD_TRY(hd_weights_has_obs_norm(path, &normalised));
    normalised &= policy->parts.n == 0; /* else the tensors are refused */
    HD_TRY(make_arrays(policy, normalised));
    return hd_policy_arrays_read(&policy->arrays, path);
}

static int load(struct heddle_policy *policy, const char *config, const char *weights)
{
    struct hd_diag *diag;
    HD_TRY(hd_diag_create(&diag));
    int status = read_config(diag, config, weights, &policy->config);
    policy->is_file = hd_policy_file_is_named(config);
    if (status == HD_OK)
        status = make_net(policy, diag, config);
    hd_call_report(diag);
    hd_diag_destroy(diag);
    HD_TRY(status);
    return load_weights(policy, weights);
}

static int make_policy(const char *config, const char *weights, struct heddle_policy **policy_p)
{
    struct heddle_policy *policy = hd_alloc(1, sizeof *policy);
    char *config_path = NULL, *weights_path = NULL;
    if (!policy)
        return HD_ERR_NOMEM;
    policy->works = hd_work_list_create();
    int status =
        policy->works ? find_files(config, weights, &config_path, &weights_path) : HD_ERR_NOMEM;
    if (status == HD_OK)
        status = load(policy, config_path, weights_path);
    hd_free(config_path);
    hd_free(weights_path);
    if (status == HD_OK)
        *policy_p = policy;
    else
        heddle_policy_destroy(policy);
    return status;
}

int heddle_policy_load(const char *config, const char *weights, struct heddle_policy **policy_p,
                       char *message)
{
    struct hd_call call;
    hd_call_begin(&call, message);
    return hd_call_end(&call, make_policy(config, weights, policy_p));
}

void heddle_policy_destroy(struct heddle_policy *policy)
{
    if (!policy)
        return;
    hd_work_list_destroy(policy->works);
    hd_free(policy->arrays.params);
    hd_free(policy->arrays.running);
    hd_free(policy->arrays.scale);
    hd_free(policy->arrays.shift);
    hd_net_destroy(policy->net);
    hd_config_destroy(policy->config);
    hd_free(policy);
}

void heddle_policy_describe(const struct heddle_policy *policy, struct heddle_policy_spec *spec_p)
{
    *spec_p = policy->spec;
}

void heddle_policy_describe_parts(const struct heddle_policy *policy,
                                  struct heddle_obs_parts *parts_p)
{
    *parts_p = policy->parts;
}

const char *heddle_get_version(void)
{
    return HD_VERSION;
}
