/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/learn/policy_net.h"

#include "runtime/base/status.h"
#include "tasks/types/learn/policy.h"

#include <stdio.h>
#include <string.h>

/* Reports a mistake in a field of the net, at the key of the run file that sets it. */
static int report(const struct hd_spec *spec, const struct hd_setup *setup, const char *field,
                  const char *message)
{
    char key[64] = "runtime.precision";
    if (strcmp(field, "precision") != 0)
        snprintf(key, sizeof key, "policy.model.%s", field);
    const struct hd_node *node = hd_config_get_node(setup->config, key);
    return hd_diag_add_error(setup->diag, node ? node->location : spec->location, "%s: %s",
                             strrchr(key, '.') + 1, message);
}

static void choose_heads(const struct hd_config *config, struct hd_net_fields *fields)
{
    const enum hd_policy_outputs outputs = hd_policy_get(config)->outputs;
    if (outputs == HD_POLICY_ACTION_VALUES && hd_config_get_bool(config, "policy.model.dueling"))
        fields->heads = HD_HEADS_DUELING;
    if (outputs != HD_POLICY_ACTOR_CRITIC)
        return;
    const char *init = hd_config_get_text(config, "policy.learn.ppo_param_init");
    fields->heads = HD_HEADS_ACTOR_CRITIC;
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

int hd_policy_net_create(const struct hd_spec *spec, const struct hd_setup *setup,
                         struct hd_net **net_p)
{
    const struct hd_config *config = setup->config;
    struct hd_net_mistake mistake;
    int64_t n_shape;
    struct hd_net_fields fields = {
        .obs_shape = hd_config_get_ints(config, "policy.model.obs_shape", &n_shape),
        .actions = hd_config_get_int(config, "policy.model.action_shape"),
    };
    choose_precision(config, &fields);
    fields.hidden =
        hd_config_get_ints(config, "policy.model.encoder_hidden_size_list", &fields.n_hidden);
    fields.obs_dims = (int)n_shape;
    if (strcmp(hd_config_get_text(config, "policy.model.norm"), "sync_batch_norm") == 0)
        fields.norm = HD_NORM_SYNC_BATCH;
    fields.obs_u8 = n_shape == 3; /* frames of pixels */
    choose_heads(config, &fields);
    HD_TRY(check_widths(spec, setup, &fields));
    int status = hd_net_find_mistake(&fields, &mistake);
    if (status == HD_ERR_INPUT)
        return report(spec, setup, mistake.field, mistake.message);
    HD_TRY(status);
    status = hd_net_create(&fields, net_p);
    if (status == HD_ERR_UNSUPPORTED && fields.precision == HD_BF16)
        report(spec, setup, "precision", "expected f32 on this processor, found bf16");
    return status;
}
