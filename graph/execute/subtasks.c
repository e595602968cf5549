/* SPDX-License-Identifier: Apache-2.0 */
/* Called when an executor is created, and by the submitter once for each step in subtasks that is
 * due. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* -- Work buffers ------------------------------------------------------------------------------ */

/* Dependences of an item. Its stages follow one another on the chain. `finish` waits for the
 * headers alone, which stage 0 writes, so that later stages need not wait for it; a `finish` that
 * runs last waits for the chains. */
enum { WORK_CHAIN, WORK_HEADER, WORK_BUCKETS };

/* Returns the GPU of the memory of (instance, item) number i. */
static int get_device(const struct hd_binder *binder, const struct hd_work_buffers *work, int64_t i)
{
    const int instance = (int)(i / (work->n / work->instances));
    const int home = hd_plan_get_home(binder->plan, instance, work->instances);
    return hd_session_get_options(binder->session)->devices[home - 1];
}

/* Returns how many items a task is for, on a GPU or not. */
static int64_t count_joint_items(const struct hd_op *op, bool on_gpu)
{
    return on_gpu && op->subtasks.joint_items > 0 ? op->subtasks.joint_items : 1;
}

/* Returns more accesses than any task of the step has. */
static int64_t count_accesses_max(const struct hd_binder *binder, const struct hd_op *op)
{
    const int64_t items = op->subtasks.items;
    int64_t n = 3 * items + 2; /* the items' work memory, and numbers that are added up */
    for (int i = 0; i < op->step->n_refs; i++) {
        const int value = op->step->refs[i].value;
        if (value != HD_NO_VALUE)
            n += items * (1 + binder->plan->graph->values[value].spec.buckets);
    }
    return n;
}

int hd_work_buffers_create(struct hd_binder *binder, const struct hd_op *op,
                           struct hd_work_buffers *work)
{
    if (op->kind != HD_OP_STEP || op->lowering != HD_LOWERING_SUBTASKS)
        return HD_OK;
    work->instances = hd_plan_count_instances(binder->plan, op->step->placement);
    work->n = work->instances * op->subtasks.items;
    work->stages = op->subtasks.stages;
    work->gpu = op->gpu && !hd_session_get_options(binder->session)->recorder;
    work->accesses = hd_alloc(count_accesses_max(binder, op), sizeof *work->accesses);
    work->memory = hd_alloc(work->n, sizeof *work->memory);
    work->passes = work->gpu && op->in_fused ? HD_FUSED_PASSES : 1;
    work->headers = hd_alloc(work->n * work->passes, sizeof *work->headers);
    work->buffers = hd_alloc(work->n, sizeof *work->buffers);
    work->cross_shard = hd_alloc(work->stages, sizeof *work->cross_shard);
    if (!work->accesses || !work->memory || !work->headers || !work->buffers || !work->cross_shard)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < work->n; i++) {
        HD_TRY(hd_buffer_create(binder->session, WORK_BUCKETS, 1, &work->buffers[i]));
        const bool used = i % op->subtasks.items % count_joint_items(op, true) == 0;
        const int64_t bytes = used ? op->subtasks.work_bytes : 0;
        work->memory[i] =
            work->gpu ? hd_device_alloc(get_device(binder, work, i), bytes) : hd_alloc(bytes, 1);
        if (!work->memory[i])
            return HD_ERR_NOMEM;
    }
    for (int64_t i = 0; i < work->n * work->passes; i++) {
        work->headers[i] = work->gpu ? hd_pinned_alloc(op->subtasks.header_bytes)
                                     : hd_alloc(op->subtasks.header_bytes, 1);
        if (!work->headers[i])
            return HD_ERR_NOMEM;
    }
    for (int stage = 0; op->cross_shard_sums && stage < work->stages; stage++)
        if (op->cross_shard_sums[stage].n > 0)
            HD_TRY(hd_cross_shard_buffers_create(binder, &op->cross_shard_sums[stage],
                                                 &work->cross_shard[stage]));
    return HD_OK;
}

void hd_work_buffers_destroy(struct hd_binder *binder, struct hd_work_buffers *work)
{
    for (int stage = 0; work->cross_shard && stage < work->stages; stage++)
        hd_cross_shard_buffers_destroy(&work->cross_shard[stage]);
    for (int64_t i = 0; work->memory && work->headers && work->buffers && i < work->n; i++) {
        hd_buffer_destroy(work->buffers[i]);
        if (work->gpu)
            hd_device_free(get_device(binder, work, i), work->memory[i]);
        else
            hd_free(work->memory[i]);
    }
    for (int64_t i = 0; work->headers && i < work->n * work->passes; i++)
        if (work->gpu)
            hd_pinned_free(work->headers[i]);
        else
            hd_free(work->headers[i]);
    hd_free(work->memory);
    hd_free(work->headers);
    hd_free(work->buffers);
    hd_free(work->cross_shard);
    hd_free(work->accesses);
}

