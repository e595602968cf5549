/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of configurations share: a schema, and configurations made of texts. */
#pragma once

#include "runtime/base/config/config.h"
#include "runtime/base/log.h"
#include "tests/runtime/base/config/yaml_fixture.h"

#include <math.h>
#include <string.h>

#define INT_RANGE(low, high) .kind = HD_KEY_INT, .min = (low), .max = (high)
#define REAL_RANGE(low, high) .kind = HD_KEY_REAL, .min = (low), .max = (high)

static const struct hd_key run_keys[] = {
    {.path = "exp_name", .kind = HD_KEY_TEXT, .initial = "run", .help = "Name."},
    {.path = "note", .kind = HD_KEY_TEXT, .initial = "", .help = "Remark."},
    {.path = "seed", INT_RANGE(-INFINITY, INFINITY), .initial = "0", .help = "Seed."},
    {.path = "graph", .kind = HD_KEY_TREE, .initial = "graphs/dqn.yaml", .help = "Graph."},
    {.path = "strategy", .kind = HD_KEY_TREE, .initial = "", .help = "Strategy."},
    {.path = "world.shards",
     INT_RANGE(1, 1024),
     .initial = "auto",
     .choices = "auto",
     .help = "Shards."},
    {.path = "world.order",
     INT_RANGE(0, INFINITY),
     .initial = "up",
     .choices = "up|down",
     .help = "Order."},
    {.path = NULL},
};

static const struct hd_key policy_keys[] = {
    {.path = "env.type", .kind = HD_KEY_CHOICE, .choices = "cartpole|pong", .help = "Env."},
    {.path = "env.stop_value", REAL_RANGE(-INFINITY, INFINITY), .initial = "195", .help = "Goal."},
    {.path = "policy.multi_gpu", .kind = HD_KEY_BOOL, .initial = "true", .help = "Parallel."},
    {.path = "policy.model.hidden",
     .kind = HD_KEY_INT_LIST,
     .min = 1,
     .max = 4096,
     .initial = "[128, 64]",
     .help = "Widths."},
    {.path = "policy.learn.batch_size",
     INT_RANGE(1, 1000000),
     .initial = "64",
     .scope = "per shard",
     .help = "Samples."},
    {.path = "policy.learn.learning_rate", REAL_RANGE(0, 1), .initial = "0.001", .help = "Rate."},
    {.path = "policy.learn.clip", REAL_RANGE(0, INFINITY), .initial = "1e1", .help = "Clip."},
    {.path = NULL},
};

static const struct hd_key *const schema[] = {run_keys, policy_keys};

enum { MAX_SETS = 4 };

static inline int count_sets(const char *const sets[MAX_SETS])
{
    int n = 0;
    while (n < MAX_SETS && sets && sets[n])
        n++;
    return n;
}

static inline int create(const char *text, const char *const sets[MAX_SETS],
                         struct hd_config **config_p)
{
    struct hd_document *document = NULL;
    if (text)
        HD_TRY(hd_document_parse("c.yaml", text, (int64_t)strlen(text), diag, &document));
    struct hd_set given[MAX_SETS] = {{NULL, NULL}};
    const int n = count_sets(sets);
    for (int i = 0; i < n; i++)
        given[i].text = sets[i];
    int status = hd_config_create(schema, 2, document, given, n, diag, config_p);
    if (status != HD_OK)
        hd_document_destroy(document);
    return status;
}

static inline struct hd_config *good(const char *text, const char *const sets[MAX_SETS])
{
    struct hd_config *config = NULL;
    int status = create(text, sets, &config);
    ck_assert_msg(status == HD_OK, "%s", hd_diag_get_line(diag, 0));
    ck_assert_int_eq(hd_diag_count(diag), 0);
    return config;
}

#define SETS(...) ((const char *const[MAX_SETS]){__VA_ARGS__})
