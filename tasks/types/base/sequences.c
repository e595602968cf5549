/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/base/sequences.h"

#include "kernels/net/layer_types.h"
#include "runtime/base/status.h"
#include "tasks/types/base/policy.h"

#include <stdlib.h>

enum { HIDDEN_MAX = 1000000 };

/* Numbers that are none are reported where the layers are read. */
static int64_t read_hidden(const struct hd_node *fields)
{
    const struct hd_node *node =
        fields->kind == HD_NODE_MAP ? hd_node_get(fields, "hidden") : fields;
    const int64_t hidden = node && node->kind == HD_NODE_SCALAR ? strtoll(node->text, NULL, 10) : 0;
    return hidden > 0 && hidden <= HIDDEN_MAX ? hidden : 0;
}

/* Adds up the states of the layers in a tree of layers or heads. */
static int64_t count_state(const struct hd_node *node)
{
    int64_t state = 0;
    if (!node || node->kind == HD_NODE_SCALAR)
        return 0;
    for (int64_t i = 0; i < node->count; i++) {
        const struct hd_layer_type *type =
            node->kind == HD_NODE_MAP ? hd_layer_type_find(node->keys[i]->text) : NULL;
        state += type && type->states > 0 ? type->states * read_hidden(node->items[i])
                                          : count_state(node->items[i]);
    }
    return state;
}

/* Returns how many steps each env plays in a collect. */
static int64_t count_steps(const struct hd_config *config)
{
    return hd_config_get_int(config, "policy.collect.n_sample") /
           hd_config_get_int(config, "env.collector_env_num");
}

struct hd_sequences hd_sequences_read(const struct hd_config *config)
{
    struct hd_sequences sequences = {
        .state = count_state(hd_config_get_node(config, "policy.model.layers")) +
                 count_state(hd_config_get_node(config, "policy.model.heads")),
        .steps = 1,
    };
    if (sequences.state == 0)
        return sequences;
    sequences.steps = hd_config_get_int(config, "policy.collect.unroll_len");
    if (sequences.steps == 0)
        sequences.steps = count_steps(config);
    sequences.steps = sequences.steps > 0 ? sequences.steps : 1;
    return sequences;
}

static int refuse(const struct hd_setup *setup, const char *key, const struct hd_node *layer,
                  const char *expected, int64_t number, const char *why)
{
    const struct hd_node *node = hd_config_get_node(setup->config, key);
    return hd_diag_add_error(setup->diag, (node ? node : layer)->location,
                             "%s: expected %s %lld, %s; found %s", key, expected, (long long)number,
                             why, node ? node->text : "none");
}

int hd_sequences_check(const struct hd_setup *setup, const struct hd_node *layer)
{
    const struct hd_config *config = setup->config;
    const int64_t envs = hd_config_get_int(config, "env.collector_env_num");
    const int64_t steps = count_steps(config);
    const struct hd_node *segment = hd_config_get_node(config, "policy.collect.segment_at_done");
    if (!hd_policy_get(config)->on_policy)
        return hd_diag_add_error(setup->diag, layer->location,
                                 "a recurrent net learns from the sequences of a collect, which "
                                 "policy.type %s does not",
                                 hd_config_get_text(config, "policy.type"));
    if (hd_config_get_bool(config, "policy.collect.segment_at_done"))
        return hd_diag_add_error(setup->diag, (segment ? segment : layer)->location,
                                 "policy.collect.segment_at_done: a recurrent net learns from "
                                 "sequences of one length; expected false, found true");
    if (hd_config_get_int(config, "policy.collect.n_sample") % envs != 0)
        return refuse(setup, "policy.collect.n_sample", layer, "a multiple of", envs,
                      "the environments that collect");
    if (steps % hd_sequences_read(config).steps != 0)
        return refuse(setup, "policy.collect.unroll_len", layer, "a divisor of", steps,
                      "the steps that an environment plays in a collect");
    return HD_OK;
}
