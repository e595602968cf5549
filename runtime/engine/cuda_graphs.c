/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/gpu_error.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/device.h"
#include "runtime/engine/submit_internal.h"

#include <string.h>

#if HD_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>

/* Everything on which the work of a task may depend, before the addresses of its views and its own
 * key. Zeroed before it is filled, so that keys compare as bytes. */
struct key_head {
    const void *body, *args, *scratch, *work, *header;
    int64_t item, items;
    int graph, bucket, n_views, key_bytes;
};

/* A recording holds what tasks queue, one after another. At first they are only called: CUDA loads
 * a kernel when it is first launched, for which it may have to wait, and a capture must not. */
struct recording {
    uint64_t hash; /* of the key */
    void *key;
    int64_t key_bytes;
    char *inputs;          /* of the tasks, one after another */
    cudaGraphExec_t graph; /* NULL: called once */
};

/* A plan has a few recordings for each step and version slot. */
struct hd_cuda_graphs {
    pthread_mutex_t capturing; /* held by the thread that captures */
    cudaEvent_t never;         /* recorded: asked while a stream must not be */
    struct recording *recordings;
    int64_t n, capacity;
    char *key; /* of the tasks that are to be queued */
    int64_t key_bytes, key_capacity;
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
    for (int64_t i = 0; i < cuda_graphs->n; i++) {
        struct recording *recording = &cuda_graphs->recordings[i];
        if (recording->graph)
            hd_device_check(cudaGraphExecDestroy(recording->graph), "a CUDA graph");
        hd_pinned_free(recording->inputs);
        hd_free(recording->key);
    }
    if (cuda_graphs->never)
        hd_device_check(cudaEventDestroy(cuda_graphs->never), "an event");
    pthread_mutex_destroy(&cuda_graphs->capturing);
    hd_free(cuda_graphs->recordings);
    hd_free(cuda_graphs->key);
    hd_free(cuda_graphs);
}

/* -- Keys -------------------------------------------------------------------------------------- */

static int append_key(struct hd_cuda_graphs *cuda_graphs, const void *bytes, int64_t n)
{
    HD_TRY(hd_grow((void **)&cuda_graphs->key, &cuda_graphs->key_capacity,
                   cuda_graphs->key_bytes + n, 1));
    if (n > 0)
        memcpy(cuda_graphs->key + cuda_graphs->key_bytes, bytes, (size_t)n);
    cuda_graphs->key_bytes += n;
    return HD_OK;
}

static int append_task(struct hd_cuda_graphs *cuda_graphs, const struct hd_task *task)
{
    const struct hd_context *context = &task->context;
    struct key_head head;
    memset(&head, 0, sizeof head);
    memcpy(&head.body, &task->body, sizeof head.body);
    head.args = task->key ? NULL : task->args;
    head.scratch = context->scratch;
    head.work = context->work;
    head.header = context->header;
    head.item = context->item;
    head.items = context->items;
    head.graph = task->graph;
    head.bucket = task->n ? task->views[0].bucket : 0;
    head.n_views = task->n;
    head.key_bytes = task->key_bytes;
    HD_TRY(append_key(cuda_graphs, &head, sizeof head));
    for (int i = 0; i < task->n; i++)
        HD_TRY(append_key(cuda_graphs, &task->views[i].data, sizeof task->views[i].data));
    return append_key(cuda_graphs, task->key, task->key_bytes);
}

/* -- Recordings -------------------------------------------------------------------------------- */

static int64_t count_inputs(struct hd_task *const *tasks, int n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += hd_align_up(tasks[i]->input_bytes);
    return bytes;
}

static int add_recording(struct hd_cuda_graphs *cuda_graphs, uint64_t hash, int64_t input_bytes)
{
    HD_TRY(hd_grow((void **)&cuda_graphs->recordings, &cuda_graphs->capacity, cuda_graphs->n + 1,
                   sizeof *cuda_graphs->recordings));
    struct recording *recording = &cuda_graphs->recordings[cuda_graphs->n];
    *recording = (struct recording){.hash = hash, .key_bytes = cuda_graphs->key_bytes};
    recording->key = hd_alloc(cuda_graphs->key_bytes, 1);
    recording->inputs = input_bytes > 0 ? hd_pinned_alloc(input_bytes) : NULL;
    if (!recording->key || (input_bytes > 0 && !recording->inputs)) {
        hd_pinned_free(recording->inputs);
        hd_free(recording->key);
        return HD_ERR_NOMEM;
    }
    memcpy(recording->key, cuda_graphs->key, (size_t)cuda_graphs->key_bytes);
    cuda_graphs->n++;
    return HD_OK;
}

