/* SPDX-License-Identifier: Apache-2.0 */
/* A communicator never blocks (ncclConfig_t.blocking 0): after every call its state is asked for
 * before the next, from wherever hd_nccl_test is called. */
#if HD_CUDA
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/gpu_error.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/nccl/comm_nccl_internal.h"
#include "runtime/machine/gpu_path.h"

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

_Static_assert(HD_NCCL_ID_BYTES == NCCL_UNIQUE_ID_BYTES, "an id is NCCL's");

/* -- The library ------------------------------------------------------------------------------- */

#define LIBRARY "libnccl.so.2"

#define FUNCTIONS(X)                                                                               \
    X(GetVersion)                                                                                  \
    X(GetUniqueId)                                                                                 \
    X(GetErrorString)                                                                              \
    X(GetLastError)                                                                                \
    X(CommInitRankConfig)                                                                          \
    X(CommGetAsyncError)                                                                           \
    X(CommFinalize)                                                                                \
    X(CommDestroy)                                                                                 \
    X(CommAbort)                                                                                   \
    X(GroupStart)                                                                                  \
    X(GroupEnd)                                                                                    \
    X(Send)                                                                                        \
    X(Recv)                                                                                        \
    X(AllReduce)                                                                                   \
    X(AllGather)

static struct {
    int version; /* 0: not there */
    char why[HD_DEVICE_COMM_MESSAGE_BYTES];
#define MEMBER(name) __typeof__(nccl##name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} library;

static void *find(void *handle, const char *name)
{
    void *symbol = dlsym(handle, name);
    if (!symbol)
        snprintf(library.why, sizeof library.why, LIBRARY " has no function %s", name);
    return symbol;
}

/* Stays loaded: NCCL's threads and CUDA's callbacks may outlive what used it. */
static void load(void)
{
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(library.why, sizeof library.why,
                 "GPUs of several ranks need NCCL: %s (is its folder in LD_LIBRARY_PATH?)",
                 dlerror());
        return;
    }
#define FIND(name)                                                                                 \
    library.name = (__typeof__(library.name))find(handle, "nccl" #name);                           \
    if (!library.name)                                                                             \
        return;
    FUNCTIONS(FIND)
#undef FIND
    int version = 0;
    library.GetVersion(&version);
    if (version >= HD_NCCL_OLDEST) {
        library.version = version;
        return;
    }
    char found[HD_NCCL_VERSION_BYTES], oldest[HD_NCCL_VERSION_BYTES];
    hd_nccl_format_version(version, found);
    hd_nccl_format_version(HD_NCCL_OLDEST, oldest);
    snprintf(library.why, sizeof library.why, LIBRARY " is NCCL %s; %s or newer is needed", found,
             oldest);
}

const char *hd_nccl_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return library.version != 0 ? NULL : library.why;
}

int hd_nccl_get_loaded_version(void)
{
    return library.version;
}

int hd_nccl_get_version(int *version_p)
{
    const char *why = hd_nccl_load();
    if (why)
        return hd_fail(HD_ERR_UNSUPPORTED, "%s", why);
    *version_p = library.version;
    return HD_OK;
}

/* -- A communicator ---------------------------------------------------------------------------- */

static int fail(struct hd_nccl *nccl, int status, const char *what, const char *says)
{
    if (hd_nccl_is_ok(nccl)) {
        const struct hd_nccl_posted *open =
            nccl->done < nccl->posted ? hd_nccl_get_posted(nccl, nccl->done) : NULL;
        char where[HD_COMM_NAME + 32] = "";
        if (open)
            snprintf(where, sizeof where, " in #%lld %s", (long long)open->sequence,
                     open->collective.name);
        snprintf(nccl->why, sizeof nccl->why, "GPU %d of rank %d%s: %s: %s",
                 nccl->options.devices[0], nccl->options.rank, where, what, says);
        atomic_store_explicit(&nccl->status, status, memory_order_release);
    }
    return atomic_load(&nccl->status);
}

int hd_nccl_check_cuda(struct hd_nccl *nccl, int error, const char *what)
{
    if (error == cudaSuccess)
        return HD_OK;
    hd_gpu_end_if_asked(nccl->options.devices[0], what, cudaGetErrorString(error),
                        cudaGetErrorName(error));
    return fail(nccl, HD_ERR_DEVICE, what, cudaGetErrorString(error));
}

