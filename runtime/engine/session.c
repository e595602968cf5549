/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/session.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/session_internal.h"
#include "runtime/engine/trace.h"

#include <stdio.h>

/* -- Where it is ------------------------------------------------------------------------------- */

static int64_t describe_event(const struct hd_last_event *event, const char *form, char *text,
                              int64_t bytes)
{
    const char *name = atomic_load(&event->name);
    const double age_s = (double)(hd_clock_get_ns() - atomic_load(&event->at_ns)) * 1e-9;
    if (!name || bytes <= 0)
        return 0;
    const int used =
        snprintf(text, (size_t)bytes, form, name, (long long)atomic_load(&event->number), age_s);
    return used < bytes ? used : bytes;
}

/* Adds a task to a list of which text[bytes] has `used`, and returns what it then has. */
static int64_t describe_running(const struct hd_running *running, const char *where, char *text,
                                int64_t used, int64_t bytes)
{
    const char *name = atomic_load(&running->name);
    char shard[HD_SHARD_TEXT], at[64] = "";
    const long long env = atomic_load(&running->progress.env);
    if (!name || used >= bytes)
        return used;
    if (env >= 0)
        snprintf(at, sizeof at, ", at env %lld, step %lld", env,
                 (long long)atomic_load(&running->progress.step));
    return used + snprintf(text + used, (size_t)(bytes - used),
                           "%s%s of iteration %lld%s%s since %.1f s%s", used > 0 ? ", " : "", name,
                           (long long)running->iteration, hd_shard_describe(running->shard, shard),
                           where, (double)(hd_clock_get_ns() - running->begin_ns) * 1e-9, at);
}

static int64_t describe_in_flight(const struct hd_session *session, char *text, int64_t used,
                                  int64_t bytes)
{
    for (int i = 0; i < session->options.n_devices; i++) {
        char where[32];
        snprintf(where, sizeof where, " on GPU %d", session->options.devices[i]);
        for (int task = 0; task < HD_IN_FLIGHT_MAX; task++)
            used =
                describe_running(&session->gpus[i].in_flight.tasks[task], where, text, used, bytes);
    }
    return used;
}

void hd_session_describe_in_flight(const struct hd_session *session, char *text, int64_t bytes)
{
    text[0] = '\0';
    describe_in_flight(session, text, 0, bytes);
}

/* Tasks that wait for something outside are told as if they ran: nobody else works for them. */
static int64_t describe_waiting(const struct hd_session *session, char *text, int64_t used,
                                int64_t bytes)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&session->tasks.waits.lock;
    pthread_mutex_lock(lock);
    for (struct hd_waiting *each = session->tasks.waits.first; each; each = each->next)
        used = describe_running(&each->running, "", text, used, bytes);
    pthread_mutex_unlock(lock);
    return used;
}

/* Writes which tasks run, or, if there are none, what the submitter waits for. */
static void describe_work(const struct hd_session *session, char *text, int64_t bytes)
{
    char list[HD_MESSAGE_BYTES];
    int64_t used = 0;
    for (int lane = 0; lane < session->options.workers; lane++)
        used = describe_running(&session->events.running[lane], "", list, used, sizeof list);
    used = describe_waiting(session, list, used, sizeof list);
    used = describe_in_flight(session, list, used, sizeof list);
    const char *waits_for = atomic_load(&session->events.waits_for);
    if (used > 0)
        snprintf(text, (size_t)bytes, "runs %s", list);
    else
        snprintf(text, (size_t)bytes, "runs no task%s%s", waits_for ? ", waits for " : "",
                 waits_for ? waits_for : "");
}

void hd_session_describe(const struct hd_session *session, char *text, int64_t bytes)
{
    static const char *const forms[] = {"submitted %s of iteration %lld (%.1f s ago), ",
                                        "started %s of %lld (%.1f s ago), ",
                                        "finished %s of %lld (%.1f s ago), "};
    const struct hd_last_event *events[] = {&session->events.submitted, &session->events.begun,
                                            &session->events.ended};
    int64_t used = 0;
    for (int i = 0; i < 3; i++)
        used += describe_event(events[i], forms[i], text + used, bytes - used);
    const int64_t before = used;
    for (int i = 0; i < session->exchanges.n; i++)
        used += describe_event(&session->exchanges.channels[i].waits,
                               "waits in %s #%lld since %.1f s, ", text + used, bytes - used);
    if (used == before && used < bytes)
        used += snprintf(text + used, (size_t)(bytes - used), "in no collective, ");
    if (used < bytes)
        describe_work(session, text + used, bytes - used);
}

/* Returns the name of a task that waits for something outside, or NULL. */
static const char *get_waiting(const struct hd_session *session)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&session->tasks.waits.lock;
    pthread_mutex_lock(lock);
    const struct hd_waiting *first = session->tasks.waits.first;
    const char *name = first ? first->running.name : NULL;
    pthread_mutex_unlock(lock);
    return name;
}

