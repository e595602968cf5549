/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a configuration as a JSON Schema (draft 2020-12), for editors. */
#include "runtime/base/config/config_key.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* Functions that return a json_t return NULL without memory, and accept NULL. */

static json_t *build_number(double value)
{
    if (!isfinite(value))
        return NULL;
    return value == trunc(value) && fabs(value) <= 0x1p53 ? json_integer((json_int_t)value)
                                                          : json_real(value);
}

/* YAML and JSON agree on all defaults but texts. */
static json_t *build_default(const struct hd_key *key)
{
    json_t *json =
        key->kind == HD_KEY_TEXT ? NULL : json_loads(key->initial, JSON_DECODE_ANY, NULL);
    if (!json_is_real(json))
        return json ? json : json_string(key->initial);
    json_t *number = build_number(json_real_value(json));
    json_decref(json);
    return number;
}

static json_t *build_range(const struct hd_key *key, const char *type)
{
    return json_pack("{s:s, s:o*, s:o*}", "type", type, "minimum", build_number(key->min),
                     "maximum", build_number(key->max));
}

static json_t *build_list(const struct hd_key *key)
{
    return json_pack("{s:[o, {s:s, s:o, s:i}]}", "anyOf", build_range(key, "integer"), "type",
                     "array", "items", build_range(key, "integer"), "minItems", 1);
}

static json_t *build_shapes(const struct hd_key *key)
{
    return json_pack("{s:[o, {s:s, s:o, s:i}]}", "anyOf", build_list(key), "type", "object",
                     "additionalProperties", build_list(key), "minProperties", 1);
}

/* Words are "a|b|c"; true and false without quotes are no texts for those who read YAML. */
static json_t *build_words(const char *words)
{
    json_t *names = json_array();
    while (*words) {
        const size_t length = strcspn(words, "|");
        const bool is_true = strncmp(words, "true", length) == 0;
        const bool is_flag = is_true || strncmp(words, "false", length) == 0;
        json_array_append_new(names, is_flag ? json_boolean(is_true) : json_stringn(words, length));
        words += length + (words[length] == '|');
    }
    return json_pack("{s:o}", "enum", names);
}

static json_t *build_kind(const struct hd_key *key)
{
    switch (key->kind) {
    case HD_KEY_INT:
        return build_range(key, "integer");
    case HD_KEY_REAL:
        return build_range(key, "number");
    case HD_KEY_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case HD_KEY_TEXT:
        return json_pack("{s:[s, s, s]}", "type", "string", "number", "boolean");
    case HD_KEY_CHOICE:
        return build_words(key->choices);
    case HD_KEY_INT_LIST:
        return build_list(key);
    case HD_KEY_SHAPES:
        return build_shapes(key);
    case HD_KEY_MAP:
        return json_pack("{s:[s, s]}", "type", "object", "null");
    case HD_KEY_TREE:
        break;
    }
    return json_object();
}

static json_t *build_key(const struct hd_key *key)
{
    json_t *schema = build_kind(key);
    if (key->choices && key->kind != HD_KEY_CHOICE)
        schema = json_pack("{s:[o, o]}", "anyOf", build_words(key->choices), schema);
    json_t *about = json_pack("{s:o}", "description",
                              json_sprintf("%s%s%s%s", key->help, key->scope ? " (" : "",
                                           key->scope ? key->scope : "", key->scope ? ")" : ""));
    if (key->initial)
        json_object_set_new(about, "default", build_default(key));
    const int failed = json_object_update(schema, about);
    json_decref(about);
    if (!failed)
        return schema;
    json_decref(schema);
    return NULL;
}

/* An empty section is one of defaults. */
static json_t *build_section(void)
{
    return json_pack("{s:[s, s], s:b, s:{}}", "type", "object", "null", "additionalProperties", 0,
                     "properties");
}

/* Returns the section `name` of a section, which is added if it is not there. Borrowed. */
static json_t *find_section(json_t *section, const char *name, size_t length)
{
    json_t *properties = json_object_get(section, "properties");
    json_t *found = json_object_getn(properties, name, length);
    if (!found && json_object_setn_new(properties, name, length, build_section()) == 0)
        found = json_object_getn(properties, name, length);
    return found;
}

/* Returns whether there was memory. */
static bool add_key(json_t *section, const struct hd_key *key)
{
    const char *name = key->path;
    for (size_t length; name[length = strcspn(name, ".")]; name += length + 1)
        section = find_section(section, name, length);
    if (!key->initial && !json_object_get(section, "required"))
        json_object_set_new(section, "required", json_array());
    json_t *required = json_object_get(section, "required");
    return json_object_set_new(json_object_get(section, "properties"), name, build_key(key)) == 0 &&
           (key->initial || json_array_append_new(required, json_string(name)) == 0);
}

int hd_schema_print_json(const struct hd_key *const *schema, int n_schema, const char *title,
                         FILE *file)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:b, s:{}}", "$schema",
                             "https://json-schema.org/draft/2020-12/schema", "title", title, "type",
                             "object", "additionalProperties", 0, "properties");
    bool built = json != NULL;
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++)
            built = built && add_key(json, key);
    if (built) {
        json_dumpf(json, file, JSON_INDENT(2));
        fputc('\n', file);
    }
    json_decref(json);
    return built ? HD_OK : hd_fail(HD_ERR_NOMEM, "no memory for the schema");
}