/* Work that NCCL goes on with by itself is no failure. */
static int check_nccl(struct hd_nccl *nccl, ncclResult_t result, const char *what)
{
    if (result == ncclSuccess || result == ncclInProgress)
        return HD_OK;
    char says[HD_DEVICE_COMM_MESSAGE_BYTES / 2];
    const char *last = nccl->comm ? library.GetLastError(nccl->comm) : "";
    const char *more = last && *last ? last : "NCCL_DEBUG=WARN tells more";
    snprintf(says, sizeof says, "%s (%.160s)", library.GetErrorString(result), more);
    return fail(nccl, result == ncclRemoteError ? HD_ERR_PEER : HD_ERR_DEVICE, what, says);
}

bool hd_nccl_is_ready(struct hd_nccl *nccl)
{
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = library.CommGetAsyncError(nccl->comm, &state);
    if (check_nccl(nccl, result, "ncclCommGetAsyncError") != HD_OK ||
        check_nccl(nccl, state, "NCCL") != HD_OK)
        return false;
    return state == ncclSuccess;
}

int hd_nccl_enter(const struct hd_nccl *nccl)
{
    int before = -1;
    cudaGetDevice(&before);
    if (before != nccl->options.devices[0])
        cudaSetDevice(nccl->options.devices[0]);
    return before;
}

/* A thread without a device is told to have 0, and setting that would make a context there. */
void hd_nccl_leave(const struct hd_nccl *nccl, int before)
{
    for (int i = 1; i < nccl->options.n_devices; i++)
        if (nccl->options.devices[i] == before)
            cudaSetDevice(before);
}

/* -- Stages ------------------------------------------------------------------------------------ */
/* Each queues something and returns; the next one is not called before NCCL is ready again. */

/* The calls between group_begin and group_end; `result` keeps the first failure. */
struct group {
    struct hd_nccl *nccl;
    ncclResult_t result;
};

static void add_result(struct group *group, ncclResult_t result)
{
    if (group->result == ncclSuccess && result != ncclInProgress)
        group->result = result;
}

static struct group group_begin(struct hd_nccl *nccl)
{
    return (struct group){nccl, library.GroupStart()};
}

static int group_end(struct group *group, const char *what)
{
    ncclResult_t end = library.GroupEnd();
    add_result(group, end);
    return check_nccl(group->nccl, group->result, what);
}

static void send(struct group *group, const float *from, int64_t n, int peer)
{
    struct hd_nccl *nccl = group->nccl;
    if (n > 0)
        add_result(group, library.Send(from, (size_t)n, ncclFloat, peer, nccl->comm, nccl->stream));
}

static void receive(struct group *group, float *to, int64_t n, int peer)
{
    struct hd_nccl *nccl = group->nccl;
    if (n > 0)
        add_result(group, library.Recv(to, (size_t)n, ncclFloat, peer, nccl->comm, nccl->stream));
}

static int scatter(struct hd_nccl *nccl, const struct hd_device_collective *c)
{
    const int ranks = nccl->options.ranks, rank = nccl->options.rank;
    const int64_t stride = hd_device_comm_get_stride(c->n, ranks);
    int64_t lo, hi, local_lo, local_hi;
    hd_device_comm_get_slice(c->n, rank, ranks, &local_lo, &local_hi);
    struct group group = group_begin(nccl);
    for (int peer = 0; peer < ranks; peer++) {
        float *scratch = c->scratch + peer * stride;
        if (peer == rank)
            continue;
        hd_device_comm_get_slice(c->n, peer, ranks, &lo, &hi);
        send(&group, c->operands + lo, hi - lo, peer);
        receive(&group, scratch, local_hi - local_lo, peer);
        if (c->count) {
            send(&group, c->count, 1, peer);
            receive(&group, scratch + stride - HD_DEVICE_COMM_COUNT_FLOATS, 1, peer);
        }
    }
    return group_end(&group, "reduce-scatter");
}

