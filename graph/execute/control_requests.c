/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from outside: of a rank that is asked to stop, of rank 0 whose clock says that it is
 * time for a checkpoint. They come at any moment on any rank, and all ranks must apply them before
 * the same iteration. So every iteration adds up what ranks request; when the iteration partials
 * the window, everybody knows the sum. A rank that is alone applies its request at once. */
#include "graph/execute/execute_internal.h"
#include "runtime/base/status.h"

static void combine(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                    const void *other)
{
    (void)spec, (void)bucket, (void)how;
    *(unsigned *)into |= *(const unsigned *)other;
}

static void unpack(const struct hd_spec *spec, int bucket, enum hd_combine how, const void *vector,
                   void *data)
{
    (void)spec, (void)bucket, (void)how;
    *(unsigned *)data = *(const unsigned *)vector;
}

static const struct hd_reduction reduction = {.bytes = hd_value_get_vector_bytes,
                                              .pack = hd_value_pack,
                                              .combine = combine,
                                              .unpack = unpack};
static const struct hd_type type = {.name = "control_requests", .reduction = &reduction};
static const struct hd_spec spec = {.name = "control_requests",
                                    .type = &type,
                                    .bytes = sizeof(unsigned),
                                    .buckets = 1,
                                    .partials = 1};

int hd_control_requests_create(struct hd_executor *executor)
{
    for (int i = 0; i < executor->options.window; i++) {
        HD_TRY(hd_buffer_create(executor->session, 1, 1, &executor->requests[i].local_buffer));
        HD_TRY(hd_buffer_create(executor->session, 1, 1, &executor->requests[i].all_buffer));
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

/* What all requested in the iteration that has just left the window. */
static int reduce_requests(struct hd_executor *executor, unsigned local, unsigned *requests_p)
{
    struct hd_control_request *request =
        &executor->requests[hd_executor_get_iteration(executor) % executor->options.window];
    *requests_p = request->submitted ? request->all : 0;
    request->submitted = true;
    request->local = local;
    void *in = &request->local;
    const struct hd_collective c = {.verb = "control_requests",
                                    .name = "control_requests",
                                    .kind = HD_COLLECTIVE_REDUCE,
                                    .how = HD_MAX,
                                    .in_spec = &spec,
                                    .out_spec = &spec,
                                    .n_in = 1,
                                    .in = &in,
                                    .in_buffers = &request->local_buffer,
                                    .out = &request->all,
                                    .out_buffer = request->all_buffer,
                                    .iteration = hd_executor_get_iteration(executor),
                                    .priority = HD_PRIORITY_FIRST,
                                    .group = hd_executor_get_task_group(executor, false)};
    return hd_submit_collective(executor->session, &c);
}

int hd_executor_apply_requests(struct hd_executor *executor)
{
    const struct hd_executor_options *options = &executor->options;
    if (!options->get_requests)
        return HD_OK;
    unsigned requests = options->get_requests(options->requests_arg);
    if (executor->plan->ranks > 1)
        HD_TRY(reduce_requests(executor, requests, &requests));
    return requests ? options->apply_requests(options->requests_arg, requests) : HD_OK;
}
