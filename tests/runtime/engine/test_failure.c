/* SPDX-License-Identifier: Apache-2.0 */
/* The error latch: whatever ends a run, its first error is told by a sentence that names the cause.
 * The session is one of two ranks, joined to nobody. */
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"
#include "runtime/engine/session.h"
#include "tests/harness/check.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct hd_comm *comm;
static atomic_int interrupted;

static struct hd_session *start(int64_t watchdog_ns)
{
    const struct hd_comm_hosts hosts = {1, 2};
    struct hd_session *session;
    atomic_store(&interrupted, 0);
    ck_assert_int_eq(hd_comm_create_alone(0, 2, &hosts, &(struct hd_comm_sizes){1, 64, 0}, &comm),
                     HD_OK);
    const struct hd_session_options options = {.sequential = true,
                                               .workers = 1,
                                               .ranks = 2,
                                               .comm = comm,
                                               .watchdog_ns = watchdog_ns,
                                               .interrupted = &interrupted};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    return session;
}

/* The session has failed so, and says why. */
static void expect(struct hd_session *session, int status, int cause, const char *why)
{
    hd_session_watch(session);
    ck_assert_int_eq(hd_session_get_status(session), status);
    ck_assert_int_eq(hd_session_get_cause(session), cause);
    const char *message = hd_session_get_message(session);
    ck_assert_msg(message[0] && strstr(message, why), "'%s' does not say '%s'", message, why);
    hd_session_destroy(session);
    hd_comm_destroy(comm);
}

static void abort_comm(int rank, int status, const char *text)
{
    ck_assert(hd_comm_abort(comm, &(struct hd_comm_failure){rank, status, text}));
}

TEST(a_failure_of_the_rank_itself_is_told)
{
    struct hd_session *session = start(0);
    hd_session_fail(session, HD_ERR_TASK, "task %s failed", "adam");
    hd_session_fail(session, HD_ERR_SYSTEM, "a later one");
    expect(session, HD_ERR_TASK, HD_ERR_TASK, "task adam failed");
}

TEST(a_failure_without_a_sentence_is_told_by_its_status)
{
    struct hd_session *session = start(0);
    hd_session_fail(session, HD_ERR_SYSTEM, "%s", "");
    expect(session, HD_ERR_SYSTEM, HD_ERR_SYSTEM, hd_status_get_text(HD_ERR_SYSTEM));
}

/* The links fail in a thread that knows the comm alone. */
TEST(a_failure_of_its_links_is_told)
{
    struct hd_session *session = start(0);
    abort_comm(0, HD_ERR_SYSTEM, "rank 0 failed: the connection to rank 1 broke");
    expect(session, HD_ERR_SYSTEM, HD_ERR_SYSTEM, "the connection to rank 1 broke");
}

TEST(a_failure_of_another_rank_is_told)
{
    struct hd_session *session = start(0);
    abort_comm(1, HD_ERR_WATCHDOG, "rank 1 failed: no progress");
    expect(session, HD_ERR_PEER, HD_ERR_WATCHDOG, "rank 1 failed: no progress");
    session = start(0);
    abort_comm(1, HD_ERR_PEER, "");
    expect(session, HD_ERR_PEER, HD_ERR_PEER, "another rank failed");
}

/* A rank was killed while it wrote why. */
TEST(a_failure_that_is_half_written_is_told)
{
    struct hd_session *session = start(0);
    atomic_store(&comm->header->abort, HD_COMM_ABORTING);
    expect(session, HD_ERR_PEER, HD_ERR_PEER, "another rank failed");
}

TEST(signals_are_told)
{
    struct hd_session *session = start(0);
    atomic_store(&interrupted, SIGTERM);
    expect(session, HD_ERR_STOPPED, HD_ERR_STOPPED, "signal 15");
    session = start(0);
    atomic_store(&interrupted, SIGINT);
    expect(session, HD_ERR_INTERRUPTED, HD_ERR_INTERRUPTED, "signal 2");
    session = start(0);
    atomic_store(&interrupted, SIGTERM);
    abort_comm(1, HD_ERR_STOPPED, "rank 1 failed: stopped");
    expect(session, HD_ERR_STOPPED, HD_ERR_STOPPED, "signal 15");
}

static struct hd_session *start_and_hang(void)
{
    enum { WATCHDOG_NS = 1000000, HANGS_US = 5000 };
    struct hd_session *session = start(WATCHDOG_NS);
    hd_session_watch(session);
    usleep(HANGS_US);
    return session;
}

TEST(a_hang_is_told)
{
    expect(start_and_hang(), HD_ERR_WATCHDOG, HD_ERR_WATCHDOG, "no progress for");
}

/* The watchdog finds the comm aborted already, by its own links or by the other rank. */
TEST(a_hang_after_a_failure_tells_the_failure)
{
    struct hd_session *session = start_and_hang();
    abort_comm(0, HD_ERR_SYSTEM, "rank 0 failed: the connection to rank 1 broke");
    expect(session, HD_ERR_SYSTEM, HD_ERR_SYSTEM, "the connection to rank 1 broke");
    session = start_and_hang();
    abort_comm(1, HD_ERR_TASK, "rank 1 failed: a task");
    expect(session, HD_ERR_PEER, HD_ERR_TASK, "rank 1 failed: a task");
}
