/* SPDX-License-Identifier: Apache-2.0 */
/* Called by `runner launch` once an attempt, from when its ranks have started until all have ended.
 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/launch/launch_internal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    COLLECT_MS = 300, /* the cause is sought among the ranks that end within this time */
    LOST_MS = 2000,   /* the same after a rank lost its peer, which may take longer to end */
    GRACE_MS = 1500,  /* from asking a rank to stop to killing it */
    SAME_MS = 300,    /* within this time a second Ctrl-C is the first one */
    POLL_MAX_MS = 3600000
};

/* Returns whether a rank ended because a signal asked it to. */
static bool is_stop(int code)
{
    return code == hd_status_get_exit_code(HD_ERR_STOPPED) ||
           code == hd_status_get_exit_code(HD_ERR_INTERRUPTED);
}

/* Ranks how likely an end caused the others: a rank that lost a peer is no cause, and a rank that
 * failed may have done so because another died. */
static int severity_of(int code)
{
    if (code == 0 || is_stop(code))
        return 0;
    if (code == HD_EXIT_PEER)
        return 1;
    return code < HD_SIGNALED ? 2 : 3;
}

/* Returns a rank that still runs, or -1. */
static int find_running(const struct hd_launch *launch)
{
    for (int i = 0; i < launch->options.nproc_per_node; i++)
        if (launch->ranks[i].pid > 0)
            return i;
    return -1;
}

static void describe_cause(struct hd_launch *launch)
{
    const struct hd_launch_rank *rank = &launch->ranks[launch->cause];
    const int number = hd_launch_get_rank(launch, launch->cause), pid = rank->last_pid;
    const int running = find_running(launch);
    char *why = launch->why;
    if (rank->code >= HD_SIGNALED)
        snprintf(why, sizeof launch->why, "rank %d (pid %d) was killed by signal %d (%s)", number,
                 pid, rank->code - HD_SIGNALED, strsignal(rank->code - HD_SIGNALED));
    else if (rank->code == HD_EXIT_PEER && running >= 0)
        snprintf(why, sizeof launch->why, "rank %d (pid %d) does not exit, but others lost it",
                 hd_launch_get_rank(launch, running), launch->ranks[running].pid);
    else if (rank->code == HD_EXIT_PEER)
        snprintf(why, sizeof launch->why,
                 "rank %d (pid %d) lost a rank that this launcher does not run", number, pid);
    else
        snprintf(why, sizeof launch->why, "rank %d (pid %d) failed with exit code %d", number, pid,
                 rank->code);
}

/* Returns the earlier of two times, where 0 means never. */
static int64_t min_time(int64_t a_ns, int64_t b_ns)
{
    return b_ns != 0 && (a_ns == 0 || b_ns < a_ns) ? b_ns : a_ns;
}

static void update_cause(struct hd_launch *launch, int i)
{
    int severity = severity_of(launch->ranks[i].code);
    if (launch->stopping || severity == 0)
        return;
    int64_t wait_ms = launch->ranks[i].code == HD_EXIT_PEER ? LOST_MS : COLLECT_MS;
    launch->report_ns = min_time(launch->report_ns, hd_clock_get_ns() + wait_ms * 1000000);
    if (launch->cause < 0 || severity > severity_of(launch->ranks[launch->cause].code))
        launch->cause = i;
}

void hd_launch_request_stop(struct hd_launch *launch, int number)
{
    launch->stopping = true;
    hd_launch_signal_ranks(launch, number);
    if (launch->kill_ns == 0)
        launch->kill_ns = hd_clock_get_ns() + (int64_t)GRACE_MS * 1000000;
}

static void report_cause(struct hd_launch *launch)
{
    const bool hangs = launch->ranks[launch->cause].code == HD_EXIT_PEER;
    describe_cause(launch);
    hd_log(HD_LOG_ERROR, "%s%s", launch->why,
           launch->n_running == 0 ? ""
           : hangs                ? "; stopping all"
                                  : "; stopping the others");
    launch->report_ns = 0;
    hd_launch_request_stop(launch, SIGTERM);
}

/* Within the grace time another SIGTERM or SIGHUP changes nothing, because some schedulers send it
 * to a process and again to its group. The second Ctrl-C asks the ranks to stop at once, the third
 * one kills them. */
static void press_again(struct hd_launch *launch, int number)
{
    const int64_t now_ns = hd_clock_get_ns();
    if (number != SIGINT || now_ns - launch->signal_ns < SAME_MS * INT64_C(1000000))
        return;
    launch->kill_ns = launch->pressed ? now_ns : now_ns + GRACE_MS * INT64_C(1000000);
    launch->pressed = true;
    hd_launch_signal_ranks(launch, SIGINT);
}

