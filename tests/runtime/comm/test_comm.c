/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points over shared buffers: every payload arrives whole, in its number, with any number of
 * ranks a core; waiting ends by abort, cancel, time-out; reports name the late rank. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_internal.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { WORDS = 100, EXCHANGES = 10000, MAX_RANKS = 4 };

static struct shared {
    atomic_int up, go;
    int64_t ns[MAX_RANKS];
    char text[MAX_RANKS][512];
} * shared;

static void setup(void)
{
    shared = share_memory(sizeof *shared);
}

struct rank {
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_channel *channel; /* the first one */
};

static struct rank start_with(const struct hd_world *world, const struct hd_comm_sizes *sizes)
{
    struct rank rank = {0};
    struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "f", .one_host = true, .timeout_ns = 5000000000};
    if (hd_rendezvous_create(&options, &rank.rendezvous) != HD_OK ||
        hd_comm_create(world, rank.rendezvous, sizes, &rank.comm) != HD_OK)
        _exit(90);
    rank.channel = hd_comm_get_channel(rank.comm, 0);
    return rank;
}

static struct rank start(const struct hd_world *world, int64_t buffer_bytes)
{
    return start_with(world, &(struct hd_comm_sizes){1, buffer_bytes, 0});
}

static void stop(struct rank *rank)
{
    hd_comm_destroy(rank->comm);
    hd_rendezvous_destroy(rank->rendezvous);
}

static int64_t word(int rank, int64_t seq, int i)
{
    return (rank * 1000003 + seq) * 131 + i;
}

static int body_exchange(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world, WORDS * sizeof(int64_t));
    int64_t start_ns = hd_clock_get_ns();
    for (int64_t seq = 1; seq <= EXCHANGES; seq++) {
        int64_t *own = hd_channel_get_buffer(rank.channel, world->rank, seq);
        for (int i = 0; i < WORDS; i++)
            own[i] = word(world->rank, seq, i);
        hd_channel_arrive(rank.channel, seq, "mean(grad)");
        if (hd_channel_wait(rank.channel, seq, 10000000000, NULL, NULL) != HD_OK)
            return 1;
        for (int r = 0; r < world->world; r++) {
            const int64_t *theirs = hd_channel_get_buffer(rank.channel, r, seq);
            for (int i = 0; i < WORDS; i++)
                if (theirs[i] != word(r, seq, i))
                    return 2;
        }
    }
    shared->ns[world->rank] = (hd_clock_get_ns() - start_ns) / EXCHANGES;
    stop(&rank);
    return 0;
}

FIXTURE(setup, NULL)

TEST(every_payload_arrives)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++) {
        ranks_run(ranks, body_exchange, NULL, "");
        printf("%d ranks: %.2f us per exchange of %zu bytes\n", ranks, (double)shared->ns[0] / 1e3,
               WORDS * sizeof(int64_t));
    }
}

static int body_layout(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world, 100);
    for (int r = 0; r < world->world; r++)
        for (int64_t seq = 1; seq < 5; seq++) {
            char *one = hd_channel_get_buffer(rank.channel, r, seq);
            if ((uintptr_t)one % 64 != 0 || one != hd_channel_get_buffer(rank.channel, r, seq + 2))
                return 1;
            for (int q = 0; q < world->world; q++)
                for (int64_t other = seq; other < seq + 2; other++) {
                    char *two = hd_channel_get_buffer(rank.channel, q, other);
                    if ((q != r || other != seq) && llabs(one - two) < 128)
                        return 2;
                }
        }
    stop(&rank);
    return 0;
}

TEST(buffers_are_apart)
{
    for (int ranks = 1; ranks <= 3; ranks++)
        ranks_run(ranks, body_layout, NULL, "");
}

