/* SPDX-License-Identifier: Apache-2.0 */
/* The emulation of GPUs that other tests rely on: threads, streams, events, captures, several
 * devices, and that it notices what is undefined on a GPU. */
#include "kernels/net/gpu/gemm.h"
#include "runtime/base/status.h"
#include "tests/emulation/emulation.h"
#include "tests/emulation/probe.h"
#include "tests/kernels/common/device.h"

#include <signal.h>

enum { BLOCKS = 3, THREADS = 96, N = BLOCKS * THREADS };
static const int64_t BYTES = N * (int64_t)sizeof(float);

static const float *numbers(void)
{
    static float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)((i * 37 + 11) % 101 - 50);
    return x;
}

/* The call fails so; what it leaves for cudaGetLastError is taken away. */
static void check_fails(cudaError_t found, cudaError_t wanted)
{
    ck_assert_str_eq(cudaGetErrorName(found), cudaGetErrorName(wanted));
    ck_assert_int_eq(cudaGetLastError(), wanted);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}

static int64_t *counter(void)
{
    const int64_t zero = 0;
    return device_make(&zero, sizeof zero);
}

/* What the probe makes of the numbers. */
static void probe(enum probe what, float *to)
{
    const float *from = device_make(numbers(), BYTES);
    float *there = device_make(NULL, BYTES);
    ck_assert_int_eq(hd_probe(what, BLOCKS, THREADS, from, there, device_stream()), HD_OK);
    device_get(to, there, BYTES);
}

/* -- Threads ----------------------------------------------------------------------------------- */

TEST(test_barrier, .cuda = true)
{
    float found[N];
    probe(PROBE_REVERSE, found);
    for (int i = 0; i < N; i++)
        ck_assert(found[i] == numbers()[i / THREADS * THREADS + THREADS - 1 - i % THREADS]);
}

/* Half of the threads read what others have not written yet. */
TEST(test_no_barrier, .cuda = true)
{
    float found[N];
    int n_nan = 0;
    probe(PROBE_NO_BARRIER, found);
    for (int i = 0; i < N; i++)
        n_nan += isnan(found[i]);
#ifdef __SANITIZE_ADDRESS__
    ck_assert_int_le(n_nan, N / 2);
#else
    ck_assert_int_eq(n_nan, N / 2);
#endif
}

TEST(test_shuffles, .cuda = true)
{
    float prefix[N], sum[N], ballot[N], few[N];
    probe(PROBE_PREFIX, prefix);
    probe(PROBE_SUM, sum);
    probe(PROBE_BALLOT, ballot);
    probe(PROBE_FEW, few);
    for (int warp = 0; warp < N; warp += 32) {
        float before = 0, total = 0, positive = 0;
        for (int i = warp; i < warp + 32; i++) {
            total += numbers()[i];
            positive += numbers()[i] > 0;
        }
        for (int i = warp; i < warp + 32; i++) {
            before += numbers()[i];
            ck_assert(prefix[i] == before && sum[i] == total && ballot[i] == positive);
            ck_assert(i < warp + 4 ? few[i] == numbers()[warp + 1] : isnan(few[i]));
        }
    }
}

/* Sums of products of these integers are exact, in any order. */
TEST(test_tiles, .cuda = true)
{
    float found[N];
    probe(PROBE_TILES, found);
    for (int i = 0; i < N; i++) {
        const int lane = i % 32, element = (i / THREADS + i % THREADS / 32) % 4;
        const int row = lane / 4 + element / 2 * 8, column = lane % 4 * 2 + element % 2;
        float sum = 0;
        for (int k = 0; k < 16; k++)
            sum += numbers()[row * 16 + k] * numbers()[k * 8 + column];
        ck_assert(found[i] == sum);
    }
}

TEST(test_few_tiles, .signal = SIGABRT, .cuda = true)
{
    float found[N];
    probe(PROBE_FEW_TILES, found);
}

/* -- Orders ------------------------------------------------------------------------------------ */

/* Each test is a process of its own, which takes its order from the environment once. */
static void set_order(const char *order)
{
    if (order)
        setenv("HD_EMULATED_ORDER", order, 1);
    else
        unsetenv("HD_EMULATED_ORDER");
}

static void note_order(const char *order, int64_t place[2][N])
{
    set_order(order);
    int64_t *there = device_make(NULL, sizeof(int64_t[2][N])), *count = counter();
    ck_assert_int_eq(hd_probe_order(BLOCKS, THREADS, count, there, device_stream()), HD_OK);
    device_get(place, there, sizeof(int64_t[2][N]));
}

