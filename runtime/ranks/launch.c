/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/ranks/launch.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/machine/topology.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    COLLECT_MS = 300, /* the cause is sought among the ranks that end within this time */
    LOST_MS = 2000,   /* the same after a rank lost its peer, which may take longer to end */
    GRACE_MS = 1500,  /* from asking a rank to stop to killing it */
    PAUSE_MS = 500,   /* before the first of several restarts, doubled for each more */
    PAUSE_MAX_MS = 60000,
    HEALTHY_MS = 60000, /* an attempt that lasted so long begins another series */
    SAME_MS = 300,      /* within this time a second Ctrl-C is the first one */
    SIGNALED = 256      /* added to a signal's number in rank->code */
};

struct rank {
    pid_t pid; /* 0: ended */
    pid_t last_pid;
    int code; /* exit code, or SIGNALED + signal */
};

struct launch {
    struct hd_launch_options options; /* with the defaults filled in */
    char *const *argv;                /* of the ranks of this attempt */
    int in_series;                    /* restarts in a row after short attempts */
    int dir_fds[2]; /* a pipe in which ranks tell the run directory; -1: not open */
    char dir[4096]; /* that they have told; "": none yet */
    char why[512];  /* the failure in a sentence */
    char program[4096];
    int listen_fd; /* the socket for rank 0; -1: rank 0 is on another node, or alone */
    int secret_fd; /* from which ranks read the secret; -1: not made yet */
    struct rank *ranks;
    int n_running;
    int cause;         /* index of the rank that ended the run, or -1 */
    bool stopping;     /* the others were asked to stop, so their ends are no cause */
    bool killing;      /* the others were killed */
    int stop_signal;   /* the first signal that the launcher got, or 0 */
    int64_t signal_ns; /* when it came */
    bool pressed;      /* Ctrl-C again: the ranks stop at once */
    int64_t report_ns; /* when to name the cause; 0: there is none yet */
    int64_t kill_ns;   /* when to kill the rest; 0: not asked to stop yet */
    sigset_t watched;  /* signals that are blocked and waited for */
};

static int world_of(const struct launch *launch)
{
    return launch->options.nnodes * launch->options.nproc_per_node;
}

static int rank_of(const struct launch *launch, int local_rank)
{
    return launch->options.node_rank * launch->options.nproc_per_node + local_rank;
}

/* -- Options ----------------------------------------------------------------------------------- */

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
static void find_program(struct launch *launch)
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

static void warn_oversubscribed(int ranks)
{
    struct hd_topology *topology;
    if (hd_topology_create(NULL, &topology) != HD_OK)
        return;
    int cores = hd_topology_count_cores(topology);
    hd_topology_destroy(topology);
    if (ranks > cores)
        hd_log(HD_LOG_WARN, "%d ranks on %d core%s: they take turns, each is slower", ranks, cores,
               cores == 1 ? "" : "s");
}

/* -- One rank ---------------------------------------------------------------------------------- */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_environment(const struct launch *launch, int local_rank, int port)
{
    const struct hd_launch_options *options = &launch->options;
    set_number("RANK", rank_of(launch, local_rank));
    set_number("WORLD_SIZE", world_of(launch));
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
    if (launch->listen_fd >= 0 && rank_of(launch, local_rank) == 0) {
        set_number("HD_RENDEZVOUS_FD", launch->listen_fd);
        fcntl(launch->listen_fd, F_SETFD, 0);
    }
}

/* Runs in the child. A process group of its own keeps the terminal's Ctrl-C from a rank, so that
 * the rank gets it once, from the launcher. */
static void exec_rank(const struct launch *launch, int local_rank, int port, pid_t launcher)
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

static int start_ranks(struct launch *launch, int port)
{
    pid_t launcher = getpid();
    fflush(NULL);
    for (int i = 0; i < launch->options.nproc_per_node; i++) {
        pid_t pid = fork();
        if (pid == 0)
            exec_rank(launch, i, port, launcher);
        if (pid < 0)
            return hd_fail(HD_ERR_SYSTEM, "cannot start rank %d: %s", rank_of(launch, i),
                           strerror(errno));
        setpgid(pid, pid); /* as in the child: the group must exist before it is signalled */
        launch->ranks[i] = (struct rank){.pid = pid, .last_pid = pid};
        launch->n_running++;
    }
    return HD_OK;
}

static void signal_ranks(const struct launch *launch, int number)
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
static void read_dir(struct launch *launch)
{
    char text[sizeof launch->dir];
    const ssize_t n = read(launch->dir_fds[0], text, sizeof text);
    if (n > 1 && text[n - 1] == '\0')
        memcpy(launch->dir, text, (size_t)n);
}

/* -- The cause --------------------------------------------------------------------------------- */

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
    return code < SIGNALED ? 2 : 3;
}

static void request_stop(struct launch *launch, int number)
{
    launch->stopping = true;
    signal_ranks(launch, number);
    if (launch->kill_ns == 0)
        launch->kill_ns = hd_clock_get_ns() + (int64_t)GRACE_MS * 1000000;
}

