/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives by NCCL between processes, each with a GPU: sums in tree order have the bits of one
 * rank; late ranks are named, failures end all waiting. Cases
 * with more ranks than there are GPUs are skipped; what only the emulation can be made to do (other
 * versions, a failing network) is tested there. */
#include "kernels/common/partials.h"
#include "runtime/base/tree.h"
#include "runtime/comm/nccl/comm_nccl.h"
#include "runtime/machine/gpu_path.h"
#include "tests/kernels/common/device.h"

#include <math.h>
#include <pthread.h>

TEST(slices_are_whole_blocks)
{
    static const int64_t sizes[] = {0, 1, 4096, 4097, 3 * 4096, 16 * 4096, 100000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int ranks = 1; ranks <= 9; ranks++) {
            int64_t next = 0, max = 0;
            for (int rank = 0; rank < ranks; rank++) {
                int64_t lo, hi;
                hd_device_comm_get_slice(sizes[s], rank, ranks, &lo, &hi);
                ck_assert_int_eq(lo, next);
                ck_assert(lo % HD_BLOCK == 0 || lo == sizes[s]);
                max = hi - lo > max ? hi - lo : max;
                next = hi;
            }
            ck_assert_int_eq(next, sizes[s]);
            ck_assert_int_le(max, (sizes[s] / HD_BLOCK / ranks + 1) * HD_BLOCK);
        }
}

#if HD_CUDA
#include "tests/harness/check.h"
#include "tests/runtime/comm/nccl_ranks.h"

FIXTURE(make_shared, NULL)

/* -- Adding ------------------------------------------------------------------------------------ */
/* The host adds as a kernel would, by code that does not share hd_tree_add, the reference. */

enum { MAX_FLOATS = 5 * 4096 };

struct addition {
    float *staging;
    int n_operands;
    int64_t n;
    bool counts, mean;
};

struct adder {
    struct rank *rank;
    bool mean;
};

static float tree_sum(const float *x, int64_t stride, int64_t n)
{
    if (n == 1)
        return x[0];
    return tree_sum(x, stride, n / 2) + tree_sum(x + n / 2 * stride, stride, n - n / 2);
}

static void add_on_host(void *arg)
{
    struct addition *a = arg;
    float *sum = a->staging + MAX_RANKS * (MAX_FLOATS + 1), count = 0;
    if (a->counts)
        sum[MAX_FLOATS] = count = tree_sum(a->staging + MAX_FLOATS, MAX_FLOATS + 1, a->n_operands);
    for (int64_t i = 0; i < a->n; i++) {
        sum[i] = tree_sum(a->staging + i, MAX_FLOATS + 1, a->n_operands);
        sum[i] = a->mean && count > 0 ? sum[i] / count : sum[i];
    }
    free(a);
}

static int add(const void *arg, const struct hd_operand *operands, int n_operands, int64_t n,
               float *to, float *total, void *stream)
{
    const struct adder *adder = arg;
    float *staging = adder->rank->staging, *sum = staging + MAX_RANKS * (MAX_FLOATS + 1);
    struct addition *a = malloc(sizeof *a);
    *a = (struct addition){staging, n_operands, n, operands[0].count != NULL, adder->mean};
    cudaError_t error = cudaSuccess;
    for (int t = 0; t < n_operands; t++) {
        float *operand = staging + t * (MAX_FLOATS + 1);
        error |= cudaMemcpyAsync(operand, operands[t].floats, (size_t)n * sizeof(float),
                                 cudaMemcpyDeviceToHost, stream);
        if (a->counts)
            error |= cudaMemcpyAsync(operand + MAX_FLOATS, operands[t].count, sizeof(float),
                                     cudaMemcpyDeviceToHost, stream);
    }
    error |= cudaLaunchHostFunc(stream, add_on_host, a);
    error |= cudaMemcpyAsync(to, sum, (size_t)n * sizeof(float), cudaMemcpyHostToDevice, stream);
    if (total)
        error |=
            cudaMemcpyAsync(total, sum + MAX_FLOATS, sizeof(float), cudaMemcpyHostToDevice, stream);
    return error == cudaSuccess ? HD_OK : HD_ERR_DEVICE;
}

