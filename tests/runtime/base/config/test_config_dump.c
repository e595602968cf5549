/* SPDX-License-Identifier: Apache-2.0 */
/* Tests what a configuration writes of itself: effective dumps that read back, hashes, the schema.
 */
#include "runtime/base/alloc.h"
#include "tests/runtime/base/config/config_fixture.h"

#include <stdlib.h>

static char *dumped(const struct hd_config *config)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    ck_assert_int_eq(hd_config_dump(config, NULL, 0, file), HD_OK);
    fclose(file);
    return text;
}

TEST(test_dump_text)
{
    static const char expected[] = "exp_name: x\n"
                                   "note: \"\"\n"
                                   "seed: 1e3\n"
                                   "graph:\n"
                                   "  values:\n"
                                   "    a: {type: params}\n"
                                   "  iteration:\n"
                                   "    - mean:\n"
                                   "        reads: [a]\n"
                                   "strategy:\n"
                                   "world: {shards: auto, order: up}\n"
                                   "env: {type: pong, stop_value: 195}\n"
                                   "policy:\n"
                                   "  multi_gpu: true\n"
                                   "  model:\n"
                                   "    hidden: [3]\n"
                                   "  learn:\n"
                                   "    batch_size: 32  # per shard\n"
                                   "    learning_rate: 1.0e-03\n"
                                   "    clip: 1e1\n";
    struct hd_config *config =
        good("policy: {learn: {learning_rate: 1.0e-03, batch_size: 32}, model: {hidden: [3]}}\n"
             "seed: 1e3\nexp_name: x\nenv: {type: pong}\n"
             "graph: {values: {a: {type: params}}, iteration: [{mean: {reads: [a]}}]}\n",
             NULL);
    char *text = dumped(config);
    ck_assert_str_eq(text, expected);
    free(text);
    hd_config_destroy(config);
}

static const struct {
    const char *sets[MAX_SETS];
} round_trips[] = {
    {{0}},
    {{"seed=-9223372036854775808", "env.stop_value=0.1000000000000000055"}},
    {{"note='it''s: #1 \"x\"'", "strategy={a: \"tab\\t\\u00e4\\n\\\\\"}"}},
    {{"note='  '", "exp_name='5'", "graph=\"5\""}},
    {{"strategy={a: {b: [1, {c: 'd'}], e: }, f: [[], {}]}", "graph=[x, [y, z], ~]"}},
    {{"world.shards=1e1", "world.order=down", "policy.model.hidden=[1, 2.0, 3e0]"}},
    {{"policy.learn={clip: 3.14159265358979, batch_size: 5}", "policy.multi_gpu=FALSE"}},
    {{"policy.model.hidden=7", "exp_name='- b'"}},
};

TEST(test_dump_reads_back, .runs = COUNT(round_trips))
{
    struct hd_config *first = good("env: {type: pong}", round_trips[_i].sets);
    char *text = dumped(first);
    struct hd_config *second = good(text, NULL);
    ck_assert_uint_eq(hd_config_hash(first, NULL, 0), hd_config_hash(second, NULL, 0));
    ck_assert_str_eq(hd_config_get_text(first, "note"), hd_config_get_text(second, "note"));
    ck_assert_str_eq(hd_config_get_text(first, "exp_name"), hd_config_get_text(second, "exp_name"));
    char *again = dumped(second);
    ck_assert_str_eq(text, again);
    free(again);
    free(text);
    hd_config_destroy(second);
    hd_config_destroy(first);
}

static uint64_t hash_of(const char *text, const char *const *without, int n)
{
    struct hd_config *config = good(text, NULL);
    uint64_t hash = hd_config_hash(config, without, n);
    hd_config_destroy(config);
    return hash;
}

TEST(test_hash_ignores_order_and_spelling)
{
    uint64_t hash = hash_of("env: {type: pong, stop_value: 10}\nseed: 1000\nexp_name: a\n"
                            "policy: {learn: {clip: 0}, model: {hidden: [8]}}\n"
                            "strategy: {x: 1, y: [2, 3]}\n",
                            NULL, 0);
    ck_assert_uint_eq(hash, hash_of("exp_name: 'a'\nseed: 1e3\n"
                                    "strategy: {y: [2.0, 3], x: 1}\n"
                                    "policy: {model: {hidden: 8.0}, learn: {clip: -0.0}}\n"
                                    "env: {stop_value: 1.0e1, type: \"pong\"}\n"
                                    "note: ''\n",
                                    NULL, 0));
}

/* The hash shows every key that differs, except those left out. */
TEST(test_hash_differs_with_values)
{
    static const char *const texts[] = {
        "seed: 0",
        "seed: 1",
        "exp_name: x",
        "note: run",
        "graph: x",
        "strategy: {x: [1, 2]}",
        "strategy: {x: [2, 1]}",
        "strategy: {x: 1, y: 2}",
        "strategy: {x: 2, y: 1}",
        "strategy: []",
        "strategy: {}",
        "strategy: [[]]",
        "world: {shards: 1}",
        "world: {order: 0}",
        "policy: {multi_gpu: false}",
        "policy: {model: {hidden: [64, 128]}}",
        "policy: {model: {hidden: [128, 64, 64]}}",
        "policy: {learn: {clip: 0.1}}",
        "policy: {learn: {learning_rate: 0.1}}",
    };
    enum { N = sizeof texts / sizeof *texts };
    uint64_t hashes[N];
    for (int i = 0; i < N; i++) {
        char text[256];
        snprintf(text, sizeof text, "env: {type: pong}\n%s\n", texts[i]);
        hashes[i] = hash_of(text, NULL, 0);
        for (int k = 0; k < i; k++)
            ck_assert_msg(hashes[k] != hashes[i], "%s equals %s", texts[k], texts[i]);
    }
    static const char *const without[] = {"exp_name", "seed"};
    ck_assert_uint_eq(hash_of("env: {type: pong}\nseed: 7\nexp_name: y", without, 2),
                      hash_of("env: {type: pong}", without, 2));
    ck_assert_uint_ne(hash_of("env: {type: pong}\nnote: 7\nexp_name: y", without, 2),
                      hash_of("env: {type: pong}", without, 2));
}

TEST(test_schema_print)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    hd_schema_print(schema, 2, NULL, file);
    fclose(file);
    /* Two lines a key: its default, then meaning, kind and scope. */
    ck_assert(strstr(text, "batch_size: "));
    ck_assert(strstr(text, "\n    Samples.; an integer in ["));
    ck_assert(strstr(text, "; per shard\n"));
    int lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++)
        ck_assert((strncmp(line, "    ", 4) == 0) == (lines % 2 == 1));
    ck_assert_int_eq(lines, 2 * (7 + 7));
    free(text);
}

TEST(test_dump_without_memory)
{
    hd_log_set_sink(drop_line, NULL);
    struct hd_config *config = good("env: {type: pong}", NULL);
    FILE *file = fopen("/dev/null", "w");
    int status = HD_ERR_NOMEM;
    for (int64_t n = 1; status != HD_OK; n++) {
        hd_alloc_fail_nth(n);
        status = hd_config_dump(config, NULL, 0, file);
        hd_alloc_fail_nth(0);
        ck_assert(status == HD_OK || status == HD_ERR_NOMEM);
        ck_assert_int_lt(n, 100);
    }
    fclose(file);
    hd_config_destroy(config);
}
