/* SPDX-License-Identifier: Apache-2.0 */
/* Called by the submitter once an iteration. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* The requests of the iterations that are under way, iteration i at i % window. */
struct request {
    unsigned local, all;
    struct hd_buffer *local_buffer, *all_buffer;
    bool submitted;
};

struct hd_control_requests {
    int window;
    struct request requests[];
};

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

int hd_control_requests_create(struct hd_binder *binder, struct hd_control_requests **requests_p)
{
    struct hd_control_requests *requests =
        hd_alloc(1, sizeof *requests + (size_t)binder->window * sizeof requests->requests[0]);
    if (!requests)
        return HD_ERR_NOMEM;
    *requests_p = requests;
    requests->window = binder->window;
    for (int i = 0; i < requests->window; i++) {
        struct request *request = &requests->requests[i];
        HD_TRY(hd_buffer_create(binder->session, 1, 1, &request->local_buffer));
        HD_TRY(hd_buffer_create(binder->session, 1, 1, &request->all_buffer));
    }
    return HD_OK;
}

void hd_control_requests_destroy(struct hd_control_requests *requests)
{
    for (int i = 0; requests && i < requests->window; i++) {
        hd_buffer_destroy(requests->requests[i].local_buffer);
        hd_buffer_destroy(requests->requests[i].all_buffer);
    }
    hd_free(requests);
}

int hd_control_requests_reduce(struct hd_control_requests *requests, struct hd_binder *binder,
                               unsigned local, unsigned *all_p)
{
    *all_p = local;
    if (binder->plan->ranks == 1)
        return HD_OK;
    const int64_t iteration = hd_binder_get_iteration(binder);
    struct request *request = &requests->requests[iteration % requests->window];
    *all_p = request->submitted ? request->all : 0;
    request->submitted = true;
    request->local = local;
    const struct hd_memory in = {&request->local, request->local_buffer};
    const struct hd_collective c = {.verb = "control_requests",
                                    .name = "control_requests",
                                    .kind = HD_COLLECTIVE_REDUCE,
                                    .how = HD_MAX,
                                    .in_spec = &spec,
                                    .out_spec = &spec,
                                    .n_in = 1,
                                    .in = &in,
                                    .out = {&request->all, request->all_buffer},
                                    .channel = binder->plan->request_channel,
                                    .iteration = iteration,
                                    .priority = HD_PRIORITY_FIRST,
                                    .group = hd_binder_get_task_group(binder)};
    return hd_submit_collective(binder->session, &c);
}
