/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the emulated runtime held by what runs elsewhere. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/streams.hpp"

using namespace emulation;

struct hd_emulated_held {
    std::shared_ptr<Count> count;
};

int hd_emulated_hold(void *stream, void (*begin)(void *argument, hd_emulated_held *),
                     void *argument)
{
    EMU_TRY(usable());
    Held held(streams->lock);
    cudaStream_t on = resolve((cudaStream_t)stream);
    if (!on || on->capture)
        return result(
            refuse(cudaErrorInvalidResourceHandle, "%p is no stream that can be held", stream));
    hd_emulated_held *stretch = new hd_emulated_held{std::make_shared<Count>()};
    append(on, {[=] { begin(argument, stretch); }, nullptr, 0});
    append(on, {nullptr, stretch->count, 1});
    return cudaSuccess;
}

void hd_emulated_release(hd_emulated_held *stretch)
{
    Held held(streams->lock);
    stretch->count->reached = 1;
    streams->to_do.notify_one();
    delete stretch;
}

void hd_emulated_enter_devices(void)
{
    enter_devices();
}
