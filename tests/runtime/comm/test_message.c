/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points under message passing: transfers of any size and number arrive whole and in order,
 * several numbers may be open, a rank that is ahead or gone is noticed, and nothing blocks
 * meanwhile. */
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { MAX_RANKS = 4, AREA = 3 << 20, ROUNDS = 60, TRANSFERS = 3, CHANNELS = 2 };

/* What ranks tell each other beside their messages. */
static struct shared {
    atomic_int passed, late;
} * shared;

struct rank {
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_channel *channel; /* the first one */
};

/* per_host points to the number of ranks on each host; NULL: 1. */
static struct rank start(const struct hd_world *world, const int *per_host)
{
    struct rank rank;
    hd_log_set_level(HD_LOG_ERROR);
    if (ranks_join(world, per_host ? world->world / *per_host : world->world,
                   &(struct hd_comm_sizes){CHANNELS, 4096, AREA}, &rank.rendezvous,
                   &rank.comm) != HD_OK)
        _exit(90);
    rank.channel = hd_comm_get_channel(rank.comm, 0);
    return rank;
}

static void stop(struct rank *rank)
{
    hd_comm_destroy(rank->comm);
    hd_rendezvous_destroy(rank->rendezvous);
}

static void run(int ranks, int (*body)(const struct hd_world *, void *), void *arg)
{
    shared = share_memory(sizeof *shared);
    ranks_run(ranks, body, arg, "");
    munmap(shared, sizeof *shared);
}

/* -- Transfers --------------------------------------------------------------------------------- */
/* A hash gives the length of each transfer, which is 0 now and then. */

static int64_t length_of(int from, int to, int64_t seq, int number)
{
    const uint64_t hash = hd_hash_mix((uint64_t)(seq * 64 + from * 8 + to), (uint64_t)number);
    return hash % 5 == 0 ? 0 : (int64_t)(hash % (number == 1 ? AREA / 32 : 200));
}

static unsigned char byte_of(int from, int64_t seq, int number, int64_t i)
{
    return (unsigned char)(from * 31 + seq * 7 + number * 3 + i % 251);
}

/* Data that a sends to b lie in a's area at b's offset, and arrive at the same offset of b's copy
 * of a's area. */
static unsigned char *place(struct hd_comm *comm, int from, int to, int64_t seq, int number)
{
    return (unsigned char *)hd_comm_get_area(comm, from) + (seq & 1) * (AREA / 2) +
           to * (AREA / 8) + number * (AREA / 32);
}

static int list_transfers(struct hd_comm *comm, int64_t seq, struct hd_comm_transfer *transfers)
{
    const int own = hd_comm_get_rank(comm);
    int n = 0;
    for (int host = 0; host < hd_comm_count_hosts(comm); host++)
        for (int number = 0; number < TRANSFERS; number++) {
            const int r = hd_comm_get_partner(comm, host);
            if (r == own)
                continue;
            transfers[n++] = (struct hd_comm_transfer){r, true, place(comm, own, r, seq, number),
                                                       length_of(own, r, seq, number)};
            transfers[n++] = (struct hd_comm_transfer){r, false, place(comm, r, own, seq, number),
                                                       length_of(r, own, seq, number)};
        }
    return n;
}

static void fill(struct hd_comm *comm, int64_t seq)
{
    const int own = hd_comm_get_rank(comm);
    for (int r = 0; r < hd_comm_count_ranks(comm); r++)
        for (int number = 0; number < TRANSFERS; number++)
            for (int64_t i = 0; i < length_of(own, r, seq, number); i++)
                place(comm, own, r, seq, number)[i] = byte_of(own, seq, number, i);
}

static bool came(struct hd_comm *comm, int from, int to, int64_t seq)
{
    for (int number = 0; number < TRANSFERS; number++)
        for (int64_t i = 0; i < length_of(from, to, seq, number); i++)
            if (place(comm, from, to, seq, number)[i] != byte_of(from, seq, number, i))
                return false;
    return true;
}