const char *hd_session_get_running(const struct hd_session *session)
{
    const char *name = NULL;
    for (int lane = 0; lane < session->options.workers && !name; lane++)
        name = atomic_load(&session->events.running[lane].name);
    return name ? name : get_waiting(session);
}

/* -- Progress and waiting ---------------------------------------------------------------------- */

static void describe_hang(const struct hd_session *session, int64_t waited_ns, char *text,
                          int64_t bytes)
{
    char ranks[HD_MESSAGE_BYTES / 2] = "", work[HD_MESSAGE_BYTES / 4];
    if (session->options.comm) {
        hd_comm_probe(session->options.comm);
        hd_comm_report(session->options.comm, ranks, sizeof ranks);
    }
    if (session->options.device_comm && !ranks[0])
        hd_device_comm_report(session->options.device_comm, ranks, sizeof ranks);
    describe_work(session, work, sizeof work);
    snprintf(text, (size_t)bytes, "no progress for %.0f s: %s%srank %d %s",
             (double)waited_ns * 1e-9, ranks, ranks[0] ? "; " : "", session->options.rank, work);
}

/* One rank reports a hang: the first that tells the others, which then know of its failure. */
static void report_hang(struct hd_session *session, int64_t waited_ns)
{
    char text[HD_MESSAGE_BYTES - 64], failure[HD_RENDEZVOUS_TEXT];
    if (hd_session_poll(session) != HD_OK)
        return;
    describe_hang(session, waited_ns, text, sizeof text);
    snprintf(failure, sizeof failure, "rank %d failed: %.*s", session->options.rank,
             HD_RENDEZVOUS_TEXT - 32, text);
    if (!session->options.comm ||
        hd_comm_abort(session->options.comm,
                      &(struct hd_comm_failure){session->options.rank, HD_ERR_WATCHDOG, failure}))
        hd_session_fail(session, HD_ERR_WATCHDOG, "%s", text);
    else
        hd_session_poll(session);
}

/* Ranks look one after another, so that where they learn of failures by messages one of them is
 * the first, too. */
static int64_t patience_ns(const struct hd_session *session)
{
    enum { STEP_NS = 250000000, STEPS = 8 };
    return session->options.watchdog_ns + session->options.rank % STEPS * (int64_t)STEP_NS;
}

/* StarPU takes a GPU that has failed for one that still works. */
static void watch_devices(struct hd_session *session, int64_t now_ns)
{
    enum { CHECK_NS = 90000000 };
    int64_t before_ns = atomic_load(&session->events.gpus_checked_ns);
    if (now_ns - before_ns < CHECK_NS || hd_session_get_status(session) == HD_ERR_DEVICE ||
        !atomic_compare_exchange_strong(&session->events.gpus_checked_ns, &before_ns, now_ns))
        return;
    int status = hd_session_check_devices(session);
    if (status != HD_OK)
        hd_session_fail(session, status, "%s", hd_status_get_text(status));
}

int64_t hd_session_count_progress(const struct hd_session *session)
{
    int64_t count = atomic_load(&session->tasks.finished);
    for (int lane = 0; lane < session->options.workers; lane++)
        count += atomic_load_explicit(&session->events.running[lane].progress.count,
                                      memory_order_relaxed);
    return count;
}

void hd_session_set_other_progress(struct hd_session *session, int64_t count)
{
    atomic_store(&session->events.other_progress, count);
}

bool hd_session_watch(struct hd_session *session)
{
    const int64_t progress =
        hd_session_count_progress(session) + atomic_load(&session->events.other_progress);
    const int64_t now_ns = hd_clock_get_ns();
    hd_session_poll(session);
    watch_devices(session, now_ns);
    if (progress != session->events.seen_progress || session->events.seen_ns == 0) {
        session->events.seen_progress = progress;
        session->events.seen_ns = now_ns;
    }
    const int64_t waited_ns = now_ns - session->events.seen_ns;
    if (session->options.watchdog_ns == 0 || waited_ns < patience_ns(session))
        return false;
    report_hang(session, waited_ns);
    return true;
}

enum { ROUNDS_PER_CHECK = 64 };

static void work_until(struct hd_session *session, bool (*ready)(void *), void *arg,
                       bool stop_on_error)
{
    struct hd_idle idle = {0};
    session->events.seen_ns = hd_clock_get_ns();
    for (unsigned round = 0; !ready(arg); round++) {
        if (stop_on_error && hd_session_get_status(session) != HD_OK)
            return;
        int64_t before = atomic_load_explicit(&session->tasks.finished, memory_order_relaxed);
        starpu_driver_run_once(&session->starpu.driver);
        hd_session_progress(session);
        if (atomic_load_explicit(&session->tasks.finished, memory_order_relaxed) == before)
            hd_idle(&idle);
        else
            idle = (struct hd_idle){0};
        if (round % ROUNDS_PER_CHECK == 0)
            hd_session_watch(session);
    }
}

