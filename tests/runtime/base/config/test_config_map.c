/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration keys that are maps of any names or of shapes, and trees as JSON. */
#include "runtime/base/alloc.h"
#include "runtime/base/config/config.h"
#include "runtime/base/config/node_json.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

static const struct hd_key keys[] = {
    {.path = "env.type", .kind = HD_KEY_TEXT, .initial = "pong", .help = "Env."},
    {.path = "env.options", .kind = HD_KEY_MAP, .initial = "{}", .help = "Options."},
    {.path = "env.colours", .kind = HD_KEY_MAP, .help = "Must be given."},
    {.path = "obs.shape",
     .kind = HD_KEY_SHAPES,
     .min = 1,
     .max = 99,
     .initial = "auto",
     .choices = "auto",
     .help = "Shapes."},
    {.path = NULL},
};
static const struct hd_key *const schema[] = {keys};

static struct hd_diag *diag;

static void setup(void)
{
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
}

static void teardown(void)
{
    hd_diag_destroy(diag);
}

static int create(const char *text, const char *const *sets, int n, struct hd_config **config_p)
{
    struct hd_document *document;
    ck_assert_int_eq(hd_document_parse("c.yaml", text, (int64_t)strlen(text), diag, &document),
                     HD_OK);
    struct hd_set given[8] = {{NULL, NULL}};
    for (int i = 0; i < n; i++)
        given[i].text = sets[i];
    int status = hd_config_create(schema, 1, document, given, n, diag, config_p);
    if (status != HD_OK)
        hd_document_destroy(document);
    return status;
}

static struct hd_config *good(const char *text, const char *const *sets, int n)
{
    struct hd_config *config = NULL;
    ck_assert_msg(create(text, sets, n, &config) == HD_OK, "%s", hd_diag_get_line(diag, 0));
    return config;
}

/* Returns the text of options.<name>, "" when there is none. */
static const char *option(const struct hd_config *config, const char *name)
{
    const struct hd_node *node = hd_node_get(hd_config_get_node(config, "env.options"), name);
    return node ? node->text : "";
}

FIXTURE(setup, teardown)

/* In an expression a map is how many values it has, and who peeks does not use it. */
TEST(a_map_is_a_number)
{
    struct hd_config *config = good("env: {colours: {a: 1}, options: {x: 1, y: [2, 3]}}", NULL, 0);
    const char *nearest = NULL;
    double value;
    ck_assert_int_eq(hd_config_peek_node(config, "env.options")->count, 2);
    hd_config_report_unused(config, "a test", diag);
    ck_assert_int_eq(hd_diag_count(diag), 2);
    ck_assert(hd_config_find_number(config, "env.options", &value, &nearest) && value == 2);
    hd_config_destroy(config);
    config = good("env: {colours: {a: 1}}", NULL, 0);
    ck_assert(hd_config_find_number(config, "env.options", &value, &nearest) && value == 0);
    hd_config_destroy(config);
}

TEST(test_sets_add)
{
    static const char *const sets[] = {"env.options.lives=5", "env.options.sound=false",
                                       "env.colours.ball=white"};
    struct hd_config *config = good("env: {options: {mode: fast, lives: 3}}", sets, 3);
    ck_assert_int_eq(hd_config_get_node(config, "env.options")->count, 3);
    ck_assert_str_eq(option(config, "mode"), "fast");
    ck_assert_str_eq(option(config, "lives"), "5");
    ck_assert_str_eq(option(config, "sound"), "false");
    hd_config_destroy(config);
}

TEST(test_sets_replace)
{
    static const char *const sets[] = {"env.options={a: 1}", "env.options.b=2"};
    struct hd_config *config = good("env: {colours: {}, options: {mode: fast}}", sets, 2);
    ck_assert_int_eq(hd_config_get_node(config, "env.options")->count, 2);
    ck_assert_str_eq(option(config, "mode"), "");
    ck_assert_str_eq(option(config, "a"), "1");
    hd_config_destroy(config);
}

TEST(test_default)
{
    struct hd_config *config = good("env: {colours: {}}", NULL, 0);
    ck_assert_int_eq(hd_config_get_node(config, "env.options")->count, 0);
    hd_config_destroy(config);
    config = good("env: {colours: {}, options: }", NULL, 0);
    ck_assert_int_eq(hd_config_get_node(config, "env.options")->count, 0);
    hd_config_destroy(config);
}

