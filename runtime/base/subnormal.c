/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/subnormal.h"

#include <stdint.h>

#if defined __SSE__

enum { FLUSH = 0x8000 /* results */ | 0x0040 /* operands */ };

void hd_subnormals_flush(void)
{
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH);
}

bool hd_subnormals_are_flushed(void)
{
    return (__builtin_ia32_stmxcsr() & FLUSH) == FLUSH;
}

#elif defined __aarch64__

static const uint64_t flush = UINT64_C(1) << 24;

static uint64_t read_control(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

void hd_subnormals_flush(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(read_control() | flush));
}

bool hd_subnormals_are_flushed(void)
{
    return (read_control() & flush) != 0;
}

#else

void hd_subnormals_flush(void)
{
}

bool hd_subnormals_are_flushed(void)
{
    return false;
}

#endif
