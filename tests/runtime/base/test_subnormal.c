/* SPDX-License-Identifier: Apache-2.0 */
/* Subnormal operands and results become zero, also in threads that are created later. */
#include "runtime/base/subnormal.h"
#include "tests/harness/check.h"

#include <float.h>
#include <pthread.h>
#include <stdlib.h>

/* Operands that the compiler cannot see. */
static volatile float smallest = FLT_MIN, half = 0.5f, subnormal = 0x1p-140f, large = 0x1p100f;

static void *multiply(void *products)
{
    float *product = products;
    product[0] = smallest * half;   /* a result */
    product[1] = subnormal * large; /* an operand */
    return products;
}

TEST(test_they_are_zero_in_threads_too)
{
    float here[2], there[2];
    pthread_t thread;
    multiply(here);
    ck_assert(!hd_subnormals_are_flushed());
    ck_assert(here[0] == FLT_MIN / 2 && here[1] == 0x1p-40f);
    hd_subnormals_flush();
    if (!hd_subnormals_are_flushed())
        return; /* an unknown processor: nothing is promised */
    multiply(here);
    ck_assert(here[0] == 0 && here[1] == 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, multiply, there), 0);
    pthread_join(thread, NULL);
    ck_assert(there[0] == 0 && there[1] == 0);
}

TEST(test_other_numbers_are_as_before)
{
    volatile float x = 1.5f, y = 0x1p-100f;
    hd_subnormals_flush();
    ck_assert(x * y == 0x1.8p-100f);
    ck_assert(smallest * 1.0f == FLT_MIN);
}

TEST(test_the_mode_before_comes_back)
{
    float product[2];
    const uint64_t before = hd_subnormals_get_mode();
    hd_subnormals_flush();
    hd_subnormals_set_mode(before);
    multiply(product);
    ck_assert(!hd_subnormals_are_flushed());
    ck_assert(product[0] == FLT_MIN / 2 && product[1] == 0x1p-40f);
}
