/* SPDX-License-Identifier: Apache-2.0 */
/* A mean and the step that uses it as one update. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

/* "mean(grad)" of bucket 3 is "mean(grad.3)". */
static const char *label_bucket(struct hd_graph *graph, const char *label, int bucket)
{
    char *text = hd_graph_alloc(graph, HD_LABEL_BYTES, 1);
    int length = (int)strlen(label) - 1;
    if (text)
        snprintf(text, HD_LABEL_BYTES, "%.*s.%d)", length, label, bucket);
    return text;
}

int hd_sharded_update_make_labels(struct hd_executor *executor, const struct hd_op *op)
{
    struct hd_graph *graph = executor->plan->graph;
    if (!op->sharded_update)
        return HD_OK;
    const int buckets = graph->values[op->step->refs[0].value].spec.buckets;
    const char **labels = hd_graph_alloc(graph, buckets, sizeof *labels);
    if (!labels)
        return HD_ERR_NOMEM;
    for (int bucket = 0; bucket < buckets; bucket++) {
        labels[bucket] =
            buckets == 1 ? op->step->label : label_bucket(graph, op->step->label, bucket);
        if (!labels[bucket])
            return HD_ERR_NOMEM;
    }
    executor->sharded_update_labels[op->step->index] = labels;
    return HD_OK;
}

int hd_executor_submit_sharded_update(struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_plan *plan = executor->plan;
    const struct hd_step *step = op->step, *mean = op->mean->step;
    const struct hd_version_slot *operands = hd_executor_get_slot(executor, op->mean, 0);
    struct hd_sharded_update update = {
        .verb = step->verb->name,
        .name = step->label,
        .labels = executor->sharded_update_labels[mean->index],
        .update_slice = step->verb->update_slice,
        .args = step->args,
        .context = hd_executor_make_context(executor, step, -1),
        .operands = &plan->graph->values[mean->refs[0].value].spec,
        .n_in = plan->values[mean->refs[0].value].instances,
        .in = operands->replicas[0].data,
        .in_buffers = operands->replicas[0].buffers,
        .n = step->n_refs,
        .group = hd_executor_get_task_group(executor, false),
    };
    update.views[0].spec = &plan->graph->values[step->refs[0].value].spec;
    for (int i = 1; i < step->n_refs; i++) {
        struct hd_task task = {.home = HD_HOST};
        struct hd_access access;
        hd_executor_make_view(executor, op, i, 0, 0, &task, &access);
        update.views[i] = task.views[i];
        update.buffers[i] = access.buffer;
        update.modes[i] = access.mode;
        update.wanted_whole[i] =
            hd_ref_changes(&step->refs[i]) && !plan->values[step->refs[i].value].sharded;
    }
    return hd_submit_sharded_update(executor->session, &update);
}
