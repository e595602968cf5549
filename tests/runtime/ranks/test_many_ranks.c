/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand ranks, as light as processes can be: they join, show each other what a transport
 * needs, watch each other, and all hear of one that dies. What that takes of rank 0 is bounded. */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/ranks/rendezvous.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { RANKS = 100 };
#else
enum { RANKS = 1000 };
#endif

enum { VICTIM = 3 * RANKS / 4, ADDRESS = 300, TIMEOUT_S = 60, WATCH_S = 3 };

/* What all processes see. */
static struct shared {
    atomic_int joined, told, stop;
    int64_t cpu_us, resident_kb; /* of rank 0: of the watch, and at most */
} * shared;

static int64_t get_cpu_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * INT64_C(1000000) +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

static int check_address(void *arg, int rank, const void *data, int64_t bytes)
{
    const unsigned char *address = data;
    int *seen = arg;
    if (rank != (*seen)++ || bytes != ADDRESS + rank % 7)
        return HD_ERR_INPUT;
    for (int64_t i = 0; i < bytes; i++)
        if (address[i] != (unsigned char)(rank + i))
            return HD_ERR_INPUT;
    return HD_OK;
}

static int gather(struct hd_rendezvous *rendezvous, int rank)
{
    unsigned char address[ADDRESS + 7];
    int seen = 0;
    for (int i = 0; i < (int)sizeof address; i++)
        address[i] = (unsigned char)(rank + i);
    HD_TRY(hd_rendezvous_gather_all(rendezvous, address, ADDRESS + rank % 7, check_address, &seen));
    return seen == RANKS ? HD_OK : HD_ERR_INPUT;
}

static void note_loss(void *arg, int rank, int status, const char *text)
{
    (void)arg, (void)text;
    if (rank == VICTIM && status == HD_ERR_PEER)
        atomic_fetch_add(&shared->told, 1);
}

static int run_rank(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct hd_rendezvous *rendezvous;
    const struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "f", .timeout_ns = TIMEOUT_S * INT64_C(1000000000)};
    const struct hd_rendezvous_watch_options watch = {.on_lost = note_loss,
                                                      .heartbeat_timeout_s = 30};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hd_log_set_level(HD_LOG_ERROR);
    HD_TRY(hd_rendezvous_create(&options, &rendezvous));
    HD_TRY(gather(rendezvous, world->rank));
    HD_TRY(hd_rendezvous_agree(rendezvous, HD_OK, ""));
    HD_TRY(hd_rendezvous_watch(rendezvous, &watch));
    atomic_fetch_add(&shared->joined, 1);
    if (world->rank == 0) {
        while (atomic_load(&shared->joined) < RANKS)
            usleep(10000);
        const int64_t before_us = get_cpu_us();
        sleep(WATCH_S);
        shared->cpu_us = get_cpu_us() - before_us;
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        shared->resident_kb = usage.ru_maxrss;
    }
    while (!atomic_load(&shared->stop))
        usleep(50000);
    hd_rendezvous_destroy(rendezvous);
    return 0;
}

static double wait_for(atomic_int *count, int n)
{
    const int64_t begin_ns = hd_clock_get_ns();
    const int64_t end_ns = begin_ns + 2 * TIMEOUT_S * INT64_C(1000000000);
    while (atomic_load(count) < n && hd_clock_get_ns() < end_ns)
        usleep(1000);
    ck_assert_int_eq(atomic_load(count), n);
    return (double)(hd_clock_get_ns() - begin_ns) * 1e-9;
}

TEST(a_thousand_ranks_meet)
{
    static pid_t pids[RANKS];
    shared = share_memory(sizeof *shared);
    struct hd_world world = ranks_world(RANKS);
    ranks_start(&world, pids, run_rank, NULL);
    const double joined_s = wait_for(&shared->joined, RANKS);
    sleep(WATCH_S + 1);
    kill(pids[VICTIM], SIGKILL);
    const double told_s = wait_for(&shared->told, RANKS - 1);
    atomic_store(&shared->stop, 1);
    for (int r = 0; r < RANKS; r++) {
        const int code = ranks_wait(pids[r]);
        ck_assert_msg(code == (r == VICTIM ? 256 + SIGKILL : 0), "rank %d: exit code %d", r, code);
    }
    const double cores = (double)shared->cpu_us * 1e-6 / WATCH_S;
    printf("%d ranks: joined after %.2f s, all told of a dead one after %.2f s; rank 0 has %.1f MB "
           "and takes %.1f %% of a core to watch them\n",
           RANKS, joined_s, told_s, (double)shared->resident_kb / 1000, 100 * cores);
    ck_assert_msg(cores < 0.25, "the watch takes %.2f cores", cores);
    ck_assert_msg(shared->resident_kb < 64000, "rank 0 has %lld kB",
                  (long long)shared->resident_kb);
}
