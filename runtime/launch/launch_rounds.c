/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher of a node that may come and go: it joins the coordinator, runs the ranks of the
 * rounds that it is in, and joins again when the network was out. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/patience.h"
#include "runtime/base/status.h"
#include "runtime/launch/coordinator.h"
#include "runtime/launch/launch_internal.h"
#include "runtime/ranks/handshake.h"
#include "runtime/ranks/rendezvous.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 200, GOES_ON = -1 };

struct rounds {
    struct hd_launch *launch;
    struct hd_launch_options job; /* as the user gave them: those of a round are other ones */
    struct hd_membership membership;
    int64_t join_ns; /* how long to try to join */
    int coordinator; /* process id on the master's node, else 0 */
    bool has_run;    /* in an earlier round */
};

/* -- The coordinator --------------------------------------------------------------------------- */

/* The node whose address is the master's, and where nobody has the port so far, is the master's. */
static int listen_as_master(const struct hd_launch_options *job, int *fd_p)
{
    if (job->node_rank > 0)
        return HD_OK;
    if (job->node_rank < 0)
        return hd_rendezvous_listen_if_local(job->master_addr, job->master_port, fd_p);
    return hd_rendezvous_listen(job->master_addr, job->master_port, false, fd_p, NULL);
}

static int start_coordinator(struct rounds *rounds)
{
    struct hd_connection *connection = &rounds->membership.coordinator;
    int listen_fd = -1;
    HD_TRY(listen_as_master(&rounds->job, &listen_fd));
    if (listen_fd < 0)
        return HD_OK;
    const int status =
        hd_coordinator_start(&rounds->job, listen_fd, &connection->fd, &rounds->coordinator);
    close(listen_fd);
    HD_TRY(status);
    rounds->launch->is_master = true;
    hd_launcher_make_key(rounds->job.secret, connection->out.key);
    connection->reader.key = connection->out;
    connection->reader.keyed = true;
    hd_connection_start(connection);
    return HD_OK;
}

/* Joins again and again for a time. Returns GOES_ON or an exit code. */
static int join(struct rounds *rounds)
{
    const struct hd_launch_options *job = &rounds->job;
    const int64_t deadline_ns = hd_clock_get_ns() + rounds->join_ns;
    struct hd_patience patience = {0};
    hd_patience_is_over(&patience);
    for (;;) {
        const char *why = hd_membership_join(&rounds->membership, job, deadline_ns);
        if (!why)
            return GOES_ON;
        if (hd_clock_get_ns() >= deadline_ns)
            return hd_status_get_exit_code(
                hd_fail(HD_ERR_SYSTEM,
                        "cannot join the job at %s port %d within %lld s: %s. Is the launcher of "
                        "that node running? Started again with --resume, launchers go on from the "
                        "newest checkpoint",
                        job->master_addr, job->master_port,
                        (long long)(rounds->join_ns / 1000000000), why));
        if (hd_patience_is_over(&patience))
            hd_log(HD_LOG_WARN, "waiting for the job at %s port %d: %s", job->master_addr,
                   job->master_port, why);
        const int number = hd_launch_pause(rounds->launch, PAUSE_MS);
        rounds->launch->stop_signal = number;
        if (number != 0)
            return hd_launch_get_stop_code(number);
    }
}

/* -- Rounds ------------------------------------------------------------------------------------ */

/* Ranks that a node started before it was cut off do not know the secret of a later round. */
static int share_secret(struct hd_launch *launch, const struct hd_launch_options *job,
                        const struct hd_round *round)
{
    uint8_t secret[HD_SECRET_BYTES];
    hd_handshake_make_key(job->secret, "round", round->nonce, sizeof round->nonce, secret);
    close(launch->secret_fd);
    launch->secret_fd = -1;
    return hd_secret_share(secret, &launch->secret_fd);
}

/* Only ranks of the first round begin as the user said; all others go on. */
static void choose_arguments(struct rounds *rounds, const struct hd_round *round)
{
    struct hd_launch *launch = rounds->launch;
    bool from_checkpoint = false;
    if (round->dir[0])
        snprintf(launch->dir, sizeof launch->dir, "%s", round->dir);
    if ((round->number > 1 || rounds->has_run) && rounds->job.get_arguments)
        launch->argv = rounds->job.get_arguments(rounds->job.arg, launch->dir, &from_checkpoint);
    hd_log(HD_LOG_INFO, "round %d: node %d of %d, ranks %d to %d of %d%s", round->number,
           round->node_rank, round->nnodes, hd_launch_get_rank(launch, 0),
           hd_launch_get_rank(launch, launch->options.nproc_per_node - 1),
           hd_launch_get_world(launch), from_checkpoint ? ", from the newest good checkpoint" : "");
    rounds->has_run = true;
}

