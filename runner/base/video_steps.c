/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/base/video_steps.h"

#include "runtime/base/status.h"

#include <stdio.h>

static const char counter[] = "evaluations";

/* Makes the evaluation count itself, unless it counts something already, and returns the counter;
 * NULL: no memory. */
static const char *count(struct hd_document *document, struct hd_node *evaluate)
{
    const struct hd_node *counts = hd_node_get(evaluate, "counts");
    if (counts && counts->kind == HD_NODE_SCALAR)
        return counts->text;
    struct hd_node *name = hd_node_create_scalar(document, evaluate->location, counter);
    return name && hd_node_put(document, evaluate, "counts", name) == HD_OK ? counter : NULL;
}

/* Inserts the step behind `evaluate`, item `at` of the steps. */
static int insert(struct hd_document *document, struct hd_node *steps, int64_t at,
                  struct hd_node *evaluate, int64_t every, struct hd_diag *diag)
{
    char text[160];
    struct hd_node *step;
    const char *counted = count(document, evaluate);
    if (!counted)
        return HD_ERR_NOMEM;
    snprintf(text, sizeof text, "{record_video: {every: %lld %.60s, first: 0}}", (long long)every,
             counted);
    HD_TRY(hd_node_parse(document, evaluate->location, text, diag, &step));
    struct hd_node *reads = hd_node_get(evaluate, "reads");
    struct hd_node *copy = reads ? hd_node_copy(document, reads) : NULL;
    if (reads && !copy)
        return HD_ERR_NOMEM;
    if (copy)
        HD_TRY(hd_node_put(document, step->items[0], "reads", copy));
    return hd_node_insert(document, steps, at + 1, step);
}

int hd_video_steps_add(struct hd_document *document, const struct hd_node *graph, int64_t every,
                       struct hd_diag *diag, const struct hd_node **graph_p)
{
    struct hd_node *copy = hd_node_copy(document, graph);
    struct hd_node *steps = hd_node_get(copy, "iteration");
    if (!copy)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; steps && steps->kind == HD_NODE_LIST && i < steps->count; i++) {
        struct hd_node *evaluate = hd_node_get(steps->items[i], "evaluate");
        if (evaluate && evaluate->kind == HD_NODE_MAP)
            HD_TRY(insert(document, steps, i, evaluate, every, diag));
    }
    *graph_p = copy;
    return HD_OK;
}
