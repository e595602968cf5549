/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in subtasks: a task per item and stage, and one that finishes. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* -- Work memory ----------------------------------------------------------------------------------
 */

/* Of the memory of (instance, item) number i, where the step runs on GPUs. */
static int device_of(const struct hd_executor *executor, const struct hd_work_buffers *work,
                     int64_t i)
{
    const int instance = (int)(i / (work->n / work->instances));
    return hd_session_get_device(executor->session,
                                 hd_plan_get_home(executor->plan, instance, work->instances));
}

int hd_work_buffers_create(struct hd_executor *executor, const struct hd_op *op)
{
    if (op->kind != HD_OP_STEP || hd_op_is_single_task(op))
        return HD_OK;
    const struct hd_plan *plan = executor->plan;
    struct hd_work_buffers *work = &executor->work_buffers[op->step->index];
    int64_t instances = op->step->placement == HD_SHARD   ? plan->graph->shards / plan->ranks
                        : op->step->placement == HD_RANK0 ? plan->rank == 0
                                                          : 1;
    work->n = instances * op->subtasks.items;
    work->instances = (int)instances;
    work->gpu = op->gpu;
    work->memory = hd_alloc(work->n, sizeof *work->memory);
    work->headers = hd_alloc(work->n, sizeof *work->headers);
    work->buffers = hd_alloc(work->n, sizeof *work->buffers);
    if (!work->memory || !work->headers || !work->buffers)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < work->n; i++) {
        HD_TRY(hd_buffer_create(executor->session, HD_WORK_BUCKETS, 1, &work->buffers[i]));
        work->memory[i] =
            op->gpu ? hd_device_alloc(device_of(executor, work, i), op->subtasks.work_bytes)
                    : hd_alloc(op->subtasks.work_bytes, 1);
        work->headers[i] = op->gpu ? hd_pinned_alloc(op->subtasks.header_bytes)
                                   : hd_alloc(op->subtasks.header_bytes, 1);
        if (!work->memory[i] || !work->headers[i])
            return HD_ERR_NOMEM;
    }
    return hd_cross_shard_sums_create(executor, op);
}

void hd_work_buffers_destroy(struct hd_executor *executor, struct hd_work_buffers *work)
{
    hd_cross_shard_sums_destroy(work);
    for (int64_t i = 0; work->memory && work->headers && work->buffers && i < work->n; i++) {
        hd_buffer_destroy(work->buffers[i]);
        if (work->gpu) {
            hd_device_free(device_of(executor, work, i), work->memory[i]);
            hd_pinned_free(work->headers[i]);
        } else {
            hd_free(work->memory[i]);
            hd_free(work->headers[i]);
        }
    }
    hd_free(work->memory);
    hd_free(work->headers);
    hd_free(work->buffers);
}

/* -- Accesses -------------------------------------------------------------------------------------
 */

/* One task of a step on one instance. */
struct subtask {
    struct hd_executor *executor;
    const struct hd_op *op;
    int instance;
    int64_t item;
    int stage;
    bool body, finish; /* what it calls */
};

static int add_access(struct hd_executor *executor, struct hd_buffer *buffer, int bucket,
                      int64_t partial, enum hd_mode mode)
{
    HD_TRY(hd_grow((void **)&executor->accesses, &executor->accesses_capacity,
                   executor->n_accesses + 1, sizeof *executor->accesses));
    executor->accesses[executor->n_accesses++] = (struct hd_access){buffer, bucket, partial, mode};
    return HD_OK;
}

static void range_of(const struct hd_op *op, const struct hd_spec *spec, int stage, int64_t *lo_p,
                     int64_t *hi_p)
{
    *lo_p = 0;
    *hi_p = spec->elements;
    if (op->subtasks.stages > 1 && op->step->verb->stage_range)
        op->step->verb->stage_range(op->step->args, stage, lo_p, hi_p);
}

/* Whether an earlier stage has touched a bucket. */
static bool touched_before(const struct subtask *subtask, const struct hd_spec *spec, int bucket)
{
    int64_t bucket_lo, bucket_hi, lo, hi;
    hd_spec_get_bucket(spec, bucket, &bucket_lo, &bucket_hi);
    for (int stage = 0; stage < subtask->stage; stage++) {
        range_of(subtask->op, spec, stage, &lo, &hi);
        if (lo < bucket_hi && hi > bucket_lo && lo < hi)
            return true;
    }
    return false;
}

/* The buckets that the subtask's range overlaps, of one partial if it is written, else of all.
 * Parts that are empty belong to the end. */
