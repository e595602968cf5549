/* SPDX-License-Identifier: Apache-2.0 */
/* Long waits are told of by the thread that waits, which alone knows what it waits for. */
#include "runtime/base/clock.h"
#include "runtime/engine/session_internal.h"

void hd_session_tell_waiting(struct hd_session *session)
{
    enum { PERIOD_NS = 100000000 };
    if (!session->options.waiting || !pthread_equal(pthread_self(), session->thread))
        return;
    const int64_t now_ns = hd_clock_get_ns();
    if (now_ns - session->told_ns < PERIOD_NS)
        return;
    session->told_ns = now_ns;
    session->options.waiting(session->options.waiting_arg);
}