/* Every rank sees every area: zeroed at first, as large as asked for, aligned to huge pages. */
static int body_areas(const struct hd_world *world, void *arg)
{
    (void)arg;
    enum { BYTES = 3000000 };
    struct rank rank = start_with(world, &(struct hd_comm_sizes){1, 100, BYTES});
    char *own = hd_comm_get_area(rank.comm, world->rank);
    int code = (uintptr_t)own % (1 << 21) == 0 ? 0 : 1;
    for (int i = 0; i < BYTES; i++)
        if (own[i] != 0)
            code = 2;
    memset(own, 10 + world->rank, BYTES);
    for (int64_t seq = 1; seq <= 2; seq++) {
        hd_channel_arrive(rank.channel, seq, "barrier");
        if (hd_channel_wait(rank.channel, seq, 5000000000, NULL, NULL) != HD_OK)
            code = 3;
        for (int r = 0; r < world->world && seq == 1; r++) {
            const char *area = hd_comm_get_area(rank.comm, r);
            if (area[0] != 10 + r || area[BYTES - 1] != 10 + r)
                code = 4;
        }
    }
    stop(&rank);
    return code;
}

TEST(areas_are_seen_by_all)
{
    for (int ranks = 1; ranks <= MAX_RANKS; ranks++)
        ranks_run(ranks, body_areas, NULL, "");
}

static int create(const struct hd_comm_sizes *sizes, struct hd_comm **comm_p)
{
    const struct hd_world world = ranks_world(1);
    return hd_comm_create(&world, NULL, sizes, comm_p);
}

TEST(sizes_are_checked)
{
    static const struct {
        struct hd_comm_sizes sizes;
        int status;
    } cases[] = {{{1, 0, 0}, HD_ERR_INPUT},
                 {{1, -5, 0}, HD_ERR_INPUT},
                 {{1, INT64_MAX, 0}, HD_ERR_INPUT},
                 {{1, INT64_MAX / 2, 0}, HD_ERR_INPUT},
                 {{1, INT64_MAX / 8, 0}, HD_ERR_NOMEM},
                 {{4, INT64_MAX / 8, 0}, HD_ERR_INPUT},
                 {{1, 64, -1}, HD_ERR_INPUT},
                 {{1, 64, INT64_MAX}, HD_ERR_INPUT},
                 {{1, 64, INT64_MAX / 8}, HD_ERR_NOMEM},
                 {{0, 64, 0}, HD_ERR_INPUT},
                 {{HD_CHANNELS_MAX + 1, 64, 0}, HD_ERR_INPUT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct hd_comm *comm;
        ck_assert_msg(create(&cases[i].sizes, &comm) == cases[i].status, "case %zu", i);
    }
}

/* Ranks come to two channels in opposite orders, and a third one is passed while both are open. */
static int body_channels(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start_with(world, &(struct hd_comm_sizes){3, 64, 0});
    struct hd_channel *channels[3];
    int code = hd_comm_count_channels(rank.comm) == 3 ? 0 : 1;
    for (int i = 0; i < 3; i++)
        channels[i] = hd_comm_get_channel(rank.comm, i);
    const int first = world->rank, second = 1 - world->rank;
    *(int *)hd_channel_get_buffer(channels[first], world->rank, 1) = 10 + first;
    hd_channel_arrive(channels[first], 1, "first");
    for (int64_t seq = 1; seq <= 20 && code == 0; seq++) {
        *(int64_t *)hd_channel_get_buffer(channels[2], world->rank, seq) = 100 * seq + world->rank;
        hd_channel_arrive(channels[2], seq, "third");
        if (hd_channel_wait(channels[2], seq, 5000000000, NULL, NULL) != HD_OK ||
            *(int64_t *)hd_channel_get_buffer(channels[2], second, seq) != 100 * seq + second ||
            hd_channel_test(channels[0], 1) || hd_channel_test(channels[1], 1))
            code = 2;
    }
    if (world->rank == 0)
        hd_comm_report(rank.comm, shared->text[0], sizeof shared->text[0]);
    hd_channel_arrive(channels[2], 21, "reported");
    if (hd_channel_wait(channels[2], 21, 5000000000, NULL, NULL) != HD_OK)
        code = 3;
    hd_channel_arrive(channels[second], 1, "second");
    for (int i = 0; i < 2 && code == 0; i++)
        if (hd_channel_wait(channels[i], 1, 5000000000, NULL, NULL) != HD_OK ||
            *(int *)hd_channel_get_buffer(channels[i], i, 1) != 10 + i)
            code = 4;
    stop(&rank);
    return code;
}

TEST(channels_do_not_wait_for_each_other)
{
    ranks_run(2, body_channels, NULL, "");
    /* Rank 1 may have arrived at its next number since. */
    const char *expected = "rank 0 waits in #1 first since 0 s; rank 1 has not reached #1; "
                           "rank 0 has not reached #1; rank 1 waits in #1 first since 0 s";
    ck_assert_msg(strncmp(shared->text[0], expected, strlen(expected)) == 0, "%s", shared->text[0]);
}

/* Too much memory on one rank is an error on all. */
static int body_too_much(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm = NULL;
    struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "f", .timeout_ns = 5000000000};
    if (hd_rendezvous_create(&options, &rendezvous) != HD_OK)
        return 1;
    int status =
        hd_comm_create(world, rendezvous, &(struct hd_comm_sizes){1, INT64_MAX / 64, 0}, &comm);
    hd_rendezvous_destroy(rendezvous);
    return status != HD_ERR_SYSTEM || comm != NULL;
}

