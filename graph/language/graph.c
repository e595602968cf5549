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

static int walk(struct hd_step *steps, int n, int (*visit)(struct hd_step *, void *), void *arg)
{
    for (int i = 0; i < n; i++) {
        int status = visit(&steps[i], arg);
        if (status == 0)
            status = walk(steps[i].steps, steps[i].n_steps, visit, arg);
        if (status != 0)
            return status;
    }
    return 0;
}

int hd_graph_walk(struct hd_graph *graph, int (*visit)(struct hd_step *step, void *arg), void *arg)
{
    return walk(graph->steps, graph->n_steps, visit, arg);
}

int hd_graph_find_value(const struct hd_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_values; i++)
        if (strcmp(graph->values[i].spec.name, name) == 0)
            return i;
    return HD_NO_VALUE;
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

static int rebuild_step(struct hd_step *step, void *arg)
{
    (void)arg;
    if (!step->verb || !step->verb->prepare)
        return HD_OK;
    release_args(step);
    return step->verb->prepare(&step->setup, &step->args);
}

int hd_graph_rebuild(struct hd_graph *graph)
{
    return hd_graph_walk(graph, rebuild_step, NULL);
}

static int destroy_step(struct hd_step *step, void *arg)
{
    (void)arg;
    release_args(step);
    hd_expr_destroy(step->when);
    hd_expr_destroy(step->condition);
    return 0;
}

void hd_graph_destroy(struct hd_graph *graph)
{
    if (!graph)
        return;
    hd_graph_walk(graph, destroy_step, NULL);
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
