/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config_key.h"

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
    if (low && high)
        append(description, " in [%.15g, %.15g]", key->min, key->max);
    else if (low)
        append(description, " >= %.15g", key->min);
    else if (high)
        append(description, " <= %.15g", key->max);
}

static void append_choices(const char *choices, char description[HD_DESCRIPTION_BYTES])
{
    for (const char *c = choices; *c; c++)
        append(description, *c == '|' ? "%s" : "%.1s", *c == '|' ? ", " : c);
}

void hd_key_describe(const struct hd_key *key, char description[HD_DESCRIPTION_BYTES])
{
    static const char *const names[] = {
        [HD_KEY_INT] = "an integer",        [HD_KEY_REAL] = "a finite number",
        [HD_KEY_BOOL] = "true or false",    [HD_KEY_TEXT] = "a text",
        [HD_KEY_CHOICE] = "one of ",        [HD_KEY_INT_LIST] = "an integer or a list of integers",
        [HD_KEY_TREE] = "a name or a tree", [HD_KEY_MAP] = "a map of scalars",
    };
    description[0] = '\0';
    append(description, "%s", names[key->kind]);
    if (key->kind == HD_KEY_CHOICE)
        append_choices(key->choices, description);
    if (key->kind == HD_KEY_INT || key->kind == HD_KEY_REAL || key->kind == HD_KEY_INT_LIST)
        append_range(key, description);
    if (key->kind == HD_KEY_INT && key->choices) {
        append(description, strchr(key->choices, '|') ? ", or one of " : " or ");
        append_choices(key->choices, description);
    }
}

void hd_schema_print(const struct hd_key *const *schema, int n_schema, FILE *file)
{
    char kind[HD_DESCRIPTION_BYTES];
    for (int i = 0; i < n_schema; i++)
        for (const struct hd_key *key = schema[i]; key->path; key++) {
            hd_key_describe(key, kind);
            fprintf(file, "%s: %s\n    %s; %s%s%s\n", key->path,
                    key->initial ? key->initial : "(required)", key->help, kind,
                    key->scope ? "; " : "", key->scope ? key->scope : "");
        }
}
