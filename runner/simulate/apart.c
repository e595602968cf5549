/* SPDX-License-Identifier: Apache-2.0 */
/* A simulation in a process of its own. */
#include "runner/simulate/simulate_internal.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int child;   /* process; 0: none */
static atomic_int stopped; /* by a signal */

static void stop(int signal)
{
    (void)signal;
    stopped = 1;
    if (child > 0)
        kill(child, SIGKILL);
}

static void catch_signals(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static _Noreturn void run_child(const struct hd_simulate_request *request, int nodes, int pipe_end)
{
    json_t *json = NULL;
    catch_signals(SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int status = stopped ? HD_ERR_INTERRUPTED : hd_simulate_once(request, nodes, &json);
    FILE *file = fdopen(pipe_end, "w");
    if (status == HD_OK && file)
        json_dumpf(json, file, 0);
    if (file)
        fclose(file);
    _exit(hd_status_get_exit_code(status));
}

/* Reads until the child has closed its end. */
static void read_result(int pipe_end, json_t **json_p)
{
    FILE *file = fdopen(pipe_end, "r");
    *json_p = file ? json_loadf(file, 0, NULL) : NULL;
    if (file)
        fclose(file);
    hd_log_show_progress(NULL);
}

static int wait_for(pid_t process, int *state_p)
{
    pid_t ended;
    do
        ended = waitpid(process, state_p, 0);
    while (ended < 0 && errno == EINTR);
    child = 0;
    return ended == process ? HD_OK : hd_fail(HD_ERR_SYSTEM, "no process: %m");
}

int hd_simulate_apart(const struct hd_simulate_request *request, int nodes, json_t **json_p)
{
    int ends[2], state;
    if (pipe(ends) != 0)
        return hd_status_get_exit_code(hd_fail(HD_ERR_SYSTEM, "no pipe: %m"));
    catch_signals(stop);
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        run_child(request, nodes, ends[1]);
    }
    child = process;
    if (stopped && process > 0)
        kill(process, SIGKILL);
    close(ends[1]);
    read_result(ends[0], json_p);
    const int status = wait_for(process, &state);
    if (stopped)
        return hd_status_get_exit_code(
            hd_fail(HD_ERR_INTERRUPTED, "stopped while %d nodes were simulated", nodes));
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    if (WIFEXITED(state) && (WEXITSTATUS(state) != 0 || *json_p))
        return WEXITSTATUS(state);
    return hd_status_get_exit_code(
        hd_fail(HD_ERR_SYSTEM, "SimGrid ended the simulation of %d nodes", nodes));
}