static int add_slices(struct hd_nccl *nccl, const struct hd_device_collective *c)
{
    const int ranks = nccl->options.ranks, rank = nccl->options.rank;
    const int64_t stride = hd_device_comm_get_stride(c->n, ranks);
    struct hd_operand operands[HD_DEVICE_COMM_RANKS_MAX], counts[HD_DEVICE_COMM_RANKS_MAX];
    int64_t lo, hi;
    hd_device_comm_get_slice(c->n, rank, ranks, &lo, &hi);
    for (int peer = 0; peer < ranks; peer++) {
        const bool is_self = peer == rank;
        const float *scratch = c->scratch + peer * stride;
        const float *count = is_self ? c->count : scratch + stride - HD_DEVICE_COMM_COUNT_FLOATS;
        operands[peer] =
            (struct hd_operand){is_self ? c->operands + lo : scratch, c->count ? count : NULL};
        counts[peer] = (struct hd_operand){count, NULL};
    }
    if (lo < hi)
        return c->add(c->arg, operands, ranks, hi - lo, c->to + lo, c->total, nccl->stream);
    return c->count ? c->add(c->arg, counts, ranks, 1, c->total, NULL, nccl->stream) : HD_OK;
}

static void gather_array(struct group *group, float *data, int64_t n)
{
    struct hd_nccl *nccl = group->nccl;
    const int ranks = nccl->options.ranks, rank = nccl->options.rank;
    int64_t lo, hi, local_lo, local_hi;
    hd_device_comm_get_slice(n, rank, ranks, &local_lo, &local_hi);
    if (n > 0 && n % ((int64_t)ranks * HD_BLOCK) == 0) { /* ncclAllGather needs equal slices */
        add_result(group, library.AllGather(data + local_lo, data, (size_t)(local_hi - local_lo),
                                            ncclFloat, nccl->comm, nccl->stream));
        return;
    }
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == rank)
            continue;
        hd_device_comm_get_slice(n, peer, ranks, &lo, &hi);
        send(group, data + local_lo, local_hi - local_lo, peer);
        receive(group, data + lo, hi - lo, peer);
    }
}

static int gather_sum(struct hd_nccl *nccl, const struct hd_device_collective *c)
{
    struct group group = group_begin(nccl);
    gather_array(&group, c->to, c->n);
    return group_end(&group, "all-gather");
}

static int all_reduce(struct hd_nccl *nccl, const struct hd_device_collective *c)
{
    struct group group = group_begin(nccl);
    if (c->n > 0)
        add_result(&group, library.AllReduce(c->operands, c->to, (size_t)c->n, ncclFloat, ncclSum,
                                             nccl->comm, nccl->stream));
    if (c->count)
        add_result(&group, library.AllReduce(c->count, c->total, 1, ncclFloat, ncclSum, nccl->comm,
                                             nccl->stream));
    return group_end(&group, "all-reduce");
}

static int finish_sum(struct hd_nccl *nccl, const struct hd_device_collective *c)
{
    const struct hd_operand sum = {c->to, c->count ? c->total : NULL};
    return c->add && c->n > 0 ? c->add(c->arg, &sum, 1, c->n, c->to, NULL, nccl->stream) : HD_OK;
}

typedef int (*stage_function)(struct hd_nccl *, const struct hd_device_collective *);

enum { STAGES_MAX = 4 }; /* with a NULL behind the last */

static const stage_function stages[][STAGES_MAX] = {
    [HD_DEVICE_ALL_REDUCE_TREE] = {scatter, add_slices, gather_sum},
    [HD_DEVICE_ALL_REDUCE_LIBRARY] = {all_reduce, finish_sum},
};

int hd_nccl_issue(struct hd_nccl *nccl, struct hd_nccl_posted *next, bool *more_p)
{
    const stage_function stage = stages[next->collective.kind][next->stage];
    *more_p = stage != NULL;
    if (!stage)
        return HD_OK;
    next->stage++;
    int status = stage(nccl, &next->collective);
    return status == HD_OK ? HD_OK : fail(nccl, status, "adding the operands", "failed");
}

/* -- Start and stop ---------------------------------------------------------------------------- */

enum { NAP_NS = 200000, TIMEOUT_S = 40, FINALIZE_S = 5 };

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* Waits until the communicator is ready. Returns false when it failed, or was not ready in time. */
static bool wait_ready(struct hd_nccl *nccl, int64_t timeout_ns)
{
    const int64_t end_ns = hd_clock_get_ns() + timeout_ns;
    while (!hd_nccl_is_ready(nccl)) {
        if (!hd_nccl_is_ok(nccl) || hd_clock_get_ns() > end_ns)
            return false;
        nap();
    }
    return true;
}

