/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/session.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/session_internal.h"
#include "runtime/engine/tsan_internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <starpu_expert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
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

/* -- Idling ---------------------------------------------------------------------------------------
 * Idle workers of StarPU spin. Ours yield for a while, because the next task or rank is usually
 * near, then nap. */

enum { YIELDS_BEFORE_NAP = 400, NAP_FIRST_US = 20, NAP_LONGEST_US = 100 };

static void idle(int *idle_rounds)
{
    int rounds = (*idle_rounds)++;
    if (rounds < YIELDS_BEFORE_NAP) {
        sched_yield();
        return;
    }
    long nap_us = NAP_FIRST_US + (rounds - YIELDS_BEFORE_NAP) / 4;
    struct timespec nap = {0, 1000 * (nap_us < NAP_LONGEST_US ? nap_us : NAP_LONGEST_US)};
    nanosleep(&nap, NULL);
}

static _Thread_local bool is_submitter; /* naps between its own polls, not in the hook */
static _Thread_local int worker_idle_rounds;
static _Thread_local int64_t worker_finished;

static unsigned idle_hook(void *arg)
{
    struct hd_session *session = arg;
    if (is_submitter)
        return 1;
    hd_session_progress(session);
    int64_t finished = atomic_load_explicit(&session->finished, memory_order_relaxed);
    if (finished != worker_finished)
        worker_idle_rounds = 0;
    worker_finished = finished;
    idle(&worker_idle_rounds);
    return 1;
}

/* -- Errors -------------------------------------------------------------------------------------
 */

void hd_session_fail(struct hd_session *session, int status, const char *format, ...)
{
    pthread_mutex_lock(&session->lock);
    bool first = atomic_load(&session->status) == HD_OK;
    if (first) {
        va_list args;
        va_start(args, format);
        vsnprintf(session->message, sizeof session->message, format, args);
        va_end(args);
        atomic_store(&session->status, status);
    }
    pthread_mutex_unlock(&session->lock);
    if (first && session->options.comm)
        hd_comm_abort(session->options.comm, session->options.rank, session->message);
}

int hd_session_get_status(const struct hd_session *session)
{
    return atomic_load(&session->status);
}

const char *hd_session_get_message(const struct hd_session *session)
{
    return session->message;
}

void hd_session_reset(struct hd_session *session)
{
    atomic_store(&session->status, HD_OK);
    session->message[0] = '\0';
}

/* -- Where it is ----------------------------------------------------------------------------------
 */

static int64_t describe_event(const struct hd_last_event *event, const char *form, const char *none,
                              char *text, int64_t bytes)
{
    const char *name = atomic_load(&event->name);
    const double age_s = (double)(hd_clock_get_ns() - atomic_load(&event->at_ns)) * 1e-9;
    if (bytes <= 0)
        return 0;
    const int used = name ? snprintf(text, (size_t)bytes, form, name,
                                     (long long)atomic_load(&event->number), age_s)
                          : snprintf(text, (size_t)bytes, "%s", none);
    return used < bytes ? used : bytes;
}

void hd_session_describe(const struct hd_session *session, char *text, int64_t bytes)
{
    static const char *const forms[] = {"submitted %s of iteration %lld (%.1f s ago), ",
                                        "started %s of %lld (%.1f s ago), ",
                                        "finished %s of %lld (%.1f s ago), "};
    const struct hd_last_event *events[] = {&session->submitted, &session->started,
                                            &session->ended};
    int64_t used = 0;
    for (int i = 0; i < 3; i++)
        used += describe_event(events[i], forms[i], "", text + used, bytes - used);
    describe_event(&session->collective, "waits in %s #%lld since %.1f s", "in no collective",
                   text + used, bytes - used);
}

int64_t hd_session_count_finished(const struct hd_session *session)
{
    return atomic_load(&session->finished);
}

/* -- Progress and waiting -----------------------------------------------------------------------
 */

void hd_session_end_task(struct hd_session *session, struct hd_task_group *group)
{
    if (group)
        atomic_fetch_sub(&group->pending, 1);
    atomic_fetch_add(&session->finished, 1);
    atomic_fetch_sub(&session->all_tasks.pending, 1);
}

/* A failure of NCCL's is found here, and latched. */
static bool has_ended(struct hd_session *session, const struct hd_sync *sync)
{
    char text[HD_DEVICE_COMM_MESSAGE_BYTES];
    if (!sync->device_collective)
        return hd_comm_test(session->options.comm, sync->sequence);
    if (hd_device_comm_test(session->options.device_comm, sync->sequence))
        return true;
    int status = hd_device_comm_get_error(session->options.device_comm, text, sizeof text);
    if (status != HD_OK)
        hd_session_fail(session, status, "%s: %s", sync->name, text);
    return false;
}

