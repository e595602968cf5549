/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the emulated runtime: queues that one thread serves in turn. */
#include "tests/emulation/kernel.hpp"
#include "tests/emulation/runtime.hpp"

#include <chrono>
#include <map>
#include <pthread.h>
#include <set>
#include <stdlib.h>
#include <thread>

using namespace emulation;

/* How often an event was recorded, and how many of these the streams have come to. */
struct CUevent_st {
    struct Count {
        uint64_t recorded = 0, reached = 0;
    };
    std::shared_ptr<Count> count = std::make_shared<Count>();
    int device;
    bool timed;
    std::chrono::steady_clock::time_point when;
};

namespace
{

struct Operation {
    Work work;
    /* Runs when the event has been reached so often. */
    std::shared_ptr<CUevent_st::Count> event;
    uint64_t reached = 0;
};

} // namespace

struct CUstream_st {
    int device;
    bool blocking; /* synchronises with the default stream */
    bool destroyed = false;
    uint64_t enqueued = 0, done = 0;
    std::deque<Operation> queue;
};

namespace emulation
{

std::mutex lock;

} // namespace emulation

namespace
{

/* Never destroyed: the thread runs until the process ends. */
struct Streams {
    std::set<cudaStream_t> all; /* the default streams too */
    std::set<cudaEvent_t> events;
    cudaStream_t of_device[MAX_DEVICES] = {};
    std::condition_variable to_do, progress;
    bool started = false;
    cudaStream_t last = nullptr; /* served last */
};

Streams *streams = new Streams;

bool ready(const Operation &operation)
{
    return !operation.event || operation.event->reached >= operation.reached;
}

/* The next stream after the last one served whose first operation can run; NULL: none. */
cudaStream_t next_stream()
{
    auto after = streams->all.upper_bound(streams->last);
    for (size_t i = 0; i < streams->all.size(); i++, ++after) {
        if (after == streams->all.end())
            after = streams->all.begin();
        if (!(*after)->queue.empty() && ready((*after)->queue.front()))
            return *after;
    }
    return nullptr;
}

void serve()
{
    const char *delay = getenv("HD_EMULATED_DELAY_US");
    const std::chrono::microseconds pause(delay ? atol(delay) : 0);
    std::unique_lock<std::mutex> held(lock);
    for (;;) {
        cudaStream_t stream = next_stream();
        if (!stream) {
            streams->to_do.wait(held);
            continue;
        }
        streams->last = stream;
        Operation operation = std::move(stream->queue.front());
        stream->queue.pop_front();
        held.unlock();
        if (pause.count())
            std::this_thread::sleep_for(pause);
        if (operation.work)
            operation.work();
        operation = Operation();
        held.lock();
        stream->done++;
        if (stream->destroyed && stream->queue.empty()) {
            streams->all.erase(stream);
            delete stream;
        }
        streams->progress.notify_all();
    }
}

/* With the lock held. */
cudaStream_t resolve(cudaStream_t stream)
{
    if (stream)
        return streams->all.count(stream) && !stream->destroyed ? stream : nullptr;
    cudaStream_t &own = streams->of_device[device()];
    if (!own)
        streams->all.insert(own = new CUstream_st{device(), true, false, 0, 0, {}});
    return own;
}

void append(cudaStream_t stream, Operation operation)
{
    if (!streams->started) {
        streams->started = true;
        std::thread(serve).detach();
    }
    stream->queue.push_back(std::move(operation));
    stream->enqueued++;
    streams->to_do.notify_one();
}

void wait_for(std::unique_lock<std::mutex> &held, cudaStream_t stream)
{
    const uint64_t enqueued = stream->enqueued;
    streams->progress.wait(held,
                           [&] { return !streams->all.count(stream) || stream->done >= enqueued; });
}

/* Copies the set: it changes while this waits. */
template <typename Predicate> void wait_for_all(Predicate wanted)
{
    std::unique_lock<std::mutex> held(lock);
    for (cudaStream_t stream : std::set<cudaStream_t>(streams->all))
        if (streams->all.count(stream) && wanted(stream))
            wait_for(held, stream);
}

} // namespace

namespace emulation
{

cudaError_t enqueue(cudaStream_t stream, Work work)
{
    std::lock_guard<std::mutex> held(lock);
    cudaStream_t to = resolve(stream);
    if (!to)
        return refuse(cudaErrorInvalidResourceHandle, "there is no stream %p", (void *)stream);
    append(to, {std::move(work), nullptr, 0});
    return cudaSuccess;
}

bool stream_exists(cudaStream_t stream)
{
    std::lock_guard<std::mutex> held(lock);
    return resolve(stream) != nullptr;
}

int stream_device(cudaStream_t stream)
{
    std::lock_guard<std::mutex> held(lock);
    return resolve(stream)->device;
}

void wait_for_stream(cudaStream_t stream)
{
    std::unique_lock<std::mutex> held(lock);
    wait_for(held, resolve(stream));
}

void wait_for_device(int device)
{
    wait_for_all([=](cudaStream_t stream) { return device < 0 || stream->device == device; });
}

void wait_for_blocking_streams(int device)
{
    wait_for_all([=](cudaStream_t stream) { return stream->device == device && stream->blocking; });
}

cudaError_t outside_captures(const char *)
{
    return cudaSuccess;
}

} // namespace emulation

