/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/howto/verb.md in a graph of its own, under both executors. */
#include "graph/execute/execute.h"
#include "graph/language/load.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tests/harness/check.h"
#include "tests/howto/howto.h"

#include <string.h>

static const char text[] = "values:\n"
                           "  policy: {type: params, bucket_mb: 0.02}\n"
                           "  target: {type: params, bucket_mb: 0.02}\n"
                           "iteration:\n"
                           "  - keep_near: {reads: [policy], updates: [target], limit: 0.5}\n"
                           "  - stop: {if: iteration >= 2, reason: limit}\n";

static const struct hd_verb *const verbs[] = {&hd_verb_keep_near, &hd_verb_stop, NULL};

static const struct hd_set sets[] = {{"policy.model.obs_shape=4", NULL},
                                     {"policy.model.action_shape=2", NULL},
                                     {"policy.model.encoder_hidden_size_list=[128,128]", NULL}};

static int load(const char *graph_text, const struct hd_registry *registry,
                struct hd_document **document_p, struct hd_config **config_p,
                struct hd_diag **diag_p, struct hd_graph **graph_p)
{
    ck_assert_int_eq(hd_diag_create(diag_p), HD_OK);
    ck_assert_int_eq(hd_config_create(&registry->keys, 1, NULL, sets, 3, *diag_p, config_p), HD_OK);
    ck_assert_int_eq(hd_document_parse("graph.yaml", graph_text, (int64_t)strlen(graph_text),
                                       *diag_p, document_p),
                     HD_OK);
    const struct hd_graph_source source = {.registry = registry,
                                           .config = *config_p,
                                           .graph = hd_document_get_root(*document_p),
                                           .shards = 1,
                                           .seed = 7};
    return hd_graph_load(&source, *diag_p, graph_p);
}

TEST(target_stays_near, .runs = 2)
{
    const struct hd_registry *builtin = hd_registry_get_builtin();
    const struct hd_registry registry = {builtin->types, verbs, builtin->keys};
    struct hd_document *document;
    struct hd_config *config;
    struct hd_diag *diag;
    struct hd_graph *graph;
    struct hd_plan *plan;
    struct hd_session *session;
    struct hd_executor *executor;
    const char *reason;
    ck_assert_int_eq(load(text, &registry, &document, &config, &diag, &graph), HD_OK);
    const struct hd_session_options options = {.sequential = _i == 0,
                                               .workers = 2,
                                               .scheduler = "lws",
                                               .ranks = 1,
                                               .watchdog_ns = 20000000000};
    const struct hd_executor_options executor_options = {.window = 2};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    ck_assert_int_eq(hd_plan_create(graph, 0, 1, NULL, 100, &plan), HD_OK);
    ck_assert_int_eq(hd_session_reserve(session, hd_plan_get_scratch_bytes(plan)), HD_OK);
    ck_assert_int_eq(hd_executor_create(plan, session, &executor_options, &executor), HD_OK);

    const int policy = hd_graph_find_value(graph, "policy");
    const int target = hd_graph_find_value(graph, "target");
    const int64_t n = graph->values[target].spec.elements;
    ck_assert_int_gt(graph->values[target].spec.buckets, 1);
    float *from = (float *)hd_executor_get_data(executor, policy, 0);
    float *to = (float *)hd_executor_get_data(executor, target, 0);
    for (int64_t i = 0; i < n; i++) {
        from[i] = 1;
        to[i] = i % 2 ? 0 : 1.25f;
    }
    ck_assert_int_eq(hd_executor_run(executor, &reason), HD_OK);
    for (int64_t i = 0; i < n; i++)
        ck_assert_float_eq(to[i], i % 2 ? 0.5f : 1.25f);

    hd_executor_destroy(executor);
    hd_plan_destroy(plan);
    hd_session_destroy(session);
    hd_graph_destroy(graph);
    hd_config_destroy(config);
    hd_document_destroy(document);
    hd_diag_destroy(diag);
}

TEST(a_wrong_limit_is_refused)
{
    const struct hd_registry *builtin = hd_registry_get_builtin();
    const struct hd_registry registry = {builtin->types, verbs, builtin->keys};
    struct hd_document *document;
    struct hd_config *config;
    struct hd_diag *diag;
    struct hd_graph *graph = NULL;
    char wrong[sizeof text];
    memcpy(wrong, text, sizeof text);
    memcpy(strstr(wrong, "0.5"), "-.5", 3);
    ck_assert_int_eq(load(wrong, &registry, &document, &config, &diag, &graph), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(hd_diag_get_line(diag, 0), "graph.yaml:5:"));
    hd_config_destroy(config);
    hd_document_destroy(document);
    hd_diag_destroy(diag);
}
