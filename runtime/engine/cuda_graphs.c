/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/cuda_graphs.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/device.h"

#include <string.h>

#if HD_CUDA
#include <cuda_runtime_api.h>

/* More different calls than this are not recorded: a plan has a few for each step and slot. */
enum { RECORDINGS_MAX = 512, VIEWS_MAX = 16 };

/* All that what a body queues may depend on. Zeroed before it is filled, so that it compares as
 * bytes. */
struct key {
    const void *body, *args, *scratch, *work, *head, *views[VIEWS_MAX];
    int64_t item, items;
    int stage, part;
};

/* A first call is not recorded: CUDA loads a kernel when it is first launched, for which it may
 * have to wait, and a recording must not. */
struct recording {
    struct key key;
    cudaGraphExec_t graph; /* NULL: called once */
};

struct hd_recordings {
    int n;
    struct recording recordings[RECORDINGS_MAX];
};

int hd_recordings_create(struct hd_recordings **recordings_p)
{
    *recordings_p = hd_alloc(1, sizeof **recordings_p);
    return *recordings_p ? HD_OK : HD_ERR_NOMEM;
}

void hd_recordings_destroy(struct hd_recordings *recordings)
{
    for (int i = 0; recordings && i < recordings->n; i++)
        if (recordings->recordings[i].graph)
            cudaGraphExecDestroy(recordings->recordings[i].graph);
    hd_free(recordings);
}

static void fill_key(const struct hd_recorded_call *call, struct key *key)
{
    const struct hd_context *context = call->context;
    memset(key, 0, sizeof *key);
    memcpy(&key->body, &call->body, sizeof key->body);
    key->args = call->args;
    key->scratch = context->scratch;
    key->work = context->work;
    key->head = context->head;
    key->item = context->item;
    key->items = context->items;
    key->stage = context->stage;
    key->part = context->n_views ? call->views[0].part : 0;
    for (int i = 0; i < context->n_views; i++)
        key->views[i] = call->views[i].data;
}

static int play(const struct hd_recorded_call *call)
{
    return call->body(call->context, call->views, call->args);
}

/* Other threads may call CUDA as they like meanwhile. */
static int record(const struct hd_recorded_call *call, cudaGraphExec_t *graph_p)
{
    cudaStream_t stream = call->context->stream;
    cudaGraph_t graph = NULL;
    HD_TRY(hd_device_checked(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                             "recording"));
    const int played = play(call);
    int status = hd_device_checked(cudaStreamEndCapture(stream, &graph), "recording");
    status = played != HD_OK ? played : status;
    if (status == HD_OK)
        status = hd_device_checked(cudaGraphInstantiate(graph_p, graph, 0), "making a CUDA graph");
    if (graph)
        cudaGraphDestroy(graph);
    return status;
}

int hd_recordings_run(struct hd_recordings *recordings, const struct hd_recorded_call *call)
{
    struct key key;
    int i = 0;
    fill_key(call, &key);
    while (i < recordings->n && memcmp(&recordings->recordings[i].key, &key, sizeof key) != 0)
        i++;
    if (i == RECORDINGS_MAX)
        return play(call);
    struct recording *recording = &recordings->recordings[i];
    if (i == recordings->n) {
        recordings->n++;
        *recording = (struct recording){.key = key};
        return play(call);
    }
    if (!recording->graph)
        HD_TRY(record(call, &recording->graph));
    return hd_device_checked(cudaGraphLaunch(recording->graph, call->context->stream),
                             "a CUDA graph");
}

#else

int hd_recordings_create(struct hd_recordings **recordings_p)
{
    *recordings_p = NULL;
    return HD_OK;
}

void hd_recordings_destroy(struct hd_recordings *recordings)
{
    (void)recordings;
}

int hd_recordings_run(struct hd_recordings *recordings, const struct hd_recorded_call *call)
{
    (void)recordings;
    return call->body(call->context, call->views, call->args);
}
#endif