/* Returns a rank that still runs, or -1. */
static int find_running(const struct launch *launch)
{
    for (int i = 0; i < launch->options.nproc_per_node; i++)
        if (launch->ranks[i].pid > 0)
            return i;
    return -1;
}

static void describe_cause(struct launch *launch)
{
    const struct rank *rank = &launch->ranks[launch->cause];
    const int number = rank_of(launch, launch->cause), pid = rank->last_pid;
    const int running = find_running(launch);
    char *why = launch->why;
    if (rank->code >= SIGNALED)
        snprintf(why, sizeof launch->why, "rank %d (pid %d) was killed by signal %d (%s)", number,
                 pid, rank->code - SIGNALED, strsignal(rank->code - SIGNALED));
    else if (rank->code == HD_EXIT_PEER && running >= 0)
        snprintf(why, sizeof launch->why, "rank %d (pid %d) does not exit, but others lost it",
                 rank_of(launch, running), launch->ranks[running].pid);
    else if (rank->code == HD_EXIT_PEER)
        snprintf(why, sizeof launch->why,
                 "rank %d (pid %d) lost a rank that this launcher does not run", number, pid);
    else
        snprintf(why, sizeof launch->why, "rank %d (pid %d) failed with exit code %d", number, pid,
                 rank->code);
}

static void report_cause(struct launch *launch)
{
    const bool hangs = launch->ranks[launch->cause].code == HD_EXIT_PEER;
    describe_cause(launch);
    hd_log(HD_LOG_ERROR, "%s%s", launch->why,
           launch->n_running == 0 ? ""
           : hangs                ? "; stopping all"
                                  : "; stopping the others");
    launch->report_ns = 0;
    request_stop(launch, SIGTERM);
}

/* Returns the earlier of two times, where 0 means never. */
static int64_t min_time(int64_t a_ns, int64_t b_ns)
{
    return b_ns != 0 && (a_ns == 0 || b_ns < a_ns) ? b_ns : a_ns;
}

static void update_cause(struct launch *launch, int i)
{
    int severity = severity_of(launch->ranks[i].code);
    if (launch->stopping || severity == 0)
        return;
    int64_t wait_ms = launch->ranks[i].code == HD_EXIT_PEER ? LOST_MS : COLLECT_MS;
    launch->report_ns = min_time(launch->report_ns, hd_clock_get_ns() + wait_ms * 1000000);
    if (launch->cause < 0 || severity > severity_of(launch->ranks[launch->cause].code))
        launch->cause = i;
}

/* -- Supervision ------------------------------------------------------------------------------- */

/* Kills the group of a rank that has ended. The rank is a zombie until waitpid, so its group's
 * number cannot belong to another process. */
static bool reap(struct rank *rank)
{
    siginfo_t info = {0};
    int status;
    if (waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return false;
    kill(-rank->pid, SIGKILL);
    waitpid(rank->pid, &status, 0);
    rank->code = WIFEXITED(status) ? WEXITSTATUS(status) : SIGNALED + WTERMSIG(status);
    rank->pid = 0;
    return true;
}

/* Within the grace time another SIGTERM or SIGHUP changes nothing, because some schedulers send it
 * to a process and again to its group. The second Ctrl-C asks the ranks to stop at once, the third
 * one kills them. */
static void press_again(struct launch *launch, int number)
{
    const int64_t now_ns = hd_clock_get_ns();
    if (number != SIGINT || now_ns - launch->signal_ns < SAME_MS * INT64_C(1000000))
        return;
    launch->kill_ns = launch->pressed ? now_ns : now_ns + GRACE_MS * INT64_C(1000000);
    launch->pressed = true;
    signal_ranks(launch, SIGINT);
}

static void forward_signal(struct launch *launch, int number)
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
    request_stop(launch, number); /* a checkpoint may take its time */
    launch->kill_ns += launch->options.sigterm_grace_s * INT64_C(1000000000);
}

/* A signal that one rank got is for all of them. Those that train stop with it anyway; those that
 * still start would wait for it. */
static void follow_stop(struct launch *launch, int code)
{
    if (!is_stop(code) || launch->stopping ||
        (launch->cause >= 0 && severity_of(launch->ranks[launch->cause].code) > 1))
        return;
    launch->cause = -1; /* others have lost this rank, no more */
    launch->report_ns = 0;
    forward_signal(launch, SIGTERM);
}

static void reap_ranks(struct launch *launch)
{
    for (int i = 0; i < launch->options.nproc_per_node; i++)
        if (launch->ranks[i].pid > 0 && reap(&launch->ranks[i])) {
            launch->n_running--;
            if (launch->stop_signal && launch->ranks[i].code == SIGNALED + launch->stop_signal)
                launch->ranks[i].code =
                    hd_status_get_exit_code(HD_ERR_STOPPED); /* not yet caught */
            update_cause(launch, i);
            follow_stop(launch, launch->ranks[i].code);
        }
}

