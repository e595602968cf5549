/* SPDX-License-Identifier: Apache-2.0 */
/* Computes means between processes for two seconds. */
#include "runner/doctor/doctor.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/comm/comm.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LINE_FLOATS = 16, /* a cache line */
    STEP = 1021,      /* a prime: every so many elements are checked */
    TIMEOUT_S = 10,
    GIVE_UP_S = 30
};

/* The largest size is 16 MiB, but no more than 256 MiB for the buffers of all ranks. */
static int64_t size_of(int i, int ranks)
{
    static const int64_t sizes[HD_MEAN_SIZES] = {1 << 16, 1 << 20, 1 << 24};
    const int64_t max = (INT64_C(1) << 27) / ranks;
    return sizes[i] < max ? sizes[i] : max / HD_ALIGNMENT * HD_ALIGNMENT;
}

struct rank {
    struct hd_world world;
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_channel *channel; /* the only one */
    int64_t seq;
    float *result;
    const float **operands; /* [world] */
    struct hd_mean_test *test;
};

/* Rank 0 says whether another round follows; it goes with its operand. */
struct header {
    _Alignas(HD_ALIGNMENT) int64_t more;
};

static int64_t buffer_bytes(int ranks)
{
    return size_of(HD_MEAN_SIZES - 1, ranks) + (int64_t)sizeof(struct header);
}

static float *operand_of(struct rank *rank, int of)
{
    char *buffer = hd_channel_get_buffer(rank->channel, of, rank->seq);
    return (float *)(buffer + sizeof(struct header));
}

static int arrive_and_wait(struct rank *rank)
{
    hd_channel_arrive(rank->channel, rank->seq, "doctor");
    return hd_channel_wait(rank->channel, rank->seq, TIMEOUT_S * INT64_C(1000000000), NULL, NULL);
}

static int64_t slice_begin(int64_t n, int rank, int ranks)
{
    return n * rank / ranks / LINE_FLOATS * LINE_FLOATS;
}

/* Operands are small halves, so that every sum is exact. */
static float expected(int64_t i, int ranks)
{
    return (float)(i % STEP) + 0.5f * (float)(ranks - 1);
}

/* The first element of each slice is another in every round, so that an old result is found out. */
static float round_element(int64_t seq)
{
    return (float)(seq % STEP);
}

static int check(const struct rank *rank, int64_t n)
{
    const int ranks = rank->world.world;
    bool right = rank->result[n - 1] == expected(n - 1, ranks);
    for (int64_t i = 1; i < n; i += STEP)
        right &= i % LINE_FLOATS == 0 || rank->result[i] == expected(i, ranks);
    for (int r = 0; r < ranks; r++)
        right &= rank->result[slice_begin(n, r, ranks)] == round_element(rank->seq - 1);
    return right ? HD_OK : HD_ERR_DIVERGED;
}

/* Computes one mean of n floats; *more_p: rank 0's request in, everybody's knowledge out. Operands
 * are always written at odd numbers, hence in one and the same buffer; what is in it but for the
 * fresh elements stays from round to round. */
static int compute_mean(struct rank *rank, int64_t n, int64_t *more_p)
{
    const int ranks = rank->world.world, self = rank->world.rank;
    rank->seq++;
    float *operand = operand_of(rank, self);
    ((struct header *)hd_channel_get_buffer(rank->channel, self, rank->seq))->more = *more_p;
    for (int r = 0; r < ranks; r++)
        operand[slice_begin(n, r, ranks)] = round_element(rank->seq);
    HD_TRY(arrive_and_wait(rank));
    *more_p = ((const struct header *)hd_channel_get_buffer(rank->channel, 0, rank->seq))->more;
    for (int r = 0; r < ranks; r++)
        rank->operands[r] = operand_of(rank, r);
    const int64_t lo = slice_begin(n, self, ranks),
                  hi = self + 1 < ranks ? slice_begin(n, self + 1, ranks) : n;
    rank->seq++;
    float *sum = operand_of(rank, self) + lo;
    hd_tree_add(ranks, rank->operands, 1, 0, lo, hi, sum);
    for (int64_t i = 0; i < hi - lo; i++)
        sum[i] /= (float)ranks;
    HD_TRY(arrive_and_wait(rank));
    for (int r = 0; r < ranks; r++) {
        const int64_t from = slice_begin(n, r, ranks),
                      to = r + 1 < ranks ? slice_begin(n, r + 1, ranks) : n;
        memcpy(rank->result + from, operand_of(rank, r) + from,
               (size_t)(to - from) * sizeof(float));
    }
    return check(rank, n);
}

static void fill(struct rank *rank, int64_t n)
{
    rank->seq++; /* of the first round, taken back: no number is left out */
    float *operand = operand_of(rank, rank->world.rank);
    rank->seq--;
    for (int64_t i = 0; i < n; i++)
        operand[i] = (float)(i % STEP) + (float)rank->world.rank;
}

/* Computes means of one size for some time. */
static int repeat(struct rank *rank, int64_t n, double seconds, int64_t *count_p, double *each_p)
{
    int64_t more = 1, count = 0;
    fill(rank, n);
    HD_TRY(compute_mean(rank, n, &more)); /* touches its memory for the first time */
    const int64_t begin_ns = hd_clock_get_ns();
    for (; more; count++) {
        more = (double)(hd_clock_get_ns() - begin_ns) * 1e-9 < seconds;
        HD_TRY(compute_mean(rank, n, &more));
    }
    *count_p = count;
    *each_p = (double)(hd_clock_get_ns() - begin_ns) * 1e-9 / (double)count;
    return HD_OK;
}