TEST(no_memory_is_an_error_on_all_ranks)
{
    ranks_run(3, body_too_much, NULL, "");
}

/* Rank 0 never arrives, but aborts; the others must come back soon. */
static int body_abort(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world, 8);
    int code = 0;
    if (world->rank == 0) {
        usleep(100000);
        hd_comm_abort(rank.comm,
                      &(struct hd_comm_failure){0, HD_ERR_TASK, "evaluate: the env failed"});
        hd_comm_abort(rank.comm, &(struct hd_comm_failure){0, HD_ERR_SYSTEM, "something later"});
    } else {
        hd_channel_arrive(rank.channel, 1, "sum(counts)");
        code = hd_channel_wait(rank.channel, 1, 5000000000, NULL, NULL) == HD_ERR_PEER ? 0 : 1;
    }
    struct hd_comm_failure failure = {.rank = -1, .text = ""};
    if (!hd_comm_get_failure(rank.comm, &failure))
        code = 2;
    if (failure.rank != 0 || failure.status != HD_ERR_TASK ||
        strcmp(failure.text, "evaluate: the env failed") != 0)
        code = 3;
    stop(&rank);
    return code;
}

TEST(abort_releases_all)
{
    int64_t start_ns = hd_clock_get_ns();
    ranks_run(4, body_abort, NULL, "");
    ck_assert_int_lt(hd_clock_get_ns() - start_ns, 20000000000); /* usually less than 2 s */
}

static bool after_three(void *arg)
{
    return ++*(int *)arg > 3;
}

static int body_give_up(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world, 8);
    int code = 0, calls = 0;
    if (world->rank == 1) {
        for (int64_t seq = 1; seq <= 2; seq++)
            hd_channel_arrive(rank.channel, seq, seq == 2 ? "mean(grad.3)" : "sum(counts)");
        if (hd_channel_wait(rank.channel, 2, 0, after_three, &calls) != HD_ERR_STOPPED)
            code = 1;
        int64_t cpu_ns = get_cpu_ns();
        if (hd_channel_wait(rank.channel, 2, 300000000, NULL, NULL) != HD_ERR_WATCHDOG)
            code = 2;
        if (get_cpu_ns() - cpu_ns > 100000000)
            code = 3; /* naps, not spinning */
        hd_comm_report(rank.comm, shared->text[1], sizeof shared->text[1]);
        atomic_store(&shared->go, 1);
    } else {
        if (world->rank == 0)
            hd_channel_arrive(rank.channel, 1, "sum(counts)");
        while (!atomic_load(&shared->go))
            usleep(1000);
        if (hd_channel_test(rank.channel, 1) != (world->world == 2))
            code = 4; /* the third rank has not come */
    }
    stop(&rank);
    return code;
}

TEST(late_ranks_are_named)
{
    ranks_run(2, body_give_up, NULL, "");
    ck_assert_str_eq(shared->text[1],
                     "rank 0 last finished #1 sum(counts) 0 s ago; rank 1 waits in #2 mean(grad.3) "
                     "since 0 s");
    atomic_store(&shared->go, 0);
    ranks_run(3, body_give_up, NULL, "");
    ck_assert_str_eq(shared->text[1],
                     "rank 0 waits in #1 sum(counts) since 0 s; rank 1 waits in #2 mean(grad.3) "
                     "since 0 s; rank 2 has not reached #1");
}

