/* SPDX-License-Identifier: Apache-2.0 */
/* Reduces over shards that several GPUs of a rank hold. Each adds up the operands of its own
 * shards; the first one adds what all have, and, among several ranks, shares the sum with the other
 * ranks' first GPUs. The shards of a GPU are a node of the tree, as those of a rank are, so the
 * bits are those of one GPU. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* The arguments of a task, which owns them: what to add up of one bucket. */
struct reduce {
    struct hd_collective collective; /* without memory */
    int n;
    void *memory[HD_DEVICES_MAX]; /* [n]: the operands of all GPUs */
};

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

/* Adds up the operands of the instances at `home`, which stand side by side. */
static int submit_local_sum(struct hd_binder *binder, const struct hd_op *op,
                            const struct hd_collective *c, int home)
{
    struct hd_collective local = *c;
    local.n_in = c->n_in / binder->plan->devices;
    local.in += (home - 1) * local.n_in;
    local.out = hd_binder_get_slot(binder, op, 1)->replicas[home].memory[0];
    local.how = c->how == HD_MEAN ? HD_SUM : c->how;
    local.home = home;
    local.alone = true;
    return hd_submit_collective(binder->session, &local);
}

/* Adds up the sums of all GPUs on the first one, in place of its own. */
static int submit_final_sum(struct hd_binder *binder, const struct hd_op *op,
                            const struct hd_collective *c)
{
    const struct hd_replica *replicas = &hd_binder_get_slot(binder, op, 1)->replicas[1];
    struct hd_access accesses[HD_DEVICES_MAX];
    struct hd_task task = hd_binder_make_task(binder, op, -1);
    struct reduce *reduce = hd_alloc(1, sizeof *reduce);
    if (!reduce)
        return HD_ERR_NOMEM;
    reduce->collective = *c;
    for (int gpu = 0; gpu < binder->plan->devices; gpu++) {
        reduce->memory[reduce->n++] = replicas[gpu].memory[0].data;
        accesses[gpu] = (struct hd_access){replicas[gpu].memory[0].buffer, c->bucket,
                                           HD_ALL_PARTIALS, gpu == 0 ? HD_UPDATE : HD_READ};
    }
    task.body = reduce_all_body;
    task.args = task.owned = reduce;
    task.home = 1;
    task.priority = HD_PRIORITY_FIRST;
    task.views[0] = (struct hd_view){
        .data = replicas[0].memory[0].data, .spec = c->out_spec, .bucket = c->bucket};
    task.n = 1;
    task.accesses = accesses;
    task.n_accesses = reduce->n;
    task.volume = (reduce->n + 1) * hd_collective_get_payload_bytes(c);
    return hd_submit_task(binder->session, &task);
}

static int submit_bucket(struct hd_binder *binder, const struct hd_op *op,
                         const struct hd_collective *c)
{
    struct hd_collective rank = *c;
    for (int home = 1; home <= binder->plan->devices; home++)
        HD_TRY(submit_local_sum(binder, op, c, home));
    if (binder->plan->ranks == 1)
        return submit_final_sum(binder, op, c);
    rank.how = c->how == HD_MEAN ? HD_SUM : c->how;
    HD_TRY(submit_final_sum(binder, op, &rank));
    return hd_op_submit_rank_sums(binder, op, c->bucket);
}

int hd_op_submit_gpu_reduce(struct hd_binder *binder, const struct hd_op *op)
{
    struct hd_collective c = hd_op_make_collective(binder, op);
    c.in = hd_binder_get_slot(binder, op, 0)->replicas[1].memory;
    for (c.bucket = 0; c.bucket < op->buckets; c.bucket++)
        HD_TRY(submit_bucket(binder, op, &c));
    return HD_OK;
}
