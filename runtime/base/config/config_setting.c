/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/config/config_setting.h"

#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CHOICES = 32 };

static bool is_nothing(const struct hd_node *node)
{
    return node->kind == HD_NODE_SCALAR && !node->quoted && !node->text[0];
}

void hd_node_describe(const struct hd_node *node, char description[HD_DESCRIPTION_BYTES])
{
    const char *kind = node->kind == HD_NODE_LIST ? "a list" : "a map";
    if (node->kind == HD_NODE_SCALAR && !is_nothing(node))
        snprintf(description, HD_DESCRIPTION_BYTES, "%s'%.60s'",
                 node->quoted ? "the quoted text " : "", node->text);
    else
        snprintf(description, HD_DESCRIPTION_BYTES, "%s", is_nothing(node) ? "nothing" : kind);
}

static int reject(const struct hd_setting *setting, const struct hd_node *node,
                  struct hd_diag *diag)
{
    char expected[HD_DESCRIPTION_BYTES], found[HD_DESCRIPTION_BYTES];
    hd_key_describe(setting->key, expected);
    hd_node_describe(node, found);
    return hd_diag_add_error(diag, node->location, "%s: expected %s, found %s", setting->key->path,
                             expected, found);
}

/* -- Scalars ----------------------------------------------------------------------------------- */

static bool read_real(const struct hd_key *key, const struct hd_node *node, double *real_p)
{
    if (!hd_node_is_decimal(node))
        return false;
    double real = strtod(node->text, NULL);
    if (!isfinite(real) || real < key->min || real > key->max)
        return false;
    *real_p = real;
    return true;
}

static bool read_integer(const struct hd_key *key, const struct hd_node *node, int64_t *integer_p)
{
    if (!hd_node_is_decimal(node))
        return false;
    char *end;
    errno = 0;
    int64_t integer = strtoll(node->text, &end, 10);
    if (*end || errno) {
        double real = strtod(node->text, NULL);
        if (real != trunc(real) || fabs(real) >= 0x1p63)
            return false;
        integer = (int64_t)real;
    }
    if ((double)integer < key->min || (double)integer > key->max)
        return false;
    *integer_p = integer;
    return true;
}

static bool read_flag(const struct hd_node *node, bool *flag_p)
{
    if (node->kind != HD_NODE_SCALAR || node->quoted)
        return false;
    bool yes = !strcasecmp(node->text, "true"), no = !strcasecmp(node->text, "false");
    if (yes || no)
        *flag_p = yes;
    return yes || no;
}

static bool is_choice(const char *choices, const struct hd_node *node)
{
    return choices && node->kind == HD_NODE_SCALAR && hd_names_contain(choices, node->text);
}

static int reject_choice(const struct hd_setting *setting, const struct hd_node *node,
                         struct hd_diag *diag)
{
    char copy[HD_DESCRIPTION_BYTES], expected[HD_DESCRIPTION_BYTES];
    const char *names[MAX_CHOICES];
    int64_t count = 0;
    char *rest = NULL;
    if (node->kind != HD_NODE_SCALAR)
        return reject(setting, node, diag);
    snprintf(copy, sizeof copy, "%s", setting->key->choices);
    for (char *name = strtok_r(copy, "|", &rest); name && count < MAX_CHOICES;
         name = strtok_r(NULL, "|", &rest))
        names[count++] = name;
    const char *nearest = hd_find_nearest_name(node->text, names, count);
    if (!nearest)
        return reject(setting, node, diag);
    hd_key_describe(setting->key, expected);
    return hd_diag_add_error(diag, node->location,
                             "%s: expected %s, found '%.60s' (did you mean '%s'?)",
                             setting->key->path, expected, node->text, nearest);
}

static int read_list(struct hd_setting *setting, const struct hd_node *node, struct hd_diag *diag)
{
    bool one = node->kind == HD_NODE_SCALAR;
    int64_t count = one ? 1 : node->count;
    if (node->kind == HD_NODE_MAP || count == 0)
        return reject(setting, node, diag);
    int64_t *ints = hd_alloc(count, sizeof *ints);
    if (!ints)
        return HD_ERR_NOMEM;
    int status = HD_OK;
    for (int64_t i = 0; i < count; i++) {
        const struct hd_node *item = one ? node : node->items[i];
        if (!read_integer(setting->key, item, &ints[i]))
            status = reject(setting, item, diag);
    }
    if (status != HD_OK) {
        hd_free(ints);
        return status;
    }
    hd_free(setting->ints);
    setting->ints = ints;
    setting->count = count;
    return HD_OK;
}

static int read_shapes(struct hd_setting *setting, const struct hd_node *node, struct hd_diag *diag)
{
    int status = node->kind != HD_NODE_MAP ? read_list(setting, node, diag)
                 : node->count == 0        ? reject(setting, node, diag)
                                           : HD_OK;
    for (int64_t i = 0; status == HD_OK && node->kind == HD_NODE_MAP && i < node->count; i++)
        status = read_list(setting, node->items[i], diag);
    if (status == HD_OK && node->kind == HD_NODE_MAP)
        setting->count = 0;
    return status;
}

