/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/node_json.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number, a boolean or null as JSON itself does; JSON has no 1. and no +1. */
static json_t *read_word(const char *text)
{
    if (!text[0] || strcmp(text, "~") == 0)
        return json_null();
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

static json_t *convert_scalar(const struct hd_node *node)
{
    json_t *word = node->quoted ? NULL : read_word(node->text);
    if (word && (json_is_number(word) || json_is_boolean(word) || json_is_null(word)))
        return word;
    json_decref(word);
    return json_string(node->text);
}

static json_t *convert(const struct hd_node *node)
{
    if (node->kind == HD_NODE_SCALAR)
        return convert_scalar(node);
    json_t *json = node->kind == HD_NODE_MAP ? json_object() : json_array();
    for (int64_t i = 0; json && i < node->count; i++) {
        json_t *item = convert(node->items[i]);
        const int failed = node->kind == HD_NODE_MAP
                               ? json_object_set_new(json, node->keys[i]->text, item)
                               : json_array_append_new(json, item);
        if (failed) {
            json_decref(json);
            return NULL;
        }
    }
    return json;
}

char *hd_node_build_json(const struct hd_node *node)
{
    json_t *json = convert(node);
    char *dumped = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    char *text = dumped ? hd_strdup(dumped) : NULL;
    if (!dumped)
        hd_log(HD_LOG_ERROR, "no memory for a part of the configuration as JSON");
    free(dumped);
    json_decref(json);
    return text;
}