/* Adds as training runs do. */
static int add_by_kernel(const void *arg, const struct hd_operand *operands, int n_operands,
                         int64_t n, float *to, float *total, void *stream)
{
    const struct adder *adder = arg;
    struct hd_partials groups[HD_PARTIALS_GROUPS];
    for (int t = 0; t < n_operands; t++)
        groups[t] = (struct hd_partials){operands[t].floats, operands[t].count, 1, 0};
    return hd_partials_mean_cuda(n_operands, groups, adder->mean, 0, n, to, total, stream);
}

/* -- Sums -------------------------------------------------------------------------------------- */

/* Sums of these depend on their order in nearly every element. */
static float element(int rank, int64_t i)
{
    const uint64_t bits = hd_hash_mix(hd_hash_mix((uint64_t)rank + 1, (uint64_t)i), 99);
    return ((float)(bits >> 40) / 16777216.0f - 0.5f) * exp2f((float)(bits % 13));
}

static const int64_t sizes[] = {1,        5,        4095,           4096,         4097,
                                2 * 4096, 4 * 4096, MAX_FLOATS - 1, 3 * 4096 + 17};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

struct sum {
    enum hd_device_collective_kind kind;
    bool counts, mean, in_place, by_kernel;
};

static void expect(const struct sum *what, int ranks, int64_t n, float *sum, float *total)
{
    float *operands[MAX_RANKS], counts[MAX_RANKS];
    for (int r = 0; r < ranks; r++) {
        operands[r] = malloc((size_t)n * sizeof(float));
        for (int64_t i = 0; i < n; i++)
            operands[r][i] = element(r, i);
        counts[r] = (float)(r * r + 3);
    }
    hd_tree_add(ranks, (const float *const *)operands, 1, n, 0, n, sum);
    *total = tree_sum(counts, 1, ranks);
    for (int64_t i = 0; i < n && what->mean; i++)
        sum[i] = sum[i] / *total;
    for (int r = 0; r < ranks; r++)
        free(operands[r]);
}

/* Returns how many elements differ in bits; none may by more than rounding. */
static int64_t differences(const float *got, const float *expected, int64_t elements)
{
    int64_t n = 0;
    for (int64_t i = 0; i < elements; i++) {
        n += memcmp(&got[i], &expected[i], sizeof *got) != 0;
        REQUIRE(fabsf(got[i] - expected[i]) < 1e-2f);
    }
    return n;
}

static bool untouched(const float *x, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        if (memcmp(&x[i], "\xFF\xFF\xFF\xFF", 4) != 0)
            return false;
    return true;
}

