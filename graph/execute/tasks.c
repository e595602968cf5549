/* SPDX-License-Identifier: Apache-2.0 */
/* From a step that is due to the tasks and collectives that are submitted for it. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"

struct hd_version_slot *hd_executor_get_slot(const struct hd_executor *executor,
                                             const struct hd_op *op, int i)
{
    const struct hd_ref *ref = &op->step->refs[i];
    return hd_instances_get_slot(&executor->instances[ref->value], op->sources[i], ref->lag,
                                 hd_executor_get_iteration(executor));
}

int64_t hd_executor_get_read_version(const struct hd_executor *executor, const struct hd_op *op,
                                     int i)
{
    if (op->sources[i] == HD_FROM_BACKGROUND)
        return executor->instances[op->step->refs[i].value].version;
    return hd_executor_get_slot(executor, op, i)->version;
}

bool hd_executor_is_fresh(const struct hd_executor *executor, const struct hd_op *op, int i)
{
    const struct hd_step_state *state = &executor->step_states[op->step->index];
    return hd_executor_get_read_version(executor, op, i) != state->last_read[i];
}

struct hd_task_group *hd_executor_get_task_group(struct hd_executor *executor, bool background)
{
    if (background)
        return NULL;
    return &executor->task_groups[hd_executor_get_iteration(executor) % executor->options.window];
}

struct hd_context hd_executor_make_context(const struct hd_executor *executor,
                                           const struct hd_step *step, int64_t shard)
{
    const struct hd_graph *graph = executor->plan->graph;
    int update = executor->plan->update_counter;
    return (struct hd_context){
        .rng = hd_rng_make(graph->seed, step ? step->stream : 0, shard < 0 ? 0 : shard,
                           hd_executor_get_iteration(executor), executor->repeat_index),
        .seed = graph->seed,
        .iteration = hd_executor_get_iteration(executor),
        .repeat_index = executor->repeat_index,
        .update = update == HD_NO_COUNTER ? 0 : executor->counters[update],
        .shard = shard,
        .shards = graph->shards,
        .rank = executor->plan->rank,
        .ranks = executor->plan->ranks,
    };
}

void hd_executor_make_view(const struct hd_executor *executor, const struct hd_op *op, int i,
                           int instance, int bucket, struct hd_task *task, struct hd_access *access)
{
    const struct hd_ref *ref = &op->step->refs[i];
    if (ref->value == HD_NO_VALUE) {
        task->views[i] = (struct hd_view){0};
        *access = (struct hd_access){0};
        return;
    }
    const struct hd_version_slot *slot = hd_executor_get_slot(executor, op, i);
    const struct hd_spec *spec = &executor->plan->graph->values[ref->value].spec;
    const struct hd_replica *memory =
        &slot->replicas[hd_plan_get_replica(executor->plan, ref->value, task->home)];
    int at = spec->placement == HD_SHARD ? instance : 0;
    task->views[i] = (struct hd_view){.data = memory->data[at],
                                      .host = slot->replicas[0].data[at],
                                      .spec = spec,
                                      .bucket = bucket,
                                      .version = slot->version,
                                      .fresh = hd_executor_is_fresh(executor, op, i)};
    bool by_bucket = op->buckets > 1 && spec->buckets == op->buckets;
    *access = (struct hd_access){memory->buffers[at], by_bucket ? bucket : HD_ALL_BUCKETS,
                                 HD_ALL_PARTIALS, ref->mode};
}

struct hd_task hd_executor_make_task(struct hd_executor *executor, const struct hd_op *op,
                                     int64_t shard)
{
    const struct hd_step *step = op->step;
    return (struct hd_task){
        .verb = step->verb->name,
        .name = step->label,
        .body = step->verb->body,
        .finish = step->verb->finish,
        .args = step->args,
        .context = hd_executor_make_context(executor, step, shard),
        .logs = step->verb->logs,
        .n = step->n_refs,
        .background = op->background,
        .group = hd_executor_get_task_group(executor, op->background),
    };
}

static int submit_instance(struct hd_executor *executor, const struct hd_op *op, int instance,
                           int instances, int64_t shard)
{
    const struct hd_step *step = op->step;
    struct hd_access accesses[HD_PORTS_MAX];
    struct hd_task task = hd_executor_make_task(executor, op, shard);
    task.accesses = accesses;
    task.n_accesses = step->n_refs;
    task.context.items = 1;
    const bool distributed = hd_op_is_distributed(executor->plan, op);
    if (op->gpu) {
        task.home = hd_plan_get_home(executor->plan, instance, instances);
        task.body = step->verb->gpu->body;
        task.graph_capturable = step->verb->gpu->graph_capturable;
    }
    task.work_at = op->scratch;
    task.header_at = op->scratch + hd_align_up(op->subtasks.work_bytes);
    for (int bucket = 0; bucket < op->buckets; bucket++) {
        if (distributed)
            task.home = hd_plan_get_home(executor->plan, bucket, op->buckets);
        for (int i = 0; i < step->n_refs; i++)
            hd_executor_make_view(executor, op, i, instance, bucket, &task, &accesses[i]);
        HD_TRY(hd_submit_task(executor->session, &task));
    }
    return HD_OK;
}

int hd_executor_submit_task(struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_plan *plan = executor->plan;
    if (op->step->placement == HD_RANK0 && plan->rank != 0)
        return HD_OK;
    const bool by_shard = op->step->placement == HD_SHARD;
    const int instances = by_shard ? (int)(plan->graph->shards / plan->ranks) : 1;
    const int64_t first = by_shard ? plan->rank * (int64_t)instances : -1;
    if (!hd_op_is_single_task(op))
        return hd_executor_submit_subtasks(executor, op, instances, first);
    for (int i = 0; i < instances; i++)
        HD_TRY(submit_instance(executor, op, i, instances, first + i));
    return HD_OK;
}

static struct hd_collective make_collective(const struct hd_graph *graph,
                                            const struct hd_step *step)
{
    struct hd_collective c = {.verb = step->verb->name, .name = step->label, .how = step->combine};
    c.kind = step->verb->kind == HD_VERB_COLLECTIVE  ? HD_COLLECTIVE_REDUCE
             : step->verb->kind == HD_VERB_BROADCAST ? HD_COLLECTIVE_BROADCAST
                                                     : HD_COLLECTIVE_BARRIER;
    if (c.kind != HD_COLLECTIVE_BARRIER) {
        c.in_spec = &graph->values[step->refs[0].value].spec;
        c.out_spec = &graph->values[step->refs[1].value].spec;
    }
    return c;
}

static const struct hd_replica *get_replica(const struct hd_executor *executor,
                                            const struct hd_op *op, int i, int home)
{
    const struct hd_version_slot *slot = hd_executor_get_slot(executor, op, i);
    return &slot->replicas[hd_plan_get_replica(executor->plan, op->step->refs[i].value, home)];
}

int hd_executor_submit_collective(struct hd_executor *executor, const struct hd_op *op)
{
    const struct hd_step *step = op->step;
    struct hd_collective c = make_collective(executor->plan->graph, step);
    c.iteration = hd_executor_get_iteration(executor);
    c.priority = HD_PRIORITY_FIRST;
    c.group = hd_executor_get_task_group(executor, false);
    if (c.kind != HD_COLLECTIVE_BARRIER) {
        const struct hd_plan *plan = executor->plan;
        if (op->gpu && plan->devices > 1)
            return hd_executor_submit_gpu_reduce(executor, op, &c);
        c.home = op->gpu ? 1 : HD_HOST;
        const struct hd_replica *from = get_replica(executor, op, 0, c.home),
                                *to = get_replica(executor, op, 1, c.home);
        c.n_in = plan->values[step->refs[0].value].instances;
        c.in = from->data;
        c.in_buffers = from->buffers;
        if (plan->values[step->refs[1].value].instances > 0) {
            c.out = to->data[0];
            c.out_buffer = to->buffers[0];
        }
    }
    int buckets = c.kind == HD_COLLECTIVE_REDUCE ? c.in_spec->buckets : 1;
    for (c.bucket = 0; c.bucket < buckets; c.bucket++)
        HD_TRY(hd_submit_collective(executor->session, &c));
    return HD_OK;
}

static int copy_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)args;
    return hd_value_snapshot(views[0].spec, views[1].data, views[0].data);
}

static int copy_on_gpu_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)args;
    return hd_device_copy(views[1].data, views[0].data, hd_value_get_device_bytes(views[0].spec),
                          context->stream);
}

static int copy_bucket_body(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)args;
    int64_t lo, hi;
    hd_spec_get_bucket(views[0].spec, views[0].bucket, &lo, &hi);
    return hd_value_copy_range(views[0].spec, lo, hi, views[1].data, views[0].data);
}

/* Types that know how to copy a range are copied bucket by bucket: a bucket is copied as soon as it
 * is done, and nobody who changes another bucket waits. */
