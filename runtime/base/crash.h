/* SPDX-License-Identifier: Apache-2.0 */
/* Tells what a thread was doing when a signal such as SIGSEGV ends the process, which then ends as
 * it would have: the exit status and the core stay. Builds with a sanitizer leave these signals to
 * it. Thread safe. */
#pragma once

#include <stdint.h>

/* Catches SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT from now on. */
void hd_crash_catch(void);

/* Names the task that the calling thread runs; shard -1: of none. It ends with `leave`. The name is
 * borrowed. The first call of a thread gives it a stack for the signal handler. */
void hd_crash_enter_task(const char *name, int64_t iteration, int64_t shard);
void hd_crash_leave_task(void);

/* Names the code that the task calls now, such as an environment's; borrowed, NULL: its own. */
void hd_crash_set_part(const char *part);

/* Notes that bytes at `address` are a mapped file, which ends a process that reads behind its end
 * when somebody cuts it. The path is borrowed until it is forgotten. A few dozen files count. */
void hd_crash_add_file(const void *address, int64_t bytes, const char *path);
void hd_crash_forget_file(const void *address);
