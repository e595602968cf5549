/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a program's calls of the CUDA runtime that make the host wait, or that allocate or create
 * something, from the outside: LD_PRELOAD this library. In the environment: HD_COUNT_CALLS, the
 * file that gets a line of JSON; HD_COUNT_AFTER_S, seconds before counting begins (default 10), and
 * HD_COUNT_FOR_S, seconds that it lasts (default 10); or, in their place, HD_COUNT_FROM and
 * HD_COUNT_TO: the numbers of the tasks on GPUs that are the first and the last, as cudaEventRecord
 * tells them. A program that ends earlier leaves no file. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Declared for nvcc only. */
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void **args,
                               size_t shared, cudaStream_t stream);

/* CALL(name, parameters, arguments): what must not be called by a program that is warm. */
#define SYNCHRONOUS(CALL)                                                                          \
    CALL(cudaDeviceSynchronize, (void), ())                                                        \
    CALL(cudaStreamSynchronize, (cudaStream_t stream), (stream))                                   \
    CALL(cudaEventSynchronize, (cudaEvent_t event), (event))                                       \
    CALL(cudaMemcpy, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind),             \
         (to, from, n, kind))                                                                      \
    CALL(cudaMemcpyPeer, (void *to, int there, const void *from, int here, size_t n),              \
         (to, there, from, here, n))                                                               \
    CALL(cudaMemcpyToSymbol,                                                                       \
         (const void *to, const void *from, size_t n, size_t at, enum cudaMemcpyKind kind),        \
         (to, from, n, at, kind))                                                                  \
    CALL(cudaMemset, (void *to, int value, size_t n), (to, value, n))                              \
    CALL(cudaMalloc, (void **memory, size_t n), (memory, n))                                       \
    CALL(cudaFree, (void *memory), (memory))                                                       \
    CALL(cudaMallocHost, (void **memory, size_t n), (memory, n))                                   \
    CALL(cudaHostAlloc, (void **memory, size_t n, unsigned flags), (memory, n, flags))             \
    CALL(cudaFreeHost, (void *memory), (memory))                                                   \
    CALL(cudaHostRegister, (void *memory, size_t n, unsigned flags), (memory, n, flags))           \
    CALL(cudaHostUnregister, (void *memory), (memory))                                             \
    CALL(cudaEventCreate, (cudaEvent_t * event), (event))                                          \
    CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags), (event, flags))          \
    CALL(cudaEventDestroy, (cudaEvent_t event), (event))

/* And what shows that it works. Kernels are launched by cudaLaunchKernelExC; nvcc's own launches
 * call __cudaLaunchKernel. */
#define ASYNCHRONOUS(CALL)                                                                         \
    CALL(__cudaLaunchKernel,                                                                       \
         (cudaKernel_t kernel, dim3 blocks, dim3 threads, void **args, size_t shared,              \
          cudaStream_t stream),                                                                    \
         (kernel, blocks, threads, args, shared, stream))                                          \
    CALL(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))               \
    CALL(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *kernel, void **args), \
         (config, kernel, args))                                                                   \
    CALL(cudaLaunchKernel,                                                                         \
         (const void *kernel, dim3 blocks, dim3 threads, void **args, size_t shared,               \
          cudaStream_t stream),                                                                    \
         (kernel, blocks, threads, args, shared, stream))

enum call {
#define NAME(name, parameters, arguments) CALLS_##name,
    SYNCHRONOUS(NAME) N_SYNCHRONOUS,
    LAST_SYNCHRONOUS = N_SYNCHRONOUS - 1,
    ASYNCHRONOUS(NAME) CALLS_copies,
    CALLS_launches,
    CALLS_nodes,
    CALLS_pageable, /* from here on synchronous too */
    CALLS_switches,
    CALLS_instantiations,
    N_CALLS
#undef NAME
};

static atomic_int_least64_t calls[N_CALLS];

static void *next(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "count_calls: there is no %s to call\n", name);
        abort();
    }
    return found;
}