static int add_range(const struct subtask *subtask, const struct hd_spec *spec,
                     struct hd_buffer *buffer, bool written)
{
    int64_t lo, hi, bucket_lo, bucket_hi;
    range_of(subtask->op, spec, subtask->stage, &lo, &hi);
    for (int bucket = 0; bucket < spec->buckets && lo < hi; bucket++) {
        hd_spec_get_bucket(spec, bucket, &bucket_lo, &bucket_hi);
        const bool empty_end = bucket_lo == spec->elements && hi == spec->elements;
        if ((bucket_lo >= hi || bucket_hi <= lo) && !empty_end)
            continue;
        enum hd_mode mode = !written                                ? HD_READ
                            : touched_before(subtask, spec, bucket) ? HD_UPDATE
                                                                    : HD_WRITE;
        HD_TRY(add_access(subtask->executor, buffer, bucket,
                          written ? subtask->item : HD_ALL_PARTIALS, mode));
    }
    return HD_OK;
}

/* Whether the subtask touches the whole value of a port of this scope. */
static bool touches_whole(const struct subtask *subtask, enum hd_access_scope scope)
{
    switch (scope) {
    case HD_SCOPE_FIRST_STAGE:
    case HD_SCOPE_STAGE_RANGE:
        return subtask->body && subtask->stage == 0;
    case HD_SCOPE_ALL:
        return true;
    case HD_SCOPE_ITEM:
        return subtask->finish;
    case HD_SCOPE_FINISH:
        break;
    }
    return subtask->finish;
}

/* Whether earlier tasks of the step have written what the subtask writes, so that it goes on from
 * there. */
static bool written_before(const struct subtask *subtask, enum hd_access_scope scope)
{
    if (scope == HD_SCOPE_FINISH)
        return false;
    return !subtask->body || subtask->stage > 0 || (subtask->item > 0 && scope != HD_SCOPE_ITEM);
}

/* Views keep their spec where the task does not touch the value, but show no data. */
static int add_port(const struct subtask *subtask, int i, struct hd_task *task)
{
    const enum hd_access_scope scope = hd_step_get_scope(subtask->op->step, i);
    struct hd_access whole;
    const int64_t before = subtask->executor->n_accesses;
    hd_executor_make_view(subtask->executor, subtask->op, i, subtask->instance, 0, task, &whole);
    const struct hd_spec *spec = task->views[i].spec;
    whole.bucket = HD_ALL_BUCKETS;
    if (!whole.buffer)
        return HD_OK;
    if (subtask->op->gpu && !hd_op_touches(subtask->op, i, task->home != HD_HOST)) {
        task->views[i].data = NULL;
        return HD_OK;
    }
    if (whole.mode == HD_WRITE && written_before(subtask, scope))
        whole.mode = HD_UPDATE;
    if (i == subtask->op->flat) {
        if (subtask->body)
            HD_TRY(add_range(subtask, spec, whole.buffer, true));
    } else if (touches_whole(subtask, scope)) {
        HD_TRY(
            add_access(subtask->executor, whole.buffer, whole.bucket, whole.partial, whole.mode));
    } else if (scope == HD_SCOPE_ITEM && subtask->body) {
        HD_TRY(
            add_access(subtask->executor, whole.buffer, whole.bucket, subtask->item, whole.mode));
    } else if (scope == HD_SCOPE_STAGE_RANGE && subtask->body && spec->type->flat) {
        HD_TRY(add_range(subtask, spec, whole.buffer, false));
    }
    if (subtask->executor->n_accesses == before)
        task->views[i].data = NULL;
    return HD_OK;
}

/* -- Tasks ----------------------------------------------------------------------------------------
 */

static int add_work_accesses(const struct subtask *subtask, const struct hd_work_buffers *work)
{
    const int64_t first = subtask->instance * subtask->op->subtasks.items;
    if (subtask->body) {
        struct hd_buffer *buffer = work->buffers[first + subtask->item];
        HD_TRY(add_access(subtask->executor, buffer, HD_WORK_CHAIN, 0,
                          subtask->stage == 0 ? HD_WRITE : HD_UPDATE));
        if (subtask->stage == 0)
            HD_TRY(add_access(subtask->executor, buffer, HD_WORK_HEADER, 0, HD_WRITE));
        return HD_OK;
    }
    const int bucket = subtask->op->subtasks.finish_last ? HD_WORK_CHAIN : HD_WORK_HEADER;
    for (int64_t item = 0; item < subtask->op->subtasks.items; item++)
        HD_TRY(add_access(subtask->executor, work->buffers[first + item], bucket, 0, HD_READ));
    return HD_OK;
}