static void forward_signal(struct hd_launch *launch, int number)
{
    if (launch->stop_signal != 0) {
        press_again(launch, number);
        return;
    }
    launch->stop_signal = number;
    launch->signal_ns = hd_clock_get_ns();
    if (launch->report_ns != 0)
        report_cause(launch);
    else if (launch->cause < 0)
        hd_log(HD_LOG_INFO, "%s: stopping the ranks",
               number == SIGINT ? "interrupted" : "asked to stop");
    hd_launch_request_stop(launch, number); /* a checkpoint may take its time */
    launch->kill_ns += launch->options.sigterm_grace_s * INT64_C(1000000000);
}

/* A signal that one rank got is for all of them. Those that train stop with it anyway; those that
 * still start would wait for it. */
static void follow_stop(struct hd_launch *launch, int code)
{
    if (!is_stop(code) || launch->stopping ||
        (launch->cause >= 0 && severity_of(launch->ranks[launch->cause].code) > 1))
        return;
    launch->cause = -1; /* others have lost this rank, no more */
    launch->report_ns = 0;
    forward_signal(launch, SIGTERM);
}

/* A rank that starts does not catch yet a signal that asks it to stop, whoever sent that: it counts
 * as stopped, as later on. */
static int count_as_stop(int code)
{
    const int number = code - HD_SIGNALED;
    if (number == SIGINT)
        return hd_status_get_exit_code(HD_ERR_INTERRUPTED);
    return number == SIGTERM || number == SIGHUP ? hd_status_get_exit_code(HD_ERR_STOPPED) : code;
}

static void reap_ranks(struct hd_launch *launch)
{
    for (int i = 0; i < launch->options.nproc_per_node; i++)
        if (launch->ranks[i].pid > 0 && hd_launch_reap_rank(&launch->ranks[i])) {
            launch->n_running--;
            launch->ranks[i].code = count_as_stop(launch->ranks[i].code);
            update_cause(launch, i);
            follow_stop(launch, launch->ranks[i].code);
        }
}

static void kill_ranks(struct hd_launch *launch)
{
    if (!launch->killing)
        hd_log(HD_LOG_WARN, "killing %d rank%s that did not stop", launch->n_running,
               launch->n_running == 1 ? "" : "s");
    launch->killing = true;
    hd_launch_signal_ranks(launch, SIGKILL);
    launch->kill_ns = hd_clock_get_ns() + (int64_t)GRACE_MS * 1000000;
}

/* Waits for a signal or until due_ns (0: for ever). Returns the signal, or 0. */
static int wait_for_signal(const struct hd_launch *launch, int64_t due_ns)
{
    const int64_t now_ns = hd_clock_get_ns();
    struct signalfd_siginfo info;
    struct pollfd signals = {.fd = launch->signal_fd, .events = POLLIN};
    const int64_t left_ms = due_ns > now_ns ? (due_ns - now_ns + 999999) / 1000000 : 0;
    poll(&signals, 1, due_ns == 0 ? -1 : left_ms < POLL_MAX_MS ? (int)left_ms : POLL_MAX_MS);
    return read(launch->signal_fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo
                                                                               : 0;
}

static int exit_code(const struct hd_launch *launch)
{
    int heaviest = 0, clean = 0;
    for (int i = 0; i < launch->options.nproc_per_node; i++) {
        int code = launch->ranks[i].code;
        heaviest = severity_of(code) > heaviest ? severity_of(code) : heaviest;
        clean = is_stop(code) ? code : clean;
    }
    if (launch->cause >= 0) {
        int code = launch->ranks[launch->cause].code;
        return severity_of(code) == 2 ? code : 1;
    }
    if (launch->stop_signal == SIGINT)
        return hd_status_get_exit_code(HD_ERR_INTERRUPTED);
    if (clean != 0 && heaviest <= 1) /* who stopped was lost by others */
        return clean;
    if (launch->stop_signal && launch->killing) /* nothing failed: it took too long */
        return hd_status_get_exit_code(HD_ERR_STOPPED);
    return heaviest > 0 ? 1 : 0;
}

int hd_launch_supervise(struct hd_launch *launch)
{
    while (launch->n_running > 0) {
        int number = wait_for_signal(launch, min_time(launch->report_ns, launch->kill_ns));
        if (number > 0 && number != SIGCHLD)
            forward_signal(launch, number);
        reap_ranks(launch);
        bool certain = launch->cause >= 0 && launch->ranks[launch->cause].code >= HD_SIGNALED;
        if (launch->report_ns != 0 &&
            (certain || hd_clock_get_ns() >= launch->report_ns || launch->n_running == 0))
            report_cause(launch);
        if (launch->n_running > 0 && launch->kill_ns != 0 && hd_clock_get_ns() >= launch->kill_ns)
            kill_ranks(launch);
    }
    return exit_code(launch);
}

int hd_launch_pause(struct hd_launch *launch, int64_t pause_ms)
{
    const int64_t due_ns = hd_clock_get_ns() + pause_ms * 1000000;
    int number;
    do
        number = wait_for_signal(launch, due_ns);
    while ((number == 0 || number == SIGCHLD) && hd_clock_get_ns() < due_ns);
    return number == SIGCHLD ? 0 : number;
}
