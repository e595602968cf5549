/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/cuda_graphs.h"

#include "runtime/base/alloc.h"
#include "runtime/base/gpu_error.h"
#include "runtime/base/status.h"
#include "runtime/device.h"

#include <string.h>

#if HD_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>

/* More different calls than this are not captured: a plan has a few for each step and version slot.
 */
enum { CUDA_GRAPHS_MAX = 512, VIEWS_MAX = 16 };

/* Everything on which the work of a body may depend. Zeroed before it is filled, so that keys
 * compare as bytes. */
struct key {
    const void *body, *args, *scratch, *work, *header, *views[VIEWS_MAX];
    int64_t item, items;
    int graph, bucket;
};

/* A first call is not captured: CUDA loads a kernel when it is first launched, for which it may
 * have to wait, and a capture must not. */
struct captured_graph {
    struct key key;
    cudaGraphExec_t graph; /* NULL: called once */
};

struct hd_cuda_graphs {
    pthread_mutex_t capturing; /* held by the thread that captures */
    cudaEvent_t never;         /* recorded: asked while a stream must not be */
    int n;
    struct captured_graph graphs[CUDA_GRAPHS_MAX];
};

int hd_cuda_graphs_create(struct hd_cuda_graphs **cuda_graphs_p)
{
    struct hd_cuda_graphs *cuda_graphs = hd_alloc(1, sizeof *cuda_graphs);
    if (!cuda_graphs)
        return HD_ERR_NOMEM;
    pthread_mutex_init(&cuda_graphs->capturing, NULL);
    *cuda_graphs_p = cuda_graphs;
    return hd_device_check(cudaEventCreateWithFlags(&cuda_graphs->never, cudaEventDisableTiming),
                           "an event");
}

void hd_cuda_graphs_destroy(struct hd_cuda_graphs *cuda_graphs)
{
    if (!cuda_graphs)
        return;
    for (int i = 0; i < cuda_graphs->n; i++)
        if (cuda_graphs->graphs[i].graph)
            hd_device_check(cudaGraphExecDestroy(cuda_graphs->graphs[i].graph), "a CUDA graph");
    if (cuda_graphs->never)
        hd_device_check(cudaEventDestroy(cuda_graphs->never), "an event");
    pthread_mutex_destroy(&cuda_graphs->capturing);
    hd_free(cuda_graphs);
}

static void fill_key(const struct hd_captured_call *call, struct key *key)
{
    const struct hd_context *context = call->context;
    memset(key, 0, sizeof *key);
    memcpy(&key->body, &call->body, sizeof key->body);
    key->args = call->args;
    key->scratch = context->scratch;
    key->work = context->work;
    key->header = context->header;
    key->item = context->item;
    key->items = context->items;
    key->graph = call->graph;
    key->bucket = context->n_views ? call->views[0].bucket : 0;
    for (int i = 0; i < context->n_views; i++)
        key->views[i] = call->views[i].data;
}

static int run_body(const struct hd_captured_call *call)
{
    return call->body(call->context, call->views, call->args);
}

/* Other threads may call CUDA as they like meanwhile. */
static int capture(struct hd_cuda_graphs *cuda_graphs, const struct hd_captured_call *call,
                   cudaGraphExec_t *graph_p)
{
    cudaStream_t stream = call->context->stream;
    cudaGraph_t graph = NULL;
    pthread_mutex_lock(&cuda_graphs->capturing);
    int called = HD_OK;
    int status = hd_device_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                 "capturing a CUDA graph");
    if (status == HD_OK) {
        called = run_body(call);
        status = hd_device_check(cudaStreamEndCapture(stream, &graph), "capturing a CUDA graph");
    }
    pthread_mutex_unlock(&cuda_graphs->capturing);
    status = called != HD_OK ? called : status;
    if (status == HD_OK)
        status = hd_device_check(cudaGraphInstantiate(graph_p, graph, 0), "making a CUDA graph");
    if (graph)
        cudaGraphDestroy(graph);
    return status;
}

int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, const struct hd_captured_call *call)
{
    struct key key;
    int i = 0;
    fill_key(call, &key);
    while (i < cuda_graphs->n && memcmp(&cuda_graphs->graphs[i].key, &key, sizeof key) != 0)
        i++;
    if (i == CUDA_GRAPHS_MAX)
        return run_body(call);
    struct captured_graph *captured = &cuda_graphs->graphs[i];
    if (i == cuda_graphs->n) {
        cuda_graphs->n++;
        *captured = (struct captured_graph){.key = key};
        return run_body(call);
    }
    if (!captured->graph)
        HD_TRY(capture(cuda_graphs, call, &captured->graph));
    return hd_device_check(cudaGraphLaunch(captured->graph, call->context->stream), "a CUDA graph");
}

int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream)
{
    const bool free = pthread_mutex_trylock(&cuda_graphs->capturing) == 0;
    const cudaError_t error = free ? cudaStreamQuery(stream) : cudaEventQuery(cuda_graphs->never);
    if (free)
        pthread_mutex_unlock(&cuda_graphs->capturing);
    if (error == cudaSuccess || error == cudaErrorNotReady)
        return HD_OK;
    return hd_gpu_fail(device, "work of a task", cudaGetErrorString(error),
                       cudaGetErrorName(error));
}

#else

int hd_cuda_graphs_create(struct hd_cuda_graphs **cuda_graphs_p)
{
    *cuda_graphs_p = NULL;
    return HD_OK;
}

void hd_cuda_graphs_destroy(struct hd_cuda_graphs *cuda_graphs)
{
    (void)cuda_graphs;
}

int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, const struct hd_captured_call *call)
{
    (void)cuda_graphs;
    return call->body(call->context, call->views, call->args);
}

int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream)
{
    (void)cuda_graphs, (void)device, (void)stream;
    return HD_OK;
}
#endif
