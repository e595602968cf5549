/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/envs/gymnasium/keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void become_worker(int alive)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the keeper is killed */
    setpgid(0, 0);
    close(alive);
}

/* Reaps children that have ended, orphans of the worker's as well. Returns whether the worker is
 * one of them. */
static bool has_ended(pid_t worker, int *status_p)
{
    bool ended = false;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        if (pid == worker) {
            *status_p = status;
            ended = true;
        }
    return ended;
}

/* Waits until the worker ends, or is to end. Returns its status. */
static int watch(pid_t worker, int alive, const sigset_t *signals)
{
    const int events = signalfd(-1, signals, SFD_CLOEXEC);
    struct pollfd fds[2] = {{.fd = alive, .events = POLLIN}, {.fd = events, .events = POLLIN}};
    struct signalfd_siginfo event;
    int status = 0;
    while (!has_ended(worker, &status)) {
        if (poll(fds, 2, -1) < 0 && errno == EINTR)
            continue;
        if (!fds[1].revents || read(events, &event, sizeof event) != sizeof event ||
            event.ssi_signo == SIGTERM)
            return SIGTERM;
        if (event.ssi_signo == SIGUSR1)
            kill(worker, SIGUSR1);
    }
    return status;
}

/* Kills the children of this process; returns how many. */
static int kill_children(void)
{
    int n = 0, pid;
    FILE *children = fopen("/proc/thread-self/children", "re");
    for (; children && fscanf(children, "%d", &pid) == 1; n++)
        kill(pid, SIGKILL);
    if (children)
        fclose(children);
    return n;
}

/* A child's own children become children of this process when it ends. */
static void kill_descendants(pid_t worker)
{
    kill(-worker, SIGKILL);
    kill(worker, SIGKILL);
    while (kill_children() > 0)
        waitpid(-1, NULL, 0);
}

__attribute__((noreturn)) static void end_as(int status)
{
    const struct rlimit none = {0, 0};
    sigset_t all;
    sigfillset(&all);
    setrlimit(RLIMIT_CORE, &none);
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &all, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

void hd_gymnasium_keep(int forked, int alive)
{
    if (forked == 0) {
        become_worker(alive);
        return;
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "heddle-keeper");
    const int status = watch(forked, alive, &signals);
    kill_descendants(forked);
    end_as(status);
}
