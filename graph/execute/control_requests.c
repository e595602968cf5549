/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter once an iteration. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

static void control_requests_combine(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                     void *into, const void *other)
{
    (void)spec, (void)bucket, (void)how;
    *(unsigned *)into |= *(const unsigned *)other;
}

static void control_requests_unpack(const struct hd_spec *spec, int bucket, enum hd_combine how,
                                    const void *vector, void *data)
{
    (void)spec, (void)bucket, (void)how;
    *(unsigned *)data = *(const unsigned *)vector;
}

static const struct hd_reduction reduction = {.bytes = hd_value_get_vector_bytes,
                                              .pack = hd_value_pack,
                                              .combine = control_requests_combine,
                                              .unpack = control_requests_unpack};
static const struct hd_type type = {.name = "control_requests", .reduction = &reduction};
static const struct hd_spec spec = {.name = "control_requests",
                                    .type = &type,
                                    .bytes = sizeof(unsigned),
                                    .buckets = 1,
                                    .partials = 1};

int hd_control_requests_create(struct hd_executor *executor)
{
    for (int i = 0; i < executor->binder.window; i++) {
        struct hd_control_requests *requests = &executor->requests[i];
        HD_TRY(hd_buffer_create(executor->binder.session, 1, 1, &requests->local_buffer));
        HD_TRY(hd_buffer_create(executor->binder.session, 1, 1, &requests->all_buffer));
    }
    return HD_OK;
}

void hd_control_requests_destroy(struct hd_executor *executor)
{
    for (int i = 0; i < HD_WINDOW_MAX; i++) {
        hd_buffer_destroy(executor->requests[i].local_buffer);
        hd_buffer_destroy(executor->requests[i].all_buffer);
    }
}

int hd_control_requests_reduce(struct hd_executor *executor, unsigned local, unsigned *all_p)
{
    struct hd_binder *binder = &executor->binder;
    const int64_t iteration = hd_binder_get_iteration(binder);
    struct hd_control_requests *requests = &executor->requests[iteration % binder->window];
    *all_p = local;
    if (binder->plan->ranks == 1)
        return HD_OK;
    *all_p = requests->submitted ? requests->all : 0;
    requests->submitted = true;
    requests->local = local;
    const struct hd_memory in = {&requests->local, requests->local_buffer};
    const struct hd_collective c = {.verb = "control_requests",
                                    .name = "control_requests",
                                    .kind = HD_COLLECTIVE_REDUCE,
                                    .how = HD_MAX,
                                    .in_spec = &spec,
                                    .out_spec = &spec,
                                    .n_in = 1,
                                    .in = &in,
                                    .out = {&requests->all, requests->all_buffer},
                                    .channel = binder->plan->request_channel,
                                    .iteration = iteration,
                                    .priority = HD_PRIORITY_FIRST,
                                    .group = hd_binder_get_task_group(binder)};
    return hd_submit_collective(binder->session, &c);
}
