/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the sharded update of a gradient by Adam among ranks of this machine, in memory that all
 * ranks see, and for comparison a copy of as much memory. */
#include "bench/parts/parts.h"
#include "kernels/learn/adam.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/sharded_update.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 16, BUCKETS_MAX = 4096, WARM_UP = 3, EXCHANGES = 20 };

static float weight(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    (void)spec, (void)bucket, (void)data, (void)partial;
    return 32;
}

static const struct hd_type type_operands = {.name = "operands", .flat = true, .weight = weight};
static const struct hd_type type_floats = {.name = "floats", .flat = true};

struct moments {
    float *first, *second;
};

static int adam_slice(struct hd_context *context, const struct hd_view *views, const void *args,
                      int64_t lo, int64_t hi, const float *sum, float count)
{
    (void)args;
    const struct moments *moments = views[2].data;
    const struct hd_adam adam = hd_adam_make(1e-4);
    hd_adam_step(&adam, context->iteration + 1, hi - lo, sum, count, 1, moments->first + lo,
                 moments->second + lo, (float *)views[1].data + lo);
    return HD_OK;
}

struct bench {
    struct hd_session *session;
    struct hd_spec operands, params;
    const char *labels[BUCKETS_MAX];
    void *grad;
    float *policy;
    struct moments moments;
    struct hd_buffer *grad_buffer, *policy_buffer, *moments_buffer;
};

