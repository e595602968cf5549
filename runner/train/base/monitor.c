/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/base/monitor.h"

#include "runner/base/signals.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/io/base/files.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 100 };

/* When the watchdog fires, or the time for an orderly end is over, the main thread has this long to
 * wake up and leave; it cannot if it is in a task. */
enum { LEAVE_S = 1, RECORD_S = 10 };

static sigset_t only_usr1(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

void hd_monitor_prepare(void)
{
    const sigset_t set = only_usr1();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void hd_monitor_show(const struct hd_monitor *monitor)
{
    char local[1024], others[16384];
    const struct hd_session *session = atomic_load(&monitor->session);
    if (!session)
        return;
    hd_session_describe(session, local, sizeof local);
    hd_log(HD_LOG_WARN, "rank %d (pid %d), now: %s", monitor->rank, (int)getpid(), local);
    hd_rendezvous_describe_peers(monitor->rendezvous, others, sizeof others);
    for (char *line = others, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        hd_log(HD_LOG_WARN, "%.*s", (int)(end - line), line);
        end += *end == '\n';
    }
}

void hd_monitor_describe(struct hd_monitor *monitor, char *text, int64_t bytes)
{
    pthread_mutex_lock(&monitor->lock);
    const struct hd_session *session = atomic_load(&monitor->session);
    if (session)
        hd_session_describe(session, text, bytes);
    else
        snprintf(text, (size_t)bytes, "starting or ending");
    pthread_mutex_unlock(&monitor->lock);
}

int64_t hd_monitor_count_progress(struct hd_monitor *monitor)
{
    pthread_mutex_lock(&monitor->lock);
    const struct hd_session *session = atomic_load(&monitor->session);
    const int64_t count =
        hd_file_count_blocks() + (session ? hd_session_count_progress(session) : 0);
    pthread_mutex_unlock(&monitor->lock);
    return count;
}

static int exit_code; /* of a process that cannot record how it ended */

static void give_up(int number)
{
    (void)number;
    _exit(exit_code);
}

/* A task does not return. */
static void report_hang(struct hd_monitor *monitor, const struct hd_session *session)
{
    hd_monitor_show(monitor);
    hd_log(HD_LOG_ERROR, "%s; a task does not return, so the process is ended",
           hd_session_get_message(session));
    hd_rendezvous_fail(monitor->rendezvous, HD_ERR_WATCHDOG, hd_session_get_message(session));
}

static void end_process(struct hd_monitor *monitor, struct hd_session *session, int status)
{
    for (int i = 0; i < LEAVE_S * 1000 / POLL_MS && !atomic_load(&monitor->ends); i++)
        usleep(POLL_MS * 1000);
    if (atomic_load(&monitor->ends))
        return;
    if (status == HD_ERR_WATCHDOG)
        report_hang(monitor, session);
    else if (!hd_status_is_stop(status))
        hd_log(HD_LOG_ERROR, "%s; a task does not return, so the signal ends the process",
               hd_session_get_message(session));
    exit_code = hd_status_get_exit_code(status);
    signal(SIGALRM, give_up); /* the task may hold what recording needs */
    alarm(RECORD_S);
    if (monitor->record)
        monitor->record(monitor->arg, status);
    _exit(exit_code);
}

/* Returns the status with which the process is to end, though the main thread is busy; HD_OK: it is
 * not to. */
static int look_for_end(struct hd_session *session)
{
    if (hd_session_watch(session))
        return HD_ERR_WATCHDOG;
    if (!hd_interrupted)
        return HD_OK;                                /* it may have failed before */
    const int cause = hd_session_get_cause(session); /* of another rank, if that stopped first */
    return hd_status_is_stop(cause) ? cause : hd_session_get_status(session);
}

/* A rank would train on without anybody who looks after it. Its parent is asked for, as the
 * kernel's signal (PR_SET_PDEATHSIG) tells of the end of a thread. */
static void look_after_starter(struct hd_monitor *monitor)
{
    if (monitor->starter == 0 || monitor->starter == getppid())
        return;
    hd_log(HD_LOG_WARN,
           "process %d, which started this rank, has ended: the rank stops as at SIGTERM",
           monitor->starter);
    monitor->starter = 0;
    kill(getpid(), SIGTERM);
}

static void *run_monitor(void *arg)
{
    struct hd_monitor *monitor = arg;
    const sigset_t set = only_usr1();
    const struct timespec look = {.tv_nsec = POLL_MS * 1000000L};
    while (!atomic_load(&monitor->ends)) {
        if (sigtimedwait(&set, NULL, &look) == SIGUSR1 && !atomic_load(&monitor->ends))
            hd_monitor_show(monitor);
        look_after_starter(monitor);
        struct hd_session *session = atomic_load(&monitor->session);
        if (session && hd_session_get_status(session) == HD_OK)
            hd_signals_announce();
        if (session) /* what does not come from its tasks: other ranks, and files that are written
                      */
            hd_session_set_other_progress(session,
                                          hd_rendezvous_get_peer_progress(monitor->rendezvous) +
                                              hd_file_count_blocks());
        const int status = session ? look_for_end(session) : HD_OK;
        if (status != HD_OK) {
            end_process(monitor, session, status);
            break;
        }
    }
    return NULL;
}

int hd_monitor_start(struct hd_monitor *monitor, int rank, struct hd_rendezvous *rendezvous)
{
    monitor->rank = rank;
    monitor->rendezvous = rendezvous;
    sigset_t all, before; /* the main thread takes all other signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&monitor->thread, NULL, run_monitor, monitor);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return hd_fail(HD_ERR_SYSTEM, "cannot start a thread: %s", strerror(error));
    monitor->started = true;
    return HD_OK;
}

void hd_monitor_note_end(struct hd_monitor *monitor)
{
    atomic_store(&monitor->ends, true);
}

void hd_monitor_stop(struct hd_monitor *monitor)
{
    pthread_mutex_lock(&monitor->lock);
    atomic_store(&monitor->session, NULL);
    pthread_mutex_unlock(&monitor->lock);
    atomic_store(&monitor->ends, true);
    if (monitor->started) {
        pthread_kill(monitor->thread, SIGUSR1); /* ends its wait */
        pthread_join(monitor->thread, NULL);
    }
    monitor->started = false;
}
