/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/launch/launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct hd_launch *launch, int local_rank, int port)
{
    const struct hd_launch_options *options = &launch->options;
    set_number("RANK", hd_launch_get_rank(launch, local_rank));
    set_number("WORLD_SIZE", hd_launch_get_world(launch));
    set_number("LOCAL_RANK", local_rank);
    set_number("LOCAL_WORLD_SIZE", options->nproc_per_node);
    set_number("GROUP_RANK", options->node_rank);
    set_number("NODE_RANK", options->node_rank);
    setenv("MASTER_ADDR", options->master_addr, 1);
    set_number("MASTER_PORT", port);
    setenv("HD_SUPERVISED", "1", 1);
    setenv("OMP_NUM_THREADS", "1", 1); /* part of the arithmetic fingerprint */
    set_number("HD_SECRET_FD", launch->secret_fd);
    fcntl(launch->secret_fd, F_SETFD, 0); /* survives exec */
    unsetenv("HD_RENDEZVOUS_FD");
    unsetenv("HD_DIR_FD");
    if (local_rank == 0) {
        set_number("HD_DIR_FD", launch->dir_fds[1]);
        fcntl(launch->dir_fds[1], F_SETFD, 0);
    }
    if (launch->listen_fd >= 0 && hd_launch_get_rank(launch, local_rank) == 0) {
        set_number("HD_RENDEZVOUS_FD", launch->listen_fd);
        fcntl(launch->listen_fd, F_SETFD, 0);
    }
}

/* Runs in the child. A process group of its own keeps the terminal's Ctrl-C from a rank, so that
 * the rank gets it once, from the launcher. */
static void exec_rank(const struct hd_launch *launch, int local_rank, int port, pid_t launcher)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) /* the launcher died before the prctl */
        _exit(1);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    set_environment(launch, local_rank, port);
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd > 0) {
        dup2(null_fd, STDIN_FILENO);
        close(null_fd);
    }
    execv(launch->program, launch->argv);
    hd_log(HD_LOG_ERROR, "cannot run %s: %s", launch->program, strerror(errno));
    _exit(127);
}

int hd_launch_start_ranks(struct hd_launch *launch, int port)
{
    pid_t launcher = getpid();
    fflush(NULL);
    for (int i = 0; i < launch->options.nproc_per_node; i++) {
        pid_t pid = fork();
        if (pid == 0)
            exec_rank(launch, i, port, launcher);
        if (pid < 0)
            return hd_fail(HD_ERR_SYSTEM, "cannot start rank %d: %s", hd_launch_get_rank(launch, i),
                           strerror(errno));
        setpgid(pid, pid); /* as in the child: the group must exist before it is signalled */
        launch->ranks[i] = (struct hd_launch_rank){.pid = pid, .last_pid = pid};
        launch->n_running++;
    }
    return HD_OK;
}

void hd_launch_signal_ranks(const struct hd_launch *launch, int number)
{
    for (int i = 0; i < launch->options.nproc_per_node; i++)
        if (launch->ranks[i].pid > 0)
            kill(-launch->ranks[i].pid, number);
}

void hd_launch_tell_dir(const char *dir)
{
    const char *text = getenv("HD_DIR_FD");
    const int fd = text ? atoi(text) : -1;
    if (fd <= STDERR_FILENO)
        return;
    if (write(fd, dir, strlen(dir) + 1) < 0) /* less than a pipe holds */
        hd_log(HD_LOG_WARN, "the launcher does not listen: %m");
    close(fd);
}

/* Reads the run directory if one has been told since. */
void hd_launch_read_dir(struct hd_launch *launch)
{
    char text[sizeof launch->dir];
    const ssize_t n = read(launch->dir_fds[0], text, sizeof text);
    if (n > 1 && text[n - 1] == '\0')
        memcpy(launch->dir, text, (size_t)n);
}

/* Kills the group of a rank that has ended. The rank is a zombie until waitpid, so its group's
 * number cannot belong to another process. */
bool hd_launch_reap_rank(struct hd_launch_rank *rank)
{
    siginfo_t info = {0};
    int status;
    if (waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    kill(-rank->pid, SIGKILL);
    waitpid(rank->pid, &status, 0);
    rank->code = WIFEXITED(status) ? WEXITSTATUS(status) : HD_SIGNALED + WTERMSIG(status);
    rank->pid = 0;
    return true;
}
