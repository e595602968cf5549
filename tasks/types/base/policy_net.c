/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/policy_net.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/net_layers.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/base/policy.h"
#include "tasks/types/base/sequences.h"

#include <stdio.h>
#include <string.h>

#define MODEL "policy.model"
#define CRITIC "policy.critic"

/* Returns the key of a value's net. */
static const char *get_key(const struct hd_setup *setup)
{
    const char *key = hd_setup_get_option(setup, "net");
    return key ? key : MODEL;
}

/* Reports a mistake in a field of the net, at the key of the run file that sets it. */
static int report(const struct hd_spec *spec, const struct hd_setup *setup, const char *field,
                  const char *message)
{
    char key[64] = "runtime.precision";
    if (strcmp(field, "precision") != 0 && strcmp(get_key(setup), MODEL) == 0)
        snprintf(key, sizeof key, "policy.model.%s", field);
    else if (strcmp(field, "precision") != 0)
        snprintf(key, sizeof key, "%s", get_key(setup));
    return hd_diag_add_error(setup->diag, hd_config_locate(setup->config, key, spec->location),
                             "%s: %s", strrchr(key, '.') + 1, message);
}

/* Reports a mistake that hd_net_find_mistake found: in a list, at the layer. */
static int report_mistake(const struct hd_spec *spec, const struct hd_setup *setup,
                          const struct hd_net_mistake *mistake)
{
    const struct hd_node *layer = mistake->source;
    return layer ? hd_diag_add_error(setup->diag, layer->location, "%s", mistake->message)
                 : report(spec, setup, mistake->field, mistake->message);
}

/* The algorithm decides what a net of the short form yields. */
static void choose_heads(const struct hd_config *config, struct hd_net_fields *fields)
{
    const struct hd_outputs *outputs = hd_policy_get(config)->outputs;
    const bool may_duel = hd_names_contain(outputs->head[0].types, "dueling");
    fields->heads = may_duel && hd_config_get_bool(config, "policy.model.dueling")
                        ? HD_HEADS_DUELING
                        : outputs->heads;
}

static void choose_init(const struct hd_config *config, struct hd_net_fields *fields)
{
    if (fields->heads != HD_HEADS_ACTOR_CRITIC)
        return;
    const char *init = hd_config_get_text(config, "policy.learn.ppo_param_init");
    fields->init = strcmp(init, "true") == 0     ? HD_INIT_ORTHOGONAL
                   : strcmp(init, "scaled") == 0 ? HD_INIT_SCALED
                                                 : HD_INIT_TORCH;
}

/* DI-engine has keys for the widths of the heads' hidden layers, but its encoder decides them. */
static int check_widths(const struct hd_spec *spec, const struct hd_setup *setup,
                        const struct hd_net_fields *fields)
{
    static const char *const names[] = {"actor_head_hidden_size", "critic_head_hidden_size"};
    const int64_t width = fields->hidden[fields->n_hidden - 1];
    for (int i = 0; i < 2 && fields->heads == HD_HEADS_ACTOR_CRITIC; i++) {
        char key[64], message[HD_NET_MESSAGE];
        snprintf(key, sizeof key, "policy.model.%s", names[i]);
        int64_t asked = hd_config_get_int(setup->config, key);
        if (asked == 0 || asked == width)
            continue;
        snprintf(message, sizeof message,
                 "expected %lld, the width of the encoder's last layer, or 0, which means that; "
                 "found %lld",
                 (long long)width, (long long)asked);
        return report(spec, setup, names[i], message);
    }
    return HD_OK;
}

/* tf32 is a way in which GPUs multiply floats; CPUs compute in f32 then. */
static void choose_precision(const struct hd_config *config, struct hd_net_fields *fields)
{
    const char *precision = hd_config_get_text(config, "runtime.precision");
    fields->precision = strcmp(precision, "bf16") == 0 ? HD_BF16 : HD_F32;
    fields->on_gpu = strcmp(precision, "tf32") == 0 ? HD_TF32 : fields->precision;
}

/* Reads DI-engine's keys. */
static int read_short_form(const struct hd_spec *spec, const struct hd_setup *setup,
                           struct hd_net_fields *fields)
{
    const struct hd_config *config = setup->config;
    fields->hidden =
        hd_config_get_ints(config, "policy.model.encoder_hidden_size_list", &fields->n_hidden);
    if (strcmp(hd_config_get_text(config, "policy.model.norm"), "sync_batch_norm") == 0)
        fields->norm = HD_NORM_SYNC_BATCH;
    choose_heads(config, fields);
    return check_widths(spec, setup, fields);
}

/* A net that GPUs do not compute is computed on CPUs, unless policy.cuda requires a GPU. */
static int check_gpu(const struct hd_setup *setup, const struct hd_net *net)
{
#if HD_CUDA
    const struct hd_node *node = hd_config_get_node(setup->config, "policy.cuda");
    const struct hd_layer *layer = hd_net_find_cpu_layer(net);
    if (!layer || strcmp(hd_config_get_text(setup->config, "policy.cuda"), "true") != 0)
        return HD_OK;
    node = layer->source ? layer->source : node;
    return hd_diag_add_error(setup->diag, node ? node->location : setup->location,
                             "%s is computed on CPUs only; with it policy.cuda is auto or false, "
                             "found true",
                             layer->type->name);
#else
    (void)setup;
    (void)net;
    return HD_OK;
#endif
}

