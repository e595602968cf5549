/* SPDX-License-Identifier: Apache-2.0 */
/* Reduces over shards that several GPUs of a rank hold. Each adds up the operands of its own
 * shards; the first one adds what all have, and, among several ranks, shares the sum with the other
 * ranks' first GPUs. The shards of a GPU are a node of the tree, as those of a rank are, so the
 * bits are those of one GPU. */
#include "graph/execute/bind.h"
#include "graph/execute/submit.h"
#include "graph/plan/collectives.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* The arguments of a task, which owns them: what to add up of one bucket. */
struct reduce {
    struct hd_collective collective; /* without memory */
    int n;
    void *memory[]; /* [n]: instances on this GPU, or the operands of all GPUs */
};

static int reduce_local_body(struct hd_context *context, const struct hd_view *views,
                             const void *args)
{
    const struct reduce *reduce = args;
    const struct hd_collective *c = &reduce->collective;
    return c->in_spec->type->reduction->reduce_on_gpu(
        c->in_spec, c->bucket, c->how == HD_MEAN ? HD_SUM : c->how, reduce->n,
        (const void *const *)reduce->memory, c->out_spec, views[0].data, context->stream);
}

/* Stores the bucket of a GPU's operand, fetched into `buffer` if it is not the first GPU's. Its
 * count is fetched in any case, as the sum overwrites it. */
static int fetch_operand(const struct reduce *reduce, int gpu, float *buffer, void *stream,
                         struct hd_operand *operand_p)
{
    const struct hd_collective *c = &reduce->collective;
    float *count = buffer + hd_gpu_operand_get_floats(c->out_spec, c->bucket);
    int64_t lo, hi;
    hd_spec_get_bucket(c->out_spec, c->bucket, &lo, &hi);
    *operand_p = (struct hd_operand){(const float *)reduce->memory[gpu] + lo, count};
    HD_TRY(hd_device_copy(
        count, c->in_spec->type->reduction->count(c->out_spec, c->bucket, reduce->memory[gpu]),
        sizeof(float), stream));
    if (gpu == 0)
        return HD_OK;
    HD_TRY(hd_device_copy(buffer, operand_p->floats, (hi - lo) * (int64_t)sizeof(float), stream));
    operand_p->floats = buffer;
    return HD_OK;
}

static int reduce_all_body(struct hd_context *context, const struct hd_view *views,
                           const void *args)
{
    const struct reduce *reduce = args;
    const struct hd_collective *c = &reduce->collective;
    struct hd_operand operands[HD_DEVICES_MAX];
    int64_t lo, hi;
    hd_spec_get_bucket(c->out_spec, c->bucket, &lo, &hi);
    for (int gpu = 0; gpu < reduce->n; gpu++) {
        char *buffer =
            (char *)context->scratch + gpu * hd_gpu_operand_get_bytes(c->out_spec, c->bucket);
        HD_TRY(fetch_operand(reduce, gpu, (float *)buffer, context->stream, &operands[gpu]));
    }
    const struct hd_reduction *reduction = c->in_spec->type->reduction;
    return reduction->add_on_gpu(c->how, operands, reduce->n, hi - lo, (float *)views[0].data + lo,
                                 reduction->count(c->out_spec, c->bucket, views[0].data),
                                 context->stream);
}

/* Submits a task that owns `reduce` and writes its bucket of the result's replica at `home`. */
static int submit(struct hd_binder *binder, const struct hd_op *op, struct reduce *reduce, int home,
                  hd_body *body, enum hd_mode mode, struct hd_access *accesses)
{
    const struct hd_replica *to = &hd_binder_get_slot(binder, op, 1)->replicas[home];
    struct hd_task task = hd_binder_make_task(binder, op, -1);
    accesses[reduce->n] =
        (struct hd_access){to->buffers[0], reduce->collective.bucket, HD_ALL_PARTIALS, mode};
    task.body = body;
    task.args = task.owned = reduce;
    task.home = home;
    task.priority = HD_PRIORITY_FIRST;
    task.views[0] = (struct hd_view){.data = to->data[0],
                                     .spec = reduce->collective.out_spec,
                                     .bucket = reduce->collective.bucket};
    task.n = 1;
    task.accesses = accesses;
    task.volume = (reduce->n + 1) * hd_collective_get_payload_bytes(&reduce->collective);
    task.n_accesses = reduce->n + 1;
    return hd_submit_task(binder->session, &task);
}

