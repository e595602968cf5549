/* SPDX-License-Identifier: Apache-2.0 */
/* Run files: what a config's leaves are; and run files, graph files and strategies in which a
 * scalar became a list, a map or nothing: each is refused with its place, or still means something.
 */
#include "runner/base/config_leaves.h"
#include "runner/base/run_spec.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/runner/scratch.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *run, *graph;
} files[] = {
    {"configs/cartpole_dqn_ddp.yaml", "configs/graphs/dqn.yaml"},
    {"configs/cartpole_dqn_ddp.yaml", "configs/graphs/dqn_sharded_evaluation.yaml"},
    {"configs/cartpole_dqn_priority.yaml", "configs/graphs/dqn_priority.yaml"},
    {"configs/cartpole_ppo_ddp.yaml", "configs/graphs/ppo.yaml"},
    {"configs/cartpole_ppo_ddp.yaml", "configs/graphs/ppo_nosync.yaml"},
    {"configs/cartpole_ppo_ddp.yaml", "configs/graphs/ppo_local.yaml"},
    {"configs/cartpole_ppo_ddp.yaml", "configs/graphs/ppo_fast.yaml"},
    {"configs/cartpole_a2c_ddp.yaml", "configs/graphs/a2c.yaml"},
    {"configs/cartpole_vtrace_ddp.yaml", "configs/graphs/vtrace.yaml"},
    {"configs/cartpole_bc_ddp.yaml", "configs/graphs/bc.yaml"},
};

static const char strategy_file[] = "configs/strategies/serial.yaml";

static struct hd_document *read(const char *path)
{
    struct hd_diag *diag;
    struct hd_document *document;
    ck_assert_int_eq(hd_diag_create(&diag), HD_OK);
    ck_assert_int_eq(hd_document_read(path, HD_INPUT_NAMED, diag, &document), HD_OK);
    hd_diag_destroy(diag);
    return document;
}

static void write_tree(const char *name, const struct hd_node *tree)
{
    FILE *file = fopen(scratch_path(name), "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(hd_node_dump(tree, file), HD_OK);
    ck_assert_int_eq(fclose(file), 0);
}

static int load(void)
{
    struct hd_run_spec run_spec;
    const struct hd_options options = {.config = scratch_path("run.yaml")};
    scratch_log[0] = '\0';
    int status = hd_run_spec_load(&options, 1, &run_spec);
    if (status == HD_OK)
        hd_run_spec_release(&run_spec);
    return status;
}

static void expect_answer(const char *name, const struct hd_node *node, const char *text)
{
    int status = load();
    ck_assert_msg(status == HD_OK || status == HD_ERR_INPUT || status == HD_ERR_FORMAT,
                  "%s:%d:%d '%s' as another kind: status %d", name, node->location.line,
                  node->location.column, text, status);
    ck_assert_msg(status == HD_OK || strstr(scratch_log, ".yaml") || strstr(scratch_log, "demos"),
                  "%s:%d:%d '%s': %s", name, node->location.line, node->location.column, text,
                  scratch_log);
}

/* Makes the scalar a list, a map and nothing in turn, and loads each. */
static void change(const char *name, const struct hd_node *root, struct hd_node *node)
{
    struct hd_node scalar = *node, *inside = &scalar;
    for (int kind = HD_NODE_SCALAR; kind <= HD_NODE_MAP; kind++) {
        *node = (struct hd_node){.kind = (enum hd_node_kind)kind,
                                 .location = scalar.location,
                                 .text = kind == HD_NODE_SCALAR ? "" : NULL,
                                 .items = kind == HD_NODE_SCALAR ? NULL : &inside,
                                 .keys = kind == HD_NODE_MAP ? &inside : NULL,
                                 .count = kind != HD_NODE_SCALAR};
        write_tree(name, root);
        expect_answer(name, &scalar, scalar.text);
    }
    *node = scalar;
}

static int change_all(const char *name, const struct hd_node *root, struct hd_node *node)
{
    int n = 0;
    for (int64_t i = 0; i < node->count; i++)
        n += change_all(name, root, node->items[i]);
    if (node->kind != HD_NODE_SCALAR)
        return n;
    change(name, root, node);
    return 1;
}

static void link_files(struct hd_document *run)
{
    struct hd_node *root = hd_document_get_root(run);
    static const char *const keys[] = {"graph", "strategy"};
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.yaml", keys[i]);
        struct hd_node *value = hd_node_create_scalar(run, root->location, name);
        ck_assert_int_eq(hd_node_put(run, root, keys[i], value), HD_OK);
    }
}

FIXTURE(scratch_setup, scratch_teardown)

TEST(every_scalar_may_be_of_another_kind, .runs = COUNT(files))
{
    struct hd_document *trees[] = {read(files[_i].run), read(files[_i].graph), read(strategy_file)};
    static const char *const names[] = {"run.yaml", "graph.yaml", "strategy.yaml"};
    const bool is_bc = strstr(files[_i].run, "bc") != NULL; /* whose data set is missing */
    int n = 0;
    link_files(trees[0]);
    for (int i = 0; i < 3; i++)
        write_tree(names[i], hd_document_get_root(trees[i]));
    ck_assert_msg((load() == HD_OK) != is_bc, "%s", scratch_log);
    for (int i = 0; i < 3; i++) {
        struct hd_node *root = hd_document_get_root(trees[i]);
        n += change_all(names[i], root, root);
        write_tree(names[i], root);
    }
    ck_assert_int_ge(n, 100);
    ck_assert_msg((load() == HD_OK) != is_bc, "%s", scratch_log);
    for (int i = 0; i < 3; i++)
        hd_document_destroy(trees[i]);
}

static const char *leaf_of(const char *text)
{
    static char value[64];
    json_t *leaves = json_array();
    ck_assert_int_eq(hd_config_list_leaves("a.yaml", text, (int64_t)strlen(text), leaves), HD_OK);
    ck_assert_int_eq(json_array_size(leaves), 1);
    json_t *leaf = json_array_get(leaves, 0);
    ck_assert_str_eq(json_string_value(json_array_get(leaf, 0)), "policy.path");
    snprintf(value, sizeof value, "%s", json_string_value(json_array_get(leaf, 1)));
    json_decref(leaves);
    return value;
}

TEST(a_value_may_hold_what_begins_a_comment)
{
    ck_assert_str_eq(leaf_of("policy: {path: 'a #1'}"), "a #1");
    ck_assert_str_eq(leaf_of("policy:\n  path: \"a #2\"   # global\n"), "a #2");
    ck_assert_str_eq(leaf_of("policy: {path: [a, 'b #3']}"), "[a, b #3]");
}