static int64_t check_sum(struct rank *rank, const struct sum *what, int64_t n, int64_t sequence)
{
    const int ranks = rank->world->world, number = rank->world->rank;
    float *own = malloc((size_t)n * sizeof *own), *got = malloc((size_t)n * sizeof *got + 64);
    float *expected = malloc((size_t)n * sizeof *expected);
    float count = (float)(number * number + 3), total, got_total = -1;
    for (int64_t i = 0; i < n; i++)
        own[i] = element(number, i);
    const struct adder adder = {rank, what->mean};
    struct hd_device_collective c = {.kind = what->kind, .name = "mean(grad)", .n = n};
    c.add = what->by_kernel ? add_by_kernel : add;
    c.arg = &adder;
    float *operands = device_copy_of(own, n * (int64_t)sizeof *own);
    c.operands = operands;
    c.to = what->in_place ? operands : device_copy_of(NULL, n * (int64_t)sizeof *own);
    c.scratch = device_copy_of(NULL, hd_device_comm_get_scratch_bytes(n, ranks));
    c.total = device_copy_of(NULL, sizeof count);
    c.count = what->counts ? device_copy_of(&count, sizeof count) : NULL;
    REQUIRE(hd_device_comm_post(rank->device_comm, sequence, &c) == HD_OK);
    REQUIRE(wait_for(rank, sequence));
    REQUIRE(cudaMemcpy(got, c.to, (size_t)n * sizeof *got + 64, cudaMemcpyDeviceToHost) ==
            cudaSuccess);
    REQUIRE(cudaMemcpy(&got_total, c.total, sizeof total, cudaMemcpyDeviceToHost) == cudaSuccess);
    expect(what, ranks, n, expected, &total);
    REQUIRE(!what->counts || got_total == total);
    REQUIRE(untouched(got, n, n + 16));
    const int64_t different = differences(got, expected, n);
    cudaFree(operands);
    cudaFree(what->in_place ? NULL : c.to);
    cudaFree(c.scratch);
    cudaFree(c.total);
    cudaFree((void *)c.count);
    free(own);
    free(got);
    free(expected);
    return different;
}

static int body_sums(const struct hd_world *world, void *arg)
{
    (void)arg;
    enum { COUNTS = true, MEAN = true, IN_PLACE = true, BY_KERNEL = true };
    static const struct sum sums[] = {
        {HD_DEVICE_ALL_REDUCE_TREE, COUNTS, MEAN, false, false},
        {HD_DEVICE_ALL_REDUCE_TREE, COUNTS, false, IN_PLACE, false},
        {HD_DEVICE_ALL_REDUCE_TREE, false, false, false, false},
        {HD_DEVICE_ALL_REDUCE_TREE, COUNTS, MEAN, IN_PLACE, BY_KERNEL},
        {HD_DEVICE_ALL_REDUCE_TREE, false, false, false, BY_KERNEL},
        {HD_DEVICE_ALL_REDUCE_LIBRARY, COUNTS, MEAN, false, false},
        {HD_DEVICE_ALL_REDUCE_LIBRARY, false, false, IN_PLACE, false},
        {HD_DEVICE_ALL_REDUCE_LIBRARY, COUNTS, MEAN, false, BY_KERNEL},
    };
    struct rank rank = start(world);
    int64_t sequence = 0, fast = 0;
    REQUIRE(cudaMallocHost((void **)&rank.staging,
                           (MAX_RANKS + 1) * (MAX_FLOATS + 1) * sizeof(float)) == cudaSuccess);
    for (size_t s = 0; s < sizeof sums / sizeof *sums; s++)
        for (int i = 0; i < N_SIZES; i++) {
            sequence += 1 + i % 2; /* others may number in between */
            const int64_t different = check_sum(&rank, &sums[s], sizes[i], sequence);
            REQUIRE(sums[s].kind == HD_DEVICE_ALL_REDUCE_LIBRARY || different == 0);
            fast += different;
        }
    /* The emulation's ring is another order: were it not, this test would show nothing. */
    REQUIRE(!emulated() || (fast > 0) == (world->world > 2));
    stop(&rank);
    return 0;
}

TEST(sums_have_the_bits_of_one_rank, .runs = MAX_RANKS, .cuda = true)
{
    run_case(1 + _i, body_sums);
}

/* -- Order and threads ------------------------------------------------------------------------- */

static struct hd_device_collective make_small_sum(const char *name)
{
    float *memory = device_copy_of(NULL, 64);
    return (struct hd_device_collective){.kind = HD_DEVICE_ALL_REDUCE_LIBRARY,
                                         .name = name,
                                         .n = 16,
                                         .operands = memory,
                                         .to = memory};
}

/* Idle workers poll while another posts. */
static void *poll_always(void *arg)
{
    struct rank *rank = arg;
    while (atomic_load(&shared->flag) == 0) {
        hd_device_comm_test(rank->device_comm, 1 << 30);
        sched_yield();
    }
    return NULL;
}

