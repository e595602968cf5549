/* SPDX-License-Identifier: Apache-2.0 */
/* Tests typed configurations: precedence, every kind's checks with exact locations, --sets inside
 * trees. */
#include "runtime/base/alloc.h"
#include "tests/runtime/base/config/config_fixture.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* -- Values ------------------------------------------------------------------------------------ */

TEST(test_defaults)
{
    int64_t count;
    struct hd_config *config = good(NULL, SETS("env.type=pong"));
    ck_assert_str_eq(hd_config_get_text(config, "exp_name"), "run");
    ck_assert_str_eq(hd_config_get_text(config, "note"), "");
    ck_assert_int_eq(hd_config_get_int(config, "seed"), 0);
    ck_assert_str_eq(hd_config_get_word(config, "world.shards"), "auto");
    ck_assert_double_eq(hd_config_get_real(config, "env.stop_value"), 195);
    ck_assert(hd_config_get_bool(config, "policy.multi_gpu"));
    const int64_t *hidden = hd_config_get_ints(config, "policy.model.hidden", &count);
    ck_assert_int_eq(count, 2);
    ck_assert_int_eq(hidden[0], 128);
    ck_assert_int_eq(hidden[1], 64);
    ck_assert_ptr_null(hd_config_get_node(config, "seed"));
    ck_assert_ptr_null(hd_config_get_node(config, "strategy"));
    ck_assert_str_eq(hd_config_get_node(config, "graph")->text, "graphs/dqn.yaml");
    hd_config_destroy(config);
    hd_config_destroy(NULL);
}

TEST(test_precedence)
{
    struct hd_config *config = good(
        "seed: 1\nexp_name: file\nenv: {type: cartpole}\nworld: {shards: 4}\n"
        "policy:\n  learn: {batch_size: 32, learning_rate: 0.5}\n",
        SETS("policy.learn.batch_size=16", "seed=2", "seed=3", "world={shards: auto, order: 7}"));
    ck_assert_int_eq(hd_config_get_int(config, "seed"), 3);
    ck_assert_str_eq(hd_config_get_text(config, "exp_name"), "file");
    ck_assert_int_eq(hd_config_get_int(config, "policy.learn.batch_size"), 16);
    ck_assert_double_eq(hd_config_get_real(config, "policy.learn.learning_rate"), 0.5);
    ck_assert_str_eq(hd_config_get_word(config, "world.shards"), "auto");
    ck_assert_ptr_null(hd_config_get_word(config, "world.order"));
    ck_assert_int_eq(hd_config_get_int(config, "world.order"), 7);
    const struct hd_node *node = hd_config_get_node(config, "seed");
    ck_assert_str_eq(node->location.file, "--set");
    ck_assert_int_eq(node->location.line, 3);
    ck_assert_int_eq(node->location.column, 6);
    ck_assert_int_eq(hd_config_get_node(config, "exp_name")->location.line, 2);
    hd_config_destroy(config);
}

TEST(test_sections_may_be_empty)
{
    struct hd_config *config =
        good("policy:\n  learn:\nstrategy:\nenv: {type: pong}\n", SETS("policy="));
    ck_assert_int_eq(hd_config_get_int(config, "policy.learn.batch_size"), 64);
    ck_assert_ptr_null(hd_config_get_node(config, "strategy"));
    hd_config_destroy(config);
}

static const struct {
    const char *text;
    int64_t value;
} integers[] = {
    {"7", 7},
    {"-7", -7},
    {"+7", 7},
    {"010", 10},
    {"1e6", 1000000},
    {"2.5e1", 25},
    {"64.0", 64},
    {"9223372036854775807", INT64_MAX},
    {"-9223372036854775808", INT64_MIN},
    {"1e18", 1000000000000000000},
    {"-0", 0},
};

TEST(test_integers, .runs = COUNT(integers))
{
    char set[64];
    snprintf(set, sizeof set, "seed=%s", integers[_i].text);
    struct hd_config *config = good("env: {type: pong}", SETS(set));
    ck_assert_int_eq(hd_config_get_int(config, "seed"), integers[_i].value);
    hd_config_destroy(config);
}

static const struct {
    const char *text;
    double value;
} reals[] = {{"1", 1},       {"-1.5", -1.5},  {".5", 0.5},         {"5.", 5},
             {"1e-3", 1e-3}, {"1E+2", 100},   {"0.1", 0.1},        {"-0.0", 0},
             {"1e-999", 0},  {"+3.25", 3.25}, {"179e306", 179e306}};

