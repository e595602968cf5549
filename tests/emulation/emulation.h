/* SPDX-License-Identifier: Apache-2.0 */
/* What tests ask the emulation of GPUs about, since the process started. Thread safe.
 *
 * Set in the environment:
 * - HD_EMULATED_DEVICES: the number of devices (1). CUDA_VISIBLE_DEVICES chooses among them, by
 *   number.
 * - HD_EMULATED_HOST: processes with different numbers have other devices for NCCL (0).
 * - HD_EMULATED_DELAY_US: so long every operation of a stream is held up before it begins (0).
 * - HD_EMULATED_ORDER: how the blocks of a kernel run, the threads of a block between barriers,
 *   and how cuBLASLt adds up: `reverse`, or in the order of a seed (a number), in which streams are
 *   served, too.
 * - HD_EMULATED_WITHOUT_BARRIER: a __syncthreads() that is left out
 *   ("kernels/learn/adam_cuda.cu:30").
 * - HD_EMULATED_BARRIERS: a file that gets the places of those that a process has come to.
 * - HD_EMULATED_KERNELS: a file that gets a line with the name of each kernel that runs.
 * - HD_EMULATED_FAULT: every call after that many returns cudaErrorIllegalAddress, or, with
 *   HD_EMULATED_FAULT_HANGS=1, never returns, but for polls; of HD_EMULATED_FAULT_DEVICE alone, if
 *   that is set. stderr tells when, and at the end how many calls there were. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls that make the host wait for devices: waiting for streams, events and devices, allocation,
 * copies other than those of pinned memory on a stream. */
int64_t hd_emulated_synchronous_calls(void);

/* Copies on a stream from or to memory of the host that is not pinned. */
int64_t hd_emulated_pageable_copies(void);

/* Launches of kernels by the host, those that a capture records among them, and of graphs. */
int64_t hd_emulated_launches(void);
int64_t hd_emulated_graph_launches(void);

/* For libraries that take a device's time with work that runs elsewhere: when the stream comes to
 * it, `begin` is called, which must not wait, and the stream goes on after `release`. Returns a
 * cudaError_t. A thread that addresses device memory says so first. */
struct hd_emulated_held;
int hd_emulated_hold(void *stream, void (*begin)(void *argument, struct hd_emulated_held *held),
                     void *argument);
void hd_emulated_release(struct hd_emulated_held *held);
void hd_emulated_enter_devices(void);

#ifdef __cplusplus
}
#endif
