/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the emulated runtime: queues that one thread of the host serves in turn. */
#include "tests/emulation/streams.hpp"

#include "tests/emulation/kernel.hpp"

#include <algorithm>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

using namespace emulation;

Streams *const emulation::streams = new Streams;

/* -- Serving ----------------------------------------------------------------------------------- */

static bool ready(const CUstream_st &stream)
{
    const Operation &next = stream.queue.front();
    if (next.late && stream.queue.back().late && stream.waiters == 0)
        return false;
    return !next.event || next.event->reached >= next.reached;
}

/* Of the streams whose first operation can run the next after the one served last, or any if the
 * order is random; NULL: there is none. */
static cudaStream_t next_stream()
{
    static std::vector<cudaStream_t> able; /* of the thread that serves the streams */
    static std::vector<uint32_t> order;
    static uint64_t n_served;
    able.clear();
    for (cudaStream_t stream : streams->all)
        if (!stream->queue.empty() && ready(*stream))
            able.push_back(stream);
    if (able.empty())
        return nullptr;
    if (hd_emulated_order_is_random()) {
        hd_emulated_put_in_order(order, able.size(), n_served++);
        return able[order.front()];
    }
    const auto next = std::upper_bound(able.begin(), able.end(), streams->last);
    return next == able.end() ? able.front() : *next;
}

static void forget_if_destroyed(cudaStream_t stream)
{
    if (stream->destroyed && stream->done == stream->enqueued) {
        streams->all.erase(stream);
        delete stream;
    }
}

/* A GPU takes no core of those to which the thread is bound that first uses it. */
static void run_anywhere()
{
    cpu_set_t all;
    memset(&all, 0xFF, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    prctl(PR_SET_NAME, "emulated GPU");
}

[[noreturn]] static void serve()
{
    const char *delay = getenv("HD_EMULATED_DELAY_US");
    const std::chrono::microseconds pause(delay ? atol(delay) : 0);
    enter_devices();
    run_anywhere();
    Held held(streams->lock);
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
        if (pause.count() > 0)
            std::this_thread::sleep_for(pause);
        if (operation.work)
            operation.work();
        operation = Operation();
        held.lock();
        stream->done++;
        forget_if_destroyed(stream);
        streams->progress.notify_all();
    }
}

cudaStream_t emulation::resolve(cudaStream_t stream)
{
    if (stream)
        return streams->all.count(stream) && !stream->destroyed ? stream : nullptr;
    cudaStream_t &own = streams->of_device[device()];
    if (!own)
        streams->all.insert(own = new CUstream_st{device(), true});
    return own;
}

void emulation::append(cudaStream_t stream, Operation operation)
{
    if (!streams->started)
        std::thread(serve).detach();
    streams->started = true;
    stream->queue.push_back(std::move(operation));
    stream->enqueued++;
    streams->to_do.notify_one();
}

static cudaError_t no_stream(cudaStream_t stream, const char *call)
{
    return refuse(cudaErrorInvalidResourceHandle, "%s: there is no stream %p", call,
                  (void *)stream);
}

cudaError_t emulation::enqueue(cudaStream_t stream, Work work, bool late)
{
    Held held(streams->lock);
    cudaStream_t to = resolve(stream);
    if (!to)
        return no_stream(stream, "work");
    if (to->capture)
        capture(to, std::move(work));
    else
        append(to, {std::move(work), nullptr, 0, late});
    return cudaSuccess;
}

