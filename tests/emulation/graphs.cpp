/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of streams and the graphs made of them. A graph is launched as one operation of a
 * stream, which runs the nodes in the order of their capture. */
#include "tests/emulation/streams.hpp"

#include <algorithm>

using namespace emulation;

struct CUgraph_st {
    std::vector<Work> nodes;
};

struct CUgraphExec_st {
    std::shared_ptr<const std::vector<Work>> nodes;
};

/* -- While a capture lasts --------------------------------------------------------------------- */

static cudaError_t spoil(Capture &capture, cudaError_t error, const char *call, const char *why)
{
    capture.valid = false;
    return refuse(error, "%s while a stream is being captured: %s", call, why);
}

void emulation::capture(cudaStream_t stream, Work work)
{
    stream->capture->nodes.push_back(std::move(work));
    stream->capture->clocks[stream][stream]++;
}

cudaError_t emulation::join(cudaStream_t stream, cudaEvent_t event)
{
    if (!event->capture)
        return spoil(*stream->capture, cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent",
                     "the event belongs to no capture");
    if (!streams->captures.count(event->capture))
        return refuse(cudaErrorCapturedEvent, "cudaStreamWaitEvent: the event's capture is over");
    if (stream->capture && stream->capture != event->capture)
        return spoil(*stream->capture, cudaErrorStreamCaptureMerge, "cudaStreamWaitEvent",
                     "the event belongs to another");
    stream->capture = event->capture;
    Clock &clock = stream->capture->clocks[stream];
    for (auto [other, time] : event->clock)
        clock[other] = std::max(clock[other], time);
    return cudaSuccess;
}

cudaError_t emulation::not_while_captured(cudaStream_t stream, const char *call)
{
    if (!stream->capture)
        return cudaSuccess;
    return spoil(*stream->capture, cudaErrorStreamCaptureUnsupported, call, "not allowed");
}

cudaError_t emulation::outside_captures(const char *call)
{
    Held held(streams->lock);
    for (auto &capture : streams->captures)
        if (capture->mode == cudaStreamCaptureModeGlobal ||
            (capture->mode == cudaStreamCaptureModeThreadLocal &&
             capture->thread == std::this_thread::get_id()))
            return spoil(*capture, cudaErrorStreamCaptureUnsupported, call, "not allowed");
    return cudaSuccess;
}

/* -- Its begin and end ------------------------------------------------------------------------- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    if (!stream || !resolve(stream))
        return result(refuse(cudaErrorStreamCaptureUnsupported, "no stream that can be captured"));
    if (stream->capture)
        return result(refuse(cudaErrorIllegalState, "the stream is being captured already"));
    auto capture = std::make_shared<Capture>();
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->clocks[stream][stream] = 0;
    streams->captures.insert(stream->capture = capture);
    return cudaSuccess;
}

/* Whether the origin comes after all that the other streams were given. */
static bool all_joined(Capture &capture)
{
    Clock &origin = capture.clocks[capture.origin];
    return std::all_of(capture.clocks.begin(), capture.clocks.end(), [&](auto &entry) {
        return origin[entry.first] >= entry.second[entry.first];
    });
}

static cudaError_t end_mistake(Capture &capture, cudaStream_t stream)
{
    if (capture.origin != stream)
        return refuse(cudaErrorStreamCaptureUnmatched, "the capture began on another stream");
    if (capture.mode != cudaStreamCaptureModeRelaxed &&
        capture.thread != std::this_thread::get_id())
        return refuse(cudaErrorStreamCaptureWrongThread, "the capture began in another thread");
    if (!capture.valid)
        return refuse(cudaErrorStreamCaptureInvalidated, "the capture was made void");
    if (!all_joined(capture))
        return refuse(cudaErrorStreamCaptureUnjoined, "a stream of the capture was not joined");
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph_p)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    *graph_p = nullptr;
    if (!stream || !resolve(stream) || !stream->capture)
        return result(refuse(cudaErrorIllegalState, "no capture of this stream to end"));
    auto capture = stream->capture;
    const cudaError_t error = end_mistake(*capture, stream);
    for (auto &entry : capture->clocks)
        if (streams->all.count(entry.first))
            entry.first->capture = nullptr;
    streams->captures.erase(capture);
    if (error == cudaSuccess)
        *graph_p = new CUgraph_st{std::move(capture->nodes)};
    return result(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status_p)
{
    Held held(streams->lock);
    cudaStream_t of = resolve(stream);
    if (!of)
        return result(refuse(cudaErrorInvalidResourceHandle, "no stream to ask about"));
    *status_p = !of->capture         ? cudaStreamCaptureStatusNone
                : of->capture->valid ? cudaStreamCaptureStatusActive
                                     : cudaStreamCaptureStatusInvalidated;
    return cudaSuccess;
}

/* -- Graphs ------------------------------------------------------------------------------------ */

/* Their number; nothing is known of single nodes. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n_p)
{
    if (nodes)
        return result(refuse(cudaErrorNotSupported, "cudaGraphGetNodes"));
    *n_p = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec_p, cudaGraph_t graph, unsigned long long)
{
    EMU_TRY(usable());
    if (!graph)
        return result(refuse(cudaErrorInvalidValue, "no graph to instantiate"));
    *exec_p = new CUgraphExec_st{std::make_shared<const std::vector<Work>>(graph->nodes)};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec_p, cudaGraph_t graph,
                                          unsigned long long flags)
{
    return cudaGraphInstantiate(exec_p, graph, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    EMU_TRY(usable());
    delete graph;
    return cudaSuccess;
}

/* Launches that are under way keep the nodes. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    EMU_TRY(usable());
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return result(usable());
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    EMU_TRY(usable());
    if (!exec)
        return result(refuse(cudaErrorInvalidValue, "no graph to launch"));
    count(GRAPH_LAUNCHES);
    return result(enqueue(stream, [nodes = exec->nodes] {
        for (const Work &node : *nodes)
            node();
    }));
}
