/* SPDX-License-Identifier: Apache-2.0 */
/* StarPU's start and stop, and which of its schedulers are accepted. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session_internal.h"

#include <starpu_expert.h>
#include <string.h>
#include <sys/prctl.h>

static const char *const schedulers[] = {"eager",  "prio",          "lws",          "ws",
                                         "random", "modular-eager", "modular-prio", "modular-ws",
                                         "dm",     "dmda",          "dmdas",        "modular-heft",
                                         NULL};

bool hd_scheduler_is_known(const char *name, const char *const **names_p)
{
    if (names_p)
        *names_p = schedulers;
    for (int i = 0; schedulers[i]; i++)
        if (strcmp(name, schedulers[i]) == 0)
            return true;
    return false;
}

bool hd_scheduler_needs_models(const char *name)
{
    return strncmp(name, "dm", 2) == 0 || strcmp(name, "modular-heft") == 0;
}

/* StarPU calls the thread of its first worker "CPU 0". Here this is the main thread, whose name is
 * the process's: users look for it in ps, and SLURM reads no name with a space. */
static int start_first_worker(struct hd_session *session)
{
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    int error = starpu_driver_init(&session->starpu.driver);
    prctl(PR_SET_NAME, name);
    return error == 0 ? HD_OK
                      : hd_fail(HD_ERR_SYSTEM, "the main thread cannot become StarPU's worker");
}

static int start(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    if (options->workers > STARPU_MAXCPUS)
        return hd_fail(HD_ERR_UNSUPPORTED, "%d workers: this StarPU has at most %d per process",
                       options->workers, STARPU_MAXCPUS);
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = options->workers;
    conf.ncuda = options->n_devices;
    conf.nopencl = 0;
    conf.use_explicit_workers_cuda_gpuid = options->n_devices > 0;
    for (int i = 0; i < options->n_devices; i++)
        conf.workers_cuda_gpuid[i] = (unsigned)options->devices[i];
    conf.sched_policy_name = options->scheduler;
    conf.calibrate = session->starpu.models;
    hd_idle_mark_submitter();
    session->starpu.driver = (struct starpu_driver){.type = STARPU_CPU_WORKER, .id.cpu_id = 0};
    conf.not_launched_drivers = &session->starpu.driver;
    conf.n_not_launched_drivers = 1;
    if (options->workers > 1)
        session->starpu.idle_hook = starpu_idle_hook_register(hd_idle_hook, session);
    int error = starpu_init(&conf);
    if (error)
        return hd_fail(HD_ERR_SYSTEM, "StarPU cannot start: %s", strerror(-error));
    session->starpu.running = true;
    if ((int)starpu_cpu_worker_get_count() != options->workers)
        return hd_fail(HD_ERR_SYSTEM, "StarPU started %u workers instead of %d",
                       starpu_cpu_worker_get_count(), options->workers);
    int cpus[STARPU_NMAXWORKERS];
    starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, cpus, STARPU_NMAXWORKERS);
    for (int i = 0; i < options->workers; i++)
        session->starpu.lanes[cpus[i]] = i;
    session->starpu.scheduler = starpu_sched_ctx_get_sched_policy(0)->policy_name;
    session->starpu.lowest = starpu_sched_get_min_priority();
    session->starpu.highest = starpu_sched_get_max_priority();
    return start_first_worker(session);
}

int hd_session_start_starpu(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    session->starpu.models =
        options->performance_models || hd_scheduler_needs_models(options->scheduler);
    HD_TRY(hd_starpu_environment_enter(session->starpu.models, options->models_dir));
    const int status = start(session);
    hd_starpu_environment_leave();
    if (!session->starpu.models || !session->starpu.running)
        hd_starpu_environment_clean();
    return status;
}

void hd_session_stop_starpu(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    const bool keep = session->starpu.models && options->keeps_models && options->models_dir &&
                      hd_session_get_status(session) == HD_OK;
    starpu_drivers_request_termination();
    starpu_driver_deinit(&session->starpu.driver);
    if (keep)
        hd_starpu_models_move(NULL); /* copies of others' */
    starpu_shutdown();
    if (keep)
        hd_starpu_models_move(options->models_dir);
    hd_starpu_environment_clean();
    if (session->starpu.idle_hook >= 0)
        starpu_idle_hook_deregister(session->starpu.idle_hook);
}

int hd_session_get_workers_max(void)
{
    return STARPU_MAXCPUS;
}