TEST(one_rank_alone)
{
    struct hd_comm *comm;
    char long_name[200], name[HD_COMM_NAME];
    int64_t seq, since_ns;
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    ck_assert_int_eq(create(&(struct hd_comm_sizes){1, 64, 0}, &comm), HD_OK);
    ck_assert_int_eq(hd_comm_count_ranks(comm), 1);
    ck_assert_int_eq(hd_comm_get_rank(comm), 0);
    struct hd_channel *channel = hd_comm_get_channel(comm, 0);
    ck_assert(!hd_channel_test(channel, 1));
    hd_channel_arrive(channel, 1, long_name);
    ck_assert(hd_channel_test(channel, 1));
    ck_assert(!hd_channel_test(channel, 2));
    hd_channel_get_status(channel, 0, &seq, name, &since_ns);
    ck_assert_int_eq(seq, 1);
    ck_assert_uint_eq(strlen(name), HD_COMM_NAME - 1);
    ck_assert_int_le(since_ns, hd_clock_get_ns());
    char tiny[5];
    hd_comm_report(comm, tiny, sizeof tiny);
    ck_assert_str_eq(tiny, "rank");
    ck_assert(!hd_comm_is_aborted(comm));
    hd_comm_abort(comm, &(struct hd_comm_failure){0, HD_ERR_TASK, "why"});
    ck_assert(hd_comm_is_aborted(comm));
    hd_comm_destroy(comm);
}

static void *finish_writing(void *arg)
{
    struct hd_comm_header *header = arg;
    usleep(20000);
    header->abort_status = HD_ERR_TASK;
    strcpy(header->abort_text, "evaluate: the env failed");
    atomic_store(&header->abort, HD_COMM_ABORTED);
    return NULL;
}
/* A rank that fails at the same time as another must not say "another rank failed". */
TEST(a_failure_that_is_being_written_is_awaited)
{
    struct hd_comm *comm;
    struct hd_comm_failure failure = {.rank = 7, .text = "none"};
    pthread_t writer;
    ck_assert_int_eq(create(&(struct hd_comm_sizes){1, 64, 0}, &comm), HD_OK);
    ck_assert(!hd_comm_get_failure(comm, &failure));
    atomic_store(&comm->header->abort, HD_COMM_ABORTING);
    ck_assert(hd_comm_get_failure(comm, &failure)); /* its writer died */
    ck_assert_int_eq(failure.rank, -1);
    ck_assert_str_eq(failure.text, "");
    ck_assert_int_eq(pthread_create(&writer, NULL, finish_writing, comm->header), 0);
    ck_assert(hd_comm_get_failure(comm, &failure));
    ck_assert_int_eq(failure.rank, 0);
    ck_assert_int_eq(failure.status, HD_ERR_TASK);
    ck_assert_str_eq(failure.text, "evaluate: the env failed");
    pthread_join(writer, NULL);
    hd_comm_destroy(comm);
}

/* Killed ranks leave nothing: what they share has no name, and goes with its last user. */
static int body_sleep(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world, 1 << 20);
    memset(hd_channel_get_buffer(rank.channel, world->rank, 1), 1, 1 << 20);
    atomic_fetch_add(&shared->up, 1);
    sleep(30);
    return 1;
}

static void assert_no_names(pid_t pid)
{
    char path[64], line[512];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof line, maps)) {
        ck_assert_msg(!strstr(line, " rw-s ") || strstr(line, " (deleted)"), "%s", line);
        n += strstr(line, "/memfd:heddle") != NULL;
    }
    fclose(maps);
    ck_assert_int_gt(n, 0);
}

TEST(nothing_is_left)
{
    struct hd_world world = ranks_world(2);
    pid_t pids[2];
    ranks_start(&world, pids, body_sleep, NULL);
    while (atomic_load(&shared->up) < 2)
        usleep(1000);
    for (int r = 0; r < 2; r++)
        assert_no_names(pids[r]);
    for (int r = 0; r < 2; r++)
        kill(pids[r], SIGKILL);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(ranks_wait(pids[r]), 256 + SIGKILL);
}