static int submit(struct bench *bench, int64_t update)
{
    const struct hd_memory grad = {bench->grad, bench->grad_buffer};
    struct hd_sharded_update sharded = {.verb = "adam",
                                        .name = "adam",
                                        .labels = bench->labels,
                                        .update_slice = adam_slice,
                                        .context = {.iteration = update, .shard = -1},
                                        .operands = &bench->operands,
                                        .n_in = 1,
                                        .in = &grad,
                                        .n = 3};
    sharded.views[1] = (struct hd_view){.data = bench->policy, .spec = &bench->params};
    sharded.views[2] = (struct hd_view){.data = &bench->moments, .spec = &bench->params};
    sharded.accesses[1] =
        (struct hd_access){bench->policy_buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    sharded.accesses[2] =
        (struct hd_access){bench->moments_buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    sharded.wanted_whole[1] = true;
    return hd_submit_sharded_update(bench->session, &sharded);
}

static int update_often(struct bench *bench, double *seconds_p)
{
    int64_t begin = 0;
    for (int64_t update = 0; update < WARM_UP + EXCHANGES; update++) {
        if (update == WARM_UP)
            begin = hd_clock_get_ns();
        HD_TRY(submit(bench, update));
        HD_TRY(hd_session_drain(bench->session));
    }
    *seconds_p = (double)(hd_clock_get_ns() - begin) * 1e-9 / EXCHANGES;
    return HD_OK;
}

static int set_up(struct bench *bench, const struct hd_world *world, struct hd_comm *comm,
                  int64_t elements, int buckets)
{
    const int64_t bytes = elements * (int64_t)sizeof(float);
    bench->params = (struct hd_spec){.name = "policy",
                                     .type = &type_floats,
                                     .bytes = bytes,
                                     .elements = elements,
                                     .buckets = buckets,
                                     .partials = 1};
    bench->operands = bench->params;
    bench->operands.type = &type_operands;
    for (int bucket = 0; bucket < buckets; bucket++)
        bench->labels[bucket] = "mean(grad)";
    const struct hd_session_options options = {.workers = 1,
                                               .scheduler = "lws",
                                               .rank = world->rank,
                                               .ranks = world->world,
                                               .comm = comm,
                                               .scratch_bytes =
                                                   hd_sharded_update_get_scratch_bytes(0)};
    HD_TRY(hd_session_create(&options, &bench->session));
    char *area = comm ? hd_session_get_area(bench->session) : hd_alloc(2 * bytes, 1);
    bench->moments.first = hd_alloc(elements, sizeof(float));
    bench->moments.second = hd_alloc(elements, sizeof(float));
    if (!area || !bench->moments.first || !bench->moments.second)
        return HD_ERR_NOMEM;
    bench->grad = area;
    bench->policy = (float *)(area + bytes);
    for (int64_t i = 0; i < elements; i++) {
        ((float *)bench->grad)[i] = (float)(i % 1001) * 0.01f;
        bench->policy[i] = (float)(i % 97);
    }
    HD_TRY(hd_buffer_create(bench->session, buckets, 1, &bench->grad_buffer));
    HD_TRY(hd_buffer_create(bench->session, buckets, 1, &bench->policy_buffer));
    return hd_buffer_create(bench->session, buckets, 1, &bench->moments_buffer);
}

/* Runs one rank on one core. Its process ends afterwards, so nothing is released. */
static int run_rank(const struct hd_world *world, int64_t elements, int buckets)
{
    static struct bench bench;
    struct hd_rendezvous *rendezvous = NULL;
    struct hd_comm *comm = NULL;
    double seconds = 0;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(world->rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &cores);
    sched_setaffinity(0, sizeof cores, &cores);
    const struct hd_rendezvous_options options = {
        .world = world, .fingerprint = "", .one_host = true};
    if (world->world > 1) {
        HD_TRY(hd_rendezvous_create(&options, &rendezvous));
        HD_TRY(hd_comm_create(world, rendezvous,
                              &(struct hd_comm_sizes){1, 64, 2 * elements * (int64_t)sizeof(float)},
                              &comm));
    }
    HD_TRY(set_up(&bench, world, comm, elements, buckets));
    HD_TRY(update_often(&bench, &seconds));
    if (world->rank == 0)
        hd_part_report(NULL, seconds * 1e3, "ms");
    return HD_OK;
}

static int run_ranks(int ranks, int64_t elements, int buckets)
{
    struct hd_world world = {.world = ranks, .local_world = ranks, .rendezvous_fd = -1};
    pid_t pids[RANKS_MAX];
    int failed = 0;
    strcpy(world.master_addr, "127.0.0.1");
    hd_secret_draw(world.secret);
    if (ranks > 1)
        HD_TRY(
            hd_rendezvous_listen("127.0.0.1", 0, true, &world.rendezvous_fd, &world.master_port));
    for (int rank = 0; rank < ranks; rank++)
        if ((pids[rank] = fork()) == 0) {
            world.rank = world.local_rank = rank;
            if (rank > 0 && world.rendezvous_fd >= 0) {
                close(world.rendezvous_fd);
                world.rendezvous_fd = -1;
            }
            int status = run_rank(&world, elements, buckets);
            fflush(NULL);
            _exit(hd_status_get_exit_code(status));
        }
    if (world.rendezvous_fd >= 0)
        close(world.rendezvous_fd);
    for (int rank = 0; rank < ranks; rank++) {
        int status;
        waitpid(pids[rank], &status, 0);
        failed |= status;
    }
    return failed ? HD_ERR_TASK : HD_OK;
}

/* -- Copies for comparison --------------------------------------------------------------------- */

struct copy {
    char *to, *from;
    size_t bytes;
};

static void copy_all(void *arg)
{
    const struct copy *copy = arg;
    memcpy(copy->to, copy->from, copy->bytes);
}

static int measure_copy(int64_t bytes)
{
    struct copy copy = {hd_alloc(bytes, 1), hd_alloc(bytes, 1), (size_t)bytes};
    if (!copy.to || !copy.from)
        return HD_ERR_NOMEM;
    hd_part_report("memcpy", hd_part_measure_seconds(copy_all, &copy) * 1e3, "ms");
    hd_free(copy.to);
    hd_free(copy.from);
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    const int64_t megabytes = hd_part_parse_number(argc, argv, 0, 57),
                  elements = megabytes * 250000;
    if (argc > 1 && strcmp(argv[1], "copy") == 0)
        return measure_copy(megabytes * 1000000);
    const int64_t ranks = hd_part_parse_number(argc, argv, 1, 2);
    const int64_t bucket_mb = hd_part_parse_number(argc, argv, 2, 8);
    const int64_t blocks = (elements + HD_BLOCK - 1) / HD_BLOCK;
    if (megabytes == 0 || ranks == 0 || ranks > RANKS_MAX || bucket_mb == 0)
        return HD_ERR_INPUT;
    int64_t per_bucket = bucket_mb * 1048576 / (HD_BLOCK * (int64_t)sizeof(float));
    int64_t buckets = (blocks + per_bucket - 1) / per_bucket;
    return buckets > BUCKETS_MAX ? HD_ERR_INPUT : run_ranks((int)ranks, elements, (int)buckets);
}

const struct hd_bench_part hd_part_exchange = {
    "MEGABYTES RANKS|copy PART_MB",
    "a mean over ranks with Adam in slices, buckets of so many MiB; or a copy of as many bytes",
    measure};
