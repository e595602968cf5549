/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/differences.h"

#include <stdbool.h>
#include <string.h>

/* Returns whether a difference of this key counts; the name of a run does not. */
static bool counts(const char *key)
{
    return strcmp(key, "exp_name") != 0;
}

/* Returns the texts of a config by their keys, which are many to look for among many runs. */
static json_t *index_config(const struct hd_history *history)
{
    json_t *index = json_object(), *leaf;
    size_t i;
    json_array_foreach(history->config, i, leaf)
        json_object_set(index, json_string_value(json_array_get(leaf, 0)), json_array_get(leaf, 1));
    return index;
}

static const char *find_text(const json_t *indices, size_t run, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(indices, run), key));
    return text ? text : "";
}

/* Returns the row of a key; NULL where its values are the same. */
static json_t *build_row(const json_t *indices, const char *key)
{
    const size_t n = json_array_size(indices);
    bool differs = false;
    json_t *row = json_pack("[s]", key);
    for (size_t r = 0; r < n; r++) {
        differs |= strcmp(find_text(indices, r, key), find_text(indices, 0, key)) != 0;
        json_array_append_new(row, json_string(find_text(indices, r, key)));
    }
    if (!differs)
        json_decref(row);
    return differs ? row : NULL;
}

json_t *hd_differences_build_json(const struct hd_runs *runs)
{
    json_t *differences = json_array(), *indices = json_array(), *seen = json_object();
    for (int r = 0; r < runs->n; r++)
        json_array_append_new(indices, index_config(&runs->list[r]));
    for (int r = 0; r < runs->n; r++) {
        size_t i;
        json_t *leaf;
        json_array_foreach(runs->list[r].config, i, leaf) {
            const char *key = json_string_value(json_array_get(leaf, 0));
            if (!counts(key) || json_object_get(seen, key))
                continue;
            json_object_set_new(seen, key, json_true());
            json_t *row = build_row(indices, key);
            if (row)
                json_array_append_new(differences, row);
        }
    }
    json_decref(indices);
    json_decref(seen);
    return differences;
}
