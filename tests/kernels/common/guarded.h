/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that lives as long as a test, followed by a guard zone. One thread at a time. */
#pragma once

#include "tests/kernels/common/check_close.h"

#include <string.h>

enum { GUARD = 64 };

static inline void *guarded(int64_t bytes)
{
    char *memory = test_alloc(bytes + GUARD, 1);
    memset(memory + bytes, 0xA5, GUARD);
    return memory;
}

static inline void check_guard(const void *memory, int64_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        ck_assert_uint_eq(((const unsigned char *)memory)[bytes + i], 0xA5);
}
