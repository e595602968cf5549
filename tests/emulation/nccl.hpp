/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of the emulated NCCL and the thread that moves its messages share. */
#pragma once

#include "tests/emulation/emulation.h"

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nccl.h>
#include <stdint.h>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace emulation
{

enum { MAX_RANKS = 8, CHUNK = 32768 };

/* -- What ranks share -------------------------------------------------------------------------- */

/* One message at a time, chunk by chunk: written by the one rank, read by the other. */
struct Mailbox {
    std::atomic<uint64_t> written, read; /* chunks */
    uint64_t message;                    /* bytes of the whole */
    char data[CHUNK];
};

struct Segment {
    std::atomic<int> ranks, met, left; /* how many of them have come and gone */
    std::atomic<int> device[MAX_RANKS];
    Mailbox box[MAX_RANKS][MAX_RANKS]; /* [from][to] */
};

/* -- Communicators ----------------------------------------------------------------------------- */

struct Transfer {
    int peer;
    char *at;
    uint64_t bytes, done;
};

/* What a group does on one communicator. */
struct Task {
    std::vector<Transfer> sends, receives;
    std::vector<std::function<void()>> before, after; /* on this rank's own memory */
    cudaStream_t stream = nullptr;
    hd_emulated_held *held = nullptr;
    bool lost = false;
};

struct State {
    std::mutex lock;
    Segment *segment = nullptr;
    int rank = 0, ranks = 0, device = 0;
    bool blocking = false;
    enum { MEETING, READY, QUEUEING, LEAVING } phase = MEETING;
    int polls = 0;
    ncclResult_t error = ncclSuccess;
    std::string what; /* the last error */
    std::atomic<bool> aborted{false};
    std::deque<std::shared_ptr<Task>> queueing; /* not on the stream yet */
    std::deque<std::shared_ptr<Task>> running;  /* reached by the stream */
    ~State()
    {
        if (segment)
            munmap(segment, sizeof *segment);
    }
};

/* Keeps the first error. With the lock held. */
void fail(State &state, ncclResult_t error, const char *what);

/* Puts the task on its stream: it is moved once the stream has come to it. A
 * cudaError_t. */
int start(const std::shared_ptr<State> &state, const std::shared_ptr<Task> &task);

} // namespace emulation
