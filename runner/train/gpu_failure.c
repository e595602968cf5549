/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/train/gpu_failure.h"

#include "runner/train/outputs/results.h"
#include "runtime/base/gpu_error.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/io/reserve.h"
#include "runtime/launch/launch.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_bool failed;

void hd_gpu_failure_wait(void)
{
    while (atomic_load(&failed))
        pause();
}

static void give_up(int number)
{
    (void)number;
    _exit(hd_status_get_exit_code(HD_ERR_DEVICE));
}

/* The thread may have been stopped anywhere, and others may hold what recording needs. */
static void limit_time(void)
{
    const struct itimerval limit = {.it_value = {.tv_usec = 800000}};
    signal(SIGALRM, give_up);
    setitimer(ITIMER_REAL, &limit, NULL);
}

static void describe(const struct hd_train *train, const char *sentence, char *text, int64_t bytes)
{
    char tasks[HD_MESSAGE_BYTES / 2] = "";
    if (train->session)
        hd_session_describe_in_flight(train->session, tasks, sizeof tasks);
    const char *hint = !tasks[0] || train->run_spec.settings.sequential
                           ? ""
                           : "; --set runtime.executor=sequential names the task at fault";
    snprintf(text, (size_t)bytes, "%s; %s%s%s", sentence,
             tasks[0] ? "in flight: " : "no task was in flight", tasks, hint);
}

/* Ends the other ranks' waiting. Returns the sentence of the rank that had failed before, which is
 * what the user has been told; NULL: none had. */
static const char *tell_ranks(const struct hd_train *train, const char *text)
{
    const int rank = train->ranks.world.rank;
    struct hd_comm *comm = train->ranks.comm;
    struct hd_comm_failure before;
    char line[HD_RENDEZVOUS_TEXT];
    snprintf(line, sizeof line, "rank %d failed: %.*s", rank, HD_RENDEZVOUS_TEXT - 32, text);
    if (comm && !hd_comm_abort(comm, &(struct hd_comm_failure){rank, HD_ERR_DEVICE, line}) &&
        hd_comm_get_failure(comm, &before) && before.rank != rank) {
        hd_rendezvous_pass_on(train->ranks.rendezvous, before.rank, before.status, before.text);
        return before.text;
    }
    hd_log(HD_LOG_ERROR, "%s", text);
    hd_rendezvous_fail(train->ranks.rendezvous, HD_ERR_DEVICE, text);
    return NULL;
}

/* Results that are there already are whole. */
static void record(struct hd_train *train, const char *text)
{
    if (train->session)
        hd_session_fail(train->session, HD_ERR_DEVICE, "%s", text);
    if (train->outputs.opened && !hd_end_exists(train->dir))
        hd_end_record(train, HD_ERR_DEVICE);
    if (train->outputs.dir_lock >= 0)
        hd_reserve_remove(train->dir);
}

static void end(void *arg, const char *sentence)
{
    struct hd_train *train = arg;
    char text[HD_MESSAGE_BYTES];
    if (atomic_exchange(&failed, true))
        hd_gpu_failure_wait();
    limit_time();
    describe(train, sentence, text, sizeof text);
    const char *before = tell_ranks(train, text);
    record(train, before ? before : text);
    _exit(before && train->ranks.world.supervised ? HD_EXIT_PEER
                                                  : hd_status_get_exit_code(HD_ERR_DEVICE));
}

void hd_gpu_failure_catch(struct hd_train *train)
{
    hd_gpu_set_error_handler(end, train);
}

void hd_gpu_failure_leave(void)
{
    hd_gpu_set_error_handler(NULL, NULL);
}
