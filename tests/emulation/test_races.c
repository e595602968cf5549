/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulation takes for a race, which ends the program, and what not. */
#include "runtime/base/status.h"
#include "tests/emulation/probe.h"
#include "tests/kernels/common/device.h"

#include <signal.h>

enum { BLOCKS = 3, THREADS = 96, N = BLOCKS * THREADS };

static const enum probe right[] = {PROBE_REVERSE, PROBE_PREFIX, PROBE_BALLOT, PROBE_BYTES},
                        wrong[] = {PROBE_NO_BARRIER, PROBE_OVERWRITE, PROBE_ONE_PLACE};
enum { N_RIGHT = sizeof right / sizeof *right, N_WRONG = sizeof wrong / sizeof *wrong };

static void run_probe(enum probe what)
{
    float numbers[N] = {0};
    const float *from = device_make(numbers, sizeof numbers);
    float *to = device_make(NULL, sizeof numbers);
    ck_assert_int_eq(hd_probe(what, BLOCKS, THREADS, from, to, device_stream()), HD_OK);
    DEVICE_TRY(cudaStreamSynchronize(device_stream()));
}

/* Launches do not race with each other, nor do blocks in what each has for itself. */
TEST(test_right, .runs = N_RIGHT, .cuda = true)
{
    run_probe(right[_i]);
    run_probe(right[_i]);
}

TEST(test_wrong, .signal = SIGABRT, .runs = 2 * N_WRONG, .cuda = true)
{
    if (_i >= N_WRONG) /* in another order of threads and blocks */
        setenv("HD_EMULATED_ORDER", "reverse", 1);
    run_probe(wrong[_i % N_WRONG]);
}
