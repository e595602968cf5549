/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs the kernels of a build run on. */
#include "runtime/machine/gpu_arch.h"
#include "tests/harness/check.h"

TEST(machine_code_is_for_a_major_version)
{
    ck_assert(hd_gpu_arch_fits("80-real", 80) && hd_gpu_arch_fits("80-real", 89));
    ck_assert(!hd_gpu_arch_fits("80-real", 75) && !hd_gpu_arch_fits("80-real", 90));
    ck_assert(!hd_gpu_arch_fits("86-real", 80));
    ck_assert(hd_gpu_arch_fits("80-real,90", 86) && !hd_gpu_arch_fits("80-real,90", 75));
    ck_assert(hd_gpu_arch_fits("100f-real", 103) && !hd_gpu_arch_fits("100f", 120));
}

TEST(drivers_compile_for_what_comes_later)
{
    ck_assert(hd_gpu_arch_fits("90", 90) && hd_gpu_arch_fits("90", 120));
    ck_assert(hd_gpu_arch_fits("90-virtual", 100) && !hd_gpu_arch_fits("90-virtual", 89));
    ck_assert(hd_gpu_arch_fits("90a", 90) && !hd_gpu_arch_fits("90a", 100));
}

TEST(words_stand_for_all)
{
    ck_assert(hd_gpu_arch_fits("all-major", 75) && hd_gpu_arch_fits("native", 90));
}
