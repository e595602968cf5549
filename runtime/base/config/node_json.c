/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/node_json.h"

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* JSON has no such numbers, and jansson no way to write what other readers take for them: they are
 * texts that begin with a character that no YAML has, until write_constants. */
#define MARK "\001"

static json_t *read_special(const char *text)
{
    static const char *const words[][2] = {{".inf", MARK "Infinity"},
                                           {"+.inf", MARK "Infinity"},
                                           {"-.inf", MARK "-Infinity"},
                                           {".nan", MARK "NaN"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i][0], text) == 0)
            return json_string(words[i][1]);
    return NULL;
}

/* Reads a whole number in base 10, 16 (0x1F) or 8 (0o17); NULL: it is none, or too large. */
static json_t *read_integer(const char *text)
{
    const bool hex = strncmp(text, "0x", 2) == 0, octal = strncmp(text, "0o", 2) == 0;
    char *end;
    errno = 0;
    const long long value = strtoll(hex || octal ? text + 2 : text, &end,
                                    hex     ? 16
                                    : octal ? 8
                                            : 10);
    return errno || *end || end == text ? NULL : json_integer(value);
}

/* Reads a scalar without quotes: what the other keys of a run file take for a number or a boolean,
 * and null. NULL: it is a text. */
static json_t *read_word(const struct hd_node *node)
{
    const char *text = node->text;
    if (!text[0] || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0)
        return json_null();
    if (strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0)
        return json_boolean(tolower((unsigned char)text[0]) == 't');
    const bool decimal = hd_node_is_decimal(node);
    if (decimal && strpbrk(text, ".eE"))
        return json_real(strtod(text, NULL));
    return decimal || strncmp(text, "0x", 2) == 0 || strncmp(text, "0o", 2) == 0
               ? read_integer(text)
               : read_special(text);
}

static json_t *convert_scalar(const struct hd_node *node)
{
    json_t *word = node->quoted ? NULL : read_word(node);
    return word ? word : json_string(node->text);
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

/* Takes the quotes and the mark from special numbers, in place. */
static void write_constants(char *text)
{
    static const char begin[] = "\"\\u0001";
    for (char *at = text; (at = strstr(at, begin));) {
        char *end = strchr(at + sizeof begin - 1, '"');
        const size_t n = (size_t)(end - at) - (sizeof begin - 1);
        memmove(at, at + sizeof begin - 1, n);
        memmove(at + n, end + 1, strlen(end + 1) + 1);
        at += n;
    }
}

char *hd_node_build_json(const struct hd_node *node)
{
    json_t *json = convert(node);
    char *dumped = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;
    char *text = dumped ? hd_strdup(dumped) : NULL;
    if (text)
        write_constants(text);
    if (!dumped)
        hd_log(HD_LOG_ERROR, "no memory for a part of the configuration as JSON");
    free(dumped);
    json_decref(json);
    return text;
}