/* -- Accesses ---------------------------------------------------------------------------------- */

/* A task of a step on one instance, whose refs are resolved once for the host and once for its GPU.
 */
struct subtask {
    struct hd_binder *binder;
    const struct hd_op *op;
    struct hd_work_buffers *work;
    const struct hd_bound *on_host, *on_gpu;
    int instance;
    int64_t item, end; /* its items; several for a stage on a GPU at most */
    int stage;
    bool body, finish; /* what it calls */
};

static void add_access(struct hd_work_buffers *work, struct hd_access access)
{
    work->accesses[work->n_accesses++] = access;
}

/* A stage on a GPU writes whole layers, whose floats belong to buckets of any range. */
static void get_range(const struct hd_op *op, const struct hd_spec *spec, int stage, int64_t *lo_p,
                      int64_t *hi_p)
{
    *lo_p = 0;
    *hi_p = spec->elements;
    if (op->subtasks.stages > 1 && op->step->verb->stage_range && !spec->gpu_order)
        op->step->verb->stage_range(op->step->args, stage, lo_p, hi_p);
}

/* Returns whether an earlier stage has touched a bucket. */
static bool touched_before(const struct subtask *subtask, const struct hd_spec *spec, int bucket)
{
    int64_t bucket_lo, bucket_hi, lo, hi;
    hd_spec_get_bucket(spec, bucket, &bucket_lo, &bucket_hi);
    for (int stage = 0; stage < subtask->stage; stage++) {
        get_range(subtask->op, spec, stage, &lo, &hi);
        if (lo < bucket_hi && hi > bucket_lo && lo < hi)
            return true;
    }
    return false;
}

/* Adds the buckets that the subtask's range overlaps: of an item's partial, which it writes, or of
 * HD_ALL_PARTIALS. Buckets that are empty belong to the end. */
static void add_range(const struct subtask *subtask, const struct hd_spec *spec,
                      struct hd_buffer *buffer, int64_t partial)
{
    int64_t lo, hi, bucket_lo, bucket_hi;
    get_range(subtask->op, spec, subtask->stage, &lo, &hi);
    for (int bucket = 0; bucket < spec->buckets && lo < hi; bucket++) {
        hd_spec_get_bucket(spec, bucket, &bucket_lo, &bucket_hi);
        const bool empty_end = bucket_lo == spec->elements && hi == spec->elements;
        if ((bucket_lo >= hi || bucket_hi <= lo) && !empty_end)
            continue;
        enum hd_mode mode = partial == HD_ALL_PARTIALS              ? HD_READ
                            : touched_before(subtask, spec, bucket) ? HD_UPDATE
                                                                    : HD_WRITE;
        const struct hd_access access = {buffer, bucket, partial, mode};
        add_access(subtask->work, access);
    }
}

static void add_written_ranges(const struct subtask *subtask, const struct hd_spec *spec,
                               struct hd_buffer *buffer)
{
    for (int64_t item = subtask->item; item < subtask->end; item++)
        add_range(subtask, spec, buffer, item);
}

/* Adds the partials of the subtask's items; an only item has them all. */
static void add_partials(const struct subtask *subtask, const struct hd_access *whole)
{
    struct hd_access access = *whole;
    if (subtask->op->subtasks.items == 1)
        add_access(subtask->work, access);
    else
        for (access.partial = subtask->item; access.partial < subtask->end; access.partial++)
            add_access(subtask->work, access);
}

/* Returns whether the subtask touches the whole value of a port of this scope. */
static bool touches_whole(const struct subtask *subtask, enum hd_access_scope scope)
{
    switch (scope) {
    case HD_SCOPE_FIRST_STAGE:
    case HD_SCOPE_STAGE_RANGE:
        return subtask->body && subtask->stage == subtask->op->subtasks.early;
    case HD_SCOPE_ALL:
        return true;
    case HD_SCOPE_ITEM:
        return subtask->finish;
    case HD_SCOPE_FINISH:
        break;
    }
    return subtask->finish;
}

/* Returns whether earlier tasks of the step have written the value, so that this one goes on from
 * there. */
static bool written_before(const struct subtask *subtask, enum hd_access_scope scope)
{
    if (scope == HD_SCOPE_FINISH)
        return false;
    return !subtask->body || subtask->stage > 0 || (subtask->item > 0 && scope != HD_SCOPE_ITEM);
}