/* Returns whether what came for any rank of this host is here. */
static bool arrived(struct hd_comm *comm, int64_t seq)
{
    const int per_host = hd_comm_count_host_ranks(comm), host = hd_comm_get_host(comm);
    for (int from = 0; from < hd_comm_count_ranks(comm); from++)
        if (from / per_host != host && !came(comm, from, host * per_host + from % per_host, seq))
            return false;
    return true;
}

static int body_transfers(const struct hd_world *world, void *arg)
{
    struct hd_comm_transfer transfers[2 * TRANSFERS * MAX_RANKS];
    struct rank rank = start(world, arg);
    for (int64_t seq = 1; seq <= ROUNDS; seq++) {
        if (hd_hash_mix((uint64_t)seq, (uint64_t)world->rank) % 8 == 0)
            usleep(2000);
        fill(rank.comm, seq);
        int n = list_transfers(rank.comm, seq, transfers);
        hd_channel_post(rank.channel, seq, "transfers", transfers, n);
        if (hd_channel_wait(rank.channel, seq, 20000000000, NULL, NULL) != HD_OK)
            return 1;
        if (!arrived(rank.comm, seq))
            return 2;
    }
    stop(&rank);
    return 0;
}

/* Each rank sends on one channel first and waits there, while the other waits on the other one. */
static int body_crossing(const struct hd_world *world, void *arg)
{
    struct rank rank = start(world, arg);
    const int self = world->rank, other = 1 - self;
    char *own = hd_comm_get_area(rank.comm, self), *there = hd_comm_get_area(rank.comm, other);
    int code = 0;
    memset(own, 1 + self, AREA);
    for (int64_t seq = 1; seq <= 20 && code == 0; seq++)
        for (int i = 0; i < CHANNELS && code == 0; i++) {
            const int half = i ^ self;
            struct hd_channel *channel = hd_comm_get_channel(rank.comm, half);
            const struct hd_comm_transfer both[] = {
                {other, true, own + half * (AREA / 2), AREA / 2},
                {other, false, there + half * (AREA / 2), AREA / 2}};
            hd_channel_post(channel, seq, "crossing", both, 2);
            if (i == 1 && (hd_channel_wait(channel, seq, 20000000000, NULL, NULL) != HD_OK ||
                           hd_channel_wait(hd_comm_get_channel(rank.comm, !half), seq, 20000000000,
                                           NULL, NULL) != HD_OK))
                code = 1;
            for (int at = 0; i == 1 && at < AREA; at += 4096)
                code = there[at] == 1 + other ? code : 2;
        }
    stop(&rank);
    return code;
}

TEST(channels_do_not_wait_for_each_other)
{
    ranks_run(2, body_crossing, NULL, "");
}

TEST(transfers_arrive_whole)
{
    for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
        run(ranks, body_transfers, NULL);
}

static int body_barrier(const struct hd_world *world, void *arg);

TEST(ranks_of_a_host_see_what_comes_for_any)
{
    int per_host = 2;
    run(4, body_transfers, &per_host);
    run(4, body_barrier, &per_host);
}

/* Until both ranks of the other host have passed. */
static bool others_pass(struct hd_comm *comm, int64_t seq)
{
    for (int i = 0; i < 20000 && atomic_load(&shared->passed) < 2; i++) {
        usleep(1000);
        hd_channel_test(hd_comm_get_channel(comm, 0), seq);
    }
    atomic_fetch_add(&shared->late, 1);
    return atomic_load(&shared->passed) == 2;
}