static int run_all(struct rank *rank)
{
    struct hd_mean_test *test = rank->test;
    int64_t count;
    HD_TRY(repeat(rank, LINE_FLOATS, 0.4, &count, &test->latency_s));
    for (int i = 0; i < HD_MEAN_SIZES; i++) {
        test->sizes[i].bytes = size_of(i, rank->world.world);
        HD_TRY(repeat(rank, test->sizes[i].bytes / (int64_t)sizeof(float), 0.5,
                      &test->sizes[i].count, &test->sizes[i].seconds_each));
    }
    return HD_OK;
}

static int start_and_run(struct rank *rank)
{
    struct hd_topology *topology;
    struct hd_core_share share;
    const struct hd_rendezvous_options options = {.world = &rank->world,
                                                  .fingerprint = "doctor",
                                                  .one_host = true,
                                                  .timeout_ns = TIMEOUT_S * INT64_C(1000000000)};
    HD_TRY(hd_topology_create(NULL, &topology));
    hd_topology_assign_cores(topology, rank->world.rank, rank->world.world, &share);
    int status = hd_topology_bind(topology, &share);
    hd_topology_destroy(topology);
    HD_TRY(status);
    HD_TRY(hd_rendezvous_create(&options, &rank->rendezvous));
    const struct hd_comm_sizes sizes = {.channels = 1,
                                        .buffer_bytes = buffer_bytes(rank->world.world)};
    HD_TRY(hd_comm_create(&rank->world, rank->rendezvous, &sizes, &rank->comm));
    rank->channel = hd_comm_get_channel(rank->comm, 0);
    rank->result = hd_alloc(buffer_bytes(rank->world.world), 1);
    rank->operands = hd_alloc(rank->world.world, sizeof *rank->operands);
    return rank->result && rank->operands ? run_all(rank) : HD_ERR_NOMEM;
}

/* Runs one rank in a process of its own; rank 0 hands on what it measured. */
static _Noreturn void run_rank(struct hd_world world, int number, int out)
{
    struct hd_mean_test test = {.ranks = world.world};
    world.rank = world.local_rank = number;
    if (number != 0)
        world.rendezvous_fd = -1;
    struct rank rank = {.world = world, .test = &test};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int status = start_and_run(&rank);
    if (status != HD_OK)
        snprintf(test.problem, sizeof test.problem, "rank %d: %s", number,
                 status == HD_ERR_DIVERGED ? "a mean came out wrong" : hd_status_get_text(status));
    test.passed = status == HD_OK;
    if ((number == 0 || !test.passed) && write(out, &test, sizeof test) != (ssize_t)sizeof test)
        _exit(1);
    hd_comm_destroy(rank.comm);
    hd_rendezvous_destroy(rank.rendezvous);
    hd_free(rank.result);
    hd_free(rank.operands);
    _exit(status != HD_OK);
}

/* Receives the first report: that of rank 0 when all is well, of whoever fails first otherwise. */
static void receive_report(int in, struct hd_mean_test *test)
{
    struct pollfd wait = {.fd = in, .events = POLLIN};
    struct hd_mean_test told;
    if (poll(&wait, 1, GIVE_UP_S * 1000) > 0 && read(in, &told, sizeof told) == sizeof told)
        *test = told;
    else
        snprintf(test->problem, sizeof test->problem,
                 "the ranks died, or gave no answer within %d s", GIVE_UP_S);
}

static void end_all(const pid_t *pids, int ranks, bool passed, struct hd_mean_test *test)
{
    for (int r = 0; r < ranks; r++) {
        int how = 0;
        if (pids[r] <= 0)
            continue;
        if (!passed)
            kill(pids[r], SIGKILL);
        while (waitpid(pids[r], &how, 0) < 0 && errno == EINTR)
            continue;
        if (passed && how != 0 && test->passed) {
            test->passed = false;
            snprintf(test->problem, sizeof test->problem, "rank %d ended with %s %d", r,
                     WIFSIGNALED(how) ? "signal" : "exit code",
                     WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
        }
    }
}

void hd_mean_test_run(int ranks, struct hd_mean_test *test_p)
{
    const int64_t begin_ns = hd_clock_get_ns();
    struct hd_world world = {.world = ranks, .local_world = ranks, .rendezvous_fd = -1};
    struct hd_mean_test test = {.ranks = ranks};
    int ends[2] = {-1, -1};
    pid_t *pids = hd_alloc(ranks, sizeof *pids);
    snprintf(world.master_addr, sizeof world.master_addr, "127.0.0.1");
    hd_secret_draw(world.secret);
    if (!pids || pipe(ends) != 0 ||
        (ranks > 1 && hd_rendezvous_listen("127.0.0.1", 0, true, &world.rendezvous_fd,
                                           &world.master_port) != HD_OK))
        snprintf(test.problem, sizeof test.problem, "it cannot start: %s", strerror(errno));
    fflush(NULL);
    for (int r = 0; r < ranks && !test.problem[0]; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            run_rank(world, r, ends[1]);
        if (pids[r] < 0)
            snprintf(test.problem, sizeof test.problem, "fork: %s", strerror(errno));
    }
    if (world.rendezvous_fd >= 0)
        close(world.rendezvous_fd);
    if (ends[1] >= 0)
        close(ends[1]);
    if (!test.problem[0])
        receive_report(ends[0], &test);
    if (pids)
        end_all(pids, ranks, test.passed, &test);
    if (ends[0] >= 0)
        close(ends[0]);
    hd_free(pids);
    test.seconds = (double)(hd_clock_get_ns() - begin_ns) * 1e-9;
    *test_p = test;
}
