/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/language/graph.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

void *hd_graph_alloc(struct hd_graph *graph, int64_t count, size_t size)
{
    if (hd_grow((void **)&graph->blocks, &graph->capacity, graph->n_blocks + 1,
                sizeof *graph->blocks) != HD_OK)
        return NULL;
    void *block = hd_alloc(count, size);
    if (block)
        graph->blocks[graph->n_blocks++] = block;
    return block;
}

int hd_graph_find_value(const struct hd_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_values; i++)
        if (strcmp(graph->values[i].spec.name, name) == 0)
            return i;
    return HD_NO_VALUE;
}

int hd_graph_find_counter(const struct hd_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_counters; i++)
        if (strcmp(graph->counters[i], name) == 0)
            return i;
    return HD_NO_COUNTER;
}

bool hd_step_runs_on_change(const struct hd_step *step)
{
    const enum hd_verb_kind kind = step->verb->kind;
    return step->every == 0 && (kind == HD_VERB_COLLECTIVE || kind == HD_VERB_BROADCAST ||
                                step->verb->logs || step->verb->run_on_change);
}

static void release_args(struct hd_step *step)
{
    if (step->args && step->verb->release)
        step->verb->release(step->args);
    else
        hd_free(step->args);
    step->args = NULL;
}

int hd_graph_rebuild(struct hd_graph *graph)
{
    for (int i = 0; i < graph->total_steps; i++) {
        struct hd_step *step = graph->all_steps[i];
        if (!step->verb || !step->verb->prepare)
            continue;
        release_args(step);
        HD_TRY(step->verb->prepare(&step->setup, &step->args));
    }
    return HD_OK;
}

void hd_graph_destroy(struct hd_graph *graph)
{
    if (!graph)
        return;
    for (int i = 0; graph->all_steps && i < graph->total_steps; i++) {
        release_args(graph->all_steps[i]);
        hd_expr_destroy(graph->all_steps[i]->when);
        hd_expr_destroy(graph->all_steps[i]->condition);
    }
    hd_diag_destroy(graph->warnings);
    for (int i = 0; i < graph->n_values; i++) {
        struct hd_spec *spec = &graph->values[i].spec;
        if (spec->type && spec->type->release)
            spec->type->release(spec);
        else
            hd_free(spec->shape);
    }
    for (int64_t i = graph->n_blocks - 1; i >= 0; i--)
        hd_free(graph->blocks[i]);
    hd_free(graph->blocks);
    hd_free(graph);
}
