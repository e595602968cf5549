/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in pieces: a task per item and stage, and one that finishes. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* -- Work memory ----------------------------------------------------------------------------------
 */

/* Of the memory of (instance, item) number i, where the step runs on GPUs. */
static int device_of(const struct hd_executor *executor, const struct hd_works *works, int64_t i)
{
    const int instance = (int)(i / (works->n / works->instances));
    return hd_session_device(executor->session,
                             hd_plan_home(executor->plan, instance, works->instances));
}

int hd_works_create(struct hd_executor *executor, const struct hd_op *op)
{
    if (op->kind != HD_OP_STEP || hd_op_whole(op))
        return HD_OK;
    const struct hd_plan *plan = executor->plan;
    struct hd_works *works = &executor->works[op->step->index];
    int64_t instances = op->step->placement == HD_SHARD   ? plan->graph->shards / plan->ranks
                        : op->step->placement == HD_RANK0 ? plan->rank == 0
                                                          : 1;
    works->n = instances * op->pieces.items;
    works->instances = (int)instances;
    works->gpu = op->gpu;
    works->memory = hd_alloc(works->n, sizeof *works->memory);
    works->heads = hd_alloc(works->n, sizeof *works->heads);
    works->buffers = hd_alloc(works->n, sizeof *works->buffers);
    if (!works->memory || !works->heads || !works->buffers)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < works->n; i++) {
        HD_TRY(hd_buffer_create(executor->session, HD_WORK_PARTS, 1, &works->buffers[i]));
        works->memory[i] =
            op->gpu ? hd_device_alloc(device_of(executor, works, i), op->pieces.work_bytes)
                    : hd_alloc(op->pieces.work_bytes, 1);
        works->heads[i] =
            op->gpu ? hd_pinned_alloc(op->pieces.head_bytes) : hd_alloc(op->pieces.head_bytes, 1);
        if (!works->memory[i] || !works->heads[i])
            return HD_ERR_NOMEM;
    }
    return hd_pools_create(executor, op);
}

void hd_works_destroy(struct hd_executor *executor, struct hd_works *works)
{
    hd_pools_destroy(works);
    for (int64_t i = 0; works->memory && works->heads && works->buffers && i < works->n; i++) {
        hd_buffer_destroy(works->buffers[i]);
        if (works->gpu) {
            hd_device_free(device_of(executor, works, i), works->memory[i]);
            hd_pinned_free(works->heads[i]);
        } else {
            hd_free(works->memory[i]);
            hd_free(works->heads[i]);
        }
    }
    hd_free(works->memory);
    hd_free(works->heads);
    hd_free(works->buffers);
}

/* -- Accesses -------------------------------------------------------------------------------------
 */

/* One task of a step on one instance. */
struct piece {
    struct hd_executor *executor;
    const struct hd_op *op;
    int instance;
    int64_t item;
    int stage;
    bool body, finish; /* what it calls */
};

static int add_access(struct hd_executor *executor, struct hd_buffer *buffer, int part,
                      int64_t leaf, enum hd_mode mode)
{
    HD_TRY(hd_grow((void **)&executor->accesses, &executor->accesses_capacity,
                   executor->n_accesses + 1, sizeof *executor->accesses));
    executor->accesses[executor->n_accesses++] = (struct hd_access){buffer, part, leaf, mode};
    return HD_OK;
}

static void range_of(const struct hd_op *op, const struct hd_spec *spec, int stage, int64_t *lo_p,
                     int64_t *hi_p)
{
    *lo_p = 0;
    *hi_p = spec->elements;
    if (op->pieces.stages > 1 && op->step->verb->stage_range)
        op->step->verb->stage_range(op->step->args, stage, lo_p, hi_p);
}

/* Whether an earlier stage has touched a part. */
static bool touched_before(const struct piece *piece, const struct hd_spec *spec, int part)
{
    int64_t part_lo, part_hi, lo, hi;
    hd_spec_part(spec, part, &part_lo, &part_hi);
    for (int stage = 0; stage < piece->stage; stage++) {
        range_of(piece->op, spec, stage, &lo, &hi);
        if (lo < part_hi && hi > part_lo && lo < hi)
            return true;
    }
    return false;
}

/* The parts that the piece's range overlaps, of one leaf if it is written, else of all. Parts that
 * are empty belong to the end. */