/* Finds the recording of the tasks, or adds one, for which *known_p is then false. */
static int find_recording(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                          struct recording **recording_p, bool *known_p)
{
    cuda_graphs->key_bytes = 0;
    for (int i = 0; i < n; i++)
        HD_TRY(append_task(cuda_graphs, tasks[i]));
    const uint64_t hash = hd_hash_bytes(cuda_graphs->key, cuda_graphs->key_bytes);
    int64_t at = 0;
    for (; at < cuda_graphs->n; at++) {
        const struct recording *recording = &cuda_graphs->recordings[at];
        if (recording->hash == hash && recording->key_bytes == cuda_graphs->key_bytes &&
            memcmp(recording->key, cuda_graphs->key, (size_t)cuda_graphs->key_bytes) == 0)
            break;
    }
    *known_p = at < cuda_graphs->n;
    if (!*known_p)
        HD_TRY(add_recording(cuda_graphs, hash, count_inputs(tasks, n)));
    *recording_p = &cuda_graphs->recordings[at];
    return HD_OK;
}

/* -- Running ----------------------------------------------------------------------------------- */

static int call_bodies(struct hd_task *const *tasks, int n, const struct hd_task **failed_p)
{
    for (int i = 0; i < n; i++) {
        if (tasks[i]->graph == HD_NO_GRAPH)
            continue;
        *failed_p = tasks[i];
        HD_TRY(tasks[i]->body(&tasks[i]->context, tasks[i]->views, tasks[i]->args));
    }
    return HD_OK;
}

/* A recording's memory may be written, because tasks with the same written addresses have ended. */
static int set_inputs(const struct recording *recording, struct hd_task *const *tasks, int n,
                      const struct hd_task **failed_p)
{
    char *inputs = recording->inputs;
    for (int i = 0; i < n; i++) {
        struct hd_task *task = tasks[i];
        if (!task->set_inputs)
            continue;
        *failed_p = task;
        task->context.inputs = inputs;
        HD_TRY(task->set_inputs(&task->context, task->views, task->args));
        inputs += hd_align_up(task->input_bytes);
    }
    return HD_OK;
}

/* Other threads may call CUDA as they like meanwhile. */
static int capture(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                   cudaGraphExec_t *graph_p, const struct hd_task **failed_p)
{
    cudaStream_t stream = tasks[0]->context.stream;
    cudaGraph_t graph = NULL;
    pthread_mutex_lock(&cuda_graphs->capturing);
    int called = HD_OK;
    int status = hd_device_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                                 "capturing a CUDA graph");
    if (status == HD_OK) {
        called = call_bodies(tasks, n, failed_p);
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

/* Asks the tasks which graphs they are to be. Returns whether there is anything to do. */
static bool choose_graphs(struct hd_task *const *tasks, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        struct hd_task *task = tasks[i];
        if (task->get_graph)
            task->graph = task->get_graph(&task->context, task->views, task->args);
        any |= task->graph != HD_NO_GRAPH;
    }
    return any;
}

static int run_recorded(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                        const struct hd_task **failed_p)
{
    struct recording *recording;
    bool known;
    if (!choose_graphs(tasks, n))
        return HD_OK;
    HD_TRY(find_recording(cuda_graphs, tasks, n, &recording, &known));
    HD_TRY(set_inputs(recording, tasks, n, failed_p));
    if (!known)
        return call_bodies(tasks, n, failed_p);
    if (!recording->graph)
        HD_TRY(capture(cuda_graphs, tasks, n, &recording->graph, failed_p));
    return hd_device_check(cudaGraphLaunch(recording->graph, tasks[0]->context.stream),
                           "a CUDA graph");
}

int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                       const struct hd_task **failed_p)
{
    *failed_p = tasks[0];
    return tasks[0]->graph_capturable ? run_recorded(cuda_graphs, tasks, n, failed_p)
                                      : call_bodies(tasks, n, failed_p);
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

int hd_cuda_graphs_run(struct hd_cuda_graphs *cuda_graphs, struct hd_task *const *tasks, int n,
                       const struct hd_task **failed_p)
{
    (void)cuda_graphs, (void)n;
    *failed_p = tasks[0];
    return HD_ERR_UNSUPPORTED;
}

int hd_cuda_graphs_check(struct hd_cuda_graphs *cuda_graphs, int device, void *stream)
{
    (void)cuda_graphs, (void)device, (void)stream;
    return HD_OK;
}
#endif
