/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the background tasks and the buffers that they need. A task is a background task if all its
 * results are read with a lag, by background tasks, or by nobody. This is the least fixed point: a
 * ring of tasks that read one another is no background task. */
#include "graph/plan/plan_internal.h"

struct background {
    const struct hd_plan *plan;
    bool *background; /* by step index */
    const struct hd_step *writer;
    bool changed;
};

static int is_prompt_reader(struct hd_step *step, void *arg)
{
    const struct background *background = arg;
    if (step == background->writer || background->background[step->index])
        return 0;
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].mode != HD_WRITE &&
            step->refs[i].lag == 0 && hd_step_changes(background->writer, step->refs[i].value))
            return 1;
    return 0;
}

static int derive_background(struct hd_step *step, void *arg)
{
    struct background *background = arg;
    /* A step with cross-shard sums waits for the other ranks between its stages, which a background
     * task would hold up. */
    if (!step->verb || step->verb->kind != HD_VERB_TASK || background->background[step->index] ||
        hd_step_has_cross_shard_sums(step))
        return 0;
    background->writer = step;
    if (!hd_graph_walk(background->plan->graph, is_prompt_reader, background)) {
        background->background[step->index] = true;
        background->changed = true;
    }
    return 0;
}

void hd_plan_find_background_steps(const struct hd_plan *plan, bool *background_steps)
{
    struct background background = {.plan = plan, .background = background_steps};
    do {
        background.changed = false;
        hd_graph_walk(plan->graph, derive_background, &background);
    } while (background.changed);
}

/* -- Buffers ----------------------------------------------------------------------------------- */

struct lag {
    const struct hd_step *writer;
    int max;
};

static int find_lag(struct hd_step *step, void *arg)
{
    struct lag *lag = arg;
    for (int i = 0; i < step->n_refs; i++)
        if (step->refs[i].value != HD_NO_VALUE && step->refs[i].lag > lag->max &&
            hd_step_changes(lag->writer, step->refs[i].value))
            lag->max = step->refs[i].lag;
    return 0;
}

/* Returns how many executions of a background step may be under way before anybody waits for the
 * first: as many as its readers' lag allows, and at least two. */
static int count_under_way(const struct hd_plan *plan, const struct hd_step *step)
{
    struct lag lag = {step, 1};
    hd_graph_walk(plan->graph, find_lag, &lag);
    return lag.max + 1;
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
