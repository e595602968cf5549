/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/launch/launch_internal.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/secret.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PAUSE_MS = 500, /* before the first of several restarts, doubled for each more */
    PAUSE_MAX_MS = 60000,
    HEALTHY_MS = 60000 /* an attempt that lasted so long begins another series */
};

static int check_range(const char *name, int value, int min, int max)
{
    if (value >= min && value <= max)
        return HD_OK;
    return hd_fail(HD_ERR_INPUT, "%s %d: expected a number from %d to %d", name, value, min, max);
}

static int complete_options(struct hd_launch_options *options)
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

/* Runs all ranks once. */
static int attempt(struct hd_launch *launch)
{
    int port = launch->options.master_port > 0 ? launch->options.master_port : HD_PORT_DEFAULT;
    launch->listen_fd = launch->cause = -1;
    launch->n_running = 0;
    launch->stopping = launch->killing = false;
    launch->report_ns = launch->kill_ns = 0;
    if (launch->options.node_rank == 0 && hd_launch_get_world(launch) > 1) {
        int status = hd_rendezvous_listen(launch->options.master_addr, launch->options.master_port,
                                          launch->options.nnodes == 1, &launch->listen_fd, &port);
        if (status != HD_OK)
            return hd_status_get_exit_code(status);
    }
    int status = hd_launch_start_ranks(launch, port);
    if (launch->listen_fd >= 0) /* rank 0 has inherited it */
        close(launch->listen_fd);
    if (status != HD_OK)
        hd_launch_request_stop(launch, SIGTERM);
    const int code = hd_launch_supervise(launch);
    hd_launch_read_dir(launch);
    return status == HD_OK ? code : hd_status_get_exit_code(status);
}

/* Invalid input stays invalid, and a user who stopped the run wants no other attempt. */
static bool may_repeat(const struct hd_launch *launch, int code)
{
    return launch->cause >= 0 && launch->stop_signal == 0 &&
           code != hd_status_get_exit_code(HD_ERR_INPUT);
}

/* Leaves out a rank that failed twice in a row: perhaps its core or its GPU is broken. */
static void use_fewer_ranks(struct hd_launch *launch, int culprit)
{
    struct hd_launch_options *options = &launch->options;
    int ranks = options->nproc_per_node - 1;
    while (ranks > 0 && !hd_tree_is_block_allowed(options->shards, ranks))
        ranks--;
    if (options->nnodes > 1 || options->shards == 0 || ranks < 1)
        return;
    hd_log(HD_LOG_WARN, "rank %d failed twice in a row: continuing with %d rank%s", culprit, ranks,
           ranks == 1 ? "" : "s");
    options->nproc_per_node = ranks;
}

/* Returns how long to wait before the next attempt: what fails at once would fail as often as ranks
 * can start. */
static int64_t next_pause_ms(struct hd_launch *launch, int64_t lasted_ms)
{
    launch->in_series = lasted_ms < HEALTHY_MS ? launch->in_series + 1 : 1;
    int64_t pause_ms = PAUSE_MS;
    for (int i = 1; i < launch->in_series && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
}

/* Returns the exit code for a run that a signal stopped while no rank ran, or 0. */
static int wait_or_stop(struct hd_launch *launch, int64_t pause_ms)
{
    const int number = hd_launch_pause(launch, pause_ms);
    launch->stop_signal = number;
    return number == 0        ? 0
           : number == SIGINT ? hd_status_get_exit_code(HD_ERR_INTERRUPTED)
                              : hd_status_get_exit_code(HD_ERR_STOPPED);
}

static int run_attempts(struct hd_launch *launch)
{
    const struct hd_launch_options *options = &launch->options;
    int64_t begin_ns = hd_clock_get_ns();
    int code = attempt(launch), culprit = launch->cause;
    for (int i = 1; i <= options->max_restarts && may_repeat(launch, code); i++) {
        const int64_t pause_ms = next_pause_ms(launch, (hd_clock_get_ns() - begin_ns) / 1000000);
        bool from_checkpoint = false;
        if (options->get_arguments)
            launch->argv = options->get_arguments(options->arg, launch->dir, &from_checkpoint);
        hd_log(HD_LOG_WARN, "restart %d of %d in %.1f s: all ranks begin again from %s", i,
               options->max_restarts, (double)pause_ms * 1e-3,
               from_checkpoint ? "the newest good checkpoint" : "the start");
        const int stopped = wait_or_stop(launch, pause_ms);
        if (stopped)
            return stopped;
        begin_ns = hd_clock_get_ns();
        code = attempt(launch);
        if (launch->cause >= 0 && launch->cause == culprit && i < options->max_restarts)
            use_fewer_ranks(launch, culprit);
        culprit = launch->cause;
    }
    return code;
}

static void report_end(const struct hd_launch *launch, int code)
{
    if (code != 0 && launch->dir[0] && launch->options.on_end)
        launch->options.on_end(launch->options.arg, launch->dir, launch->stop_signal, launch->why);
}

/* Watches SIGINT and SIGTERM even if they were ignored, as shells do for background jobs, because
 * they are sent to a launcher on purpose. A hang-up that nohup ignores stays ignored. */
static void watch_signals(sigset_t *watched_p, sigset_t *before_p)
{
    struct sigaction hangup;
    sigemptyset(watched_p);
    sigaddset(watched_p, SIGCHLD);
    sigaddset(watched_p, SIGINT);
    sigaddset(watched_p, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        sigaddset(watched_p, SIGHUP);
    sigprocmask(SIG_BLOCK, watched_p, before_p);
    signal(SIGCHLD, SIG_DFL); /* ignored, children would vanish without a code */
}

static int make_secret(struct hd_launch *launch)
{
    uint8_t drawn[HD_SECRET_BYTES];
    hd_secret_draw(drawn);
    return hd_secret_share(launch->options.secret ? launch->options.secret : drawn,
                           &launch->secret_fd);
}

int hd_ranks_launch(const struct hd_launch_options *options, char *const rank_argv[])
{
    sigset_t before;
    struct hd_launch *launch = hd_alloc(1, sizeof *launch);
    if (!launch)
        return hd_status_get_exit_code(HD_ERR_NOMEM);
    launch->options = *options;
    launch->argv = rank_argv;
    launch->secret_fd = launch->dir_fds[0] = launch->dir_fds[1] = -1;
    int status = complete_options(&launch->options);
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
        watch_signals(&launch->watched, &before);
        code = run_attempts(launch);
        report_end(launch, code);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    const int fds[] = {launch->secret_fd, launch->dir_fds[0], launch->dir_fds[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    hd_free(launch->ranks);
    hd_free(launch);
    return code;
}