TEST(test_reals, .runs = COUNT(reals))
{
    char set[64];
    snprintf(set, sizeof set, "env.stop_value=%s", reals[_i].text);
    struct hd_config *config = good("env: {type: pong}", SETS(set));
    ck_assert_double_eq(hd_config_get_real(config, "env.stop_value"), reals[_i].value);
    hd_config_destroy(config);
}

TEST(test_other_values)
{
    int64_t count;
    struct hd_config *config =
        good("env: {type: 'pong'}\npolicy: {multi_gpu: False, model: {hidden: 1e2}}\n"
             "exp_name: 5\nnote: a=b\n",
             SETS("note=a=b"));
    ck_assert(!hd_config_get_bool(config, "policy.multi_gpu"));
    ck_assert_str_eq(hd_config_get_text(config, "env.type"), "pong");
    ck_assert_str_eq(hd_config_get_text(config, "exp_name"), "5");
    ck_assert_str_eq(hd_config_get_text(config, "note"), "a=b");
    ck_assert_int_eq(hd_config_get_ints(config, "policy.model.hidden", &count)[0], 100);
    ck_assert_int_eq(count, 1);
    hd_config_destroy(config);
}

TEST(test_numbers_for_expressions)
{
    struct hd_config *config = good("env: {type: pong}", SETS("seed=5", "world.order=3"));
    double value = -1;
    const char *nearest = "untouched";
    ck_assert(hd_config_find_number(config, "seed", &value, &nearest));
    ck_assert_double_eq(value, 5);
    ck_assert(hd_config_find_number(config, "env.stop_value", &value, &nearest));
    ck_assert_double_eq(value, 195);
    ck_assert(hd_config_find_number(config, "policy.multi_gpu", &value, &nearest));
    ck_assert_double_eq(value, 1);
    ck_assert(hd_config_find_number(config, "world.order", &value, &nearest));
    ck_assert_double_eq(value, 3);
    ck_assert_str_eq(nearest, "untouched");
    value = 42;
    ck_assert(!hd_config_find_number(config, "world.shards", &value, &nearest)); /* auto */
    ck_assert_ptr_null(nearest);
    ck_assert(!hd_config_find_number(config, "exp_name", &value, &nearest));
    ck_assert_ptr_null(nearest);
    ck_assert(!hd_config_find_number(config, "env.stopvalue", &value, &nearest));
    ck_assert_str_eq(nearest, "env.stop_value");
    ck_assert(!hd_config_find_number(config, "qqqqqqqqqqqqqqq", &value, &nearest));
    ck_assert_ptr_null(nearest);
    ck_assert_double_eq(value, 42);
    hd_config_destroy(config);
}

TEST(test_unknown_path_aborts, .signal = SIGABRT)
{
    hd_config_get_int(good("env: {type: pong}", NULL), "sed");
}