#define COUNTED(name, parameters, arguments)                                                       \
    cudaError_t name parameters                                                                    \
    {                                                                                              \
        static _Atomic(cudaError_t(*) parameters) real;                                            \
        atomic_fetch_add_explicit(&calls[CALLS_##name], 1, memory_order_relaxed);                  \
        if (!real)                                                                                 \
            real = (cudaError_t(*) parameters)next(#name);                                         \
        return real arguments;                                                                     \
    }
SYNCHRONOUS(COUNTED)
ASYNCHRONOUS(COUNTED)

static int pageable(const void *memory)
{
    struct cudaPointerAttributes is;
    return cudaPointerGetAttributes(&is, memory) == cudaSuccess &&
           is.type == cudaMemoryTypeUnregistered;
}

/* Copies of memory that is not pinned go through a buffer of the driver's: the host waits. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    static _Atomic(cudaError_t(*)(void *, const void *, size_t, enum cudaMemcpyKind,
                                  cudaStream_t)) real;
    atomic_fetch_add_explicit(&calls[CALLS_copies], 1, memory_order_relaxed);
    if (pageable(to) || pageable(from))
        atomic_fetch_add_explicit(&calls[CALLS_pageable], 1, memory_order_relaxed);
    if (!real)
        real = (cudaError_t(*)(void *, const void *, size_t, enum cudaMemcpyKind,
                               cudaStream_t))next("cudaMemcpyAsync");
    return real(to, from, n, kind, stream);
}

/* StarPU names its worker's device before each task, which costs nothing if it is in use already.
 */
cudaError_t cudaSetDevice(int device)
{
    static _Atomic(cudaError_t(*)(int)) real;
    static _Thread_local int in_use = -1;
    if (device != in_use)
        atomic_fetch_add_explicit(&calls[CALLS_switches], 1, memory_order_relaxed);
    in_use = device;
    if (!real)
        real = (cudaError_t(*)(int))next("cudaSetDevice");
    return real(device);
}

/* -- Graphs ------------------------------------------------------------------------------------ */

enum { GRAPHS = 1 << 12 };
static struct {
    cudaGraphExec_t graph;
    size_t nodes;
} graphs[GRAPHS]; /* in the order in which they were made; what comes then is not counted */
static atomic_int n_graphs;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *made, cudaGraph_t graph, unsigned long long how)
{
    static _Atomic(cudaError_t(*)(cudaGraphExec_t *, cudaGraph_t, unsigned long long)) real;
    atomic_fetch_add_explicit(&calls[CALLS_instantiations], 1, memory_order_relaxed);
    if (!real)
        real = (cudaError_t(*)(cudaGraphExec_t *, cudaGraph_t, unsigned long long))next(
            "cudaGraphInstantiate");
    const cudaError_t error = real(made, graph, how);
    const int i = atomic_fetch_add(&n_graphs, 1);
    if (error == cudaSuccess && i < GRAPHS &&
        cudaGraphGetNodes(graph, NULL, &graphs[i].nodes) == cudaSuccess)
        graphs[i].graph = *made;
    return error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    static _Atomic(cudaError_t(*)(cudaGraphExec_t, cudaStream_t)) real;
    atomic_fetch_add_explicit(&calls[CALLS_launches], 1, memory_order_relaxed);
    for (int i = atomic_load(&n_graphs); i-- > 0;)
        if (i < GRAPHS && graphs[i].graph == graph) {
            atomic_fetch_add_explicit(&calls[CALLS_nodes], (int64_t)graphs[i].nodes,
                                      memory_order_relaxed);
            break;
        }
    if (!real)
        real = (cudaError_t(*)(cudaGraphExec_t, cudaStream_t))next("cudaGraphLaunch");
    return real(graph, stream);
}

/* -- The window -------------------------------------------------------------------------------- */

static const char *const names[] = {
#define NAME(name, parameters, arguments) #name,
    SYNCHRONOUS(NAME) ASYNCHRONOUS(NAME) "cudaMemcpyAsync",
    "cudaGraphLaunch",
    "nodes of launched graphs",
    "cudaMemcpyAsync of pageable memory",
    "cudaSetDevice to another device",
    "cudaGraphInstantiate"
#undef NAME
};

static void wait_seconds(const char *variable)
{
    const char *text = getenv(variable);
    const double seconds = text ? atof(text) : 10;
    struct timespec rest = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&rest, &rest) != 0)
        ;
}

static void report(const char *path, const int64_t *before)
{
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    int64_t synchronous = 0;
    fprintf(file, "{");
    for (int i = 0; i < N_CALLS; i++) {
        const int64_t n = atomic_load(&calls[i]) - before[i];
        synchronous += i < N_SYNCHRONOUS || i >= CALLS_pageable ? n : 0;
        fprintf(file, "\"%s\": %lld, ", names[i], (long long)n);
    }
    fprintf(file, "\"synchronous\": %lld}\n", (long long)synchronous);
    fclose(file);
}

/* Waits until StarPU has recorded the end of so many tasks, where a number is given, or some time.
 */
static void wait_for(const char *tasks, const char *seconds)
{
    const char *text = getenv(tasks);
    if (!text) {
        wait_seconds(seconds);
        return;
    }
    while (atomic_load(&calls[CALLS_cudaEventRecord]) < atoll(text))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *watch(void *path)
{
    int64_t before[N_CALLS];
    wait_for("HD_COUNT_FROM", "HD_COUNT_AFTER_S");
    for (int i = 0; i < N_CALLS; i++)
        before[i] = atomic_load(&calls[i]);
    wait_for("HD_COUNT_TO", "HD_COUNT_FOR_S");
    report(path, before);
    return NULL;
}

/* Signals are for the program's own threads. */
__attribute__((constructor)) static void begin(void)
{
    char *path = getenv("HD_COUNT_CALLS");
    sigset_t all, held;
    pthread_t watcher;
    if (!path)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &held);
    if (pthread_create(&watcher, NULL, watch, path) == 0)
        pthread_detach(watcher);
    pthread_sigmask(SIG_SETMASK, &held, NULL);
}