static void wait_until(struct hd_session *session, bool (*ready)(void *), void *arg,
                       bool stop_on_error)
{
    const int status = hd_session_flush(session);
    if (status != HD_OK)
        hd_session_fail(session, status, "tasks of a GPU cannot be submitted: %s",
                        hd_status_get_text(status));
    atomic_store(&session->events.waits_for,
                 stop_on_error ? "an iteration's tasks to end" : "all that was submitted to end");
    if (session->options.sequential)
        hd_session_poll(session);
    else
        work_until(session, ready, arg, stop_on_error);
    atomic_store(&session->events.waits_for, NULL);
}

int hd_session_wait(struct hd_session *session, bool (*ready)(void *arg), void *arg)
{
    wait_until(session, ready, arg, true);
    return hd_session_get_status(session);
}

static bool nothing_pending(void *arg)
{
    struct hd_session *session = arg;
    return atomic_load(&session->tasks.pending) == 0;
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

/* -- Start and stop ---------------------------------------------------------------------------- */

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

static int make_channels(struct hd_session *session)
{
    struct hd_exchanges *exchanges = &session->exchanges;
    struct hd_comm *comm = session->options.comm;
    const int n = comm ? hd_comm_count_channels(comm) : 0;
    exchanges->channels = hd_alloc(n, sizeof *exchanges->channels);
    if (!exchanges->channels)
        return HD_ERR_NOMEM;
    exchanges->n = n;
    for (int i = 0; i < n; i++) {
        exchanges->channels[i].channel = hd_comm_get_channel(comm, i);
        exchanges->channels[i].number = i;
        exchanges->channels[i].of = n;
    }
    return HD_OK;
}

static int start(struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    HD_TRY(make_channels(session));
    const int lanes = options->workers + options->n_devices;
    const struct hd_trace_options trace = {.workers = lanes,
                                           .gpus = options->n_devices,
                                           .capacity = options->trace_capacity,
                                           .channels = session->exchanges.n};
    session->scratch = hd_alloc(lanes, sizeof *session->scratch);
    if (!session->scratch)
        return HD_ERR_NOMEM;
    HD_TRY(hd_trace_create(&trace, &session->trace));
    HD_TRY(hd_session_reserve(session, options->scratch_bytes > 0 ? options->scratch_bytes : 1));
    if (!options->sequential)
        HD_TRY(hd_session_start_starpu(session));
    HD_TRY(hd_session_start_devices(session));
    if (!options->sequential) {
        for (int i = 0; i < session->exchanges.n; i++)
            starpu_void_data_register(&session->exchanges.channels[i].token);
        starpu_void_data_register(&session->tasks.log_token);
    }
    session->started = true;
    return hd_progress_thread_start(session);
}

int hd_session_create(const struct hd_session_options *options, struct hd_session **session_p)
{
    struct hd_session *session = hd_alloc(1, sizeof *session);
    if (!session)
        return HD_ERR_NOMEM;
    session->options = *options;
    session->starpu.idle_hook = -1;
    session->thread = pthread_self();
    if (options->sequential)
        session->options.workers = 1;
    pthread_mutex_init(&session->failure.lock, NULL);
    pthread_mutex_init(&session->tasks.waits.lock, NULL);
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
    if (session->started)
        hd_session_drain(session);
    hd_progress_thread_stop(session);
    for (int i = 0; i < session->exchanges.n; i++)
        if (session->exchanges.channels[i].token)
            starpu_data_unregister_no_coherency(session->exchanges.channels[i].token);
    if (session->tasks.log_token)
        starpu_data_unregister_no_coherency(session->tasks.log_token);
    hd_session_stop_devices(session);
    if (session->starpu.running)
        hd_session_stop_starpu(session);
    hd_session_free_codelets(session);
    hd_session_free_task_records(session);
    for (int i = 0; session->scratch && i < session->options.workers; i++)
        hd_free(session->scratch[i]);
    hd_free(session->scratch);
    hd_free(session->exchanges.channels);
    hd_trace_destroy(session->trace);
    pthread_mutex_destroy(&session->tasks.waits.lock);
    pthread_mutex_destroy(&session->failure.lock);
    hd_free(session);
}

char *hd_session_get_area(const struct hd_session *session)
{
    const struct hd_session_options *options = &session->options;
    return options->comm ? hd_comm_get_area(options->comm, options->rank) : NULL;
}

const struct hd_session_options *hd_session_get_options(const struct hd_session *session)
{
    return &session->options;
}

const char *hd_session_get_scheduler(const struct hd_session *session)
{
    return session->options.sequential ? "none" : session->starpu.scheduler;
}

struct hd_trace *hd_session_get_trace(struct hd_session *session)
{
    return session->trace;
}