static int submit_copy(struct hd_executor *executor, int value,
                       const struct hd_version_slot *to_slot, int replica, int i, bool background)
{
    const struct hd_instances *instances = &executor->instances[value];
    const struct hd_replica *from = &instances->version_slots[instances->current].replicas[replica];
    const struct hd_replica *to = &to_slot->replicas[replica];
    const struct hd_spec *spec = &instances->value->spec;
    const bool by_bucket = spec->buckets > 1 && spec->type->copy_range && replica == 0;
    struct hd_task task = {
        .verb = "snapshot",
        .name = executor->snapshot_labels[value],
        .body = replica > 0 ? copy_on_gpu_body
                : by_bucket ? copy_bucket_body
                            : copy_body,
        .context = hd_executor_make_context(executor, NULL, instances->plan->first + i),
        .views = {{.data = from->data[i], .spec = spec}, {.data = to->data[i], .spec = spec}},
        .n = 2,
        .n_accesses = 2,
        .group = hd_executor_get_task_group(executor, background),
    };
    if (replica > 0)
        task.home = hd_plan_get_replica_home(executor->plan, value, replica, i);
    for (int bucket = 0; bucket < (by_bucket ? spec->buckets : 1); bucket++) {
        const int which = by_bucket ? bucket : HD_ALL_BUCKETS;
        const struct hd_access accesses[] = {{from->buffers[i], which, HD_ALL_PARTIALS, HD_READ},
                                             {to->buffers[i], which, HD_ALL_PARTIALS, HD_WRITE}};
        task.accesses = accesses;
        task.views[0].bucket = task.views[1].bucket = bucket;
        HD_TRY(hd_submit_task(executor->session, &task));
    }
    return HD_OK;
}

