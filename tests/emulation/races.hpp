/* SPDX-License-Identifier: Apache-2.0 */
/* What the race detector (races.cpp) is told about the kernel that runs. All functions are for the
 * thread that serves the streams. */
#pragma once

#include <stddef.h>

namespace emulation
{

void begin_launch();
void end_launch();
void begin_block(unsigned n_threads);

/* All threads of the block have reached a barrier. */
void pass_barrier();

/* From now on it is this thread of the block that runs, on this stack. */
void continue_as(unsigned thread, const char *stack, size_t bytes);

/* Ends the program over what the running thread of a kernel did (block.cpp). */
[[noreturn]] void die_in_kernel(const char *format, ...) __attribute__((format(printf, 1, 2)));

} // namespace emulation