static int check_map(const struct hd_setting *setting, const struct hd_node *node,
                     struct hd_diag *diag)
{
    if (node->kind != HD_NODE_MAP)
        return reject(setting, node, diag);
    int status = HD_OK;
    for (int64_t i = 0; i < node->count; i++) {
        if (is_nothing(node->items[i]))
            status = hd_diag_add_error(diag, node->items[i]->location,
                                       "%s.%.60s: expected a value, found nothing",
                                       setting->key->path, node->keys[i]->text);
    }
    return status;
}

/* Names of files and of runs go to terminals. */
static int check_text(const struct hd_setting *setting, const struct hd_node *node,
                      struct hd_diag *diag)
{
    if (node->kind != HD_NODE_SCALAR || is_nothing(node))
        return reject(setting, node, diag);
    for (const char *c = node->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            return hd_diag_add_error(diag, node->location, "%s: holds the control character 0x%02x",
                                     setting->key->path, (unsigned char)*c);
    return HD_OK;
}

int hd_setting_read(struct hd_setting *setting, const struct hd_node *node, struct hd_diag *diag)
{
    const struct hd_key *key = setting->key;
    bool fits = true, is_word = false;
    int64_t integer = 0;
    switch (key->kind) {
    case HD_KEY_INT:
        is_word = is_choice(key->choices, node);
        fits = is_word || read_integer(key, node, &integer);
        break;
    case HD_KEY_REAL:
        fits = read_real(key, node, &setting->real);
        break;
    case HD_KEY_BOOL:
        fits = read_flag(node, &setting->flag);
        break;
    case HD_KEY_TEXT:
        HD_TRY(check_text(setting, node, diag));
        break;
    case HD_KEY_CHOICE:
        if (!is_choice(key->choices, node))
            return reject_choice(setting, node, diag);
        break;
    case HD_KEY_INT_LIST:
    case HD_KEY_SHAPES:
        is_word = is_choice(key->choices, node);
        if (!is_word)
            HD_TRY(key->kind == HD_KEY_SHAPES ? read_shapes(setting, node, diag)
                                              : read_list(setting, node, diag));
        break;
    case HD_KEY_TREE:
        break;
    case HD_KEY_MAP:
        HD_TRY(check_map(setting, node, diag));
        break;
    }
    if (!fits)
        return reject(setting, node, diag);
    setting->integer = integer;
    setting->word = is_word ? node->text : NULL;
    setting->node = node;
    return HD_OK;
}

void hd_setting_fini(struct hd_setting *setting)
{
    hd_free(setting->ints);
}

/* -- Hash -------------------------------------------------------------------------------------- */

static uint64_t hash_real(double real)
{
    uint64_t bits;
    real = real == 0 ? 0 : real; /* -0 equals 0 */
    memcpy(&bits, &real, sizeof bits);
    return bits;
}

static uint64_t hash_tree(const struct hd_node *node, bool ordered)
{
    uint64_t hash = (uint64_t)node->kind;
    if (node->kind == HD_NODE_SCALAR)
        return hd_node_is_decimal(node) ? hd_hash_mix(hash, hash_real(strtod(node->text, NULL)))
                                        : hd_hash_text(node->text);
    for (int64_t i = 0; i < node->count; i++) {
        uint64_t item = hash_tree(node->items[i], ordered);
        if (node->kind == HD_NODE_MAP)
            item = hd_hash_mix(hd_hash_text(node->keys[i]->text), item);
        /* A sum where the order of a map's keys has no meaning. */
        hash = node->kind == HD_NODE_MAP && !ordered ? hash + item : hd_hash_mix(hash, item);
    }
    return hash;
}

uint64_t hd_setting_hash(const struct hd_setting *setting)
{
    uint64_t hash = 0;
    switch (setting->key->kind) {
    case HD_KEY_INT:
        return setting->word ? hd_hash_text(setting->word)
                             : hd_hash_mix(0, (uint64_t)setting->integer);
    case HD_KEY_REAL:
        return hash_real(setting->real);
    case HD_KEY_BOOL:
        return setting->flag;
    case HD_KEY_TEXT:
    case HD_KEY_CHOICE:
        return hd_hash_text(setting->node->text);
    case HD_KEY_INT_LIST:
    case HD_KEY_SHAPES:
        if (setting->word)
            return hd_hash_text(setting->word);
        if (setting->node->kind == HD_NODE_MAP)
            return hash_tree(setting->node, true);
        for (int64_t i = 0; i < setting->count; i++)
            hash = hd_hash_mix(hash, (uint64_t)setting->ints[i]);
        return hash;
    case HD_KEY_TREE:
    case HD_KEY_MAP:
        return hash_tree(setting->node, setting->key->min == 1);
    }
    return hash;
}
