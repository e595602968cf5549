/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as places for memory. A rank's memory has homes: the host, HD_HOST, and its GPUs, 1, 2, …,
 * in the order of the session's list. Nothing of CUDA shows here, and without CUDA there are no
 * GPUs. */
#ifndef HD_RUNTIME_DEVICE_H
#define HD_RUNTIME_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum { HD_HOST = 0, HD_DEVICES_MAX = 16 };

/* GPUs that this process can use, by CUDA's numbers 0, 1, …; 0 without a driver, or in a program
 * built without CUDA. Makes no context on any. Thread safe. */
int hd_device_count(void);

/* Zeroed memory on GPU `device` (CUDA's number), 256-byte aligned; waits until it is zeroed. NULL,
 * logged: there is none left. hd_device_free accepts NULL. As all calls here that name a GPU, they
 * leave the thread with it: going back to what the thread had, CUDA's GPU 0 at first, would make a
 * context there. */
void *hd_device_alloc(int device, int64_t bytes);
void hd_device_free(int device, void *memory);

/* Zeroed host memory, page-aligned, that GPUs address as it is and copy from and to without a
 * detour. NULL, logged: there is none left. Plain memory where there is no GPU. */
void *hd_pinned_alloc(int64_t bytes);
void hd_pinned_free(void *memory);

/* Queues a copy between homes on a stream, host memory being pinned. HD_ERR_DEVICE. */
int hd_device_copy(void *to, const void *from, int64_t bytes, void *stream);

/* A stream of its own, for who has none; waits for all that was queued on it. destroy accepts NULL.
 * HD_ERR_DEVICE. */
int hd_stream_create(int device, void **stream_p);
int hd_stream_wait(void *stream);
void hd_stream_destroy(int device, void *stream);

/* Makes `device` the one that the calling thread's next calls mean. HD_ERR_DEVICE. */
int hd_device_use(int device);

/* What a call of CUDA's runtime said, a cudaError_t, as a status; logged, if it is HD_ERR_DEVICE.
 */
int hd_device_check(int error, const char *what);

/* The calling thread's last CUDA error is no more: polling an event leaves one that only says that
 * it is too early. */
void hd_device_clear_error(void);

/* CUDA's runtime and the newest that the driver knows, 13000 for 13.0; *driver_p 0: there is no
 * driver. False without CUDA. Thread safe. */
bool hd_device_get_versions(int *runtime_p, int *driver_p);

/* "NVIDIA H100 80GB HBM3, driver 13.0", part of the arithmetic fingerprint; "" without GPUs. */
void hd_device_get_name(int device, char *text, int64_t bytes);

#endif