static struct reduce *make_reduce(const struct hd_collective *c, int n)
{
    struct reduce *reduce = hd_alloc(1, sizeof *reduce + (size_t)n * sizeof reduce->memory[0]);
    if (reduce) {
        reduce->collective = *c;
        reduce->n = 0;
    }
    return reduce;
}

/* Adds up the operands of the instances at `home`. */
static int submit_local_reduce(struct hd_binder *binder, const struct hd_op *op,
                               const struct hd_collective *c, int home, struct hd_access *accesses)
{
    struct reduce *reduce = make_reduce(c, c->n_in);
    if (!reduce)
        return HD_ERR_NOMEM;
    for (int i = 0; i < c->n_in; i++) {
        if (hd_plan_get_home(binder->plan, i, c->n_in) != home)
            continue;
        accesses[reduce->n] =
            (struct hd_access){c->in_buffers[i], c->bucket, HD_ALL_PARTIALS, HD_READ};
        reduce->memory[reduce->n++] = c->in[i];
    }
    return submit(binder, op, reduce, home, reduce_local_body, HD_WRITE, accesses);
}

static int submit_final_reduce(struct hd_binder *binder, const struct hd_op *op,
                               const struct hd_collective *c, struct hd_access *accesses)
{
    const struct hd_version_slot *slot = hd_binder_get_slot(binder, op, 1);
    const int gpus = binder->plan->devices;
    struct reduce *reduce = make_reduce(c, gpus);
    if (!reduce)
        return HD_ERR_NOMEM;
    for (; reduce->n < gpus; reduce->n++) {
        const struct hd_replica *operand = &slot->replicas[1 + reduce->n];
        accesses[reduce->n] = (struct hd_access){reduce->n == 0 ? NULL : operand->buffers[0],
                                                 c->bucket, HD_ALL_PARTIALS, HD_READ};
        reduce->memory[reduce->n] = operand->data[0];
    }
    return submit(binder, op, reduce, 1, reduce_all_body, HD_UPDATE, accesses);
}

static int submit_bucket(struct hd_binder *binder, const struct hd_op *op,
                         const struct hd_collective *c, struct hd_access *accesses)
{
    struct hd_collective rank = *c;
    for (int home = 1; home <= binder->plan->devices; home++)
        HD_TRY(submit_local_reduce(binder, op, c, home, accesses));
    if (binder->plan->ranks == 1)
        return submit_final_reduce(binder, op, c, accesses);
    rank.how = c->how == HD_MEAN ? HD_SUM : c->how;
    HD_TRY(submit_final_reduce(binder, op, &rank, accesses));
    return hd_op_submit_rank_sums(binder, op, c->bucket);
}

int hd_op_submit_gpu_reduce(struct hd_binder *binder, const struct hd_op *op)
{
    const struct hd_plan *plan = binder->plan;
    const struct hd_replica *from = &hd_binder_get_slot(binder, op, 0)->replicas[1];
    struct hd_collective c = hd_plan_make_collective(plan, op);
    c.in = from->data;
    c.in_buffers = from->buffers;
    const int max_accesses = 1 + (c.n_in > plan->devices ? c.n_in : plan->devices);
    struct hd_access *accesses = hd_alloc(max_accesses, sizeof *accesses);
    int status = accesses ? HD_OK : HD_ERR_NOMEM;
    for (c.bucket = 0; status == HD_OK && c.bucket < op->buckets; c.bucket++)
        status = submit_bucket(binder, op, &c, accesses);
    hd_free(accesses);
    return status;
}
