/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and captures of the emulated runtime, all under one lock. */
#pragma once

#include "tests/emulation/runtime.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace emulation
{

/* How much of each stream's work comes before a point. */
typedef std::map<cudaStream_t, uint64_t> Clock;

/* While it lasts, work of its streams becomes nodes of the graph, in the order of the calls, which
 * is one that respects all dependencies. The clocks tell whether every stream that joined through
 * an event was joined in turn by the one where the capture began. */
struct Capture {
    cudaStream_t origin;
    cudaStreamCaptureMode mode;
    std::thread::id thread;
    std::vector<Work> nodes;
    std::map<cudaStream_t, Clock> clocks; /* of the streams that take part */
    bool valid = true;
};

/* How often an event was recorded, and how many of these records the streams have come to. */
struct Count {
    uint64_t recorded = 0, reached = 0;
    std::chrono::steady_clock::time_point when; /* it was last reached */
};

/* What a stream does next, once the event (if any) has been reached so often. What is late is done
 * when somebody waits for the stream, as late as a GPU may do it. */
struct Operation {
    Work work;
    std::shared_ptr<Count> event;
    uint64_t reached;
    bool late = false;
};

} // namespace emulation

struct CUstream_st {
    int device;
    bool blocking; /* synchronises with the default stream */
    bool destroyed = false;
    uint64_t enqueued = 0, done = 0;
    int waiters = 0; /* threads that wait for what is enqueued */
    std::deque<emulation::Operation> queue = {};
    std::shared_ptr<emulation::Capture> capture = {};
};

struct CUevent_st {
    int device;
    bool timed;
    std::shared_ptr<emulation::Count> count = std::make_shared<emulation::Count>();
    /* If it was last recorded in a capture: which, and what came before. */
    std::shared_ptr<emulation::Capture> capture = {};
    emulation::Clock clock = {};
};

namespace emulation
{

/* Never destroyed: the thread that serves the streams runs until the process ends. */
struct Streams {
    std::mutex lock;
    std::condition_variable to_do, progress;
    std::set<cudaStream_t> all; /* with the default streams */
    std::set<cudaEvent_t> events;
    std::set<std::shared_ptr<Capture>> captures;
    cudaStream_t of_device[MAX_DEVICES] = {};
    cudaStream_t last = nullptr; /* served last */
    bool started = false;
};

extern Streams *const streams;
typedef std::unique_lock<std::mutex> Held;

/* All with the lock held. The stream that a handle means; NULL if there is none. */
cudaStream_t resolve(cudaStream_t stream);
void append(cudaStream_t stream, Operation operation);

/* Adds to the stream's graph. */
void capture(cudaStream_t stream, Work work);

/* A stream that waits for an event recorded in a capture takes part in it. */
cudaError_t join(cudaStream_t stream, cudaEvent_t event);

/* A call that a stream which is being captured does not allow: the capture is void. */
cudaError_t not_while_captured(cudaStream_t stream, const char *call);

} // namespace emulation
