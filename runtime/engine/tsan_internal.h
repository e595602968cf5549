/* SPDX-License-Identifier: Apache-2.0 */
/* These macros tell the thread sanitizer what it cannot see of StarPU: a task comes after what its
 * submitter did before, and after the tasks that its accesses wait for. In other builds they do
 * nothing. Thread safe. */
#pragma once

#include <starpu.h>

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define hd_tsan_release(object) __tsan_release(object)
#define hd_tsan_acquire(object) __tsan_acquire(object)

/* A handle is two objects: its address stands for who wrote last, the next byte for all who have
 * read since, as readers are not ordered among each other. */
static inline void hd_tsan_begin(struct starpu_task *task)
{
    for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); i++) {
        char *handle = (char *)STARPU_TASK_GET_HANDLE(task, i);
        hd_tsan_acquire(handle);
        if (STARPU_TASK_GET_MODE(task, i) & STARPU_W)
            hd_tsan_acquire(handle + 1);
    }
}

static inline void hd_tsan_end(struct starpu_task *task)
{
    for (unsigned i = 0; i < STARPU_TASK_GET_NBUFFERS(task); i++) {
        char *handle = (char *)STARPU_TASK_GET_HANDLE(task, i);
        hd_tsan_release(STARPU_TASK_GET_MODE(task, i) & STARPU_W ? handle : handle + 1);
    }
}

#else
#define hd_tsan_release(object) ((void)0)
#define hd_tsan_acquire(object) ((void)0)
#define hd_tsan_begin(task) ((void)0)
#define hd_tsan_end(task) ((void)0)
#endif
