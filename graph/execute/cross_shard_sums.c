/* SPDX-License-Identifier: Apache-2.0 */
/* Called when an executor is created, and by the submitter for each stage that leaves numbers. */
#include "graph/execute/execute_internal.h"
#include "graph/plan/collectives.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

struct hd_cross_shard_buffers {
    const struct hd_cross_shard_sums *sums;
    int instances;
    struct hd_memory *partials; /* [instances], of all items */
    struct hd_memory total;
};

static int make_memory(struct hd_session *session, const struct hd_spec *spec,
                       struct hd_memory *memory_p)
{
    memory_p->data = hd_alloc(spec->bytes, 1);
    return memory_p->data ? hd_buffer_create(session, 1, spec->partials, &memory_p->buffer)
                          : HD_ERR_NOMEM;
}

static void free_memory(struct hd_memory *memory)
{
    hd_buffer_destroy(memory->buffer);
    hd_free(memory->data);
}

static int fill(struct hd_session *session, struct hd_cross_shard_buffers *cross_shard)
{
    const struct hd_cross_shard_sums *sums = cross_shard->sums;
    const int instances = cross_shard->instances;
    cross_shard->partials = hd_alloc(instances, sizeof *cross_shard->partials);
    if (!cross_shard->partials)
        return HD_ERR_NOMEM;
    for (int i = 0; i < instances; i++)
        HD_TRY(make_memory(session, &sums->items, &cross_shard->partials[i]));
    return make_memory(session, &sums->total, &cross_shard->total);
}

int hd_cross_shard_buffers_create(struct hd_binder *binder, const struct hd_cross_shard_sums *sums,
                                  struct hd_cross_shard_buffers **cross_shard_p)
{
    struct hd_cross_shard_buffers *cross_shard = hd_alloc(1, sizeof *cross_shard);
    if (!cross_shard)
        return HD_ERR_NOMEM;
    *cross_shard_p = cross_shard;
    cross_shard->sums = sums;
    cross_shard->instances = hd_plan_count_instances(binder->plan, HD_SHARD);
    return fill(binder->session, cross_shard);
}

void hd_cross_shard_buffers_destroy(struct hd_cross_shard_buffers *cross_shard)
{
    if (!cross_shard)
        return;
    for (int i = 0; cross_shard->partials && i < cross_shard->instances; i++)
        free_memory(&cross_shard->partials[i]);
    free_memory(&cross_shard->total);
    hd_free(cross_shard->partials);
    hd_free(cross_shard);
}

double *hd_cross_shard_buffers_get_partial(const struct hd_cross_shard_buffers *cross_shard,
                                           int instance, int64_t item, struct hd_access *access_p)
{
    const struct hd_spec *spec = &cross_shard->sums->items;
    const struct hd_memory *memory = &cross_shard->partials[instance];
    *access_p = (struct hd_access){memory->buffer, 0, item, HD_WRITE};
    return (double *)((char *)memory->data + item * (spec->bytes / spec->partials));
}

const double *hd_cross_shard_buffers_get_total(const struct hd_cross_shard_buffers *cross_shard,
                                               struct hd_access *access_p)
{
    *access_p = (struct hd_access){cross_shard->total.buffer, 0, 0, HD_READ};
    return cross_shard->total.data;
}

int hd_cross_shard_buffers_submit(const struct hd_cross_shard_buffers *cross_shard, int channel,
                                  struct hd_binder *binder)
{
    struct hd_collective c = hd_plan_make_cross_shard_collective(binder->plan, cross_shard->sums);
    c.channel = channel;
    c.in = cross_shard->partials;
    c.out = cross_shard->total;
    c.iteration = hd_binder_get_iteration(binder);
    c.priority = HD_PRIORITY_FIRST;
    c.group = hd_binder_get_task_group(binder);
    return hd_submit_collective(binder->session, &c);
}