/* Adds the accesses that the subtask needs of ref i, to which `whole` is the access. */
static void add_ref(const struct subtask *subtask, int i, const struct hd_spec *spec,
                    struct hd_access whole)
{
    const struct hd_op *op = subtask->op;
    const enum hd_access_scope scope = hd_step_get_scope(op->step, i);
    whole.bucket = HD_ALL_BUCKETS;
    if (subtask->body && subtask->stage < op->subtasks.early) {
        if (op->step->verb->ports[i].early)
            add_access(subtask->work, whole);
        return;
    }
    if (whole.mode == HD_WRITE && written_before(subtask, scope))
        whole.mode = HD_UPDATE;
    if (i == op->flat) {
        if (subtask->body)
            add_written_ranges(subtask, spec, whole.buffer);
    } else if (touches_whole(subtask, scope)) {
        add_access(subtask->work, whole);
    } else if (scope == HD_SCOPE_ITEM && subtask->body) {
        add_partials(subtask, &whole);
    } else if (scope == HD_SCOPE_STAGE_RANGE && subtask->body && spec->type->flat) {
        add_range(subtask, spec, whole.buffer, HD_ALL_PARTIALS);
    }
}

/* Gives the task its views and accesses. A view of a value that the subtask does not touch has a
 * spec, but no data. */
static void add_refs(const struct subtask *subtask, struct hd_task *task)
{
    const struct hd_op *op = subtask->op;
    const bool gpu = task->home != HD_HOST;
    const struct hd_bound *bound = gpu ? subtask->on_gpu : subtask->on_host;
    for (int i = 0; i < op->step->n_refs; i++) {
        const int before = subtask->work->n_accesses;
        task->views[i] = bound->views[i];
        if (!bound->accesses[i].buffer)
            continue;
        if (!op->gpu || hd_op_touches(op, i, gpu))
            add_ref(subtask, i, bound->views[i].spec, bound->accesses[i]);
        if (subtask->work->n_accesses == before)
            task->views[i].data = NULL;
    }
}

/* -- Tasks ------------------------------------------------------------------------------------- */

static void add_work_accesses(const struct subtask *subtask)
{
    struct hd_work_buffers *work = subtask->work;
    struct hd_buffer **buffers = work->buffers + subtask->instance * subtask->op->subtasks.items;
    const enum hd_mode mode = subtask->stage == 0 ? HD_WRITE : HD_UPDATE;
    for (int64_t item = subtask->item; subtask->body && item < subtask->end; item++) {
        add_access(work, (struct hd_access){buffers[item], WORK_CHAIN, 0, mode});
        if (subtask->stage == subtask->op->subtasks.early)
            add_access(work, (struct hd_access){buffers[item], WORK_HEADER, 0, HD_WRITE});
    }
    if (!subtask->finish)
        return;
    const int bucket = subtask->op->subtasks.finish_last ? WORK_CHAIN : WORK_HEADER;
    for (int64_t item = 0; item < subtask->op->subtasks.items; item++)
        add_access(work, (struct hd_access){buffers[item], bucket, 0, HD_READ});
}

/* Adds the numbers that the stage leaves, and the sums that it waits for. */
static void add_cross_shard_accesses(const struct subtask *subtask, struct hd_task *task)
{
    struct hd_work_buffers *work = subtask->work;
    const struct hd_cross_shard_buffers *after = &work->cross_shard[subtask->stage];
    struct hd_access access;
    if (subtask->body && after->sums) {
        task->context.partial_sums =
            hd_cross_shard_buffers_get_partial(after, subtask->instance, subtask->item, &access);
        add_access(work, access);
    }
    if (subtask->body && subtask->stage > 0 && after[-1].sums) {
        task->context.cross_shard_sums = hd_cross_shard_buffers_get_total(&after[-1], &access);
        add_access(work, access);
    }
}

/* Returns the GPU of an instance. */
static int get_home(const struct hd_binder *binder, const struct hd_work_buffers *work,
                    int instance)
{
    return hd_plan_get_home(binder->plan, instance, work->instances);
}

/* Sets where the subtask runs, and by which function. */
static void set_home(const struct subtask *subtask, struct hd_task *task)
{
    const struct hd_op *op = subtask->op;
    const struct hd_verb *verb = op->step->verb;
    const bool gpu =
        subtask->body ? hd_op_is_stage_on_gpu(op, subtask->stage) : hd_op_is_finish_on_gpu(op);
    if (!gpu)
        task->body = subtask->body ? verb->body : verb->finish;
    else
        hd_binder_set_gpu_home(task, op,
                               get_home(subtask->binder, subtask->work, subtask->instance),
                               subtask->body ? verb->gpu->body : verb->gpu->finish);
    task->graph = subtask->stage;
    task->again = gpu && subtask->body ? verb->gpu->again : NULL;
    task->waits = !gpu && subtask->body && op->subtasks.waits;
}