void hd_session_progress(struct hd_session *session)
{
    if (!atomic_load_explicit(&session->open, memory_order_relaxed))
        return;
    /* Taken away, so that no other thread ends and frees it meanwhile; no other opens before. */
    struct hd_sync *sync = atomic_exchange(&session->open, NULL);
    if (!sync)
        return;
    if (hd_session_get_status(session) == HD_OK && !has_ended(session, sync)) {
        atomic_store(&session->open, sync);
        return;
    }
    /* One collective is open at a time, so this lane has one writer. */
    const struct hd_event wait = {.name = sync->name,
                                  .begin_ns = sync->begin_ns,
                                  .end_ns = hd_clock_get_ns(),
                                  .iteration = (int32_t)sync->iteration,
                                  .shard = -1};
    hd_trace_close(session->trace, &wait);
    hd_last_event_set(&session->collective, NULL, 0, 0);
    hd_tsan_release(sync);
    starpu_task_end_dep_release(sync->task);
}

struct watch {
    int64_t finished, since_ns;
};

static void report_hang(struct hd_session *session, int64_t waited_ns)
{
    char text[HD_MESSAGE_BYTES - 64] = "";
    if (session->options.comm) {
        hd_comm_probe(session->options.comm);
        hd_comm_report(session->options.comm, text, sizeof text);
    }
    if (session->options.device_comm && !text[0])
        hd_device_comm_report(session->options.device_comm, text, sizeof text);
    hd_session_fail(session, HD_ERR_WATCHDOG, "no task has ended for %.0f s%s%s",
                    (double)waited_ns * 1e-9, text[0] ? ": " : "", text);
}

int hd_session_poll(struct hd_session *session)
{
    int failed;
    const char *why = "";
    const bool aborted =
        session->options.comm && hd_comm_is_aborted(session->options.comm, &failed, &why);
    /* Who watches the ranks says whom he lost. That comes before a signal, with which mpirun stops
     * the others then; but a rank that ends by the signal that all get is no cause. */
    if (aborted && strncmp(why, "rank ", 5) == 0)
        hd_session_fail(session, HD_ERR_PEER, "%s", why);
    if (session->options.interrupted && *session->options.interrupted)
        hd_session_fail(
            session, *session->options.interrupted == SIGTERM ? HD_ERR_STOPPED : HD_ERR_INTERRUPTED,
            "stopped by signal %d (%s)", (int)*session->options.interrupted,
            strsignal(*session->options.interrupted));
    if (aborted)
        hd_session_fail(session, HD_ERR_PEER, "rank %d failed: %s", failed, why);
    return hd_session_get_status(session);
}

/* Everything but tasks that can end a wait: signals, other ranks, the watchdog. */
static void check_outside(struct hd_session *session, struct watch *watch)
{
    hd_session_poll(session);
    int64_t finished = atomic_load(&session->finished), now = hd_clock_get_ns();
    if (finished != watch->finished || watch->since_ns == 0)
        *watch = (struct watch){finished, now};
    else if (session->options.watchdog_ns > 0 &&
             now - watch->since_ns > session->options.watchdog_ns)
        report_hang(session, now - watch->since_ns);
}

enum { ROUNDS_PER_CHECK = 64 };

static void work_until(struct hd_session *session, bool (*ready)(void *), void *arg,
                       bool stop_on_error)
{
    struct watch watch = {0};
    int idle_rounds = 0;
    for (unsigned round = 0; !ready(arg); round++) {
        if (stop_on_error && hd_session_get_status(session) != HD_OK)
            return;
        int64_t before = atomic_load_explicit(&session->finished, memory_order_relaxed);
        starpu_driver_run_once(&session->driver);
        hd_session_progress(session);
        if (atomic_load_explicit(&session->finished, memory_order_relaxed) == before)
            idle(&idle_rounds);
        else
            idle_rounds = 0;
        if (round % ROUNDS_PER_CHECK == 0)
            check_outside(session, &watch);
    }
}

static void wait_until(struct hd_session *session, bool (*ready)(void *), void *arg,
                       bool stop_on_error)
{
    if (session->options.sequential) {
        struct watch watch = {0};
        check_outside(session, &watch);
    } else {
        work_until(session, ready, arg, stop_on_error);
    }
}

int hd_session_wait(struct hd_session *session, bool (*ready)(void *arg), void *arg)
{
    wait_until(session, ready, arg, true);
    return hd_session_get_status(session);
}

static bool nothing_pending(void *arg)
{
    struct hd_session *session = arg;
    return atomic_load(&session->all_tasks.pending) == 0;
}

int hd_session_drain(struct hd_session *session)
{
    wait_until(session, nothing_pending, session, false);
    return hd_session_get_status(session);
}

int hd_session_abandon(struct hd_session *session, int status, const char *name)
{
    hd_session_fail(session, status, "%s cannot be submitted: %s", name,
                    hd_status_get_text(status));
    hd_session_drain(session);
    return status;
}

/* -- Start and stop -----------------------------------------------------------------------------
 */

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

