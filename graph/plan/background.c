/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the background tasks and the buffers that they need. A task is a background task if all its
 * results are read with a lag, by background tasks, or by nobody. This is the least fixed point: a
 * ring of tasks that read one another is no background task. */
#include "graph/plan/plan_internal.h"

/* Returns whether a step reads without a lag what `writer` changes. */
static bool is_prompt_reader(const struct hd_step *step, const struct hd_step *writer)
{
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode != HD_WRITE &&
            step->refs[i].lag == 0 && hd_step_changes(writer, step->refs[i].value))
            return true;
    return false;
}

static bool is_background(const struct hd_graph *graph, const struct hd_step *step,
                          const bool *background)
{
    /* A step with cross-shard sums waits for the other ranks between its stages, which a background
     * task would hold up. */
    if (!step->verb || step->verb->kind != HD_VERB_TASK || hd_step_has_cross_shard_sums(step))
        return false;
    for (int i = 0; i < graph->total_steps; i++)
        if (i != step->index && !background[i] && is_prompt_reader(graph->all_steps[i], step))
            return false;
    return true;
}

void hd_plan_find_background_steps(const struct hd_plan *plan, bool *background)
{
    const struct hd_graph *graph = plan->graph;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < graph->total_steps; i++)
            if (!background[i] && is_background(graph, graph->all_steps[i], background))
                changed = background[i] = true;
    }
}

/* -- Buffers ----------------------------------------------------------------------------------- */

/* Returns how many executions of a background step may be under way before anybody waits for the
 * first: as many as its readers' lag allows, and at least two. */
static int count_under_way(const struct hd_plan *plan, const struct hd_step *step)
{
    int lag = 1;
    for (int i = 0; i < plan->graph->n_values; i++)
        if (plan->values[i].lag > lag && hd_step_changes(step, i))
            lag = plan->values[i].lag;
    return lag + 1;
}

/* A background step reads a snapshot of a value that others update in place; a value that others
 * only write rotates through more buffers. Either way its writer need not wait. */
enum hd_source hd_plan_get_background_source(struct hd_plan *plan, const struct hd_step *step,
                                             const struct hd_ref *ref)
{
    const struct hd_graph_value *declared = &plan->graph->values[ref->value];
    struct hd_plan_value *value = &plan->values[ref->value];
    if (ref->mode != HD_READ || hd_step_changes(step, ref->value))
        return HD_FROM_CURRENT;
    const int under_way = count_under_way(plan, step);
    if (declared->updated) {
        if (value->background.buffers < under_way)
            value->background.buffers = under_way;
        return HD_FROM_BACKGROUND;
    }
    int needed = under_way + (value->lag > 0 ? value->lag + 1 : 0);
    if (declared->written && value->buffers < needed)
        value->buffers = needed;
    return HD_FROM_CURRENT;
}
