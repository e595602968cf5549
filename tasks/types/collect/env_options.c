/* SPDX-License-Identifier: Apache-2.0 */
#include "tasks/types/collect/env_options.h"

#include "runtime/base/alloc.h"
#include "runtime/base/config/node_json.h"
#include "runtime/base/status.h"

int hd_env_options_read(const struct hd_node *map, struct hd_env_settings *settings)
{
    struct hd_env_option *options = hd_alloc(map ? map->count : 0, sizeof *options);
    settings->options = options;
    settings->n_options = 0;
    for (int64_t i = 0; options && map && i < map->count; i++) {
        const struct hd_node *item = map->items[i];
        options[i].name = map->keys[i]->text;
        options[i].value =
            item->kind == HD_NODE_SCALAR ? hd_strdup(item->text) : hd_node_build_json(item);
        settings->n_options++;
        if (!options[i].value)
            return HD_ERR_NOMEM;
    }
    return options ? HD_OK : HD_ERR_NOMEM;
}

void hd_env_options_release(struct hd_env_settings *settings)
{
    for (int i = 0; i < settings->n_options; i++)
        hd_free((void *)settings->options[i].value);
    hd_free((void *)settings->options);
}
