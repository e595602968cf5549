/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the emulated runtime share. One lock guards all of it; one thread of the host,
 * started by the first operation of a process, serves all streams of all devices. */
#ifndef HD_TESTS_EMULATION_RUNTIME_HPP
#define HD_TESTS_EMULATION_RUNTIME_HPP

#include <condition_variable>
#include <cuda_runtime_api.h>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdint.h>
#include <vector>

namespace emulation
{

enum { MAX_DEVICES = 16 };

extern std::mutex lock;

/* Work for a stream; it runs without the lock. */
typedef std::function<void()> Work;

/* Keeps the error for cudaGetLastError and returns it. */
cudaError_t result(cudaError_t error);

/* Says on stderr what was wrong about a call that fails. */
cudaError_t refuse(cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The number of devices, and the calling thread's; `usable` fails in a process whose parent had
 * used devices before it forked, as on a GPU. */
int n_devices();
int device();
cudaError_t usable();

/* -- Counters ---------------------------------------------------------------------------------- */
void count_synchronous();
void count_pageable();
void count_launch();

/* -- Streams ----------------------------------------------------------------------------------- */

/* Appends to the stream; NULL is the calling thread's device's default stream. While the stream is
 * being captured, the work goes to the graph. */
cudaError_t enqueue(cudaStream_t stream, Work work);

/* Whether the stream exists; NULL does. */
bool stream_exists(cudaStream_t stream);
int stream_device(cudaStream_t stream);

/* Returns when all that was enqueued before the call is done: on the stream, on one device (-1: on
 * all), on the device's streams that synchronise with its default stream. */
void wait_for_stream(cudaStream_t stream);
void wait_for_device(int device);
void wait_for_blocking_streams(int device);

/* Calls of this kind are not allowed while a stream is being captured: cudaSuccess, or the error,
 * and the capture is void. */
cudaError_t outside_captures(const char *call);

} // namespace emulation

#endif