static int body_queue(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world);
    struct hd_device_collective c = make_small_sum("sum");
    pthread_t poller;
    REQUIRE(pthread_create(&poller, NULL, poll_always, &rank) == 0);
    const int64_t before = emulated() ? hd_emulated_synchronous_calls() : 0;
    for (int64_t sequence = 1; sequence <= 200; sequence++) {
        REQUIRE(hd_device_comm_post(rank.device_comm, sequence, &c) == HD_OK);
        if (sequence >= HD_DEVICE_COMM_OPEN_MAX)
            REQUIRE(wait_for(&rank, sequence - HD_DEVICE_COMM_OPEN_MAX + 1));
    }
    REQUIRE(wait_for(&rank, 200));
    REQUIRE(!emulated() || hd_emulated_synchronous_calls() == before);
    REQUIRE(hd_device_comm_test(rank.device_comm, 13));
    REQUIRE(hd_device_comm_post(rank.device_comm, 200, &c) == HD_ERR_INPUT); /* not a new number */
    c.kind = HD_DEVICE_ALL_REDUCE_TREE;
    REQUIRE(hd_device_comm_post(rank.device_comm, 201, &c) == HD_ERR_INPUT); /* nothing to add */
    atomic_fetch_add(&shared->flag, 1);
    pthread_join(poller, NULL);
    cudaFree(c.to);
    stop(&rank);
    return 0;
}

TEST(several_are_open, .runs = 2, .cuda = true)
{
    run_case(1 + _i, body_queue);
}

/* A thread of another GPU of this rank goes on with it; one without a GPU is not left at GPU 0. */
static int body_devices(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = {0};
    const int devices[] = {1, 0};
    join_ranks(&rank, world);
    const struct hd_nccl_options options = {.ranks = 1, .devices = devices, .n_devices = 2};
    REQUIRE(hd_nccl_join(&options, rank.rendezvous, &rank.device_comm) == HD_OK);
    struct hd_device_collective c = make_small_sum("sum");
    for (int i = 0; i < 2; i++) {
        int now = -1;
        REQUIRE(cudaSetDevice(i) == cudaSuccess);
        REQUIRE(hd_device_comm_post(rank.device_comm, i + 1, &c) == HD_OK &&
                wait_for(&rank, i + 1));
        REQUIRE(cudaGetDevice(&now) == cudaSuccess && now == i);
    }
    hd_device_comm_destroy(rank.device_comm);
    const struct hd_nccl_options alone = {.ranks = 1, .devices = devices, .n_devices = 1};
    REQUIRE(hd_nccl_join(&alone, rank.rendezvous, &rank.device_comm) == HD_OK);
    int now = -1;
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    REQUIRE(hd_device_comm_post(rank.device_comm, 1, &c) == HD_OK && wait_for(&rank, 1));
    REQUIRE(cudaGetDevice(&now) == cudaSuccess && now == 1);
    cudaFree(c.to);
    stop(&rank);
    return 0;
}

TEST(threads_keep_their_gpu, .cuda = true)
{
    if (require_gpus(2))
        ranks_run(1, body_devices, NULL, "");
}

/* -- Failures ---------------------------------------------------------------------------------- */

static bool flag_reaches(int value)
{
    for (int i = 0; i < 20000 && atomic_load(&shared->flag) < value; i++)
        usleep(1000);
    return atomic_load(&shared->flag) >= value;
}