TEST(test_forward_and_reverse, .runs = 2, .cuda = true)
{
    int64_t place[2][N];
    note_order(_i ? "reverse" : NULL, place);
    for (int64_t i = 0; i < N; i++) {
        const int64_t block = i / THREADS, thread = i % THREADS;
        const int64_t before = _i ? BLOCKS - 1 - block : block;
        ck_assert_int_eq(place[0][i], before * 2 * THREADS + (_i ? THREADS - 1 - thread : thread));
    }
}

/* Blocks stay whole, and so do the stretches before and after a barrier; within them the order
 * is another one each time. */
TEST(test_seeded_order, .cuda = true)
{
    int64_t place[2][N], in_order = 0, like_before = 0;
    bool seen[2 * N] = {false};
    note_order("17", place);
    for (int64_t b = 0; b < BLOCKS; b++) {
        const int64_t first = place[0][b * THREADS] / (2 * THREADS) * 2 * THREADS;
        for (int64_t i = b * THREADS; i < (b + 1) * THREADS; i++)
            for (int half = 0; half < 2; half++) {
                ck_assert_int_ge(place[half][i], first + half * THREADS);
                ck_assert_int_lt(place[half][i], first + half * THREADS + THREADS);
                ck_assert(!seen[place[half][i]]);
                seen[place[half][i]] = true;
            }
    }
    for (int64_t i = 1; i < N; i++) {
        in_order += place[0][i] == place[0][i - 1] + 1;
        like_before += place[1][i] == place[0][i] + THREADS;
    }
    ck_assert_int_lt(in_order, N / 8);
    ck_assert_int_lt(like_before, N / 8);
}

/* Streams are served in turn, or in a random order. Operations are held up, so that both streams
 * have work soon. */
