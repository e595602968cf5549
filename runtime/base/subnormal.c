/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/subnormal.h"

#if defined __SSE__

enum { FLUSH = 0x8000 /* results */ | 0x0040 /* operands */ };

uint64_t hd_subnormals_get_mode(void)
{
    return __builtin_ia32_stmxcsr();
}

void hd_subnormals_set_mode(uint64_t mode)
{
    __builtin_ia32_ldmxcsr((unsigned)mode);
}

#elif defined __aarch64__

#define FLUSH (UINT64_C(1) << 24)

uint64_t hd_subnormals_get_mode(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
}

void hd_subnormals_set_mode(uint64_t mode)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}

#else

enum { FLUSH = 1 };

uint64_t hd_subnormals_get_mode(void)
{
    return 0;
}

void hd_subnormals_set_mode(uint64_t mode)
{
    (void)mode;
}

#endif

void hd_subnormals_flush(void)
{
    hd_subnormals_set_mode(hd_subnormals_get_mode() | FLUSH);
}

bool hd_subnormals_are_flushed(void)
{
    return (hd_subnormals_get_mode() & FLUSH) == FLUSH;
}