static void kill_ranks(struct launch *launch)
{
    if (!launch->killing)
        hd_log(HD_LOG_WARN, "killing %d rank%s that did not stop", launch->n_running,
               launch->n_running == 1 ? "" : "s");
    launch->killing = true;
    signal_ranks(launch, SIGKILL);
    launch->kill_ns = hd_clock_get_ns() + (int64_t)GRACE_MS * 1000000;
}

/* Returns the next signal, or 0 when a deadline has come. */
static int next_signal(const struct launch *launch)
{
    int64_t due_ns = min_time(launch->report_ns, launch->kill_ns);
    if (due_ns == 0)
        return sigwaitinfo(&launch->watched, NULL);
    int64_t left_ns = due_ns - hd_clock_get_ns();
    if (left_ns < 0)
        left_ns = 0;
    struct timespec left = {left_ns / 1000000000, left_ns % 1000000000};
    int number = sigtimedwait(&launch->watched, NULL, &left);
    return number > 0 ? number : 0;
}

static void supervise(struct launch *launch)
{
    while (launch->n_running > 0) {
        int number = next_signal(launch);
        if (number > 0 && number != SIGCHLD)
            forward_signal(launch, number);
        reap_ranks(launch);
        bool certain = launch->cause >= 0 && launch->ranks[launch->cause].code >= SIGNALED;
        if (launch->report_ns != 0 &&
            (certain || hd_clock_get_ns() >= launch->report_ns || launch->n_running == 0))
            report_cause(launch);
        if (launch->n_running > 0 && launch->kill_ns != 0 && hd_clock_get_ns() >= launch->kill_ns)
            kill_ranks(launch);
    }
}

static int exit_code(const struct launch *launch)
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
    return heaviest > 0 ? 1 : 0;
}

/* Runs all ranks once. */
static int attempt(struct launch *launch)
{
    int port = launch->options.master_port > 0 ? launch->options.master_port : HD_PORT_DEFAULT;
    launch->listen_fd = launch->cause = -1;
    launch->n_running = 0;
    launch->stopping = launch->killing = false;
    launch->report_ns = launch->kill_ns = 0;
    if (launch->options.node_rank == 0 && world_of(launch) > 1) {
        int status = hd_rendezvous_listen(launch->options.master_addr, launch->options.master_port,
                                          launch->options.nnodes == 1, &launch->listen_fd, &port);
        if (status != HD_OK)
            return hd_status_get_exit_code(status);
    }
    int status = start_ranks(launch, port);
    if (launch->listen_fd >= 0) /* rank 0 has inherited it */
        close(launch->listen_fd);
    if (status != HD_OK)
        request_stop(launch, SIGTERM);
    supervise(launch);
    read_dir(launch);
    return status == HD_OK ? exit_code(launch) : hd_status_get_exit_code(status);
}

/* Invalid input stays invalid, and a user who stopped the run wants no other attempt. */
static bool may_repeat(const struct launch *launch, int code)
{
    return launch->cause >= 0 && launch->stop_signal == 0 &&
           code != hd_status_get_exit_code(HD_ERR_INPUT);
}

/* Leaves out a rank that failed twice in a row: perhaps its core or its GPU is broken. */
static void use_fewer_ranks(struct launch *launch, int culprit)
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
static int64_t next_pause_ms(struct launch *launch, int64_t lasted_ms)
{
    launch->in_series = lasted_ms < HEALTHY_MS ? launch->in_series + 1 : 1;
    int64_t pause_ms = PAUSE_MS;
    for (int i = 1; i < launch->in_series && pause_ms < PAUSE_MAX_MS; i++)
        pause_ms *= 2;
    return pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS;
}

/* Returns the exit code for a run that a signal stopped while no rank ran, or 0. */
static int wait_or_stop(struct launch *launch, int64_t pause_ms)
{
    launch->report_ns = 0;
    launch->kill_ns = hd_clock_get_ns() + pause_ms * 1000000;
    int number;
    do
        number = next_signal(launch);
    while (number == SIGCHLD);
    launch->stop_signal = number;
    return number == 0        ? 0
           : number == SIGINT ? hd_status_get_exit_code(HD_ERR_INTERRUPTED)
                              : hd_status_get_exit_code(HD_ERR_STOPPED);
}

static int run_attempts(struct launch *launch)
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

static void report_end(const struct launch *launch, int code)
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

static int make_secret(struct launch *launch)
{
    uint8_t drawn[HD_SECRET_BYTES];
    hd_secret_draw(drawn);
    return hd_secret_share(launch->options.secret ? launch->options.secret : drawn,
                           &launch->secret_fd);
}

int hd_ranks_launch(const struct hd_launch_options *options, char *const rank_argv[])
{
    sigset_t before;
    struct launch *launch = hd_alloc(1, sizeof *launch);
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
        warn_oversubscribed(launch->options.nproc_per_node);
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
