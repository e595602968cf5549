/* SPDX-License-Identifier: Apache-2.0 */
/* Events of the emulated runtime. */
#include "tests/emulation/streams.hpp"

#include <algorithm>
#include <chrono>

using namespace emulation;

/* StarPU asks without rest; here it would take the core from the thread that computes. */
static constexpr std::chrono::microseconds PATIENCE{100};

static cudaError_t known(cudaEvent_t event, const char *call)
{
    if (streams->events.count(event))
        return cudaSuccess;
    return refuse(cudaErrorInvalidResourceHandle, "%s: there is no event %p", call, (void *)event);
}

/* Known, and not a part of a graph: then nobody but its capture may ask for it. */
static cudaError_t check_usable(cudaEvent_t event, const char *call)
{
    EMU_TRY(known(event, call));
    if (event->capture)
        return refuse(cudaErrorCapturedEvent, "%s: the event was recorded in a capture", call);
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event_p, unsigned flags)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    *event_p = new CUevent_st{device(), !(flags & cudaEventDisableTiming)};
    streams->events.insert(*event_p);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event_p)
{
    return cudaEventCreateWithFlags(event_p, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    EMU_TRY(known(event, "cudaEventDestroy"));
    streams->events.erase(event);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    EMU_TRY(known(event, "cudaEventRecord"));
    cudaStream_t on = resolve(stream);
    if (!on || on->device != event->device)
        return result(refuse(cudaErrorInvalidResourceHandle,
                             "cudaEventRecord: stream and event are not of one device"));
    event->capture = on->capture;
    if (on->capture) {
        event->clock = on->capture->clocks[on];
        return cudaSuccess;
    }
    auto count = event->count;
    const uint64_t number = ++count->recorded;
    const auto reach = [=] {
        Held now(streams->lock);
        count->reached = std::max(count->reached, number);
        count->when = std::chrono::steady_clock::now();
    };
    append(on, {reach, nullptr, 0});
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

/* Waits for what has been recorded by now, also if it is recorded again later. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    EMU_TRY(known(event, "cudaStreamWaitEvent"));
    cudaStream_t on = resolve(stream);
    if (!on)
        return result(refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent: no stream"));
    if (event->capture || on->capture)
        return result(join(on, event));
    append(on, {nullptr, event->count, event->count->recorded});
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    EMU_TRY(outside_captures("cudaEventQuery"));
    Held held(streams->lock);
    EMU_TRY(check_usable(event, "cudaEventQuery"));
    EMU_TRY(fault(event->device));
    auto reached = [count = event->count] { return count->reached == count->recorded; };
    return streams->progress.wait_for(held, PATIENCE, reached) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    count(SYNCHRONOUS_CALLS);
    EMU_TRY(usable());
    EMU_TRY(outside_captures("cudaEventSynchronize"));
    Held held(streams->lock);
    EMU_TRY(check_usable(event, "cudaEventSynchronize"));
    auto count = event->count;
    const uint64_t wanted = count->recorded;
    streams->progress.wait(held, [=] { return count->reached >= wanted; });
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    for (cudaEvent_t event : {begin, end}) {
        EMU_TRY(check_usable(event, "cudaEventElapsedTime"));
        if (!event->timed || event->count->recorded == 0)
            return result(refuse(cudaErrorInvalidResourceHandle, "an event without a time"));
        if (event->count->reached < event->count->recorded)
            return cudaErrorNotReady;
    }
    const std::chrono::duration<float, std::milli> passed = end->count->when - begin->count->when;
    *milliseconds = passed.count();
    return cudaSuccess;
}