/* Returns the exit code of this node's ranks. */
static int run_ranks(struct rounds *rounds, const struct hd_round *round)
{
    struct hd_launch *launch = rounds->launch;
    launch->options.nnodes = round->nnodes;
    launch->options.node_rank = round->node_rank;
    launch->options.master_port = round->port;
    launch->why[0] = '\0';
    choose_arguments(rounds, round);
    const int status = share_secret(launch, &rounds->job, round);
    const int code = status == HD_OK ? hd_launch_attempt(launch) : hd_status_get_exit_code(status);
    const bool interrupted = code == hd_status_get_exit_code(HD_ERR_INTERRUPTED);
    hd_membership_report(&rounds->membership,
                         interrupted ? hd_status_get_exit_code(HD_ERR_STOPPED) : code, launch->dir,
                         launch->why[0] ? launch->why : "the ranks could not start");
    return code;
}

/* Returns GOES_ON or an exit code: a node that was told to end leaves when its ranks have ended,
 * that of the master when all have. */
static int run_round(struct rounds *rounds)
{
    const struct hd_round round = rounds->membership.round;
    rounds->membership.has_round = false;
    if (round.node_rank == HD_NODE_SPARE) {
        hd_log(HD_LOG_INFO, "round %d has %d node%s: this one waits as a spare", round.number,
               round.nnodes, round.nnodes == 1 ? "" : "s");
        return GOES_ON;
    }
    const int code = run_ranks(rounds, &round);
    return rounds->launch->stop_signal == 0 || rounds->coordinator > 0 ? GOES_ON : code;
}

static int leave(struct rounds *rounds, int number)
{
    if (rounds->launch->stop_signal == 0)
        hd_connection_send(&rounds->membership.coordinator, HD_WIRE_BYE, number, NULL, 0);
    rounds->launch->stop_signal = number;
    return rounds->coordinator > 0 ? GOES_ON : hd_launch_get_stop_code(number);
}

static int finish(struct rounds *rounds)
{
    struct hd_launch *launch = rounds->launch;
    const struct hd_membership *membership = &rounds->membership;
    const int stopped = hd_status_get_exit_code(HD_ERR_STOPPED);
    if (membership->code != 0)
        hd_log(membership->code == stopped ? HD_LOG_WARN : HD_LOG_ERROR, "the job %s: %s",
               membership->refused ? "refuses this launcher" : "has ended", membership->why);
    snprintf(launch->why, sizeof launch->why, "%s", membership->why);
    return membership->code == stopped && launch->stop_signal != 0
               ? hd_launch_get_stop_code(launch->stop_signal)
               : membership->code;
}

/* Takes part until the job has ended, this node leaves it, or the coordinator is lost. */
static int take_part(struct rounds *rounds)
{
    struct hd_membership *membership = &rounds->membership;
    int code = GOES_ON;
    while (code == GOES_ON && (membership->coordinator.fd >= 0 || membership->has_ended)) {
        const int number = membership->has_ended ? 0 : hd_launch_wait(rounds->launch, 0);
        if (membership->has_ended)
            code = finish(rounds);
        else if (number != 0 && number != SIGCHLD)
            code = leave(rounds, number);
        else if (membership->has_round)
            code = run_round(rounds);
    }
    return code;
}

static int run_rounds(struct rounds *rounds)
{
    const struct hd_launch_options *job = &rounds->job;
    int code = rounds->coordinator > 0 ? GOES_ON : join(rounds);
    while (code == GOES_ON) {
        code = take_part(rounds);
        if (code != GOES_ON)
            break;
        if (rounds->coordinator > 0)
            return hd_status_get_exit_code(
                hd_fail(HD_ERR_SYSTEM, "the coordinator of the job has died"));
        hd_log(HD_LOG_WARN,
               "the connection to the job at %s port %d is lost: the ranks of this node have "
               "ended, and it tries to join again for %lld s",
               job->master_addr, job->master_port, (long long)(rounds->join_ns / 1000000000));
        code = join(rounds);
    }
    return code;
}

int hd_launch_run_rounds(struct hd_launch *launch)
{
    struct rounds rounds = {.launch = launch, .job = launch->options};
    struct hd_membership *membership = &rounds.membership;
    membership->coordinator.fd = -1;
    membership->timeout_ns = (int64_t)(launch->options.heartbeat_timeout_s * 1e9);
    hd_secret_draw(membership->id);
    launch->membership = membership;
    int status = hd_rendezvous_read_timeout(0, &rounds.join_ns);
    if (status == HD_OK)
        status = start_coordinator(&rounds);
    const int code = status == HD_OK ? run_rounds(&rounds) : hd_status_get_exit_code(status);
    hd_connection_close(&membership->coordinator);
    launch->membership = NULL;
    if (rounds.coordinator > 0) /* it tells all others of the end */
        waitpid(rounds.coordinator, NULL, 0);
    return code;
}
