/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/launch/launch_internal.h"
#include "runtime/ranks/secret.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int check_range(const char *name, int value, int min, int max)
{
    if (value >= min && value <= max)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT, "%s %d: expected a number from %d to %d", name, value, min, max);
}

static int complete_options(struct hd_launch_options *options, char master_addr[HD_ADDR_BYTES])
{
    HD_TRY(check_range("--nproc-per-node", options->nproc_per_node, 1, HD_WORLD_MAX));
    HD_TRY(check_range("--nnodes", options->nnodes, 1, HD_WORLD_MAX / options->nproc_per_node));
    HD_TRY(check_range("--node-rank", options->node_rank, 0, options->nnodes - 1));
    HD_TRY(check_range("--master-port", options->master_port, 0, 65535));
    HD_TRY(check_range("--max-restarts", options->max_restarts, 0, 1000000));
    if (options->standalone && options->nnodes > 1)
        return hd_fail(HD_ERR_INPUT, "--standalone is for one node, --nnodes says %d",
                       options->nnodes);
    if (options->nnodes > 1 && !options->master_addr)
        return hd_fail(HD_ERR_INPUT,
                       "--nnodes %d needs --master-addr, the address of the node of rank 0",
                       options->nnodes);
    if (options->standalone)
        options->master_port = 0;
    if (options->standalone || !options->master_addr)
        options->master_addr = "127.0.0.1";
    HD_TRY(hd_address_read("--master-addr", options->master_addr, master_addr));
    options->master_addr = master_addr;
    if (options->nnodes > 1 && options->master_port == 0)
        options->master_port = HD_PORT_DEFAULT;
    return HD_OK;
}

/* Resolves /proc/self/exe, which would otherwise be the ranks' name in ps. */
static void find_program(struct hd_launch *launch)
{
    ssize_t n = -1;
    if (!launch->options.program)
        n = readlink("/proc/self/exe", launch->program, sizeof launch->program - 1);
    launch->program[n > 0 ? n : 0] = '\0';
    if (launch->options.program)
        snprintf(launch->program, sizeof launch->program, "%s", launch->options.program);
    else if (access(launch->program, X_OK) != 0) /* replaced while it runs */
        strcpy(launch->program, "/proc/self/exe");
}

static void report_end(const struct hd_launch *launch, int code)
{
    if (code != 0 && launch->dir[0] && launch->options.on_end)
        launch->options.on_end(launch->options.arg, launch->dir, launch->stop_signal, launch->why);
}

/* Watches SIGINT and SIGTERM even if they were ignored, as shells do for background jobs, because
 * they are sent to a launcher on purpose. A hang-up that nohup ignores stays ignored. */
static int watch_signals(struct hd_launch *launch, sigset_t *before_p)
{
    struct sigaction hangup;
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(&watched, SIGHUP);
    launch->signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launch->signal_fd < 0)
        return hd_fail(HD_ERR_SYSTEM, "no signalfd: %m");
    sigprocmask(SIG_BLOCK, &watched, before_p);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would vanish without a code */
    return HD_OK;
}

static int make_secret(struct hd_launch *launch)
{
    if (launch->options.secret)
        memcpy(launch->secret, launch->options.secret, sizeof launch->secret);
    else
        hd_secret_draw(launch->secret);
    launch->options.secret = launch->secret;
    return hd_secret_share(launch->secret, &launch->secret_fd);
}

/* Runs the ranks until the end, with signals watched. */
static int run(struct hd_launch *launch)
{
    sigset_t before;
    const int status = watch_signals(launch, &before);
    if (status != HD_OK)
        return hd_status_get_exit_code(status);
    const int code = hd_launch_run_attempts(launch);
    report_end(launch, code);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return code;
}

int hd_ranks_launch(const struct hd_launch_options *options, char *const rank_argv[])
{
    struct hd_launch *launch = hd_alloc(1, sizeof *launch);
    if (!launch)
        return hd_status_get_exit_code(HD_ERR_NOMEM);
    launch->options = *options;
    launch->argv = rank_argv;
    launch->secret_fd = launch->signal_fd = launch->dir_fds[0] = launch->dir_fds[1] = -1;
    int status = complete_options(&launch->options, launch->master_addr);
    if (status == HD_OK)
        status = make_secret(launch);
    if (status == HD_OK && pipe2(launch->dir_fds, O_CLOEXEC | O_NONBLOCK) != 0)
        status = hd_fail(HD_ERR_SYSTEM, "no pipe: %m");
    if (status == HD_OK) {
        launch->ranks = hd_alloc(launch->options.nproc_per_node, sizeof *launch->ranks);
        status = launch->ranks ? HD_OK : HD_ERR_NOMEM;
    }
    int code = hd_status_get_exit_code(status);
    if (status == HD_OK) {
        find_program(launch);
        code = run(launch);
    }
    const int fds[] = {launch->secret_fd, launch->signal_fd, launch->dir_fds[0],
                       launch->dir_fds[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    hd_free(launch->ranks);
    hd_free(launch);
    return code;
}