TEST(test_order_of_streams, .runs = 2, .cuda = true)
{
    enum { EACH = 40 };
    setenv("HD_EMULATED_DELAY_US", "500", 1);
    set_order(_i ? "17" : NULL);
    cudaStream_t streams[2] = {device_stream()};
    int64_t *count = counter(), *place[2], seen[2][EACH][2], alternations = 0;
    DEVICE_TRY(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
    for (int s = 0; s < 2; s++)
        place[s] = device_make(NULL, sizeof seen[s]);
    for (int i = 0; i < EACH; i++)
        for (int s = 0; s < 2; s++)
            ck_assert_int_eq(hd_probe_order(1, 1, count, place[s] + 2 * i, streams[s]), HD_OK);
    DEVICE_TRY(cudaStreamSynchronize(streams[1]));
    for (int s = 0; s < 2; s++)
        device_get(seen[s], place[s], sizeof seen[s]);
    for (int i = 1; i < EACH; i++) /* launches of the other stream between two of this one */
        alternations += seen[0][i][0] - seen[0][i - 1][0] == 4;
    if (_i)
        ck_assert_int_lt(alternations, EACH * 3 / 4);
    else
        ck_assert_int_ge(alternations, EACH * 3 / 4);
    DEVICE_TRY(cudaStreamDestroy(streams[1]));
}

/* cuBLASLt sums in the order of k, or in another one that is the same in every call. */
TEST(test_order_of_sums, .runs = 3, .cuda = true)
{
    enum { K = 96, COLUMNS = 8, CALLS = 2 };
    static const char *const orders[] = {NULL, "reverse", "17"};
    const struct hd_gemm gemm = {
        .m = 1, .n = COLUMNS, .k = K, .ld_a = K, .ld_b = COLUMNS, .ld_c = COLUMNS};
    float a[K], b[K][COLUMNS], sum[CALLS][COLUMNS], forward = 0, backward = 0;
    for (int k = 0; k < K; k++) {
        a[k] = 1 / (numbers()[k] + 51);
        for (int j = 0; j < COLUMNS; j++)
            b[k][j] = 1;
    }
    for (int k = 0; k < K; k++) {
        forward += a[k];
        backward += a[K - 1 - k];
    }
    set_order(orders[_i]);
    for (int call = 0; call < CALLS; call++) {
        float *there = device_make(NULL, sizeof sum[call]);
        ck_assert_int_eq(
            hd_gemm_multiply_cuda(&gemm, device_make(a, sizeof a), device_make(b, sizeof b), NULL,
                                  there, device_make(NULL, HD_GEMM_WORKSPACE), device_stream()),
            HD_OK);
        device_get(sum[call], there, sizeof sum[call]);
    }
    ck_assert_mem_eq(sum[0], sum[1], sizeof sum[0]);
    ck_assert_float_eq_tol(sum[0][0], forward, 1e-5f);
    ck_assert_int_eq(sum[0][0] == forward, _i == 0);
    ck_assert_int_eq(sum[0][0] == backward, _i == 1);
}

#ifndef __SANITIZE_ADDRESS__
TEST(test_uninitialised, .cuda = true)
{
    float found[N];
    probe(PROBE_UNINITIALISED, found);
    for (int i = 0; i < N; i++)
        ck_assert(isnan(found[i]));
}
#endif

/* -- What ends the program --------------------------------------------------------------------- */

TEST(test_leave, .signal = SIGABRT, .cuda = true)
{
    float found[N];
    probe(PROBE_LEAVE, found);
}

TEST(test_diverge, .signal = SIGABRT, .cuda = true)
{
    float found[N];
    probe(PROBE_DIVERGE, found);
}

TEST(test_default_stream, .signal = SIGABRT, .cuda = true)
{
    hd_probe_increment(device_make(NULL, 8), NULL);
}

TEST(test_pointer_of_host, .signal = SIGABRT, .cuda = true)
{
    int64_t here = 0;
    hd_probe_increment(&here, device_stream());
}

TEST(test_pointer_of_peer, .signal = SIGABRT, .cuda = true)
{
    setenv("HD_EMULATED_DEVICES", "2", 1);
    int64_t *there = device_make(NULL, 8);
    DEVICE_TRY(cudaSetDevice(1));
    device_stream_ = NULL;
    hd_probe_increment(there, device_stream());
}

/* -- Launches and streams ---------------------------------------------------------------------- */

TEST(test_launch_mistakes, .cuda = true)
{
    int64_t *there = device_make(NULL, 8);
    float *x = (float *)there;
    ck_assert_int_eq(hd_probe(PROBE_SUM, 0, 32, x, x, device_stream()), HD_ERR_DEVICE);
    ck_assert_int_eq(hd_probe(PROBE_SUM, 1, 1025, x, x, device_stream()), HD_ERR_DEVICE);
    ck_assert_int_eq(hd_probe_increment(there, there), HD_ERR_DEVICE);
    ck_assert_int_eq(hd_probe_increment(there, device_stream()), HD_OK);
}

static int64_t value_of(const int64_t *there)
{
    int64_t value;
    device_get(&value, there, sizeof value);
    return value;
}

/* Nothing is done at once, and all in order; another stream waits for the event. */
TEST(test_events, .cuda = true)
{
    cudaStream_t other;
    cudaEvent_t event;
    setenv("HD_EMULATED_DELAY_US", "20000", 1);
    int64_t *there = counter(), *seen = device_shared(2 * sizeof *seen);
    DEVICE_TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    DEVICE_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    const int64_t calls = hd_emulated_synchronous_calls();
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(hd_probe_increment(there, device_stream()), HD_OK);
    DEVICE_TRY(cudaEventRecord(event, device_stream()));
    DEVICE_TRY(cudaMemcpyAsync(&seen[0], there, 8, cudaMemcpyDefault, other));
    DEVICE_TRY(cudaStreamWaitEvent(other, event, 0));
    DEVICE_TRY(cudaMemcpyAsync(&seen[1], there, 8, cudaMemcpyDefault, other));
    ck_assert_int_eq(cudaEventQuery(event), cudaErrorNotReady);
    ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
    ck_assert_int_eq(hd_emulated_synchronous_calls(), calls);
    DEVICE_TRY(cudaStreamSynchronize(other));
    ck_assert_int_eq(cudaEventQuery(event), cudaSuccess);
    ck_assert_int_eq(hd_emulated_synchronous_calls(), calls + 1);
    ck_assert_int_lt(seen[0], 5);
    ck_assert_int_eq(seen[1], 5);
    DEVICE_TRY(cudaEventDestroy(event));
    DEVICE_TRY(cudaStreamDestroy(other));
}

TEST(test_copies, .cuda = true)
{
    int64_t here[4] = {1, 2, 3, 4};
    int64_t *there = device_make(here, sizeof here), *pinned = device_shared(sizeof here);
    cudaStream_t stream = device_stream();
    check_fails(cudaMemcpyAsync(there, pinned, 40, cudaMemcpyDefault, stream),
                cudaErrorInvalidValue);
    check_fails(cudaMemcpyAsync(there, pinned, 8, cudaMemcpyDeviceToHost, stream),
                cudaErrorInvalidValue);
    ck_assert_int_eq(hd_emulated_pageable_copies(), 0);
    DEVICE_TRY(cudaMemcpyAsync(pinned, there, sizeof here, cudaMemcpyDeviceToHost, stream));
    ck_assert_int_eq(hd_emulated_pageable_copies(), 0);
    DEVICE_TRY(cudaMemcpyAsync(here, there + 1, 8, cudaMemcpyDeviceToHost, stream));
    ck_assert_int_eq(hd_emulated_pageable_copies(), 1);
    ck_assert_int_eq(pinned[3], 4);
    ck_assert_int_eq(here[0], 2);
}

/* -- Captures ---------------------------------------------------------------------------------- */

/* A graph in which another stream takes part, launched several times. */
TEST(test_graph, .cuda = true)
{
    cudaStream_t stream = device_stream(), other;
    cudaEvent_t fork, joined;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int64_t *there = counter(), *copy = counter();
    DEVICE_TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    DEVICE_TRY(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    DEVICE_TRY(cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
    DEVICE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ck_assert_int_eq(hd_probe_increment(there, stream), HD_OK);
    DEVICE_TRY(cudaEventRecord(fork, stream));
    DEVICE_TRY(cudaStreamWaitEvent(other, fork, 0));
    DEVICE_TRY(cudaMemcpyAsync(copy, there, 8, cudaMemcpyDeviceToDevice, other));
    DEVICE_TRY(cudaEventRecord(joined, other));
    DEVICE_TRY(cudaStreamWaitEvent(stream, joined, 0));
    ck_assert_int_eq(hd_probe_increment(there, stream), HD_OK);
    DEVICE_TRY(cudaStreamEndCapture(stream, &graph));
    DEVICE_TRY(cudaGraphInstantiate(&exec, graph, 0));
    DEVICE_TRY(cudaGraphDestroy(graph));
    ck_assert_int_eq(value_of(there), 0);
    for (int i = 0; i < 3; i++)
        DEVICE_TRY(cudaGraphLaunch(exec, stream));
    DEVICE_TRY(cudaGraphExecDestroy(exec));
    ck_assert_int_eq(value_of(there), 6);
    ck_assert_int_eq(value_of(copy), 5);
    ck_assert_int_eq(hd_emulated_graph_launches(), 3);
}

TEST(test_graph_mistakes, .cuda = true)
{
    cudaStream_t stream = device_stream(), other;
    cudaEvent_t event;
    cudaGraph_t graph;
    void *memory;
    DEVICE_TRY(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    DEVICE_TRY(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    DEVICE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check_fails(cudaMalloc(&memory, 8), cudaErrorStreamCaptureUnsupported);
    check_fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    DEVICE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check_fails(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    check_fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    int64_t *there = counter();
    DEVICE_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    DEVICE_TRY(cudaEventRecord(event, stream));
    DEVICE_TRY(cudaStreamWaitEvent(other, event, 0));
    ck_assert_int_eq(hd_probe_increment(there, other), HD_OK);
    check_fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);
    ck_assert_int_eq(value_of(there), 0);
}

/* -- Devices ----------------------------------------------------------------------------------- */

TEST(test_peers, .cuda = true)
{
    const int64_t one = 1;
    int64_t *on[2];
    int n;
    setenv("HD_EMULATED_DEVICES", "2", 1);
    DEVICE_TRY(cudaGetDeviceCount(&n));
    ck_assert_int_eq(n, 2);
    on[0] = device_make(&one, 8);
    DEVICE_TRY(cudaSetDevice(1));
    on[1] = device_make(NULL, 8);
    check_fails(cudaMemcpyPeerAsync(on[1], 0, on[0], 0, 8, device_stream()), cudaErrorInvalidValue);
    DEVICE_TRY(cudaMemcpyPeerAsync(on[1], 1, on[0], 0, 8, device_stream()));
    ck_assert_int_eq(hd_probe_increment(on[1], device_stream()), HD_OK);
    ck_assert_int_eq(value_of(on[1]), 2);
    DEVICE_TRY(cudaDeviceEnablePeerAccess(0, 0));
    ck_assert_int_eq(hd_probe_increment(on[0], device_stream()), HD_OK);
    ck_assert_int_eq(value_of(on[0]), 2);
    check_fails(cudaSetDevice(2), cudaErrorInvalidDevice);
}

TEST(test_fork, .cuda = true)
{
    int n, status;
    DEVICE_TRY(cudaGetDeviceCount(&n));
    const pid_t child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&n) == cudaErrorInitializationError ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
