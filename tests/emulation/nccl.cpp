/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for libnccl.so.2 between processes of one machine: ranks meet in a shared segment,
 * whose owner and number are the unique id, and pass one another messages through mailboxes. A
 * thread of this library moves them while the stream is held, so other streams go on.
 *
 * Like the original it fails where a rank misuses it, and only there: communicators are never ready
 * at once (HD_EMULATED_NCCL_POLLS: how often they say so, 2), a call before that is an error, sums
 * of ncclAllReduce go around a ring, ranks that share a device are refused (before 2.30, or unless
 * NCCL_MULTI_RANK_GPU_ENABLE=1; more than two then never meet), and a rank that dies or aborts
 * leaves the others waiting. HD_EMULATED_NCCL_VERSION: what it says of itself.
 * HD_EMULATED_NCCL_FAIL=n: the n-th group of this process ends in ncclRemoteError. */
#include "tests/emulation/nccl.hpp"

#include <algorithm>
#include <chrono>
#include <errno.h>
#include <fcntl.h>
#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <unistd.h>

using namespace emulation;

namespace
{

struct Id {
    pid_t owner;
    int fd;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId), "an id holds it");

int setting(const char *name, int otherwise)
{
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

int version()
{
    return setting("HD_EMULATED_NCCL_VERSION", NCCL_VERSION_CODE);
}

thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
ncclResult_t refuse(ncclResult_t result, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    last_error = text;
    return result;
}

} // namespace

struct ncclComm {
    std::shared_ptr<State> state = std::make_shared<State>();
};