/* Made where its readers are; if they are on either side, on the GPU, from where it is moved. */
int hd_executor_submit_snapshot(struct hd_executor *executor, int value, struct hd_version_slot *to,
                                bool background)
{
    struct hd_instances *instances = &executor->instances[value];
    const int replica = instances->plan->homes > 1 && instances->plan->lag_on_gpu && !background;
    HD_TRY(hd_executor_transfer(executor, value, &instances->version_slots[instances->current],
                                replica));
    for (int i = 0; i < instances->plan->instances; i++)
        HD_TRY(submit_copy(executor, value, to, replica, i, background));
    to->replicas[replica].version = to->version;
    return HD_OK;
}

int hd_executor_submit_compare(struct hd_executor *executor, int value)
{
    const struct hd_instances *instances = &executor->instances[value];
    struct hd_version_slot *slot = &instances->version_slots[instances->current];
    HD_TRY(hd_executor_transfer(executor, value, slot, 0));
    const struct hd_collective c = {.verb = "compare",
                                    .name = executor->compare_labels[value],
                                    .kind = HD_COLLECTIVE_COMPARE,
                                    .in_spec = &instances->value->spec,
                                    .n_in = 1,
                                    .in = slot->replicas[0].data,
                                    .in_buffers = slot->replicas[0].buffers,
                                    .iteration = hd_executor_get_iteration(executor),
                                    .group = hd_executor_get_task_group(executor, false)};
    return hd_submit_collective(executor->session, &c);
}

