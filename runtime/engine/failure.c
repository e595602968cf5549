/* SPDX-License-Identifier: Apache-2.0 */
/* The error latch: the first failure of a session, by a task, a signal or another rank; and the
 * look at the world outside, while a thread is busy or waits. */
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/session_internal.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>

/* Latches a failure, and returns whether it is the first. */
static bool latch(struct hd_session *session, int status, int cause, const char *text)
{
    pthread_mutex_lock(&session->failure.lock);
    const bool first = atomic_load(&session->failure.status) == HD_OK;
    if (first) {
        snprintf(session->failure.message, sizeof session->failure.message, "%s",
                 text[0] ? text : hd_status_get_text(status));
        session->failure.cause = cause;
        atomic_store(&session->failure.status, status);
    }
    pthread_mutex_unlock(&session->failure.lock);
    return first;
}

void hd_session_fail(struct hd_session *session, int status, const char *format, ...)
{
    const int rank = session->options.rank;
    char message[HD_MESSAGE_BYTES], text[HD_RENDEZVOUS_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!latch(session, status, status, message) || !session->options.comm)
        return;
    snprintf(text, sizeof text, "rank %d failed: %.*s", rank, HD_RENDEZVOUS_TEXT - 32,
             session->failure.message);
    hd_comm_abort(session->options.comm, &(struct hd_comm_failure){rank, status, text});
}

int hd_session_get_status(const struct hd_session *session)
{
    return atomic_load(&session->failure.status);
}

int hd_session_get_cause(const struct hd_session *session)
{
    return hd_session_get_status(session) == HD_OK ? HD_OK : session->failure.cause;
}

const char *hd_session_get_message(const struct hd_session *session)
{
    return session->failure.message;
}

/* Only the session's thread tells of waits, as only it knows that nothing else happens. */
static void tell_waiting(struct hd_session *session)
{
    enum { PERIOD_NS = 100000000 };
    if (!session->options.waiting || !pthread_equal(pthread_self(), session->thread))
        return;
    const int64_t now_ns = hd_clock_get_ns();
    if (now_ns - session->failure.told_ns < PERIOD_NS)
        return;
    session->failure.told_ns = now_ns;
    session->options.waiting(session->options.waiting_arg);
}

/* When a rank has failed, mpirun and the launcher stop the others by a signal, so its failure comes
 * first; unless it ended by the signal that all get. The comm knows of it already, as of failures
 * of this rank's links and watchdog. */
int hd_session_poll(struct hd_session *session)
{
    struct hd_comm_failure failure;
    tell_waiting(session);
    const int signal = session->options.interrupted ? *session->options.interrupted : 0;
    if (session->options.comm && hd_comm_get_failure(session->options.comm, &failure) &&
        !(signal && hd_status_is_stop(failure.status)))
        latch(session, failure.rank == session->options.rank ? failure.status : HD_ERR_PEER,
              failure.status, failure.text[0] ? failure.text : "another rank failed");
    if (signal)
        hd_session_fail(session, signal == SIGINT ? HD_ERR_INTERRUPTED : HD_ERR_STOPPED,
                        "stopped by signal %d (%s)", signal, strsignal(signal));
    return hd_session_get_status(session);
}
