/* SPDX-License-Identifier: Apache-2.0 */
/* The GPUs of a session: StarPU's workers for them, or streams of our own under the sequential
 * executor, and their scratch. */
#include "runtime/base/gpu_error.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"

#include <sched.h>

int hd_session_get_lane(const struct hd_session *session)
{
    return session->starpu.lanes[starpu_worker_get_id()];
}

/* StarPU starts its workers where the process is bound. The system may refuse, which costs time
 * only. */
void hd_session_bind_gpu_worker(struct hd_session *session, int home)
{
    struct hd_in_flight *in_flight = &session->gpus[home - 1].in_flight;
    const int cpu = session->options.device_cpus[home - 1];
    cpu_set_t set;
    if (in_flight->bound)
        return;
    in_flight->bound = true;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (session->options.bind_devices && sched_setaffinity(0, sizeof set, &set) != 0)
        hd_log(HD_LOG_DEBUG, "the thread of a GPU cannot be bound to CPU %d: %m", cpu);
}

static int make_scratch(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    for (int i = 0; i < options->n_devices; i++) {
        void *block = hd_device_alloc(options->devices[i], options->device_scratch_bytes);
        if (!block)
            return HD_ERR_NOMEM;
        session->scratch[options->workers + i] = block;
        HD_TRY(hd_cuda_graphs_create(&session->gpus[i].graphs));
    }
    if (!options->device_comm)
        return HD_OK;
    session->exchanges.device_scratch =
        hd_device_alloc(options->devices[0], options->device_comm_bytes);
    return session->exchanges.device_scratch ? HD_OK : HD_ERR_NOMEM;
}

/* The StarPU that scripts/starpu builds leaves alone the GPUs that are not its own. */
#if HD_CUDA && defined(STARPU_USE_CUDA) && defined(STARPU_KEEPS_NO_FILES)
#include <starpu_cuda.h>
#include <stdlib.h>

bool hd_session_supports_devices(void)
{
    return true;
}

void *hd_session_get_local_stream(void)
{
    return starpu_cuda_get_local_stream();
}

/* StarPU tells errors of CUDA by this function of its own, which aborts the process. Here it tells
 * them as all others are told. */
void starpu_cuda_report_error(const char *function, const char *file, int line, cudaError_t error)
{
    int device = 0;
    (void)file, (void)line;
    cudaGetDevice(&device);
    hd_gpu_fail(device, function, cudaGetErrorString(error), cudaGetErrorName(error));
    abort();
}

/* StarPU numbers its workers as it likes. It does without a GPU that has failed by now. */
static int find_workers(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    int ids[STARPU_NMAXWORKERS];
    int n = (int)starpu_worker_get_ids_by_type(STARPU_CUDA_WORKER, ids, STARPU_NMAXWORKERS);
    for (int i = n; i < options->n_devices; i++)
        HD_TRY(hd_device_use(options->devices[i]));
    if (n != options->n_devices)
        return hd_fail(HD_ERR_SYSTEM, "StarPU started %d of %d GPUs", n, options->n_devices);
    for (int i = 0; i < n; i++)
        for (int d = 0; d < n; d++)
            if (starpu_worker_get_devid(ids[i]) == options->devices[d]) {
                session->gpus[d].worker = ids[i];
                session->starpu.lanes[ids[i]] = options->workers + d;
            }
    return HD_OK;
}
#else
bool hd_session_supports_devices(void)
{
    return false;
}

void *hd_session_get_local_stream(void)
{
    return NULL;
}

static int find_workers(struct hd_session *session)
{
    (void)session;
    return hd_fail(HD_ERR_UNSUPPORTED, "this program was built with a StarPU without CUDA "
                                       "(scripts/setup --cuda builds one that has it)");
}
#endif

int hd_session_start_devices(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    if (options->n_devices == 0 || options->recorder)
        return HD_OK;
    if (!options->sequential)
        HD_TRY(find_workers(session));
    for (int i = 0; options->sequential && i < options->n_devices; i++) {
        void *stream;
        HD_TRY(hd_stream_create(options->devices[i], &stream));
        session->gpus[i].stream = stream;
    }
    return make_scratch(session);
}

int hd_session_check_devices(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    for (int i = 0; i < options->n_devices; i++) {
        void *stream = session->gpus[i].stream;
        if (stream)
            HD_TRY(hd_cuda_graphs_check(session->gpus[i].graphs, options->devices[i], stream));
    }
    return HD_OK;
}

void hd_session_stop_devices(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    if (options->recorder)
        return;
    if (session->exchanges.device_scratch)
        hd_device_free(options->devices[0], session->exchanges.device_scratch);
    for (int i = 0; i < options->n_devices; i++) {
        hd_cuda_graphs_destroy(session->gpus[i].graphs);
        if (options->sequential)
            hd_stream_destroy(options->devices[i], session->gpus[i].stream);
        if (session->scratch)
            hd_device_free(options->devices[i], session->scratch[options->workers + i]);
    }
}