static int add_range(const struct piece *piece, const struct hd_spec *spec,
                     struct hd_buffer *buffer, bool written)
{
    int64_t lo, hi, part_lo, part_hi;
    range_of(piece->op, spec, piece->stage, &lo, &hi);
    for (int part = 0; part < spec->parts && lo < hi; part++) {
        hd_spec_part(spec, part, &part_lo, &part_hi);
        const bool empty_end = part_lo == spec->elements && hi == spec->elements;
        if ((part_lo >= hi || part_hi <= lo) && !empty_end)
            continue;
        enum hd_mode mode = !written                            ? HD_READ
                            : touched_before(piece, spec, part) ? HD_UPDATE
                                                                : HD_WRITE;
        HD_TRY(
            add_access(piece->executor, buffer, part, written ? piece->item : HD_ALL_LEAVES, mode));
    }
    return HD_OK;
}

/* Whether the piece touches the whole value of a port of this span. */
static bool touches_whole(const struct piece *piece, enum hd_span span)
{
    switch (span) {
    case HD_SPAN_FIRST:
    case HD_SPAN_RANGE:
        return piece->body && piece->stage == 0;
    case HD_SPAN_EVERY:
        return true;
    case HD_SPAN_ITEM:
        return piece->finish;
    case HD_SPAN_LAST:
        break;
    }
    return piece->finish;
}

/* Whether earlier tasks of the step have written what the piece writes, so that it goes on from
 * there. */
static bool written_before(const struct piece *piece, enum hd_span span)
{
    if (span == HD_SPAN_LAST)
        return false;
    return !piece->body || piece->stage > 0 || (piece->item > 0 && span != HD_SPAN_ITEM);
}

/* Views keep their spec where the task does not touch the value, but show no data. */
static int add_port(const struct piece *piece, int i, struct hd_task *task)
{
    const enum hd_span span = hd_step_span(piece->op->step, i);
    struct hd_access whole;
    const int64_t before = piece->executor->n_accesses;
    hd_executor_view(piece->executor, piece->op, i, piece->instance, 0, task, &whole);
    const struct hd_spec *spec = task->views[i].spec;
    whole.part = HD_ALL_PARTS;
    if (!whole.buffer)
        return HD_OK;
    if (piece->op->gpu && !hd_op_touches(piece->op, i, task->home != HD_HOST)) {
        task->views[i].data = NULL;
        return HD_OK;
    }
    if (whole.mode == HD_WRITE && written_before(piece, span))
        whole.mode = HD_UPDATE;
    if (i == piece->op->flat) {
        if (piece->body)
            HD_TRY(add_range(piece, spec, whole.buffer, true));
    } else if (touches_whole(piece, span)) {
        HD_TRY(add_access(piece->executor, whole.buffer, whole.part, whole.leaf, whole.mode));
    } else if (span == HD_SPAN_ITEM && piece->body) {
        HD_TRY(add_access(piece->executor, whole.buffer, whole.part, piece->item, whole.mode));
    } else if (span == HD_SPAN_RANGE && piece->body && spec->type->flat) {
        HD_TRY(add_range(piece, spec, whole.buffer, false));
    }
    if (piece->executor->n_accesses == before)
        task->views[i].data = NULL;
    return HD_OK;
}

/* -- Tasks ----------------------------------------------------------------------------------------
 */

static int add_works(const struct piece *piece, const struct hd_works *works)
{
    const int64_t first = piece->instance * piece->op->pieces.items;
    if (piece->body) {
        struct hd_buffer *buffer = works->buffers[first + piece->item];
        HD_TRY(add_access(piece->executor, buffer, HD_WORK_CHAIN, 0,
                          piece->stage == 0 ? HD_WRITE : HD_UPDATE));
        if (piece->stage == 0)
            HD_TRY(add_access(piece->executor, buffer, HD_WORK_HEAD, 0, HD_WRITE));
        return HD_OK;
    }
    const int part = piece->op->pieces.finish_last ? HD_WORK_CHAIN : HD_WORK_HEAD;
    for (int64_t item = 0; item < piece->op->pieces.items; item++)
        HD_TRY(add_access(piece->executor, works->buffers[first + item], part, 0, HD_READ));
    return HD_OK;
}

