/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/report/differences.h"

#include <stdbool.h>
#include <string.h>

/* Returns whether a difference of this key counts; the name of a run does not. */
static bool counts(const char *key)
{
    return strcmp(key, "exp_name") != 0;
}

static bool listed(const json_t *differences, const char *key)
{
    size_t i;
    json_t *row;
    json_array_foreach(differences, i, row) if (strcmp(json_string_value(json_array_get(row, 0)),
                                                       key) == 0) return true;
    return false;
}

static bool differs(const struct hd_runs *runs, const char *key)
{
    const char *first = hd_history_get_key(&runs->list[0], key);
    for (int r = 1; r < runs->n; r++)
        if (strcmp(first, hd_history_get_key(&runs->list[r], key)) != 0)
            return true;
    return false;
}

json_t *hd_differences_build_json(const struct hd_runs *runs)
{
    json_t *differences = json_array();
    for (int r = 0; r < runs->n; r++) {
        size_t i;
        json_t *leaf;
        json_array_foreach(runs->list[r].config, i, leaf)
        {
            const char *key = json_string_value(json_array_get(leaf, 0));
            if (!counts(key) || !differs(runs, key) || listed(differences, key))
                continue;
            json_t *row = json_pack("[s]", key);
            for (int k = 0; k < runs->n; k++)
                json_array_append_new(row, json_string(hd_history_get_key(&runs->list[k], key)));
            json_array_append_new(differences, row);
        }
    }
    return differences;
}
