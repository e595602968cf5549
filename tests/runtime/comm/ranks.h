/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of several ranks fork processes that join at a free port of this host. */
#pragma once

#include "runtime/base/status.h"
#include "runtime/comm/comm_tcp.h"
#include "runtime/ranks/rendezvous.h"
#include "tests/harness/check.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A world of `world` ranks at a port that is already listening. */
static inline struct hd_world ranks_world(int world)
{
    struct hd_world made = {.world = world, .local_world = world, .rendezvous_fd = -1};
    strcpy(made.master_addr, "127.0.0.1");
    hd_secret_draw(made.secret);
    if (world > 1 &&
        hd_rendezvous_listen("127.0.0.1", 0, true, &made.rendezvous_fd, &made.master_port) != 0)
        _exit(99);
    return made;
}

/* Forks one process per rank that runs body(world, arg) and exits with what it returns; stores the
 * process ids in pids[world]. Closes the listening socket here. */
static inline void ranks_start(const struct hd_world *world, pid_t *pids,
                               int (*body)(const struct hd_world *world, void *arg), void *arg)
{
    fflush(NULL);
    for (int r = 0; r < world->world; r++) {
        pids[r] = fork();
        if (pids[r] != 0)
            continue;
        struct hd_world own = *world;
        own.rank = own.local_rank = r;
        if (r != 0 && own.rendezvous_fd >= 0) {
            close(own.rendezvous_fd);
            own.rendezvous_fd = -1;
        }
        int code = body(&own, arg);
        fflush(NULL);
        _exit(code);
    }
    if (world->rendezvous_fd >= 0)
        close(world->rendezvous_fd);
}

/* Waits for a process; its exit code, or 256 + signal. */
static inline int ranks_wait(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* Runs body on so many ranks, each of which has to exit with 0; `what` is for the message. */
static inline void ranks_run(int ranks, int (*body)(const struct hd_world *world, void *arg),
                             void *arg, const char *what)
{
    enum { MOST_RANKS = 64 };
    const struct hd_world world = ranks_world(ranks);
    pid_t pids[MOST_RANKS];
    ck_assert_int_le(ranks, MOST_RANKS);
    ranks_start(&world, pids, body, arg);
    for (int r = 0; r < ranks; r++) {
        const int code = ranks_wait(pids[r]);
        ck_assert_msg(code == 0, "%s: rank %d of %d: exit code %d", what, r, ranks, code);
    }
}

/* Joins the other ranks and makes a communicator of `hosts` hosts with as many ranks each; several
 * are joined by TCP. */
static inline int ranks_join(const struct hd_world *world, int hosts,
                             const struct hd_comm_sizes *sizes, struct hd_rendezvous **rendezvous_p,
                             struct hd_comm **comm_p)
{
    struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "f", .one_host = true, .timeout_ns = 20000000000};
    const struct hd_comm_hosts shape = {hosts, world->world / hosts};
    struct hd_links *links[HD_CHANNELS_MAX];
    HD_TRY(hd_rendezvous_create(&options, rendezvous_p));
    if (hosts == 1)
        return hd_comm_create(world, *rendezvous_p, sizes, comm_p);
    const struct hd_tcp_options tcp = {.timeout_s = 30, .hash = true};
    HD_TRY(hd_tcp_open_links(world, &shape, *rendezvous_p, &tcp, sizes->channels, links));
    return hd_comm_create_message_passing(world, &shape, *rendezvous_p, links, sizes, comm_p);
}