TEST(test_wrong_kind_aborts, .signal = SIGABRT)
{
    hd_config_get_real(good("env: {type: pong}", NULL), "seed");
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static const char batch[] = "policy.learn.batch_size|an integer in [1, 1000000]";

static const struct {
    const char *text; /* "env: {type: pong}" is put before it */
    const char *sets[MAX_SETS];
    const char *place, *names;
} bad[] = {
    {"polcy: 1", {0}, "c.yaml:2:1", "'polcy'|'policy'?"},
    {"policy: {learn: {batchsize: 1}}", {0}, "c.yaml:2:18", "'batchsize'|'batch_size'?"},
    {"batch_size: 1", {0}, "c.yaml:2:1", "'batch_size'|'policy.learn.batch_size'?"},
    {"policy: {xyzzy: 1}", {0}, "c.yaml:2:10", "'xyzzy'|multi_gpu, model, learn"},
    {"policy.multi_gpu: true", {0}, "c.yaml:2:1", "key 'policy.multi_gpu'"},
    {"policy: 5", {0}, "c.yaml:2:9", "policy|a map|found '5'"},
    {"policy: [a]", {0}, "c.yaml:2:9", "policy|a map|found a list"},
    {"policy:\n  learn:\n    batch_size: abc", {0}, "c.yaml:4:17", batch},
    {"policy: {learn: {batch_size: abc}}", {0}, "c.yaml:2:30", "found 'abc'"},
    {"policy: {learn: {batch_size: 0}}", {0}, "c.yaml:2:30", "found '0'"},
    {"policy: {learn: {batch_size: 1000001}}", {0}, "c.yaml:2:30", "found '1000001'"},
    {"policy: {learn: {batch_size: 1.5}}", {0}, "c.yaml:2:30", "found '1.5'"},
    {"policy: {learn: {batch_size: 1_000}}", {0}, "c.yaml:2:30", "found '1_000'"},
    {"exp_name: \"a\\e]0;x\"", {0}, "c.yaml:2:11", "exp_name|control character 0x1b"},
    {"policy: {learn: {batch_size: 0x10}}", {0}, "c.yaml:2:30", "found '0x10'"},
    {"policy: {learn: {batch_size: '64'}}", {0}, "c.yaml:2:30", "found the quoted text '64'"},
    {"policy: {learn: {batch_size: ~}}", {0}, "c.yaml:2:30", "found '~'"},
    {"policy: {learn: {batch_size: }}", {0}, "c.yaml:2:30", "found nothing"},
    {"policy: {learn: {batch_size: [64]}}", {0}, "c.yaml:2:30", "found a list"},
    {"policy: {learn: {batch_size: {a: 1}}}", {0}, "c.yaml:2:30", "found a map"},
    {"policy: {learn: {batch_size: 1e99}}", {0}, "c.yaml:2:30", "found '1e99'"},
    {"policy: {learn: {batch_size: 1e}}", {0}, "c.yaml:2:30", "found '1e'"},
    {"seed: 9223372036854775808", {0}, "c.yaml:2:7", "seed|an integer|found '9223372036854775808'"},
    {"seed: 1e19", {0}, "c.yaml:2:7", "seed|an integer|found '1e19'"},
    {"seed: .inf", {0}, "c.yaml:2:7", "seed|an integer|found '.inf'"},
    {"env: {stop_value: 1}", {0}, "c.yaml:2:1", "duplicate key 'env'"},
    {"policy: {learn: {learning_rate: 1.01}}", {0}, "c.yaml:2:33", "number in [0, 1]|found '1.01'"},
    {"policy: {learn: {clip: .nan}}", {0}, "c.yaml:2:24", "number >= 0|found '.nan'"},
    {"policy: {learn: {clip: inf}}", {0}, "c.yaml:2:24", "found 'inf'"},
    {"policy: {learn: {clip: 1e999}}", {0}, "c.yaml:2:24", "found '1e999'"},
    {"policy: {learn: {clip: -1e999}}", {0}, "c.yaml:2:24", "found '-1e999'"},
    {"policy: {learn: {clip: 1 2}}", {0}, "c.yaml:2:24", "found '1 2'"},
    {"policy: {multi_gpu: yes}", {0}, "c.yaml:2:21", "true|false|found 'yes'"},
    {"policy: {multi_gpu: 1}", {0}, "c.yaml:2:21", "true|false|found '1'"},
    {"policy: {model: {hidden: []}}", {0}, "c.yaml:2:26", "found a list"},
    {"policy: {model: {hidden: [64, x]}}",
     {0},
     "c.yaml:2:31",
     "list of integers|[1, 4096]|found 'x'"},
    {"policy: {model: {hidden: [64, 0]}}", {0}, "c.yaml:2:31", "found '0'"},
    {"policy: {model: {hidden: [[64]]}}", {0}, "c.yaml:2:27", "found a list"},
    {"policy: {model: {hidden: {a: 1}}}", {0}, "c.yaml:2:26", "found a map"},
    {"exp_name:", {0}, "c.yaml:2:10", "exp_name|a text|found nothing"},
    {"exp_name: [a]", {0}, "c.yaml:2:11", "exp_name|a text|found a list"},
    {"world: {shards: aut}", {0}, "c.yaml:2:17", "[1, 1024]|auto"},
    {"world: {order: aside}", {0}, "c.yaml:2:16", ">= 0|up, down|found 'aside'"},
    {"", {"env.type=pongg"}, "--set:1:10", "env.type|cartpole, pong|found 'pongg'|'pong'?"},
    {"", {"env.type=breakout"}, "--set:1:10", "env.type|cartpole, pong|found 'breakout'"},
    {"", {"seed"}, "--set:1:1", "key=value|found 'seed'"},
    {"", {"seed=1", "polcy.learn=1"}, "--set:2:1", "'policy'?"},
    {"", {"policy.lern.clip=1"}, "--set:1:8", "'lern'|'learn'?"},
    {"", {"policy.learn.clp=1"}, "--set:1:14", "'clp'|'clip'?"},
    {"", {"policy.learn.clip.x=1"}, "--set:1:19", "'policy.learn.clip'"},
    {"", {"policy..clip=1"}, "--set:1:8", "name"},
    {"", {"policy.=1"}, "--set:1:8", "name"},
    {"", {"=1"}, "--set:1:1", "name"},
    {"", {""}, "--set:1:1", "key=value|found ''"},
    {"", {"policy.learn=5"}, "--set:1:14", "learn|a map|found '5'"},
    {"", {"policy.learn={clip: 1, clpi: 2}"}, "--set:1:24", "'clip'?"},
    {"", {"seed=[1"}, "--set:1:8", "','|']'"},
    {"", {"seed=1\n---\n2"}, "--set:1:8", "second document"},
    {"", {"seed=*x"}, "--set:1:6", "'&x'"},
    {"", {"policy.model.hidden=[1, two]"}, "--set:1:25", "found 'two'"},
};

TEST(test_bad, .runs = COUNT(bad))
{
    char text[256];
    struct hd_config *config = NULL;
    snprintf(text, sizeof text, "env: {type: pong}\n%s\n", bad[_i].text);
    ck_assert_int_eq(create(text, bad[_i].sets, &config), HD_ERR_INPUT);
    ck_assert_ptr_null(config);
    ck_assert_int_eq(hd_diag_count(diag), 1);
    const char *line = hd_diag_get_line(diag, 0);
    size_t length = strlen(bad[_i].place);
    ck_assert_msg(!strncmp(line, bad[_i].place, length) && line[length] == ':',
                  "expected %s, got %s", bad[_i].place, line);
    check_names(line, bad[_i].names);
}

TEST(test_root_is_no_map)
{
    struct hd_config *config;
    ck_assert_int_eq(create("- a", SETS("env.type=pong"), &config), HD_ERR_INPUT);
    check_names(hd_diag_get_line(diag, 0), "c.yaml:1:1: |a map|found a list");
}

TEST(test_required)
{
    struct hd_config *config;
    ck_assert_int_eq(create("seed: 1", NULL, &config), HD_ERR_INPUT);
    ck_assert_int_eq(create(NULL, NULL, &config), HD_ERR_INPUT);
    ck_assert_int_eq(create("env: {type: }", NULL, &config), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 3);
    check_names(hd_diag_get_line(diag, 0), "--set: |'env.type'|cartpole, pong");
    check_names(hd_diag_get_line(diag, 1), "c.yaml: |'env.type'|cartpole, pong");
    check_names(hd_diag_get_line(diag, 2), "c.yaml:1:13: env.type");
}

TEST(test_several_at_once)
{
    static const char *const expected[] = {
        "--set:1:7: |'sharts'|'shards'?",
        "--set:3:6: seed|found 'x'",
        "c.yaml: |'env.type'|cartpole, pong",
        "c.yaml:1:1: |'polcy'|'policy'?",
        "c.yaml:3:15: policy.multi_gpu|found 'maybe'",
        "c.yaml:3:22: |'modle'|'model'?",
    };
    struct hd_config *config;
    ck_assert_int_eq(create("polcy: 1\npolicy:\n"
                            "  {multi_gpu: maybe, modle: 3}\n",
                            SETS("world.sharts=1", "seed=1", "seed=x"), &config),
                     HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(diag), 6);
    for (int i = 0; i < 6; i++)
        check_names(hd_diag_get_line(diag, i), expected[i]);
}

static void check_schema_rejected(const struct hd_key *keys, const char *names)
{
    struct hd_config *config = NULL;
    ck_assert_int_eq(hd_config_create(&keys, 1, NULL, NULL, 0, diag, &config), HD_ERR_INPUT);
    ck_assert_ptr_null(config);
    check_names(hd_diag_get_line(diag, 0), names);
}

TEST(test_schema_twice)
{
    static const struct hd_key keys[] = {{.path = "a.b", .kind = HD_KEY_TEXT, .initial = "x"},
                                         {.path = "a.b", .kind = HD_KEY_TEXT, .initial = "y"},
                                         {.path = NULL}};
    check_schema_rejected(keys, "schema: 'a.b'");
}

TEST(test_schema_key_in_key)
{
    static const struct hd_key keys[] = {{.path = "a", .kind = HD_KEY_TEXT, .initial = "x"},
                                         {.path = "a.b", .kind = HD_KEY_TEXT, .initial = "y"},
                                         {.path = NULL}};
    check_schema_rejected(keys, "schema: 'a.b'");
}

TEST(test_schema_default_out_of_range)
{
    static const struct hd_key keys[] = {{.path = "a", INT_RANGE(1, 2), .initial = "3"},
                                         {.path = NULL}};
    check_schema_rejected(keys, "schema: a: |[1, 2]|found '3'");
}

/* -- Trees and changes at start ---------------------------------------------------------------- */

TEST(test_inner_sets)
{
    struct hd_config *config =
        good("env: {type: pong}\nstrategy: {policy_lag: 0}\n",
             SETS("strategy.policy_lag=1", "seed=1", "strategy.a.b=[1, 2]", "graph.x=y"));
    const struct hd_node *value = NULL,
                         *name = hd_config_get_inner_set(config, "strategy", 0, &value);
    ck_assert_str_eq(name->text, "policy_lag");
    ck_assert_int_eq(name->location.line, 1);
    ck_assert_int_eq(name->location.column, 10);
    ck_assert_str_eq(value->text, "1");
    ck_assert_int_eq(value->location.column, 21);
    name = hd_config_get_inner_set(config, "strategy", 1, &value);
    ck_assert_str_eq(name->text, "a.b");
    ck_assert_int_eq(name->location.line, 3);
    ck_assert_int_eq(value->count, 2);
    ck_assert_ptr_null(hd_config_get_inner_set(config, "strategy", 2, &value));
    ck_assert_str_eq(hd_config_get_inner_set(config, "graph", 0, &value)->text, "x");
    ck_assert_ptr_null(hd_config_get_inner_set(config, "graph", 1, &value));
    ck_assert_ptr_nonnull(hd_node_get(hd_config_get_node(config, "strategy"), "policy_lag"));

    struct hd_document *document;
    ck_assert_int_eq(hd_document_parse("s.yaml", "{lag: 2}", 8, diag, &document), HD_OK);
    ck_assert_int_eq(hd_config_override_tree(config, "strategy", hd_document_get_root(document)),
                     HD_OK);
    hd_document_destroy(document);
    ck_assert_ptr_null(hd_config_get_inner_set(config, "strategy", 0, &value));
    ck_assert_str_eq(hd_config_get_inner_set(config, "graph", 0, &value)->text, "x");
    const struct hd_node *tree = hd_config_get_node(config, "strategy");
    ck_assert_str_eq(hd_node_get(tree, "lag")->text, "2");
    ck_assert_str_eq(hd_node_get(tree, "lag")->location.file, "s.yaml");
    hd_config_destroy(config);
}

static char last_log[512];

static void keep_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    (void)arg;
    snprintf(last_log, sizeof last_log, "%s", line);
}

