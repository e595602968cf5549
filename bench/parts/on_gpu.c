/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/parts/on_gpu.h"

#if HD_CUDA
#include "bench/parts/parts.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <time.h>

int hd_part_open_gpu(void **stream_p)
{
    int gpus = 0;
    if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)
        return hd_fail(HD_ERR_DEVICE, "no GPU here");
    if (cudaStreamCreateWithFlags((cudaStream_t *)stream_p, cudaStreamNonBlocking) != cudaSuccess)
        return hd_fail(HD_ERR_DEVICE, "no stream on the GPU");
    return HD_OK;
}

void *hd_part_make_on_gpu(int64_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, (size_t)bytes) != cudaSuccess ||
        cudaMemset(memory, 0, (size_t)bytes) != cudaSuccess ||
        cudaStreamSynchronize(NULL) != cudaSuccess)
        return NULL;
    return memory;
}

int hd_part_put_on_gpu(void *to, const void *from, int64_t bytes)
{
    if (!to || !from)
        return HD_ERR_NOMEM;
    return cudaMemcpy(to, from, (size_t)bytes, cudaMemcpyHostToDevice) == cudaSuccess &&
                   cudaStreamSynchronize(NULL) == cudaSuccess
               ? HD_OK
               : hd_fail(HD_ERR_DEVICE, "nothing can be copied to the GPU");
}

/* -- Measuring --------------------------------------------------------------------------------- */

struct measured {
    int (*launch)(const void *arg);
    const void *arg;
    cudaStream_t stream;
    cudaGraphExec_t graph; /* NULL: launches */
};

static int capture(struct measured *m)
{
    cudaGraph_t graph;
    if (cudaStreamBeginCapture(m->stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return hd_fail(HD_ERR_DEVICE, "no CUDA graph can be captured");
    const int status = m->launch(m->arg);
    const cudaError_t ended = cudaStreamEndCapture(m->stream, &graph);
    HD_TRY(status);
    if (ended != cudaSuccess || cudaGraphInstantiate(&m->graph, graph, 0) != cudaSuccess)
        return hd_fail(HD_ERR_DEVICE, "no CUDA graph can be made");
    cudaGraphDestroy(graph);
    return HD_OK;
}

static int call(const struct measured *m)
{
    if (!m->graph)
        return m->launch(m->arg);
    if (cudaGraphLaunch(m->graph, m->stream) != cudaSuccess)
        return hd_fail(HD_ERR_DEVICE, "a CUDA graph cannot be launched");
    return HD_OK;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int time_calls(const struct measured *m, int64_t calls, int64_t *ns_p)
{
    const int64_t begin = now_ns();
    for (int64_t i = 0; i < calls; i++)
        HD_TRY(call(m));
    if (cudaStreamSynchronize(m->stream) != cudaSuccess)
        return hd_fail(HD_ERR_DEVICE, "the GPU does not finish");
    *ns_p = now_ns() - begin;
    return HD_OK;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int hd_part_measure_on_gpu(const char *name, int (*launch)(const void *arg), const void *arg,
                           bool graphs, void *stream)
{
    enum { ROUNDS = 9 };
    const int64_t round_ns = 50000000;
    struct measured m = {launch, arg, stream, NULL};
    double ms[ROUNDS];
    int64_t calls = 1, ns = 1;
    HD_TRY(call(&m)); /* a first call, which makes what later calls reuse */
    if (graphs)
        HD_TRY(capture(&m));
    HD_TRY(time_calls(&m, calls, &ns));
    while (ns < round_ns / 2) {
        calls *= 2;
        HD_TRY(time_calls(&m, calls, &ns));
    }
    calls = calls * round_ns / ns + 1;
    for (int i = 0; i < ROUNDS; i++) {
        HD_TRY(time_calls(&m, calls, &ns));
        ms[i] = (double)ns * 1e-6 / (double)calls;
    }
    if (m.graph)
        cudaGraphExecDestroy(m.graph);
    qsort(ms, ROUNDS, sizeof *ms, compare);
    hd_part_report(name, ms[ROUNDS / 2], "ms");
    return HD_OK;
}

#endif
