/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/graph/toy_gpu.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/device.h"

#if HD_CUDA
#include <cuda_runtime_api.h>
#include <stdlib.h>

enum { PORTS = 8 };

struct call {
    struct hd_context context;
    struct hd_view views[PORTS];
    const void *args;
    hd_toy_body *body;
    char message[HD_MESSAGE_BYTES];
};

static void run_call(void *arg)
{
    struct call *call = arg;
    if (call->body(&call->context, call->views, call->args) != HD_OK)
        abort(); /* toys do not fail there */
}

static void free_call(void *arg)
{
    struct call *call = arg;
    for (int i = 0; i < PORTS; i++)
        hd_free(call->views[i].data);
    hd_free(call);
}

static int checked(cudaError_t error)
{
    return error == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

int hd_toy_queue(struct hd_context *context, const struct hd_view *views, const void *args,
                 const struct hd_port *ports, hd_toy_body *body)
{
    struct call *call = hd_alloc(1, sizeof *call);
    call->context = *context;
    call->context.message = call->message;
    call->args = args;
    call->body = body;
    for (int i = 0; ports[i].name; i++) {
        call->views[i] = views[i];
        if (!views[i].data)
            continue;
        const int64_t bytes = views[i].spec->bytes;
        call->views[i].data = hd_alloc(bytes, 1);
        HD_TRY(hd_device_copy(call->views[i].data, views[i].data, bytes, context->stream));
    }
    HD_TRY(checked(cudaLaunchHostFunc(context->stream, run_call, call)));
    for (int i = 0; ports[i].name; i++)
        if (views[i].data && ports[i].mode != HD_READ)
            HD_TRY(hd_device_copy(views[i].data, call->views[i].data, views[i].spec->bytes,
                                  context->stream));
    return checked(cudaLaunchHostFunc(context->stream, free_call, call));
}
#endif