/* A number for one host alone: the other host's ranks come when these have passed. */
static int body_on_host(const struct hd_world *world, void *arg)
{
    struct rank rank = start(world, arg);
    for (int64_t seq = 1; seq < 40; seq += 2) {
        if (world->rank < 2 && seq == 21 && !others_pass(rank.comm, seq))
            return 2;
        hd_channel_arrive_on_host(rank.channel, seq, "host");
        if (hd_channel_wait(rank.channel, seq, 20000000000, NULL, NULL) != HD_OK)
            return 1;
        if (world->rank >= 2 && seq == 21)
            atomic_fetch_add(&shared->passed, 1);
        hd_channel_arrive(rank.channel, seq + 1, "all");
        if (hd_channel_wait(rank.channel, seq + 1, 20000000000, NULL, NULL) != HD_OK)
            return 3;
        if (seq == 21 && atomic_load(&shared->late) != 2)
            return 4;
    }
    stop(&rank);
    return 0;
}

TEST(a_host_does_not_wait_for_others)
{
    int per_host = 2;
    run(4, body_on_host, &per_host);
}

/* Two numbers at once, as ranks with NCCL have them. */
static int body_two_open(const struct hd_world *world, void *arg)
{
    struct hd_comm_transfer transfers[2][2 * TRANSFERS * MAX_RANKS];
    struct rank rank = start(world, arg);
    for (int64_t seq = 1; seq <= 20; seq += 2) {
        for (int i = 0; i < 2; i++) {
            fill(rank.comm, seq + i);
            int n = list_transfers(rank.comm, seq + i, transfers[i]);
            hd_channel_post(rank.channel, seq + i, "two", transfers[i], n);
        }
        if (hd_channel_wait(rank.channel, seq + 1, 20000000000, NULL, NULL) != HD_OK)
            return 1;
        if (!hd_channel_test(rank.channel, seq) || !arrived(rank.comm, seq) ||
            !arrived(rank.comm, seq + 1))
            return 2;
    }
    stop(&rank);
    return 0;
}

TEST(several_numbers_may_be_open)
{
    run(3, body_two_open, NULL);
}

/* Empty sync points are sync points: nobody passes before the last has come. */
static int body_barrier(const struct hd_world *world, void *arg)
{
    struct rank rank = start(world, arg);
    hd_channel_arrive(rank.channel, 1, "first");
    if (hd_channel_wait(rank.channel, 1, 20000000000, NULL, NULL) != HD_OK)
        return 1;
    if (world->rank == 0) {
        usleep(200000);
        atomic_store(&shared->late, 1);
    }
    hd_channel_arrive(rank.channel, 2, "late");
    if (hd_channel_wait(rank.channel, 2, 20000000000, NULL, NULL) != HD_OK)
        return 2;
    int code = atomic_load(&shared->late) == 1 ? 0 : 3;
    stop(&rank);
    return code;
}

TEST(nobody_passes_alone)
{
    run(3, body_barrier, NULL);
}

/* -- Trouble ----------------------------------------------------------------------------------- */

/* Rank 0 is late; both ranks' reports say so. */
static int body_late(const struct hd_world *world, void *arg)
{
    char report[512] = "";
    struct rank rank = start(world, arg);
    int code = 0;
    hd_channel_arrive(rank.channel, 1, "sum(counts)");
    if (hd_channel_wait(rank.channel, 1, 20000000000, NULL, NULL) != HD_OK)
        return 1;
    if (world->rank == 1)
        hd_channel_arrive(rank.channel, 2, "mean(grad)");
    const char *sentence =
        world->rank == 0 ? "rank 1 waits in #2" : "rank 0 last finished #1 sum(counts)";
    for (int i = 0; i < 20000 && !strstr(report, sentence); i++) {
        usleep(1000);
        hd_channel_test(rank.channel, 2);
        hd_comm_probe(rank.comm);
        hd_comm_report(rank.comm, report, sizeof report);
    }
    if (!strstr(report, sentence))
        code = hd_fail(2, "rank %d: %s", world->rank, report);
    atomic_fetch_add(&shared->late, 1);
    for (int i = 0; i < 20000 && atomic_load(&shared->late) < 2; i++) {
        usleep(1000);
        hd_comm_probe(rank.comm); /* the other rank is still to see that this one is late */
    }
    if (world->rank == 0)
        hd_channel_arrive(rank.channel, 2, "mean(grad)");
    if (hd_channel_wait(rank.channel, 2, 20000000000, NULL, NULL) != HD_OK)
        code = 3;
    stop(&rank);
    return code;
}

