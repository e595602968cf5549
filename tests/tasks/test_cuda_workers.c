/* SPDX-License-Identifier: Apache-2.0 */
/* StarPU's CUDA workers: tasks that only enqueue on their worker's stream, and tasks of the CPU
 * that follow and precede them through a handle without data. */
#include "kernels/common/bf16.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#include <starpu.h>

#if HD_CUDA && defined(STARPU_USE_CUDA)

enum { N = 1000, ROUNDS = 12 };
static const int64_t FLOATS = N * (int64_t)sizeof(float), HALVES = N * (int64_t)sizeof(hd_bf16);

/* x on the host goes to the device, is rounded there, and comes back. */
struct chain {
    float *x, *x_there;
    hd_bf16 *rounded, *rounded_there;
    int failed;
};

static void round_there(void *buffers[], void *argument)
{
    (void)buffers;
    struct chain *c = argument;
    cudaStream_t stream = starpu_cuda_get_local_stream();
    c->failed += cudaMemcpyAsync(c->x_there, c->x, FLOATS, cudaMemcpyHostToDevice, stream) != 0;
    c->failed += hd_bf16_round_cuda(c->x_there, N, c->rounded_there, stream) != HD_OK;
    c->failed +=
        cudaMemcpyAsync(c->rounded, c->rounded_there, HALVES, cudaMemcpyDeviceToHost, stream) != 0;
}

static void grow(float *x, const hd_bf16 *rounded)
{
    for (int i = 0; i < N; i++)
        x[i] = hd_bf16_to_float(rounded[i]) * 1.01f;
}

static void grow_here(void *buffers[], void *argument)
{
    (void)buffers;
    struct chain *c = argument;
    grow(c->x, c->rounded);
}

static void fill(float *x)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) / 7;
}

static void check_result(const float *found)
{
    float x[N];
    hd_bf16 rounded[N];
    fill(x);
    for (int round = 0; round < ROUNDS; round++) {
        hd_bf16_round(x, N, rounded);
        grow(x, rounded);
    }
    for (int i = 0; i < N; i++)
        ck_assert_msg(found[i] == x[i], "[%d]: found %a, wanted %a", i, (double)found[i],
                      (double)x[i]);
}

static void start(int gpus)
{
    struct starpu_conf conf;
    /* Delays the stream, so that a task which does not wait for those before it fails the test. */
    setenv("HD_EMULATED_DELAY_US", "2000", 1);
    starpu_conf_init(&conf);
    conf.ncpus = 1;
    conf.ncuda = gpus;
    ck_assert_int_eq(starpu_init(&conf), 0);
    ck_assert_int_eq((int)starpu_cuda_worker_get_count(), gpus);
}

static struct chain new_chain(void)
{
    struct chain c = {device_shared(FLOATS), device_make(NULL, FLOATS), device_shared(HALVES),
                      device_make(NULL, HALVES), 0};
    fill(c.x);
    return c;
}

static void submit(struct starpu_codelet *codelet, starpu_data_handle_t handle, struct chain *c)
{
    ck_assert_int_eq(
        starpu_task_insert(codelet, STARPU_RW, handle, STARPU_CL_ARGS_NFREE, c, sizeof *c, 0), 0);
}

TEST(test_chain, .cuda = true)
{
    struct starpu_codelet there = {.where = STARPU_CUDA,
                                   .cuda_funcs = {round_there},
                                   .cuda_flags = {STARPU_CUDA_ASYNC},
                                   .nbuffers = 1};
    struct starpu_codelet here = {.where = STARPU_CPU, .cpu_funcs = {grow_here}, .nbuffers = 1};
    starpu_data_handle_t handle;
    start(1);
    struct chain c = new_chain();
    starpu_void_data_register(&handle);
    for (int round = 0; round < ROUNDS; round++) {
        submit(&there, handle, &c);
        submit(&here, handle, &c);
    }
    ck_assert_int_eq(starpu_task_wait_for_all(), 0);
    starpu_data_unregister(handle);
    ck_assert_int_eq(c.failed, 0);
    check_result(c.x);
    starpu_shutdown();
}

#elif HD_CUDA

static const char *find_missing_devices(void)
{
    return "built with a StarPU without CUDA";
}

PREREQUISITE(find_missing_devices)

TEST(test_chain, .cuda = true)
{
}

#endif