/* -- Launches ---------------------------------------------------------------------------------- */

static cudaError_t launch_mistake(const hd_emulated_kernel &kernel, cudaStream_t stream)
{
    const dim3 grid = kernel.grid, block = kernel.block;
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > INT32_MAX || grid.y > UINT16_MAX ||
        grid.z > UINT16_MAX || block.x < 1 || block.y < 1 || block.z < 1 || block.x > 1024 ||
        block.y > 1024 || block.z > 64 || (uint64_t)block.x * block.y * block.z > 1024)
        return refuse(cudaErrorInvalidConfiguration, "%s: %u x %u x %u blocks of %u x %u x %u",
                      kernel.name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
    if (!stream) {
        refuse(cudaErrorInvalidResourceHandle, "%s on the default stream", kernel.name);
        abort();
    }
    if (!stream_exists(stream) || stream_device(stream) != device())
        return refuse(cudaErrorInvalidResourceHandle, "%s: no stream of device %d: %p", kernel.name,
                      device(), (void *)stream);
    return cudaSuccess;
}

void hd_emulated_launch(hd_emulated_kernel kernel, cudaStream_t stream)
{
    cudaError_t error = usable();
    if (error == cudaSuccess)
        error = launch_mistake(kernel, stream);
    if (error == cudaSuccess) {
        count_launch();
        error = enqueue(stream, [kernel = std::move(kernel)] { hd_emulated_run(kernel); });
    }
    result(error);
}

cudaError_t hd_emulated_enqueue(cudaStream_t stream, std::function<void()> work)
{
    return result(enqueue(stream, std::move(work)));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    return result(enqueue(stream, [=] { function(argument); }));
}

/* -- Streams ----------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream_p, unsigned flags)
{
    if (usable() != cudaSuccess)
        return result(usable());
    std::lock_guard<std::mutex> held(lock);
    *stream_p = new CUstream_st{device(), !(flags & cudaStreamNonBlocking), false, 0, 0, {}};
    streams->all.insert(*stream_p);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream_p)
{
    return cudaStreamCreateWithFlags(stream_p, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream_p, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream_p, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = *greatest = 0;
    return cudaSuccess;
}

/* What it was given is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    std::lock_guard<std::mutex> held(lock);
    if (!stream || !resolve(stream))
        return result(refuse(cudaErrorInvalidResourceHandle, "no stream to destroy"));
    stream->destroyed = true;
    if (stream->done == stream->enqueued) {
        streams->all.erase(stream);
        delete stream;
    }
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    std::lock_guard<std::mutex> held(lock);
    cudaStream_t of = resolve(stream);
    if (!of)
        return result(refuse(cudaErrorInvalidResourceHandle, "no stream to query"));
    return of->done == of->enqueued ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    count_synchronous();
    if (!stream_exists(stream))
        return result(refuse(cudaErrorInvalidResourceHandle, "no stream to wait for"));
    wait_for_stream(stream);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    count_synchronous();
    wait_for_device(device());
    return cudaSuccess;
}

/* -- Events ------------------------------------------------------------------------------------ */

static bool known(cudaEvent_t event)
{
    return streams->events.count(event) > 0;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_p, unsigned flags)
{
    if (usable() != cudaSuccess)
        return result(usable());
    std::lock_guard<std::mutex> held(lock);
    cudaEvent_t event = new CUevent_st;
    event->device = device();
    event->timed = !(flags & cudaEventDisableTiming);
    streams->events.insert(*event_p = event);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event_p)
{
    return cudaEventCreateWithFlags(event_p, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    std::lock_guard<std::mutex> held(lock);
    if (!streams->events.erase(event))
        return result(refuse(cudaErrorInvalidResourceHandle, "no event to destroy"));
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned)
{
    std::lock_guard<std::mutex> held(lock);
    cudaStream_t on = resolve(stream);
    if (!known(event) || !on || on->device != event->device)
        return result(refuse(cudaErrorInvalidResourceHandle, "no event and stream of one device"));
    auto count = event->count;
    const uint64_t mine = ++count->recorded;
    append(on, {[=] {
                    std::lock_guard<std::mutex> now(lock);
                    count->reached = std::max(count->reached, mine);
                },
                nullptr, 0});
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, 0);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    std::lock_guard<std::mutex> held(lock);
    cudaStream_t on = resolve(stream);
    if (!known(event) || !on)
        return result(refuse(cudaErrorInvalidResourceHandle, "no stream and event to wait for"));
    append(on, {nullptr, event->count, event->count->recorded});
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    std::lock_guard<std::mutex> held(lock);
    if (!known(event))
        return result(refuse(cudaErrorInvalidResourceHandle, "no event to query"));
    return event->count->reached == event->count->recorded ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    count_synchronous();
    std::unique_lock<std::mutex> held(lock);
    if (!known(event))
        return result(refuse(cudaErrorInvalidResourceHandle, "no event to wait for"));
    auto count = event->count;
    const uint64_t wanted = count->recorded;
    streams->progress.wait(held, [&] { return count->reached >= wanted; });
    return cudaSuccess;
}