bool emulation::is_captured(cudaStream_t stream)
{
    Held held(streams->lock);
    cudaStream_t of = resolve(stream);
    return of && of->capture;
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static void wait_for(Held &held, cudaStream_t stream)
{
    const uint64_t enqueued = stream->enqueued;
    stream->waiters++;
    streams->to_do.notify_one();
    streams->progress.wait(held,
                           [=] { return !streams->all.count(stream) || stream->done >= enqueued; });
    if (streams->all.count(stream))
        stream->waiters--;
}

cudaError_t emulation::wait_for_stream(cudaStream_t stream)
{
    Held held(streams->lock);
    cudaStream_t of = resolve(stream);
    if (!of)
        return no_stream(stream, "a wait");
    EMU_TRY(not_while_captured(of, "a wait for the stream"));
    wait_for(held, of);
    return cudaSuccess;
}

/* Goes through a copy of the set, which changes while this waits. */
template <typename Predicate> static void wait_for_all(Predicate wanted)
{
    Held held(streams->lock);
    for (cudaStream_t stream : std::set<cudaStream_t>(streams->all))
        if (streams->all.count(stream) && wanted(stream))
            wait_for(held, stream);
}

void emulation::wait_for_device(int device)
{
    wait_for_all([=](cudaStream_t stream) { return device < 0 || stream->device == device; });
}

void emulation::wait_for_blocking_streams(int device)
{
    wait_for_all([=](cudaStream_t stream) { return stream->device == device && stream->blocking; });
}

/* -- Launches ---------------------------------------------------------------------------------- */

static cudaError_t launch_mistake(const hd_emulated_kernel &kernel, cudaStream_t stream)
{
    const dim3 grid = kernel.grid, block = kernel.block;
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > INT32_MAX || grid.y > UINT16_MAX ||
        grid.z > UINT16_MAX || block.x < 1 || block.y < 1 || block.z < 1 || block.x > 1024 ||
        block.y > 1024 || block.z > 64 || block.x * block.y * block.z > 1024)
        return refuse(cudaErrorInvalidConfiguration, "%s: %u x %u x %u blocks of %u x %u x %u",
                      kernel.name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
    if (!stream)
        die("%s on the default stream, which waits for others", kernel.name);
    Held held(streams->lock);
    cudaStream_t on = resolve(stream);
    if (!on || on->device != device())
        return refuse(cudaErrorInvalidResourceHandle, "%s: no stream of device %d: %p", kernel.name,
                      device(), (void *)stream);
    return cudaSuccess;
}

void hd_emulated_check(const char *kernel, int argument, const void *pointer)
{
    bool fits;
    const int where = place(pointer, 0, &fits);
    if (!pointer || where == PINNED || (where >= 0 && reaches(device(), where)))
        return;
    die("argument %d of %s points to memory that device %d cannot address", argument, kernel,
        device());
}

void hd_emulated_launch(hd_emulated_kernel kernel, cudaStream_t stream)
{
    cudaError_t error = usable();
    if (error == cudaSuccess)
        error = launch_mistake(kernel, stream);
    if (error == cudaSuccess) {
        count(LAUNCHES);
        error = enqueue(stream, [kernel = std::move(kernel)] { hd_emulated_run(kernel); });
    }
    result(error);
}

cudaError_t hd_emulated_enqueue(cudaStream_t stream, std::function<void()> work)
{
    EMU_TRY(usable());
    return result(enqueue(stream, std::move(work)));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    EMU_TRY(usable());
    return result(enqueue(stream, [=] { function(argument); }));
}

/* -- Calls ------------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream_p, unsigned flags)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    *stream_p = new CUstream_st{device(), !(flags & cudaStreamNonBlocking)};
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
    return result(usable());
}

/* What it was given is still done. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    if (!stream || !resolve(stream))
        return result(no_stream(stream, "cudaStreamDestroy"));
    stream->destroyed = true;
    forget_if_destroyed(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    Held held(streams->lock);
    cudaStream_t of = resolve(stream);
    if (!of)
        return result(no_stream(stream, "cudaStreamQuery"));
    EMU_TRY(not_while_captured(of, "cudaStreamQuery"));
    EMU_TRY(fault(of->device));
    return of->done == of->enqueued ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    return result(wait_for_stream(stream));
}

cudaError_t cudaDeviceSynchronize(void)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    EMU_TRY(outside_captures("cudaDeviceSynchronize"));
    wait_for_device(device());
    return cudaSuccess;
}