/* Returns where the run file has a layer with a state; NULL: nowhere. */
static const struct hd_node *find_recurrent(const struct hd_net_fields *fields)
{
    int64_t n = fields->layers ? fields->trunk : 0;
    for (int i = 0; i < fields->n_streams; i++)
        n += fields->streams[i].layers;
    for (int64_t i = 0; i < n; i++)
        if (fields->layers[i].type->states > 0)
            return fields->layers[i].source;
    return NULL;
}

/* The envs and trajectories keep the state of one net. */
static int check_recurrent(const struct hd_setup *setup, const struct hd_net_fields *fields)
{
    const struct hd_node *layer = find_recurrent(fields);
    if (!layer)
        return HD_OK;
    if (strcmp(get_key(setup), MODEL) != 0)
        return hd_diag_add_error(setup->diag, layer->location,
                                 "only " MODEL " may have layers with a state, not %s",
                                 get_key(setup));
    return hd_sequences_check(setup, layer);
}

static int create(const struct hd_spec *spec, const struct hd_setup *setup,
                  const struct hd_net_fields *fields, struct hd_net **net_p)
{
    struct hd_net_mistake mistake;
    struct hd_net *net;
    int status = hd_net_find_mistake(fields, &mistake);
    if (status == HD_ERR_INPUT)
        return report_mistake(spec, setup, &mistake);
    HD_TRY(status);
    HD_TRY(check_recurrent(setup, fields));
    HD_TRY(hd_net_create(fields, &net));
    status = check_gpu(setup, net);
    if (status != HD_OK) {
        hd_net_destroy(net);
        return status;
    }
    *net_p = net;
    return HD_OK;
}

static int read_policy(const struct hd_spec *spec, const struct hd_setup *setup,
                       struct hd_net_fields *fields)
{
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    const struct hd_outputs *outputs = hd_policy_get(setup->config)->outputs;
    fields->actions = outputs->count(setup->config, &actions);
    fields->log_std =
        actions.kind == HD_ENV_BOX && !outputs->squashed &&
        strcmp(hd_config_get_text(setup->config, "policy.model.sigma_type"), "independent") == 0;
    HD_TRY(hd_net_layers_read(setup, fields));
    HD_TRY(fields->layers ? HD_OK : read_short_form(spec, setup, fields));
    choose_init(setup->config, fields);
    return HD_OK;
}

/* A critic yields one value of the observation, or of it joined with the action: joined[1]. */
static int read_critic(const struct hd_setup *setup, struct hd_net_fields *fields, int64_t *joined)
{
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    const struct hd_node *node = hd_config_get_node(setup->config, CRITIC);
    bool with_action;
    HD_TRY(hd_obs_refuse_parts(setup->config, CRITIC, setup->location,
                               "a critic sees an observation of one array", setup->diag));
    fields->actions = 1;
    HD_TRY(hd_net_tree_read(setup, CRITIC, fields, &with_action));
    if (!with_action)
        return HD_OK;
    if (fields->obs_dims != 1 || actions.kind != HD_ENV_BOX)
        return hd_diag_add_error(setup->diag, node->location,
                                 CRITIC ": input [obs, action] joins an observation of one "
                                        "dimension, found %d, with real numbers, found %s",
                                 fields->obs_dims,
                                 actions.kind == HD_ENV_BOX ? "these" : "choices");
    *joined = fields->obs_shape[0] + actions.dims;
    fields->obs_shape = joined;
    return HD_OK;
}

static int read_fields(const struct hd_spec *spec, const struct hd_setup *setup,
                       struct hd_net_fields *fields, int64_t *joined)
{
    const char *key = get_key(setup);
    const struct hd_node *node = hd_node_get(setup->options, "net");
    if (strcmp(key, MODEL) == 0)
        return read_policy(spec, setup, fields);
    if (strcmp(key, CRITIC) == 0)
        return read_critic(setup, fields, joined);
    return hd_diag_add_error(setup->diag, node->location,
                             "net: expected " MODEL " or " CRITIC ", found %.60s", key);
}

int hd_policy_net_create(const struct hd_spec *spec, const struct hd_setup *setup,
                         struct hd_net **net_p)
{
    const struct hd_config *config = setup->config;
    int64_t n_shape, joined;
    struct hd_net_fields fields = {
        .obs_shape = hd_config_get_ints(config, "policy.model.obs_shape", &n_shape)};
    choose_precision(config, &fields);
    fields.obs_dims = (int)n_shape;
    fields.obs_u8 = n_shape == 3; /* frames of pixels */
    int status = read_fields(spec, setup, &fields, &joined);
    if (status == HD_OK)
        status = create(spec, setup, &fields, net_p);
    hd_free((void *)fields.layers);
    return status;
}

int hd_policy_net_check(const struct hd_setup *setup, const struct hd_net *net)
{
    const struct hd_policy *policy = hd_policy_get(setup->config);
    const struct hd_env_actions actions = hd_actions_read(setup->config);
    const int64_t wanted = policy->outputs->count(setup->config, &actions);
    const int64_t found = hd_net_count_actions(net);
    char text[HD_ACTIONS_TEXT];
    if (found == wanted)
        return HD_OK;
    return hd_diag_add_error(setup->diag, setup->location,
                             "%s: policy.type %s reads %s from %lld numbers (%s), but the net "
                             "yields %lld: is it the policy's?",
                             setup->verb, policy->name, hd_actions_describe(&actions, text),
                             (long long)wanted, policy->outputs->what, (long long)found);
}