/* -- What a plan needs --------------------------------------------------------------------------
 */

static struct hd_collective sized_collective(const struct hd_plan *plan, const struct hd_op *op)
{
    struct hd_collective c = {.kind = HD_COLLECTIVE_COMPARE, .n_in = 1};
    if (op->kind == HD_OP_COMPARE)
        c.in_spec = &plan->graph->values[op->value].spec;
    else
        c = make_collective(plan->graph, op->step);
    if (c.kind == HD_COLLECTIVE_REDUCE)
        c.n_in = plan->values[op->step->refs[0].value].instances;
    return c;
}

static bool is_collective(const struct hd_op *op)
{
    return op->kind == HD_OP_COMPARE ||
           (op->kind == HD_OP_STEP && !op->sharded_update && op->step->verb->kind != HD_VERB_TASK &&
            op->step->verb->kind != HD_VERB_STOP);
}

int64_t hd_plan_get_scratch_bytes(const struct hd_plan *plan)
{
    int64_t max = HD_ALIGNMENT * hd_tree_count_levels(plan->ranks); /* requests */
    for (int i = 0; i < plan->n_ops; i++) {
        const struct hd_op *op = &plan->ops[i];
        int64_t bytes = 0;
        if (is_collective(op)) {
            struct hd_collective c = sized_collective(plan, op);
            bytes = hd_collective_get_host_scratch_bytes(&c, plan->ranks);
        } else if (op->kind == HD_OP_STEP) {
            int64_t cross_shard_sums, payload;
            hd_cross_shard_sums_get_bytes(plan, op, &cross_shard_sums, &payload);
            bytes = op->mean ? hd_sharded_update_get_scratch_bytes(op->scratch) : op->scratch;
            if (hd_op_is_single_task(op))
                bytes +=
                    hd_align_up(op->subtasks.work_bytes) + hd_align_up(op->subtasks.header_bytes);
            bytes = cross_shard_sums > bytes ? cross_shard_sums : bytes;
        }
        max = bytes > max ? bytes : max;
    }
    return max;
}

int64_t hd_plan_get_device_scratch_bytes(const struct hd_plan *plan)
{
    int64_t max = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const struct hd_op *op = &plan->ops[i];
        const struct hd_gpu_verb *gpu = hd_op_get_gpu_verb(op);
        const int64_t bytes = gpu && gpu->scratch ? gpu->scratch(op->step->args)
                              : is_collective(op) && op->gpu
                                  ? hd_gpu_reduce_get_scratch_bytes(plan, op)
                                  : 0;
        max = bytes > max ? bytes : max;
    }
    return max;
}

int64_t hd_plan_get_device_comm_bytes(const struct hd_plan *plan)
{
    int64_t max = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        if (!is_collective(&plan->ops[i]) || !plan->ops[i].gpu)
            continue;
        const struct hd_collective c = sized_collective(plan, &plan->ops[i]);
        const int64_t bytes = hd_collective_get_device_comm_bytes(&c, plan->ranks);
        max = bytes > max ? bytes : max;
    }
    return max;
}

int64_t hd_plan_get_payload_bytes(const struct hd_plan *plan)
{
    int64_t max = HD_ALIGNMENT;
    for (int i = 0; i < plan->n_ops; i++) {
        int64_t scratch, bytes = 0;
        if (is_collective(&plan->ops[i])) {
            struct hd_collective c = sized_collective(plan, &plan->ops[i]);
            bytes = hd_collective_get_payload_bytes(&c);
        } else {
            hd_cross_shard_sums_get_bytes(plan, &plan->ops[i], &scratch, &bytes);
        }
        max = bytes > max ? bytes : max;
    }
    return max;
}