/* What the stage adds up, and the sums that wait for it. */
static int add_cross_shard_accesses(const struct subtask *subtask,
                                    const struct hd_work_buffers *work, struct hd_task *task)
{
    const struct hd_op *op = subtask->op;
    if (!subtask->body)
        return HD_OK;
    if (hd_op_has_cross_shard_sums(op, subtask->stage)) {
        struct hd_buffer *buffer = work->cross_shard[subtask->stage].buffers[subtask->instance];
        task->context.partial_sums = hd_cross_shard_sums_get_item(op, work, subtask->stage,
                                                                  subtask->instance, subtask->item);
        HD_TRY(add_access(subtask->executor, buffer, 0, subtask->item, HD_WRITE));
    }
    if (hd_op_has_cross_shard_sums(op, subtask->stage - 1)) {
        const struct hd_cross_shard_buffers *before = &work->cross_shard[subtask->stage - 1];
        task->context.cross_shard_sums = before->sums;
        HD_TRY(add_access(subtask->executor, before->sums_buffer, 0, 0, HD_READ));
    }
    return HD_OK;
}

/* Where the subtask runs, and by which function. */
static void set_home(const struct subtask *subtask, const struct hd_work_buffers *work,
                     struct hd_task *task)
{
    const struct hd_op *op = subtask->op;
    const struct hd_verb *verb = op->step->verb;
    const bool gpu =
        subtask->body ? hd_op_is_stage_on_gpu(op, subtask->stage) : hd_op_is_finish_on_gpu(op);
    if (gpu) {
        task->home = hd_plan_get_home(subtask->executor->plan, subtask->instance, work->instances);
        task->graph_capturable = verb->gpu->graph_capturable;
    }
    if (subtask->body)
        task->body = gpu ? verb->gpu->body : verb->body;
    else
        task->body = gpu ? verb->gpu->finish : verb->finish;
}

static int submit_subtask(const struct subtask *subtask, const struct hd_task *common)
{
    struct hd_executor *executor = subtask->executor;
    const struct hd_op *op = subtask->op;
    const struct hd_work_buffers *work = &executor->work_buffers[op->step->index];
    const int64_t first = subtask->instance * op->subtasks.items;
    struct hd_task task = *common;
    set_home(subtask, work, &task);
    executor->n_accesses = 0;
    for (int i = 0; i < op->step->n_refs; i++)
        HD_TRY(add_port(subtask, i, &task));
    HD_TRY(add_work_accesses(subtask, work));
    HD_TRY(add_cross_shard_accesses(subtask, work, &task));
    task.accesses = executor->accesses;
    task.n_accesses = (int)executor->n_accesses;
    task.finish = subtask->body && subtask->finish ? op->step->verb->finish : NULL;
    task.context.item = subtask->item;
    task.context.stage = subtask->stage;
    task.context.items = op->subtasks.items;
    task.context.gpu = op->gpu;
    task.context.work = subtask->body ? work->memory[first + subtask->item] : NULL;
    task.context.work_buffers = subtask->finish ? work->memory + first : NULL;
    task.context.header = subtask->body ? work->headers[first + subtask->item] : NULL;
    task.context.headers = subtask->finish ? work->headers + first : NULL;
    return hd_submit_task(executor->session, &task);
}

/* Stages [from, to) of one instance: all items of a stage before the next stage, so that buckets
 * are finished as early as can be; earlier stages have the higher priority for the same reason. */
static int submit_stages(struct hd_executor *executor, const struct hd_op *op, int instance,
                         int64_t shard, int from, int to)
{
    const struct hd_subtasks *subtasks = &op->subtasks;
    const int finish_after = subtasks->finish_last ? subtasks->stages - 1 : 0;
    struct hd_task common = hd_executor_make_task(executor, op, shard);
    struct subtask subtask = {.executor = executor, .op = op, .instance = instance};
    for (subtask.stage = from; subtask.stage < to; subtask.stage++) {
        const bool finish = subtask.stage == finish_after && op->step->verb->finish;
        common.priority = subtasks->stages - subtask.stage;
        subtask.body = true;
        subtask.finish = finish && subtasks->items == 1 && !op->gpu;
        for (subtask.item = 0; subtask.item < subtasks->items; subtask.item++)
            HD_TRY(submit_subtask(&subtask, &common));
        if (!finish || subtask.finish)
            continue;
        subtask.body = false;
        subtask.finish = true;
        subtask.item = 0;
        HD_TRY(submit_subtask(&subtask, &common));
    }
    return HD_OK;
}

/* Instance by instance, as far as the next stage that all of them add up after. */
int hd_executor_submit_subtasks(struct hd_executor *executor, const struct hd_op *op, int instances,
                                int64_t first)
{
    const int stages = op->subtasks.stages;
    for (int from = 0, to; from < stages; from = to) {
        for (to = from + 1; to < stages && !hd_op_has_cross_shard_sums(op, to - 1);)
            to++;
        for (int i = 0; i < instances; i++)
            HD_TRY(submit_stages(executor, op, i, first + i, from, to));
        if (to < stages)
            HD_TRY(hd_executor_submit_cross_shard_sums(executor, op, to - 1));
    }
    return HD_OK;
}