/* What the stage adds up, and the sums that wait for it. */
static int add_pools(const struct piece *piece, const struct hd_works *works, struct hd_task *task)
{
    const struct hd_op *op = piece->op;
    if (!piece->body)
        return HD_OK;
    if (hd_op_pools_after(op, piece->stage)) {
        struct hd_buffer *buffer = works->pools[piece->stage].buffers[piece->instance];
        task->context.pool = hd_pool_of(op, works, piece->stage, piece->instance, piece->item);
        HD_TRY(add_access(piece->executor, buffer, 0, piece->item, HD_WRITE));
    }
    if (hd_op_pools_after(op, piece->stage - 1)) {
        const struct hd_pool_memory *before = &works->pools[piece->stage - 1];
        task->context.pooled = before->sums;
        HD_TRY(add_access(piece->executor, before->sums_buffer, 0, 0, HD_READ));
    }
    return HD_OK;
}

/* Where the piece runs, and by which function. */
static void set_home(const struct piece *piece, const struct hd_works *works, struct hd_task *task)
{
    const struct hd_op *op = piece->op;
    const struct hd_verb *verb = op->step->verb;
    const bool gpu = piece->body ? hd_op_stage_on_gpu(op, piece->stage) : hd_op_finish_on_gpu(op);
    if (gpu) {
        task->home = hd_plan_home(piece->executor->plan, piece->instance, works->instances);
        task->replays = verb->gpu->replays;
    }
    if (piece->body)
        task->body = gpu ? verb->gpu->body : verb->body;
    else
        task->body = gpu ? verb->gpu->finish : verb->finish;
}

static int submit_piece(const struct piece *piece, const struct hd_task *common)
{
    struct hd_executor *executor = piece->executor;
    const struct hd_op *op = piece->op;
    const struct hd_works *works = &executor->works[op->step->index];
    const int64_t first = piece->instance * op->pieces.items;
    struct hd_task task = *common;
    set_home(piece, works, &task);
    executor->n_accesses = 0;
    for (int i = 0; i < op->step->n_refs; i++)
        HD_TRY(add_port(piece, i, &task));
    HD_TRY(add_works(piece, works));
    HD_TRY(add_pools(piece, works, &task));
    task.accesses = executor->accesses;
    task.n_accesses = (int)executor->n_accesses;
    task.finish = piece->body && piece->finish ? op->step->verb->finish : NULL;
    task.context.item = piece->item;
    task.context.stage = piece->stage;
    task.context.items = op->pieces.items;
    task.context.gpu = op->gpu;
    task.context.work = piece->body ? works->memory[first + piece->item] : NULL;
    task.context.works = piece->finish ? works->memory + first : NULL;
    task.context.head = piece->body ? works->heads[first + piece->item] : NULL;
    task.context.heads = piece->finish ? works->heads + first : NULL;
    return hd_submit(executor->session, &task);
}

/* Stages [from, to) of one instance: all items of a stage before the next stage, so that parts are
 * finished as early as can be; earlier stages have the higher priority for the same reason. */
static int submit_stages(struct hd_executor *executor, const struct hd_op *op, int instance,
                         int64_t shard, int from, int to)
{
    const struct hd_pieces *pieces = &op->pieces;
    const int finish_after = pieces->finish_last ? pieces->stages - 1 : 0;
    struct hd_task common = hd_executor_task(executor, op, shard);
    struct piece piece = {.executor = executor, .op = op, .instance = instance};
    for (piece.stage = from; piece.stage < to; piece.stage++) {
        const bool finish = piece.stage == finish_after && op->step->verb->finish;
        common.priority = pieces->stages - piece.stage;
        piece.body = true;
        piece.finish = finish && pieces->items == 1 && !op->gpu;
        for (piece.item = 0; piece.item < pieces->items; piece.item++)
            HD_TRY(submit_piece(&piece, &common));
        if (!finish || piece.finish)
            continue;
        piece.body = false;
        piece.finish = true;
        piece.item = 0;
        HD_TRY(submit_piece(&piece, &common));
    }
    return HD_OK;
}

/* Instance by instance, as far as the next stage that all of them add up after. */
int hd_executor_submit_pieces(struct hd_executor *executor, const struct hd_op *op, int instances,
                              int64_t first)
{
    const int stages = op->pieces.stages;
    for (int from = 0, to; from < stages; from = to) {
        for (to = from + 1; to < stages && !hd_op_pools_after(op, to - 1);)
            to++;
        for (int i = 0; i < instances; i++)
            HD_TRY(submit_stages(executor, op, i, first + i, from, to));
        if (to < stages)
            HD_TRY(hd_executor_submit_pool(executor, op, to - 1));
    }
    return HD_OK;
}
