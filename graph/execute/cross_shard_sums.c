/* SPDX-License-Identifier: Apache-2.0 */
/* Called when an executor is created, and by the submitter for each stage that leaves numbers. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

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

int hd_cross_shard_buffers_create(struct hd_binder *binder, const struct hd_cross_shard_sums *sums,
                                  struct hd_cross_shard_buffers *cross_shard)
{
    cross_shard->sums = sums;
    cross_shard->instances = hd_plan_count_instances(binder->plan, HD_SHARD);
    cross_shard->partials = hd_alloc(cross_shard->instances, sizeof *cross_shard->partials);
    if (!cross_shard->partials)
        return HD_ERR_NOMEM;
    for (int i = 0; i < cross_shard->instances; i++)
        HD_TRY(make_memory(binder->session, &sums->items, &cross_shard->partials[i]));
    return make_memory(binder->session, &sums->total, &cross_shard->total);
}

void hd_cross_shard_buffers_destroy(struct hd_cross_shard_buffers *cross_shard)
{
    for (int i = 0; cross_shard->partials && i < cross_shard->instances; i++)
        free_memory(&cross_shard->partials[i]);
    free_memory(&cross_shard->total);
    hd_free(cross_shard->partials);
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
