/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the emulated runtime share. Functions return cudaSuccess or the error of the
 * call that they belong to, and have said on stderr what was wrong. */
#pragma once

#include <cuda_runtime_api.h>
#include <functional>
#include <stdint.h>

#define EMU_TRY(call)                                                                              \
    do {                                                                                           \
        const cudaError_t error_ = (call);                                                         \
        if (error_ != cudaSuccess)                                                                 \
            return emulation::result(error_);                                                      \
    } while (0)

namespace emulation
{

enum { MAX_DEVICES = 16 };

/* -- Errors and counters (devices.cpp) --------------------------------------------------------- */

/* Keeps an error for cudaGetLastError and returns it. */
cudaError_t result(cudaError_t error);

/* Says what was wrong about a call that fails. */
cudaError_t refuse(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An error that a GPU once had stays: the one that HD_EMULATED_FAULT asked for, if calls about
 * `device` fail from now on. usable() counts the calls; polls, whose number differs from run to
 * run, only ask. */
cudaError_t fault(int device);

/* Ends the program over what is undefined on a GPU. */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

enum Counter { SYNCHRONOUS_CALLS, PAGEABLE_COPIES, LAUNCHES, GRAPH_LAUNCHES, N_COUNTERS };
void count(Counter counter);

/* -- Devices (devices.cpp) --------------------------------------------------------------------- */

int n_devices();
int device(); /* the calling thread's */

/* Whether there is a device without a fault, and the process did not use one before it forked off
 * this one. Every call that can tell an error, but for polls, asks once or more. */
cudaError_t usable();

/* Whether kernels on device `from` may address the memory of device `to`. */
bool reaches(int from, int to);

/* -- Streams (streams.cpp) --------------------------------------------------------------------- */

/* Work for a stream. It may run again and again, as a part of a graph. */
typedef std::function<void()> Work;

/* Appends to the stream; NULL is the calling thread's device's default stream. While the stream is
 * being captured, the work goes to the graph instead. `late`: it is done when somebody waits. */
cudaError_t enqueue(cudaStream_t stream, Work work, bool late = false);

bool is_captured(cudaStream_t stream);

/* Return when all that was enqueued before the call is done: on the stream, on a device (-1: on
 * all), on the device's streams that synchronise with its default stream. */
cudaError_t wait_for_stream(cudaStream_t stream);
void wait_for_device(int device);
void wait_for_blocking_streams(int device);

/* -- Captures (graphs.cpp) --------------------------------------------------------------------- */

/* Whether this thread may now make a call that is unsafe during a capture; if not, the capture is
 * void. */
cudaError_t outside_captures(const char *call);

/* -- Memory (memory.cpp) ----------------------------------------------------------------------- */

enum { PINNED = -1, PAGEABLE = -2 };

/* The device that holds these bytes, PINNED or PAGEABLE; *fits_p: none of them lies elsewhere. */
int place(const void *address, size_t bytes, bool *fits_p);

/* Lets the calling thread, and no other, address device memory. */
void enter_devices();

} // namespace emulation