TEST(reports_name_who_is_late)
{
    run(2, body_late, NULL);
}

/* Rank 1 leaves without a word: rank 0 ends by itself, soon. */
static int body_gone(const struct hd_world *world, void *arg)
{
    struct hd_comm_failure failure;
    struct rank rank = start(world, arg);
    hd_channel_arrive(rank.channel, 1, "last");
    if (hd_channel_wait(rank.channel, 1, 20000000000, NULL, NULL) != HD_OK)
        return 1;
    if (world->rank == 1)
        _exit(0);
    int64_t begin_ns = hd_clock_get_ns();
    hd_channel_arrive(rank.channel, 2, "never");
    int status = hd_channel_wait(rank.channel, 2, 20000000000, NULL, NULL);
    bool named = hd_comm_get_failure(rank.comm, &failure) && failure.status == HD_ERR_SYSTEM &&
                 strstr(failure.text, "to rank 1 at 127.0.0.1 (lo) on ");
    int code = status == HD_ERR_PEER && named && hd_clock_get_ns() - begin_ns < 10000000000 ? 0 : 2;
    stop(&rank);
    return code;
}

TEST(a_lost_connection_ends_waiting)
{
    run(2, body_gone, NULL);
}

/* Ranks that disagree about what transfers do not take one for the other. */
static int body_mixed(const struct hd_world *world, void *arg)
{
    struct rank rank = start(world, arg);
    char *own = hd_comm_get_area(rank.comm, world->rank);
    const struct hd_comm_transfer transfer = {1 - world->rank, world->rank == 1, own,
                                              world->rank == 1 ? 100 : 90};
    hd_channel_post(rank.channel, 1, "mixed", &transfer, 1);
    int status =
        hd_channel_wait(rank.channel, 1, world->rank == 0 ? 20000000000 : 4000000000, NULL, NULL);
    int code = status != HD_OK || world->rank == 1 ? 0 : 1;
    stop(&rank);
    return code;
}

/* Returns the socket by which this rank is joined to the other, and not to the rendezvous. */
static int find_link(int master_port)
{
    for (int fd = 3; fd < 64; fd++) {
        struct sockaddr_in there = {.sin_family = AF_UNSPEC};
        socklen_t length = sizeof there;
        if (getpeername(fd, (struct sockaddr *)&there, &length) == 0 &&
            there.sin_family == AF_INET && ntohs(there.sin_port) != master_port)
            return fd;
    }
    return -1;
}

/* Somebody between the ranks puts bytes into their connection: a message without the right hash. */
static int body_changed(const struct hd_world *world, void *arg)
{
    const struct {
        int64_t bytes, tag;
        char hash[32];
    } made_up = {.tag = 1};
    struct hd_comm_failure failure;
    struct rank rank = start(world, arg);
    if (world->rank == 1) {
        if (write(find_link(world->master_port), &made_up, sizeof made_up) != sizeof made_up)
            return 1;
        for (int i = 0; i < 20000 && atomic_load(&shared->passed) == 0; i++)
            usleep(1000);
        return 0;
    }
    hd_channel_arrive(rank.channel, 1, "changed");
    const int status = hd_channel_wait(rank.channel, 1, 20000000000, NULL, NULL);
    atomic_store(&shared->passed, 1);
    return status == HD_ERR_PEER && hd_comm_get_failure(rank.comm, &failure) &&
                   strstr(failure.text, "changed on its way")
               ? 0
               : 2;
}

TEST(made_up_messages_are_not_taken)
{
    run(2, body_changed, NULL);
}

TEST(other_sizes_are_an_error)
{
    run(2, body_mixed, NULL);
}
