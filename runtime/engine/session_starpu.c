/* SPDX-License-Identifier: Apache-2.0 */
/* StarPU's start and stop, and which of its schedulers are accepted. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/engine/session_internal.h"

#include <errno.h>
#include <starpu_expert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* StarPU's other schedulers place tasks by performance models, which these tasks do not have. */
static const char *const schedulers[] = {
    "eager", "prio", "lws", "ws", "random", "modular-eager", "modular-prio", "modular-ws", NULL};

bool hd_scheduler_is_known(const char *name, const char *const **names_p)
{
    if (names_p)
        *names_p = schedulers;
    for (int i = 0; schedulers[i]; i++)
        if (strcmp(name, schedulers[i]) == 0)
            return true;
    return false;
}

/* StarPU writes bus timings somewhere at its first start: into a private directory that is used
 * again, one per user and rank of a node, so that ranks starting together do not mix. */
static int prepare_home(int local_rank)
{
    const char *tmp = getenv("TMPDIR");
    char path[512];
    snprintf(path, sizeof path, "%s/heddle-%u", tmp && *tmp ? tmp : "/tmp", (unsigned)getuid());
    for (int level = 0; level < 2; level++) {
        struct stat found;
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return hd_fail(HD_ERR_SYSTEM, "directory %s cannot be made: %m (set TMPDIR?)", path);
        if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != getuid())
            return hd_fail(HD_ERR_SYSTEM, "%s is not a directory of this user (set TMPDIR?)", path);
        if (level == 0)
            snprintf(path + strlen(path), sizeof path - strlen(path), "/starpu-%d", local_rank);
    }
    setenv("STARPU_HOME", path, 1);
    return HD_OK;
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

int hd_session_start_starpu(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    if (options->workers > STARPU_MAXCPUS)
        return hd_fail(HD_ERR_UNSUPPORTED, "%d workers: this StarPU has at most %d per process",
                       options->workers, STARPU_MAXCPUS);
    HD_TRY(prepare_home(options->local_rank));
    setenv("STARPU_SILENT", "1", 1);
    setenv("STARPU_HOSTNAME", "heddle", 1);
    setenv("STARPU_CATCH_SIGNALS", "0", 1); /* it would call our handlers without the siginfo */
    /* hwloc, which StarPU starts, would ask for X displays, for seconds where names do not resolve.
     */
    setenv("HWLOC_COMPONENTS", "-gl", 0);
    /* The process is bound to this rank's cores already; StarPU would bind every rank's workers
     * from CPU 0 on. */
    setenv("STARPU_WORKERS_NOBIND", "1", 1);
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = options->workers;
    conf.ncuda = options->n_devices;
    conf.nopencl = 0;
    conf.use_explicit_workers_cuda_gpuid = options->n_devices > 0;
    for (int i = 0; i < options->n_devices; i++)
        conf.workers_cuda_gpuid[i] = (unsigned)options->devices[i];
    conf.sched_policy_name = options->scheduler;
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

void hd_session_stop_starpu(struct hd_session *session)
{
    starpu_drivers_request_termination();
    starpu_driver_deinit(&session->starpu.driver);
    starpu_shutdown();
    if (session->starpu.idle_hook >= 0)
        starpu_idle_hook_deregister(session->starpu.idle_hook);
}

int hd_session_get_workers_max(void)
{
    return STARPU_MAXCPUS;
}