/* Returns headers[items] of the instance, of the present pass if several may be one task. */
static void **get_headers(const struct subtask *subtask)
{
    const struct hd_work_buffers *work = subtask->work;
    const int64_t pass = work->passes > 1 ? subtask->binder->fused_pass : 0;
    return work->headers + pass * work->n + subtask->instance * subtask->op->subtasks.items;
}

static int submit_subtask(const struct subtask *subtask, const struct hd_task *common)
{
    const struct hd_op *op = subtask->op;
    struct hd_work_buffers *work = subtask->work;
    const int64_t first = subtask->instance * op->subtasks.items;
    struct hd_task task = *common;
    set_home(subtask, &task);
    work->n_accesses = 0;
    add_refs(subtask, &task);
    add_work_accesses(subtask);
    add_cross_shard_accesses(subtask, &task);
    task.accesses = work->accesses;
    task.n_accesses = work->n_accesses;
    task.finish = subtask->body && subtask->finish ? op->step->verb->finish : NULL;
    task.context.item = subtask->item;
    task.context.joint_items = subtask->end - subtask->item;
    task.context.stage = subtask->stage;
    task.context.items = op->subtasks.items;
    task.context.gpu = op->gpu;
    task.context.work = subtask->body ? work->memory[first + subtask->item] : NULL;
    task.context.work_buffers = subtask->finish ? work->memory + first : NULL;
    void **headers = get_headers(subtask);
    task.context.header = subtask->body ? headers[subtask->item] : NULL;
    task.context.headers = headers;
    return hd_submit_task(subtask->binder->session, &task);
}

/* Returns whether `finish` needs no task of its own: a GPU works for items one after another. */
static bool is_finish_with_last(const struct hd_op *op)
{
    return op->gpu ? op->step->verb->gpu->finishes_at_end : op->subtasks.items == 1;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Submits stages [from, to) of one instance: all items of a stage before the next stage, so that
 * buckets are finished as early as can be; earlier stages have the higher priority for the same
 * reason. */
static int submit_stages(struct hd_binder *binder, const struct hd_op *op,
                         struct hd_work_buffers *work, int instance, int from, int to)
{
    const struct hd_subtasks *subtasks = &op->subtasks;
    const int finish_after = subtasks->finish_last ? subtasks->stages - 1 : subtasks->early;
    const int64_t shard = op->step->placement == HD_SHARD
                              ? binder->plan->rank * (int64_t)work->instances + instance
                              : -1;
    struct hd_task common = hd_binder_make_task(binder, op, shard);
    struct hd_bound on_host, on_gpu;
    hd_binder_bind(binder, op, instance, 0, HD_HOST, &on_host);
    if (op->gpu)
        hd_binder_bind(binder, op, instance, 0, get_home(binder, work, instance), &on_gpu);
    struct subtask subtask = {.binder = binder,
                              .op = op,
                              .work = work,
                              .on_host = &on_host,
                              .on_gpu = &on_gpu,
                              .instance = instance};
    for (subtask.stage = from; subtask.stage < to; subtask.stage++) {
        const bool finish = subtask.stage == finish_after && op->step->verb->finish;
        const bool with_last = finish && is_finish_with_last(op);
        const int64_t each = count_joint_items(op, hd_op_is_stage_on_gpu(op, subtask.stage));
        common.priority = subtasks->stages - subtask.stage;
        subtask.body = true;
        for (subtask.item = 0; subtask.item < subtasks->items; subtask.item = subtask.end) {
            subtask.end = min_of(subtask.item + each, subtasks->items);
            subtask.finish = with_last && subtask.end == subtasks->items;
            HD_TRY(submit_subtask(&subtask, &common));
        }
        if (!finish || with_last)
            continue;
        subtask.body = false;
        subtask.finish = true;
        subtask.item = subtask.end = 0;
        HD_TRY(submit_subtask(&subtask, &common));
    }
    return HD_OK;
}

/* Instances are submitted one after another, as far as the next stage after which their numbers are
 * added up. */
int hd_op_submit_subtasks(struct hd_binder *binder, const struct hd_op *op,
                          struct hd_work_buffers *work)
{
    for (int from = 0, to; from < work->stages; from = to) {
        for (to = from + 1; to < work->stages && !work->cross_shard[to - 1].sums;)
            to++;
        for (int i = 0; i < work->instances; i++)
            HD_TRY(submit_stages(binder, op, work, i, from, to));
        if (to < work->stages)
            HD_TRY(hd_cross_shard_buffers_submit(&work->cross_shard[to - 1], op->channels.first,
                                                 binder));
    }
    return HD_OK;
}
