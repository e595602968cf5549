/* SPDX-License-Identifier: Apache-2.0 */
/* What StarPU does with data whose memory it is given, at fixed addresses: it leaves them there
 * when a GPU's memory is full, but tells an asynchronous task too early that it may begin. For
 * this, among other reasons, the executor makes its copies itself (docs/architecture.md, section
 * 5). If the second test fails with a later StarPU, that reason is gone. */
#include "tests/kernels/common/device.h"

#include <starpu.h>

#if HD_CUDA && defined(STARPU_USE_CUDA) && defined(STARPU_KEEPS_NO_FILES)
#include <starpu_cuda.h>
#include <stdatomic.h>
#include <unistd.h>

enum { BYTES = 4 << 20, LIMIT_MB = 64 };

static unsigned char *on_host;
static void *on_gpu;
static starpu_data_handle_t handle;
static int worker;
static unsigned node;

static void start(void)
{
    struct starpu_conf conf;
    setenv("STARPU_SILENT", "1", 1);
    starpu_conf_init(&conf);
    conf.ncpus = conf.ncuda = 1;
    conf.nopencl = 0;
    ck_assert_int_eq(starpu_init(&conf), 0);
    starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, &worker, 1);
    node = starpu_worker_get_memory_node((unsigned)worker);
    on_host = calloc(1, BYTES);
    on_gpu = device_make(on_host, BYTES);
    starpu_variable_data_register(&handle, STARPU_MAIN_RAM, (uintptr_t)on_host, BYTES);
    starpu_variable_ptr_register(handle, node, (uintptr_t)on_gpu, (uintptr_t)on_gpu, 0);
}

static void stop(void)
{
    starpu_data_unregister(handle);
    free(on_host);
    starpu_shutdown();
}

static bool is_valid(unsigned at)
{
    int allocated, valid, loading;
    starpu_data_query_status(handle, (int)at, &allocated, &valid, &loading);
    return valid;
}

static void fill(void *buffers[], void *arg)
{
    ck_assert_ptr_eq((void *)STARPU_VARIABLE_GET_PTR(buffers[0]), on_gpu);
    cudaMemsetAsync(on_gpu, (int)(intptr_t)arg, BYTES, starpu_cuda_get_local_stream());
}

static void touch(void *buffers[], void *arg)
{
    (void)buffers, (void)arg;
}

static struct starpu_codelet fill_codelet = {
    .cuda_funcs = {fill}, .cuda_flags = {STARPU_CUDA_ASYNC}, .nbuffers = 1, .modes = {STARPU_W}};
static struct starpu_codelet touch_codelet = {
    .cpu_funcs = {touch}, .cuda_funcs = {touch}, .nbuffers = 1, .modes = {STARPU_RW}};

static void submit(struct starpu_codelet *codelet, starpu_data_handle_t data, int value)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = codelet;
    task->handles[0] = data;
    task->cl_arg = (void *)(intptr_t)value;
    if (codelet->cuda_funcs[0] == fill || data != handle) {
        task->execute_on_a_specific_worker = 1;
        task->workerid = (unsigned)worker;
    } else {
        task->where = STARPU_CPU;
    }
    ck_assert_int_eq(starpu_task_submit(task), 0);
}

/* StarPU is given twice as much data as it may keep on the GPU. */
TEST(replicas_of_ours_stay_when_memory_is_full, .cuda = true)
{
    enum { N = 2 * LIMIT_MB / (BYTES >> 20) };
    starpu_data_handle_t others[N];
    unsigned char *memory = calloc(N, BYTES);
    int evicted = 0, valid, loading;
    char limit[16];
    snprintf(limit, sizeof limit, "%d", LIMIT_MB);
    setenv("STARPU_LIMIT_CUDA_MEM", limit, 1);
    start();
    for (int i = 0; i < N; i++) {
        starpu_variable_data_register(&others[i], STARPU_MAIN_RAM,
                                      (uintptr_t)(memory + (size_t)i * BYTES), BYTES);
        submit(&fill_codelet, handle, i);
        submit(&touch_codelet, others[i], 0);
    }
    starpu_task_wait_for_all();
    for (int i = 0, allocated; i < N; i++) {
        starpu_data_query_status(others[i], (int)node, &allocated, &valid, &loading);
        evicted += !allocated;
        starpu_data_unregister(others[i]);
    }
    ck_assert_int_ge(evicted, N / 2);
    ck_assert(is_valid(node));
    starpu_data_acquire(handle, STARPU_R);
    ck_assert_int_eq(on_host[BYTES - 1], N - 1);
    starpu_data_release(handle);
    stop();
    free(memory);
}

static atomic_int seen = -1;

static void see(void *arg)
{
    (void)arg;
    atomic_store(&seen, is_valid(STARPU_MAIN_RAM));
}

/* Such a task must know when its data has come: it then tells other ranks, or calls its body. */
TEST(an_asynchronous_task_is_told_before_its_data_has_come, .cuda = true)
{
    static struct starpu_codelet codelet = {.where = STARPU_NOWHERE,
                                            .nbuffers = 1,
                                            .modes = {STARPU_R},
                                            .specific_nodes = 1,
                                            .nodes = {STARPU_MAIN_RAM}};
    start();
    submit(&fill_codelet, handle, 7);
    struct starpu_task *task = starpu_task_create();
    task->cl = &codelet;
    task->where = STARPU_NOWHERE;
    task->handles[0] = handle;
    task->prologue_callback_pop_func = see;
    starpu_task_end_dep_add(task, 1);
    ck_assert_int_eq(starpu_task_submit(task), 0);
    while (atomic_load(&seen) < 0)
        usleep(100);
    ck_assert_int_eq(atomic_load(&seen), false);
    starpu_task_end_dep_release(task);
    starpu_task_wait_for_all();
    ck_assert_int_eq(on_host[BYTES - 1], 7);
    stop();
}
#else
TEST(there_are_gpus, .cuda = true)
{
    test_leave_out("this StarPU serves no GPUs");
}
#endif