/* The dump reads back; the hash is of the content, whatever its order. */
TEST(test_dump_and_hash)
{
    static const char *const sets[] = {"env.options.lives=5"};
    struct hd_config *config = good("env: {colours: {}, options: {mode: fast}}", sets, 1);
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(hd_config_dump(config, NULL, 0, file), HD_OK);
    fclose(file);
    struct hd_config *again = good(text, NULL, 0);
    struct hd_config *turned = good("env: {colours: {}, options: {lives: 5, mode: fast}}", NULL, 0);
    struct hd_config *other = good("env: {colours: {}, options: {lives: 4, mode: fast}}", NULL, 0);
    const uint64_t hash = hd_config_hash(config, NULL, 0);
    ck_assert_uint_eq(hd_config_hash(again, NULL, 0), hash);
    ck_assert_uint_eq(hd_config_hash(turned, NULL, 0), hash);
    ck_assert_uint_ne(hd_config_hash(other, NULL, 0), hash);
    free(text);
    hd_config_destroy(again);
    hd_config_destroy(turned);
    hd_config_destroy(other);
    hd_config_destroy(config);
}

/* A shape, a map of shapes, whose order counts, or the word; each replaces the other. */
TEST(test_shapes)
{
    static const char *const forms[] = {"obs.shape=auto", "obs.shape=[4, 8]", "obs.shape=7",
                                        "obs.shape={a: [4, 8], b.c: 7}",
                                        "obs.shape={b.c: 7, a: [4, 8]}"};
    uint64_t hashes[5];
    for (int i = 0; i < 5; i++) {
        int64_t n;
        struct hd_config *config = good("env: {colours: {}}\nobs: {shape: {x: 3}}", &forms[i], 1);
        const int64_t *ints = hd_config_get_ints(config, "obs.shape", &n);
        const struct hd_node *map = hd_config_get_shapes(config, "obs.shape");
        ck_assert(!!hd_config_get_word(config, "obs.shape") == (i == 0));
        ck_assert(!!map == (i >= 3) && (!map || map->count == 2));
        if (i == 1 || i == 2)
            ck_assert(n == (i == 1 ? 2 : 1) && ints[n - 1] == (i == 1 ? 8 : 7));
        else
            ck_assert(i == 0 || n == 0);
        hashes[i] = hd_config_hash(config, NULL, 0);
        for (int k = 0; k < i; k++)
            ck_assert_uint_ne(hashes[k], hashes[i]);
        hd_config_destroy(config);
    }
}

/* Values may be trees; as JSON, scalars without quotes are what they read as. */
TEST(test_json)
{
    static const char *const sets[] = {
        "env.options.list=[1, 2.5, \"3\", -4e3, 1., +1, 007, .5, 0x1F, 0o17, "
        "-.inf, .nan, True, FALSE, \"True\", 1.2.3, 99999999999999999999]"};
    struct hd_config *config = good("env: {colours: {}, options: {map: {a: true, b: [x, ~, null], "
                                    "'c d': {}, e: 'say \"no\"', f: }}}",
                                    sets, 1);
    const struct hd_node *options = hd_config_get_node(config, "env.options");
    char *map = hd_node_build_json(hd_node_get(options, "map"));
    char *list = hd_node_build_json(hd_node_get(options, "list"));
    ck_assert_str_eq(map, "{\"a\": true, \"b\": [\"x\", null, null], \"c d\": {}, "
                          "\"e\": \"say \\\"no\\\"\", \"f\": null}");
    ck_assert_str_eq(list, "[1, 2.5, \"3\", -4000.0, 1.0, 1, 7, 0.5, 31, 15, -Infinity, NaN, true, "
                           "false, \"True\", \"1.2.3\", \"99999999999999999999\"]");
    hd_free(map);
    hd_free(list);
    hd_config_destroy(config);
}

static const struct {
    const char *text, *set, *names;
} bad[] = {
    {"env: {colours: 5}", NULL, "c.yaml:1:16: env.colours|a map|found '5'"},
    {"env: {type: a}", NULL, "c.yaml: |'env.colours'|a map"},
    {"env: {colours: {a: }}", NULL, "c.yaml:1:20: env.colours.a|found nothing"},
    {"env: {colours: {}}", "env.options=5", "--set:1:13: env.options|a map|found '5'"},
    {"env: {colours: {}}", "env.options.=1", "--set:1:13: |name"},
    {"env: {colours: {}}", "obs.shape={}", "--set:1:11: obs.shape|a map of these|found a map"},
    {"env: {colours: {}}", "obs.shape={a: [1, 100]}", "--set:1:19: |found '100'"},
    {"env: {colours: {}}", "obs.shape={a: {b: 1}}", "--set:1:15: |found a map"},
};

TEST(test_bad, .runs = COUNT(bad))
{
    struct hd_config *config = NULL;
    ck_assert_int_eq(create(bad[_i].text, &bad[_i].set, bad[_i].set != NULL, &config),
                     HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 1);
    check_names(hd_diag_get_line(diag, 0), bad[_i].names);
}