static int make_stream(struct hd_nccl *nccl)
{
    int lowest = 0, highest = 0;
    cudaStream_t stream;
    cudaEvent_t event;
    HD_TRY(hd_nccl_check_cuda(nccl, cudaSetDevice(nccl->options.devices[0]), "cudaSetDevice"));
    HD_TRY(hd_nccl_check_cuda(nccl, cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                              "cudaDeviceGetStreamPriorityRange"));
    HD_TRY(hd_nccl_check_cuda(nccl,
                              cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, highest),
                              "cudaStreamCreateWithPriority"));
    nccl->stream = stream;
    for (int i = 0; i < HD_DEVICE_COMM_OPEN_MAX; i++) {
        HD_TRY(hd_nccl_check_cuda(nccl, cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                                  "cudaEventCreateWithFlags"));
        nccl->ring[i].event = event;
    }
    return HD_OK;
}

static int connect_ranks(struct hd_nccl *nccl, const unsigned char *id)
{
    const struct hd_nccl_options *options = &nccl->options;
    const int64_t timeout_ns =
        options->timeout_ns > 0 ? options->timeout_ns : TIMEOUT_S * INT64_C(1000000000);
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    HD_TRY(check_nccl(
        nccl,
        library.CommInitRankConfig(&nccl->comm, options->ranks, unique, options->rank, &config),
        "ncclCommInitRankConfig"));
    if (wait_ready(nccl, timeout_ns))
        return HD_OK;
    char late[64];
    snprintf(late, sizeof late, "not all ranks joined within %g s", (double)timeout_ns * 1e-9);
    return fail(nccl, HD_ERR_PEER, "NCCL", late);
}

int hd_nccl_connect(struct hd_nccl *nccl, const unsigned char id[HD_NCCL_ID_BYTES])
{
    HD_TRY(make_stream(nccl));
    return connect_ranks(nccl, id);
}

int hd_nccl_make_id(unsigned char id[HD_NCCL_ID_BYTES], char *why)
{
    ncclUniqueId unique;
    ncclResult_t result = library.GetUniqueId(&unique);
    if (result != ncclSuccess) {
        snprintf(why, HD_DEVICE_COMM_MESSAGE_BYTES, "ncclGetUniqueId: %s (%.200s)",
                 library.GetErrorString(result), library.GetLastError(NULL));
        return HD_ERR_DEVICE;
    }
    memcpy(id, &unique, sizeof unique);
    return HD_OK;
}

void hd_nccl_abort(struct hd_device_comm *device_comm)
{
    /* Whoever holds the lock is within a call of NCCL's that returns soon, or hangs: then it is
     * what must be aborted. */
    enum { PATIENCE_S = 2 };
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    const bool locked = pthread_mutex_timedlock(&nccl->lock, &until) == 0;
    if (nccl->comm) {
        fail(nccl, HD_ERR_PEER, "NCCL", "aborted");
        int before = hd_nccl_enter(nccl);
        library.CommAbort(nccl->comm);
        hd_nccl_leave(nccl, before);
        nccl->comm = NULL;
    }
    if (locked)
        pthread_mutex_unlock(&nccl->lock);
}

/* A rank that has failed does not leave. */
static bool wait_for_leave(struct hd_nccl *nccl)
{
    const int64_t end_ns = hd_clock_get_ns() + FINALIZE_S * INT64_C(1000000000);
    while (hd_nccl_is_ok(nccl) && hd_clock_get_ns() < end_ns &&
           !(nccl->base.comm && hd_comm_is_aborted(nccl->base.comm)))
        if (wait_ready(nccl, 10 * NAP_NS))
            return true;
    return false;
}

/* Leaves in order if everything that was queued has ended, so that only the other ranks' leaving is
 * waited for. */
static bool finalize(struct hd_nccl *nccl)
{
    if (!hd_nccl_is_ok(nccl) || nccl->done < nccl->posted ||
        check_nccl(nccl, library.CommFinalize(nccl->comm), "ncclCommFinalize") != HD_OK ||
        !wait_for_leave(nccl))
        return false;
    library.CommDestroy(nccl->comm);
    nccl->comm = NULL;
    return true;
}

void hd_nccl_destroy(struct hd_device_comm *device_comm)
{
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
    int before = hd_nccl_enter(nccl);
    if (nccl->comm && !finalize(nccl))
        hd_nccl_abort(device_comm);
    for (int i = 0; i < HD_DEVICE_COMM_OPEN_MAX; i++)
        if (nccl->ring[i].event)
            cudaEventDestroy(nccl->ring[i].event);
    if (nccl->stream)
        cudaStreamDestroy(nccl->stream);
    hd_nccl_leave(nccl, before);
    pthread_mutex_destroy(&nccl->lock);
    hd_free(nccl);
}
#endif