static int body_late(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world);
    struct hd_device_collective c = make_small_sum("sum(counts)");
    char *text = shared->text[world->rank];
    REQUIRE(hd_device_comm_post(rank.device_comm, 411, &c) == HD_OK && wait_for(&rank, 411));
    if (world->rank != 0) {
        c.name = "mean(grad.3)";
        REQUIRE(hd_device_comm_post(rank.device_comm, 412, &c) == HD_OK);
        for (int i = 0; i < 100; i++, usleep(1000))
            REQUIRE(!hd_device_comm_test(rank.device_comm, 412));
        hd_device_comm_report(rank.device_comm, text, sizeof shared->text[0]);
        REQUIRE(hd_device_comm_wait(rank.device_comm, 412, SECOND_NS / 10, NULL, NULL) ==
                HD_ERR_WATCHDOG);
        int64_t start_ns = hd_clock_get_ns();
        hd_device_comm_abort(rank.device_comm);
        char why[HD_DEVICE_COMM_MESSAGE_BYTES];
        REQUIRE(hd_device_comm_get_error(rank.device_comm, why, sizeof why) == HD_ERR_PEER);
        REQUIRE(strstr(why, "in #412 mean(grad.3): NCCL: aborted"));
        REQUIRE(!hd_device_comm_test(rank.device_comm, 412));
        REQUIRE(hd_device_comm_post(rank.device_comm, 413, &c) == HD_ERR_PEER);
        REQUIRE(cudaDeviceSynchronize() == cudaSuccess); /* nothing is left on the GPU */
        REQUIRE(hd_clock_get_ns() - start_ns < 20 * (int64_t)SECOND_NS);
        atomic_fetch_add(&shared->flag, 1);
    } else {
        REQUIRE(flag_reaches(world->world - 1));
        hd_device_comm_report(rank.device_comm, text, sizeof shared->text[0]);
        hd_device_comm_abort(rank.device_comm);
    }
    stop(&rank);
    cudaFree(c.to);
    return 0;
}

TEST(late_ranks_are_named_and_left, .cuda = true)
{
    char expected[512], version[HD_NCCL_VERSION_BYTES];
    int loaded = 0;
    if (!require_gpus(2))
        return;
    ranks_run(2, body_late, NULL, "");
    ck_assert_int_eq(hd_nccl_get_version(&loaded), HD_OK);
    hd_nccl_format_version(loaded, version);
    snprintf(
        expected, sizeof expected,
        "error: |GPU 1 of rank 1|#412 mean(grad.3) since 0 s|NCCL %s|rank 0|#411 sum(counts) 0 s|"
        "rank 1 waits in #412 mean(grad.3) since 0 s",
        version);
    if (emulated()) /* NCCL may be connecting still */
        check_names(shared->log[1], expected);
    check_names(shared->text[1], "#412 mean(grad.3) since 0 s");
    check_names(shared->text[0], "GPU 0 of rank 0|#411");
}

/* A rank that dies leaves the others waiting until they abort. */
static int body_dead(const struct hd_world *world, void *arg)
{
    (void)arg;
    struct rank rank = start(world);
    struct hd_device_collective c = make_small_sum("sum");
    if (world->rank == 0)
        _exit(0);
    REQUIRE(hd_device_comm_post(rank.device_comm, 1, &c) == HD_OK);
    for (int i = 0; i < 50; i++, usleep(1000))
        REQUIRE(!hd_device_comm_test(rank.device_comm, 1));
    int64_t start_ns = hd_clock_get_ns();
    hd_device_comm_destroy(rank.device_comm); /* aborts, for something is open */
    REQUIRE(cudaFree(c.to) == cudaSuccess);
    REQUIRE(hd_clock_get_ns() - start_ns < 20 * (int64_t)SECOND_NS);
    _exit(0);
}

TEST(a_dead_rank_is_left, .cuda = true)
{
    run_case(3, body_dead);
}

