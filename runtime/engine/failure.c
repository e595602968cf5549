/* SPDX-License-Identifier: Apache-2.0 */
/* The error latch: the first failure of a session, by a task, a signal or another rank. */
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/session_internal.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>

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
