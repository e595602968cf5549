/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and streams of GPUs. A rank's memory has homes: the host, HD_HOST, and its GPUs, 1, 2, …,
 * in the order of the session's list. Callers need no CUDA; a program without it has no GPUs, and
 * calls that would use one return HD_ERR_UNSUPPORTED (logged). Thread safe.
 *
 * Calls that name a GPU leave the thread with it: going back to the thread's GPU before, CUDA's
 * number 0 at first, would make a context there. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { HD_HOST = 0, HD_DEVICES_MAX = 16 };

/* Returns how many GPUs this process can use, by CUDA's numbers 0, 1, …; 0 without a driver, or in
 * a program built without CUDA. Makes no context on any. Cannot fail. */
int hd_device_count(void);

/* Returns zeroed memory on GPU `device` (CUDA's number), 256-byte aligned, and waits until it is
 * zeroed; NULL (logged) when there is none left. Freed by hd_device_free, which accepts NULL. */
void *hd_device_alloc(int device, int64_t bytes);
void hd_device_free(int device, void *memory);

/* Returns zeroed host memory, page-aligned, that GPUs address as it is and copy from and to
 * directly; NULL (logged) when there is none left. Plain memory where there is no GPU. Freed by
 * hd_pinned_free, which accepts NULL. */
void *hd_pinned_alloc(int64_t bytes);
void hd_pinned_free(void *memory);

/* Queues a copy between homes on a stream; host memory is pinned. Returns HD_OK or HD_ERR_DEVICE
 * (logged). */
int hd_device_copy(void *to, const void *from, int64_t bytes, void *stream);

/* Create a stream on a GPU, wait for all work that was queued on it, and release it (accepts NULL).
 * Return HD_OK or HD_ERR_DEVICE (logged). */
int hd_stream_create(int device, void **stream_p);
int hd_stream_wait(void *stream);
void hd_stream_destroy(int device, void *stream);

/* Makes `device` the calling thread's GPU. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_device_use(int device);

/* Returns HD_OK, or HD_ERR_DEVICE (logged with `what`) for an error of CUDA's runtime, a
 * cudaError_t.
 */
int hd_device_check(int error, const char *what);

/* Clears the calling thread's last CUDA error: polling an event leaves one that only says that the
 * event is still to come. */
void hd_device_clear_error(void);

/* Stores the version of CUDA's runtime and the newest that the driver knows, 13000 for 13.0;
 * *driver_p 0: there is no driver. Returns false without CUDA. */
bool hd_device_get_versions(int *runtime_p, int *driver_p);

/* Returns the compute capability of a GPU, 90 for 9.0; 0: not known. Makes no context. */
int hd_device_get_capability(int device);

/* Writes "NVIDIA H100 80GB HBM3, driver 13.0", part of the arithmetic fingerprint; "" without GPUs.
 */
void hd_device_get_name(int device, char *text, int64_t bytes);
