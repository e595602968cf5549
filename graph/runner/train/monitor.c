/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/runner/train/monitor.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { POLL_MS = 250 };

/* What a watchdog that fires is given before the process is ended: the main thread wakes up for it,
 * unless it is in a task. */
enum { LEAVE_S = 3 };

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

void hd_monitor_show(struct hd_train *train)
{
    char local[256], others[16384];
    const struct hd_session *session = atomic_load(&train->visible_session);
    if (!session)
        return;
    hd_session_describe(session, local, sizeof local);
    hd_log(HD_LOG_WARN, "rank %d (pid %d), now: %s", train->world.rank, (int)getpid(), local);
    hd_rendezvous_describe_peers(train->rendezvous, others, sizeof others);
    for (char *line = others, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        hd_log(HD_LOG_WARN, "%.*s", (int)(end - line), line);
        end += *end == '\n';
    }
}

/* Returns whether nothing has ended for longer than the watchdog allows. */
static bool is_stuck(struct hd_train *train, const struct hd_session *session)
{
    const int64_t finished = hd_session_count_finished(session), now_ns = hd_clock_get_ns();
    if (finished != train->seen_finished || train->seen_ns == 0) {
        train->seen_finished = finished;
        train->seen_ns = now_ns;
    }
    const double limit_s = hd_config_get_real(train->run_spec.config, "runtime.watchdog_s");
    return limit_s > 0 && (double)(now_ns - train->seen_ns) * 1e-9 > limit_s;
}

static void end_process(struct hd_train *train, struct hd_session *session)
{
    hd_session_fail(session, HD_ERR_WATCHDOG, "no task has ended for %.0f s",
                    hd_config_get_real(train->run_spec.config, "runtime.watchdog_s"));
    for (int i = 0; i < LEAVE_S * 1000 / POLL_MS && !atomic_load(&train->monitor_ends); i++)
        usleep(POLL_MS * 1000);
    if (atomic_load(&train->monitor_ends))
        return;
    hd_monitor_show(train);
    hd_log(HD_LOG_ERROR, "%s; a task does not return, so the process is ended",
           hd_session_get_message(session));
    hd_rendezvous_fail(train->rendezvous, hd_session_get_message(session));
    _exit(hd_status_get_exit_code(HD_ERR_WATCHDOG));
}

static void *monitor(void *arg)
{
    struct hd_train *train = arg;
    const sigset_t set = only_usr1();
    const struct timespec look = {.tv_nsec = POLL_MS * 1000000L};
    while (!atomic_load(&train->monitor_ends)) {
        if (sigtimedwait(&set, NULL, &look) == SIGUSR1)
            hd_monitor_show(train);
        struct hd_session *session = atomic_load(&train->visible_session);
        if (session && is_stuck(train, session)) {
            end_process(train, session);
            break;
        }
    }
    return NULL;
}

int hd_monitor_start(struct hd_train *train)
{
    sigset_t all, before; /* signals but one are the main thread's */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&train->monitor, NULL, monitor, train);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return hd_fail(HD_ERR_SYSTEM, "cannot start a thread: %s", strerror(error));
    train->monitored = true;
    return HD_OK;
}

void hd_monitor_stop(struct hd_train *train)
{
    pthread_mutex_lock(&train->visible_lock);
    atomic_store(&train->visible_session, NULL);
    pthread_mutex_unlock(&train->visible_lock);
    atomic_store(&train->monitor_ends, true);
    if (train->monitored)
        pthread_join(train->monitor, NULL);
    train->monitored = false;
}
