/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/howto/transport.md: two and three processes exchange vectors at sync points,
 * long ones and empty ones; a rank that goes is noticed. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "tests/harness/check.h"
#include "tests/howto/howto.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AREA = 1 << 20, ROUNDS = 50, TIMEOUT_S = 20 };

static struct hd_comm *join(int rank, int ranks, const int *fds)
{
    const struct hd_world world = {.rank = rank, .world = ranks};
    const struct hd_comm_hosts hosts = {.n = ranks, .ranks = 1};
    struct hd_links *links;
    struct hd_comm *comm;
    hd_log_set_level(HD_LOG_ERROR);
    if (hd_socket_links_open(rank, ranks, fds, &links) != HD_OK ||
        hd_comm_create_message_passing(&world, &hosts, NULL, &links,
                                       &(struct hd_comm_sizes){1, 4096, AREA}, &comm) != HD_OK)
        _exit(90);
    return comm;
}

/* Every rank sends its number, as often as the round says, to all others. */
static int exchange(struct hd_comm *comm, int64_t seq)
{
    const int own = hd_comm_get_rank(comm), ranks = hd_comm_count_ranks(comm);
    const int64_t bytes = seq % 7 == 0 ? 0 : (seq * 104729) % AREA;
    struct hd_comm_transfer transfers[2 * HD_SOCKET_RANKS];
    int n = 0;
    for (int64_t i = 0; i < bytes; i++)
        hd_comm_get_area(comm, own)[i] = (char)(own + seq + i);
    for (int r = 0; r < ranks; r++)
        if (r != own) {
            transfers[n++] = (struct hd_comm_transfer){r, true, hd_comm_get_area(comm, own), bytes};
            transfers[n++] = (struct hd_comm_transfer){r, false, hd_comm_get_area(comm, r), bytes};
        }
    hd_channel_post(hd_comm_get_channel(comm, 0), seq, "exchange", transfers, n);
    if (hd_channel_wait(hd_comm_get_channel(comm, 0), seq, TIMEOUT_S * INT64_C(1000000000), NULL,
                        NULL) != HD_OK)
        return 1;
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < bytes; i++)
            if (hd_comm_get_area(comm, r)[i] != (char)(r + seq + i))
                return 2;
    return 0;
}

static int train(int rank, int ranks, const int *fds)
{
    struct hd_comm *comm = join(rank, ranks, fds);
    int failed = 0;
    for (int64_t seq = 1; seq <= ROUNDS && !failed; seq++)
        failed = exchange(comm, seq);
    hd_comm_destroy(comm);
    return failed;
}

/* Rank 1 ends after the first round; the others must not wait for the time limit. */
static int leave(int rank, int ranks, const int *fds)
{
    struct hd_comm *comm = join(rank, ranks, fds);
    int failed = exchange(comm, 1);
    if (rank != 1 && !failed)
        failed = exchange(comm, 2) == 0;
    hd_comm_destroy(comm);
    return failed;
}

static void run(int ranks, int (*body)(int rank, int ranks, const int *fds))
{
    int fds[HD_SOCKET_RANKS][HD_SOCKET_RANKS], pair[2];
    pid_t pids[HD_SOCKET_RANKS];
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < a; b++) {
            ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            fds[a][b] = pair[0];
            fds[b][a] = pair[1];
        }
    for (int rank = 0; rank < ranks; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            for (int a = 0; a < ranks; a++)
                for (int b = 0; b < ranks; b++)
                    if (a != b && a != rank)
                        close(fds[a][b]);
            _exit(body(rank, ranks, fds[rank]));
        }
    }
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < ranks; b++)
            if (a != b)
                close(fds[a][b]);
    for (int rank = 0; rank < ranks; rank++) {
        int status;
        ck_assert_int_eq(waitpid(pids[rank], &status, 0), pids[rank]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d: status %#x", rank,
                      (unsigned)status);
    }
}

TEST(vectors_arrive)
{
    run(2, train);
    run(3, train);
}

TEST(a_rank_that_leaves_is_noticed)
{
    run(2, leave);
}