static int start_starpu(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    if (options->workers > STARPU_MAXCPUS)
        return hd_fail(HD_ERR_UNSUPPORTED, "%d workers: this StarPU has at most %d per process",
                       options->workers, STARPU_MAXCPUS);
    HD_TRY(prepare_home(options->local_rank));
    setenv("STARPU_SILENT", "1", 1);
    setenv("STARPU_HOSTNAME", "heddle", 1);
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
    is_submitter = true;
    session->driver = (struct starpu_driver){.type = STARPU_CPU_WORKER, .id.cpu_id = 0};
    conf.not_launched_drivers = &session->driver;
    conf.n_not_launched_drivers = 1;
    if (options->workers > 1)
        session->idle_hook = starpu_idle_hook_register(idle_hook, session);
    int error = starpu_init(&conf);
    if (error)
        return hd_fail(HD_ERR_SYSTEM, "StarPU cannot start: %s", strerror(-error));
    session->starpu_running = true;
    if ((int)starpu_cpu_worker_get_count() != options->workers)
        return hd_fail(HD_ERR_SYSTEM, "StarPU started %u workers instead of %d",
                       starpu_cpu_worker_get_count(), options->workers);
    int cpus[STARPU_NMAXWORKERS];
    starpu_worker_get_ids_by_type(STARPU_CPU_WORKER, cpus, STARPU_NMAXWORKERS);
    for (int i = 0; i < options->workers; i++)
        session->lanes[cpus[i]] = i;
    session->lowest = starpu_sched_get_min_priority();
    session->highest = starpu_sched_get_max_priority();
    if (starpu_driver_init(&session->driver) != 0)
        return hd_fail(HD_ERR_SYSTEM, "the main thread cannot become StarPU's worker");
    return HD_OK;
}

static void stop_starpu(struct hd_session *session)
{
    starpu_drivers_request_termination();
    starpu_driver_deinit(&session->driver);
    starpu_shutdown();
    if (session->idle_hook >= 0)
        starpu_idle_hook_deregister(session->idle_hook);
}

int hd_session_reserve(struct hd_session *session, int64_t bytes)
{
    if (bytes <= session->scratch_bytes)
        return HD_OK;
    for (int i = 0; i < session->options.workers; i++) { /* the GPUs' stays as it is */
        void *block = hd_alloc(bytes, 1);
        if (!block)
            return HD_ERR_NOMEM;
        hd_free(session->scratch[i]);
        session->scratch[i] = block;
    }
    session->scratch_bytes = bytes;
    return HD_OK;
}

static int start(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    const int lanes = options->workers + options->n_devices;
    const struct hd_trace_options trace = {.workers = lanes,
                                           .gpus = options->n_devices,
                                           .capacity = options->trace_capacity,
                                           .collectives = options->ranks > 1,
                                           .verbs_by_any = options->measure};
    session->scratch = hd_alloc(lanes, sizeof *session->scratch);
    if (!session->scratch)
        return HD_ERR_NOMEM;
    HD_TRY(hd_trace_create(&trace, &session->trace));
    HD_TRY(hd_session_reserve(session, options->scratch_bytes > 0 ? options->scratch_bytes : 1));
    if (!options->sequential)
        HD_TRY(start_starpu(session));
    HD_TRY(hd_session_start_devices(session));
    HD_TRY(hd_buffer_create(session, 1, 1, &session->token));
    return hd_buffer_create(session, 1, 1, &session->log_token);
}

int hd_session_create(const struct hd_session_options *options, struct hd_session **session_p)
{
    struct hd_session *session = hd_alloc(1, sizeof *session);
    if (!session)
        return HD_ERR_NOMEM;
    session->options = *options;
    session->idle_hook = -1;
    if (options->sequential)
        session->options.workers = 1;
    pthread_mutex_init(&session->lock, NULL);
    int status = start(session);
    if (status != HD_OK) {
        hd_session_destroy(session);
        return status;
    }
    *session_p = session;
    return HD_OK;
}

void hd_session_destroy(struct hd_session *session)
{
    if (!session)
        return;
    if (session->token)
        hd_session_drain(session);
    hd_buffer_destroy(session->token);
    hd_buffer_destroy(session->log_token);
    hd_session_stop_devices(session);
    if (session->starpu_running)
        stop_starpu(session);
    hd_session_free_task_records(session);
    for (int i = 0; session->scratch && i < session->options.workers; i++)
        hd_free(session->scratch[i]);
    hd_free(session->scratch);
    hd_trace_destroy(session->trace);
    pthread_mutex_destroy(&session->lock);
    hd_free(session);
}

char *hd_session_get_area(const struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    return options->comm ? hd_comm_get_area(options->comm, options->rank) : NULL;
}

int hd_session_get_rank(const struct hd_session *session)
{
    return session->options.rank;
}

int hd_session_count_ranks(const struct hd_session *session)
{
    return session->options.ranks;
}

int hd_session_count_workers(const struct hd_session *session)
{
    return session->options.workers;
}

int hd_session_count_devices(const struct hd_session *session)
{
    return session->options.n_devices;
}

int hd_session_get_device(const struct hd_session *session, int home)
{
    return session->options.devices[home - 1];
}

int hd_session_get_workers_max(void)
{
    return STARPU_MAXCPUS;
}

struct hd_trace *hd_session_get_trace(struct hd_session *session)
{
    return session->trace;
}
