/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config_key.h"

#include "runtime/base/config/diag.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void append(char description[HD_DESCRIPTION_BYTES],
                                                         const char *format, ...)
{
    size_t used = strlen(description);
    va_list args;
    va_start(args, format);
    vsnprintf(description + used, HD_DESCRIPTION_BYTES - used, format, args);
    va_end(args);
}

/* Bounds of int64_t itself are no bounds worth naming. */
static void append_range(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES])
{
    double limit = key->kind == HD_KEY_REAL ? INFINITY : 0x1p63;
    bool low = key->min > -limit, high = key->max < limit;
    const int digits = key->kind == HD_KEY_REAL ? 15 : 19; /* whole numbers are written out */
    if (low && high)
        append(description, " in [%.*g, %.*g]", digits, key->min, digits, key->max);
    else if (low)
        append(description, " >= %.*g", digits, key->min);
    else if (high)
        append(description, " <= %.*g", digits, key->max);
}

static void append_choices(const char *choices, char description[HD_DESCRIPTION_BYTES])
{
    for (const char *c = choices; *c; c++)
        append(description, *c == '|' ? "%s" : "%.1s", *c == '|' ? ", " : c);
}

void hd_key_describe(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES])
{
    static const char *const names[] = {
        [HD_KEY_INT] = "an integer",
        [HD_KEY_REAL] = "a finite number",
        [HD_KEY_BOOL] = "true or false",
        [HD_KEY_TEXT] = "a text",
        [HD_KEY_CHOICE] = "one of ",
        [HD_KEY_INT_LIST] = "an integer or a list of integers",
        [HD_KEY_SHAPES] = "an integer, a list of integers or a map of these",
        [HD_KEY_TREE] = "a name or a tree",
        [HD_KEY_MAP] = "a map",
    };
    description[0] = '\0';
    append(description, "%s", names[key->kind]);
    if (key->kind == HD_KEY_CHOICE)
        append_choices(key->choices, description);
    if (key->kind == HD_KEY_INT || key->kind == HD_KEY_REAL || key->kind == HD_KEY_INT_LIST ||
        key->kind == HD_KEY_SHAPES)
        append_range(key, description);
    if (key->kind != HD_KEY_CHOICE && key->choices) {
        append(description, strchr(key->choices, '|') ? ", or one of " : " or ");
        append_choices(key->choices, description);
    }
}

static bool is_below(const char *path, const char *section)
{
    const size_t length = section ? strlen(section) : 0;
    return length == 0 ||
           (strncmp(path, section, length) == 0 && (path[length] == '\0' || path[length] == '.'));
}

int hd_schema_print(const struct hd_key *const *schema, int n_schema, const char *path, FILE *file)
{
    char kind[HD_DESCRIPTION_BYTES];
    int n = 0;
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++) {
            if (!is_below(key->path, path))
                continue;
            hd_key_describe(key, kind);
            fprintf(file, "%s: %s\n    %s; %s%s%s\n", key->path,
                    key->initial ? key->initial : "(required)", key->help, kind,
                    key->scope ? "; " : "", key->scope ? key->scope : "");
            n++;
        }
    return n;
}

/* -- Suggestions ------------------------------------------------------------------------------- */

static bool is_called(const struct hd_key *key, const char *name)
{
    const char *last = strrchr(key->path, '.');
    return strcmp(last ? last + 1 : key->path, name) == 0 ||
           (key->aliases && hd_names_contain(key->aliases, name));
}

/* Returns the length of the first `parts` parts of a path, or of all of it. */
static int measure_parts(const char *path, int parts)
{
    const char *end = path + strcspn(path, ".");
    while (--parts > 0 && *end)
        end += 1 + strcspn(end + 1, ".");
    return (int)(end - path);
}

/* Appends the key or section nearest to `name`, of as many parts. */
static void append_nearest(const struct hd_key *const *schema, int n_schema, const char *name,
                           char suggestion[HD_DESCRIPTION_BYTES])
{
    enum { KEYS_MAX = 512, PATH_BYTES = 64 };
    char paths[KEYS_MAX][PATH_BYTES];
    const char *names[KEYS_MAX];
    int n = 0, parts = 1;
    for (const char *c = name; *c; c++)
        parts += *c == '.';
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path && n < KEYS_MAX; key++, n++) {
            snprintf(paths[n], PATH_BYTES, "%.*s", measure_parts(key->path, parts), key->path);
            names[n] = paths[n];
        }
    const char *nearest = hd_find_nearest_name(name, names, n);
    if (nearest)
        append(suggestion, "'%s'", nearest);
}

void hd_schema_list_called(const struct hd_key *const *schema, int n_schema, const char *name,
                           char list[HD_DESCRIPTION_BYTES])
{
    enum { LISTED = 3 };
    const char *last = strrchr(name, '.');
    int n = 0;
    list[0] = '\0';
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++)
            if (is_called(key, last ? last + 1 : name) && n++ < LISTED)
                append(list, "%s'%s'%s", list[0] ? " or " : "", key->path,
                       strchr(key->path, '.') ? "" : " at the top level");
}

void hd_schema_suggest(const struct hd_key *const *schema, int n_schema, const char *name,
                       char suggestion[HD_DESCRIPTION_BYTES])
{
    hd_schema_list_called(schema, n_schema, name, suggestion);
    if (!suggestion[0])
        append_nearest(schema, n_schema, name, suggestion);
}