TEST(test_override)
{
    struct hd_config *config = good("env: {type: pong}", NULL);
    ck_assert_int_eq(hd_config_override(config, "world.shards", "4"), HD_OK);
    ck_assert_int_eq(hd_config_get_int(config, "world.shards"), 4);
    ck_assert_ptr_null(hd_config_get_word(config, "world.shards"));
    hd_log_set_sink(keep_line, NULL);
    ck_assert_int_eq(hd_config_override(config, "world.shards", "0"), HD_ERR_INPUT);
    check_names(last_log, "error: |world.shards|[1, 1024]|auto|found '0'");
    ck_assert_int_eq(hd_config_get_int(config, "world.shards"), 4);
    hd_config_destroy(config);
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* Fails the n-th allocation for n = 1, 2, … until none is left to fail; returns that n. A mistake
 * that could not be kept for want of memory is a mistake all the same. */
static int64_t fail_each(const char *text, const char *const sets[MAX_SETS], int final_status)
{
    for (int64_t n = 1; n < 10000; n++) {
        struct hd_config *config = NULL;
        teardown();
        setup();
        hd_alloc_fail_nth(n);
        int status = create(text, sets, &config);
        char *probe = hd_strdup("x");
        bool failed = probe != NULL; /* else the n-th allocation is still to come */
        hd_free(probe);
        hd_alloc_fail_nth(0);
        hd_config_destroy(config);
        if (!failed) {
            ck_assert_int_eq(status, final_status);
            return n;
        }
        ck_assert(status == HD_ERR_NOMEM || (status == HD_ERR_INPUT && final_status != HD_OK));
    }
    return -1;
}

TEST(test_every_allocation_may_fail)
{
    hd_log_set_sink(drop_line, NULL);
    int64_t n =
        fail_each("env: {type: pong}\npolicy: {model: {hidden: [1, 2]}, learn: {clip: 3}}\n",
                  SETS("strategy.x=1", "policy.learn.batch_size=5", "graph={a: [b]}"), HD_OK);
    ck_assert_int_ge(n, 20);
}

TEST(test_every_allocation_may_fail_amid_mistakes)
{
    hd_log_set_sink(drop_line, NULL);
    int64_t n =
        fail_each("env: {type: pog}\npolcy: 1\n", SETS("seed=x", "polic.x=1"), HD_ERR_INPUT);
    ck_assert_int_ge(n, 20);
}
