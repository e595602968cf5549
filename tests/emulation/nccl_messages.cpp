/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated NCCL's messages: a thread moves them while the streams are held. */
#include "tests/emulation/nccl.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <string.h>
#include <thread>

using namespace emulation;

namespace
{

bool send_chunk(Mailbox &box, Transfer &transfer)
{
    if (box.written.load(std::memory_order_relaxed) != box.read.load(std::memory_order_acquire))
        return false;
    const uint64_t n = std::min<uint64_t>(CHUNK, transfer.bytes - transfer.done);
    if (transfer.done == 0)
        box.message = transfer.bytes;
    memcpy(box.data, transfer.at + transfer.done, n);
    transfer.done += n;
    box.written.fetch_add(1, std::memory_order_release);
    return true;
}

bool receive_chunk(State &state, Mailbox &box, Transfer &transfer)
{
    if (box.written.load(std::memory_order_acquire) == box.read.load(std::memory_order_relaxed))
        return false;
    if (transfer.done == 0 && box.message != transfer.bytes) {
        fail(state, ncclInvalidUsage, "a message of another size than was expected");
        return false;
    }
    const uint64_t n = std::min<uint64_t>(CHUNK, transfer.bytes - transfer.done);
    memcpy(transfer.at + transfer.done, box.data, n);
    transfer.done += n;
    box.read.fetch_add(1, std::memory_order_release);
    return true;
}

/* The first that is not done, for every peer: messages of a pair stay in order. */
template <typename Move> bool move_all(std::vector<Transfer> &transfers, Move move)
{
    bool busy[MAX_RANKS] = {}, moved = false;
    for (Transfer &transfer : transfers) {
        if (transfer.done == transfer.bytes || busy[transfer.peer])
            continue;
        busy[transfer.peer] = true;
        moved = move(transfer) || moved;
    }
    return moved;
}

bool all_done(const std::vector<Transfer> &transfers)
{
    return std::all_of(transfers.begin(), transfers.end(),
                       [](const Transfer &transfer) { return transfer.done == transfer.bytes; });
}

/* With the lock held. */
bool move_messages(State &state, Task &task)
{
    Mailbox(*box)[MAX_RANKS] = state.segment->box;
    const bool sent = move_all(task.sends, [&](Transfer &transfer) {
        return send_chunk(box[state.rank][transfer.peer], transfer);
    });
    return move_all(task.receives,
                    [&](Transfer &transfer) {
                        return receive_chunk(state, box[transfer.peer][state.rank], transfer);
                    }) ||
           sent;
}

/* With the lock held; whether anything happened. */
bool advance(State &state)
{
    Task &task = *state.running.front();
    if (!state.aborted) {
        if (task.lost || state.error != ncclSuccess)
            return false;
        for (; !task.before.empty(); task.before.clear())
            for (auto &work : task.before)
                work();
        const bool moved = move_messages(state, task);
        if (!all_done(task.sends) || !all_done(task.receives))
            return moved;
        for (auto &work : task.after)
            work();
    }
    hd_emulated_release(task.held);
    state.running.pop_front();
    return true;
}

/* Serves the communicators that streams have come to. Never destroyed: its thread runs until the
 * process ends. */
struct Mover {
    std::mutex lock;
    std::condition_variable to_do;
    std::vector<std::shared_ptr<State>> busy;
    bool started = false;
};

Mover *mover = new Mover;

void serve()
{
    hd_emulated_enter_devices();
    std::unique_lock<std::mutex> held(mover->lock);
    for (;;) {
        mover->to_do.wait(held, [] { return !mover->busy.empty(); });
        std::vector<std::shared_ptr<State>> busy = mover->busy;
        held.unlock();
        bool moved = false;
        std::vector<State *> idle;
        for (auto &state : busy) {
            std::lock_guard<std::mutex> own(state->lock);
            if (!state->running.empty())
                moved = advance(*state) || moved;
            if (state->running.empty())
                idle.push_back(state.get());
        }
        if (!moved)
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        held.lock();
        for (State *state : idle) {
            std::lock_guard<std::mutex> own(state->lock);
            auto at = std::find_if(mover->busy.begin(), mover->busy.end(),
                                   [=](auto &other) { return other.get() == state; });
            if (state->running.empty() && at != mover->busy.end())
                mover->busy.erase(at);
        }
    }
}

struct Start {
    std::shared_ptr<State> state;
    std::shared_ptr<Task> task;
};

/* The stream has come to the group. */
void begin(void *argument, hd_emulated_held *held)
{
    std::unique_ptr<Start> start((Start *)argument);
    start->task->held = held;
    std::lock_guard<std::mutex> all(mover->lock);
    {
        std::lock_guard<std::mutex> own(start->state->lock);
        start->state->running.push_back(start->task);
    }
    if (std::find(mover->busy.begin(), mover->busy.end(), start->state) == mover->busy.end())
        mover->busy.push_back(start->state);
    if (!mover->started) {
        mover->started = true;
        std::thread(serve).detach();
    }
    mover->to_do.notify_one();
}

} // namespace

namespace emulation
{

void fail(State &state, ncclResult_t error, const char *what)
{
    if (state.error == ncclSuccess) {
        state.error = error;
        state.what = what;
    }
}

int start(const std::shared_ptr<State> &state, const std::shared_ptr<Task> &task)
{
    return hd_emulated_hold(task->stream, begin, new Start{state, task});
}

} // namespace emulation