namespace
{

/* -- Progress ---------------------------------------------------------------------------------- */

/* With the lock held. Ranks on one device: what the original says of them. */
void check_devices(State &state)
{
    int max = 1;
    for (int i = 0; i < state.ranks; i++) {
        int same = 0;
        for (int k = 0; k < state.ranks; k++)
            same += state.segment->device[k] == state.segment->device[i];
        max = std::max(max, same);
    }
    const bool allowed = version() >= 23000 && setting("NCCL_MULTI_RANK_GPU_ENABLE", 0) == 1;
    if (max > 1 && (!allowed || setting("NCCL_NVLS_ENABLE", 2) == 1))
        fail(state, ncclInvalidUsage, "Multiple Ranks are using the same GPU/Partition");
    else if (max <= 2)
        state.phase = State::READY;
}

void put_on_stream(const std::shared_ptr<State> &state)
{
    static std::atomic<int> groups;
    for (auto &task : state->queueing) {
        if (++groups == setting("HD_EMULATED_NCCL_FAIL", 0)) {
            task->lost = true;
            fail(*state, ncclRemoteError, "a network that is none");
        }
        if (start(state, task) != cudaSuccess)
            fail(*state, ncclUnhandledCudaError, "no such stream");
    }
    state->queueing.clear();
    state->phase = State::READY;
}

void poll(const std::shared_ptr<State> &state)
{
    if (state->phase != State::READY && state->polls > 0)
        state->polls--;
    else if (state->phase == State::MEETING && state->segment->met == state->ranks)
        check_devices(*state);
    else if (state->phase == State::QUEUEING)
        put_on_stream(state);
    else if (state->phase == State::LEAVING && state->segment->left == state->ranks)
        state->phase = State::READY;
}

ncclResult_t settle(const std::shared_ptr<State> &state)
{
    while (state->blocking) {
        {
            std::lock_guard<std::mutex> held(state->lock);
            poll(state);
            if (state->error != ncclSuccess || state->phase == State::READY)
                return state->error;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return ncclInProgress;
}

/* -- Groups ------------------------------------------------------------------------------------ */

thread_local int depth;
thread_local std::map<ncclComm *, std::shared_ptr<Task>> open_tasks;
thread_local std::vector<ncclComm *> open_aborts;

/* The task of this thread's group for a communicator; NULL: it may not be used now. */
Task *task_of(ncclComm *comm, cudaStream_t stream)
{
    State &state = *comm->state;
    std::lock_guard<std::mutex> held(state.lock);
    if (state.phase != State::READY || state.error != ncclSuccess || state.aborted) {
        refuse(ncclInvalidUsage, "a call while the communicator is not ready");
        return nullptr;
    }
    auto &task = open_tasks[comm];
    if (!task) {
        task = std::make_shared<Task>();
        task->stream = stream;
    }
    if (task->stream != stream) {
        refuse(ncclInvalidUsage, "the emulation has one stream for a group");
        return nullptr;
    }
    return task.get();
}

ncclResult_t check_peer(const ncclComm *comm, int peer)
{
    return peer >= 0 && peer < comm->state->ranks && peer != comm->state->rank
               ? ncclSuccess
               : refuse(ncclInvalidArgument, "there is no other rank %d", peer);
}

size_t bytes_of(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

void add_send(Task &task, const void *from, uint64_t bytes, int peer)
{
    if (bytes)
        task.sends.push_back({peer, (char *)from, bytes, 0});
}

void add_receive(Task &task, void *to, uint64_t bytes, int peer)
{
    if (bytes)
        task.receives.push_back({peer, (char *)to, bytes, 0});
}

/* Element i of chunk c is added from rank c + 1 on, around the ring. */
void add_around(const std::vector<float> &all, size_t n, int ranks, float *to)
{
    for (size_t i = 0; i < n; i++) {
        const size_t first = i * (size_t)ranks / n + 1;
        float sum = all[first % (size_t)ranks * n + i];
        for (size_t k = 1; k < (size_t)ranks; k++)
            sum += all[(first + k) % (size_t)ranks * n + i];
        to[i] = sum;
    }
}

void abort_now(ncclComm *comm)
{
    comm->state->aborted = true;
    for (;;) { /* as the original waits for its kernels */
        {
            std::lock_guard<std::mutex> held(comm->state->lock);
            if (comm->state->running.empty())
                break;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    delete comm;
}

} // namespace

/* -- The interface ----------------------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version_p)
{
    *version_p = version();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        "no error",         "unhandled cuda error", "system error",        "internal error",
        "invalid argument", "invalid usage",        "remote process gone", "in progress"};
    return result < ncclNumResults ? texts[result] : "unknown";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    if (!comm)
        return last_error.c_str();
    std::lock_guard<std::mutex> held(comm->state->lock);
    return comm->state->what.empty() ? last_error.c_str() : comm->state->what.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id_p)
{
    const int fd = memfd_create("nccl_emulated", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof(Segment)) != 0)
        return refuse(ncclSystemError, "no shared memory: %s", strerror(errno));
    const Id id = {getpid(), fd};
    memset(id_p, 0, sizeof *id_p);
    memcpy(id_p, &id, sizeof id);
    return ncclSuccess;
}

static ncclResult_t open_segment(const ncclUniqueId &unique, Segment **segment_p)
{
    Id id;
    char path[64];
    memcpy(&id, &unique, sizeof id);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)id.owner, id.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED
                      : mmap(nullptr, sizeof(Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (at == MAP_FAILED)
        return refuse(ncclSystemError, "%s: %s", path, strerror(error));
    *segment_p = (Segment *)at;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm_p, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (ranks < 1 || ranks > MAX_RANKS || rank < 0 || rank >= ranks)
        return refuse(ncclInvalidArgument, "rank %d of %d", rank, ranks);
    std::unique_ptr<ncclComm> comm(new ncclComm);
    State &state = *comm->state;
    state.rank = rank;
    state.ranks = ranks;
    state.blocking = config->blocking != 0;
    state.polls = setting("HD_EMULATED_NCCL_POLLS", 2);
    cudaDeviceProp properties;
    if (cudaGetDevice(&state.device) != cudaSuccess ||
        cudaGetDeviceProperties(&properties, state.device) != cudaSuccess)
        return refuse(ncclUnhandledCudaError, "no device");
    const ncclResult_t result = open_segment(id, &state.segment);
    if (result != ncclSuccess)
        return result;
    int expected = 0;
    if (!state.segment->ranks.compare_exchange_strong(expected, ranks) && expected != ranks)
        return refuse(ncclInvalidUsage, "%d ranks here, %d there", ranks, expected);
    state.segment->device[rank] = properties.pciBusID + 1000 * setting("HD_EMULATED_HOST", 0);
    state.segment->met++;
    *comm_p = comm.release();
    return settle((*comm_p)->state);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error_p)
{
    State &state = *comm->state;
    std::lock_guard<std::mutex> held(state.lock);
    if (state.error == ncclSuccess)
        poll(comm->state);
    *error_p = state.error != ncclSuccess    ? state.error
               : state.phase == State::READY ? ncclSuccess
                                             : ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    {
        std::lock_guard<std::mutex> held(comm->state->lock);
        if (comm->state->phase != State::READY || comm->state->error != ncclSuccess)
            return refuse(ncclInvalidUsage, "ncclCommFinalize before the communicator is ready");
        comm->state->phase = State::LEAVING;
        comm->state->segment->left++;
    }
    return settle(comm->state);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->state->aborted = true;
    if (depth > 0)
        open_aborts.push_back(comm);
    else
        abort_now(comm);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (depth == 0)
        return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--depth > 0)
        return ncclSuccess;
    ncclResult_t result = ncclSuccess;
    for (auto &open : open_tasks) {
        const std::shared_ptr<State> state = open.first->state;
        {
            std::lock_guard<std::mutex> held(state->lock);
            state->queueing.push_back(open.second);
            state->phase = State::QUEUEING;
            state->polls = setting("HD_EMULATED_NCCL_POLLS", 2);
        }
        result = settle(state);
    }
    open_tasks.clear();
    for (ncclComm *comm : open_aborts)
        abort_now(comm);
    open_aborts.clear();
    return result;
}

/* One call is a group of its own, unless it is in one. */
template <typename Add> static ncclResult_t call(ncclComm_t comm, cudaStream_t stream, Add add)
{
    Task *task = task_of(comm, stream);
    if (!task)
        return ncclInvalidUsage;
    ncclGroupStart();
    add(*task);
    return ncclGroupEnd();
}

ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    if (check_peer(comm, peer) != ncclSuccess)
        return ncclInvalidArgument;
    return call(comm, stream, [&](Task &task) { add_send(task, from, n * bytes_of(type), peer); });
}

ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    if (check_peer(comm, peer) != ncclSuccess)
        return ncclInvalidArgument;
    return call(comm, stream, [&](Task &task) { add_receive(task, to, n * bytes_of(type), peer); });
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t how, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat || how != ncclSum)
        return refuse(ncclInvalidArgument, "the emulation adds floats");
    const int rank = comm->state->rank, ranks = comm->state->ranks;
    return call(comm, stream, [=](Task &task) {
        auto all = std::make_shared<std::vector<float>>((size_t)ranks * n);
        task.before.push_back(
            [=] { memcpy(all->data() + (size_t)rank * n, from, n * sizeof(float)); });
        for (int peer = 0; peer < ranks; peer++)
            if (peer != rank) {
                add_send(task, from, n * sizeof(float), peer);
                add_receive(task, all->data() + (size_t)peer * n, n * sizeof(float), peer);
            }
        task.after.push_back([=] { add_around(*all, n, ranks, (float *)to); });
    });
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    const size_t bytes = n * bytes_of(type);
    const int rank = comm->state->rank, ranks = comm->state->ranks;
    return call(comm, stream, [=](Task &task) {
        task.before.push_back([=] { memmove((char *)to + (size_t)rank * bytes, from, bytes); });
        for (int peer = 0; peer < ranks; peer++)
            if (peer != rank) {
                add_send(task, from, bytes, peer);
                add_receive(task, (char *)to + (size_t)peer * bytes, bytes, peer);
            }
    });
}