static int body_remote_error(const struct hd_world *world, void *arg)
{
    (void)arg;
    if (world->rank == 1)
        setenv("HD_EMULATED_NCCL_FAIL", "2", 1);
    struct rank rank = start(world);
    struct hd_device_collective c = make_small_sum("sum");
    char *why = shared->text[world->rank];
    REQUIRE(hd_device_comm_post(rank.device_comm, 1, &c) == HD_OK && wait_for(&rank, 1));
    REQUIRE(hd_device_comm_get_error(rank.device_comm, why, sizeof shared->text[0]) == HD_OK &&
            why[0] == '\0');
    c.name = "params";
    int status = hd_device_comm_post(rank.device_comm, 2, &c);
    REQUIRE(status == HD_OK || status == HD_ERR_PEER);
    if (world->rank == 1) {
        REQUIRE(!wait_for(&rank, 2));
        REQUIRE(hd_device_comm_get_error(rank.device_comm, why, sizeof shared->text[0]) ==
                HD_ERR_PEER);
        REQUIRE(hd_device_comm_post(rank.device_comm, 3, &c) == HD_ERR_PEER);
        atomic_store(&shared->flag, 1);
    }
    REQUIRE(flag_reaches(1));
    hd_device_comm_abort(rank.device_comm);
    stop(&rank);
    cudaFree(c.to);
    return 0;
}

TEST(the_networks_failure_has_a_sentence, .cuda = true)
{
    if (!emulated() || !require_gpus(2))
        return;
    ranks_run(2, body_remote_error, NULL, "");
    ck_assert_str_eq(shared->text[1], "GPU 1 of rank 1 in #2 params: NCCL: remote process gone (a "
                                      "network that is none)");
}

/* -- Versions and shared GPUs ------------------------------------------------------------------ */

struct attempt {
    const char *version[MAX_RANKS]; /* of each rank's library */
    bool one_gpu, allowed;
    int64_t timeout_ns;
    int status;
};

static int body_attempt(const struct hd_world *world, void *arg)
{
    const struct attempt *attempt = arg;
    struct rank rank = {0};
    setenv("HD_EMULATED_NCCL_VERSION", attempt->version[world->rank], 1);
    if (attempt->allowed)
        hd_nccl_share_gpus();
    join_ranks(&rank, world);
    rank.device = attempt->one_gpu ? 0 : world->rank;
    REQUIRE(join(&rank, attempt->timeout_ns) == attempt->status);
    REQUIRE((rank.device_comm != NULL) == (attempt->status == HD_OK));
    stop(&rank);
    return 0;
}

static const char *try_to_join(int ranks, struct attempt attempt)
{
    ranks_run(ranks, body_attempt, &attempt, "");
    return shared->log[0];
}

TEST(versions_are_checked, .cuda = true)
{
    if (!emulated() || !require_gpus(3))
        return;
    check_names(try_to_join(2, (struct attempt){{"21705", "21705"}, .status = HD_ERR_UNSUPPORTED}),
                "libnccl.so.2|2.17.5|2.18.0");
    ck_assert_ptr_nonnull(strstr(
        try_to_join(3, (struct attempt){{"22809", "22809", "22703"}, .status = HD_ERR_INPUT}),
        "rank 2 has NCCL 2.27.3, rank 0 has 2.28.9"));
    try_to_join(3, (struct attempt){{"23007", "23007", "23007"}, .status = HD_OK});
}

TEST(ranks_on_one_gpu, .cuda = true)
{
    if (!emulated())
        return;
    ck_assert_ptr_nonnull(
        strstr(try_to_join(2, (struct attempt){{"22809", "22809"}, true, true, 0, HD_ERR_DEVICE}),
               "GPU 0 of rank 0: NCCL: invalid usage (Multiple Ranks are using the same GPU"));
    try_to_join(2, (struct attempt){{"23007", "23007"}, true, false, 0, HD_ERR_DEVICE});
    try_to_join(2, (struct attempt){{"23007", "23007"}, true, true, 0, HD_OK});
    check_names(
        try_to_join(
            3,
            (struct attempt){{"23007", "23007", "23007"}, true, true, SECOND_NS / 2, HD_ERR_PEER}),
        "GPU 0 of rank 0: NCCL: |0.5 s");
}

#endif
