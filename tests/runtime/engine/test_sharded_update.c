/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges among ranks that run at different speeds: nobody reads an operand before it is written
 * or after it is overwritten, nor a slice that is not done; a rank that fails shows nothing; a late
 * one is named with the bucket. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/sharded_update.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PARTIALS_MAX = 2, INSTANCES_MAX = 2, MAX_RANKS = 16, CHANNELS = 3 };

/* What ranks do. */
struct job {
    int buckets, hosts;
    bool sequential;
    enum hd_host_exchange exchange;
    int blocks;              /* whole ones; there are 100 elements besides */
    int instances, partials; /* of a rank's operands */
    int updates;
};

static const char *const labels[] = {"mean(grad.0)", "mean(grad.1)", "mean(grad.2)"};

/* -- A run of one rank ------------------------------------------------------------------------- */

struct run {
    struct job job;
    int rank, ranks;
    int64_t elements, stride; /* floats from partial to partial */
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_session *session;
    struct hd_spec operands, result, state;
    struct hd_buffer *result_buffer, *state_buffer;
    struct hd_memory terms[INSTANCES_MAX];
    float *result_data, *state_data;
    int fails_at, delays; /* update at which this rank's slice fails, or -1; spins in tasks */
    int wrong, channels;
    atomic_int firsts; /* slices that were told to be the first of their bucket */
};

static struct run run;

static void delay(uint64_t key)
{
    int64_t us = run.delays ? (int64_t)(hd_hash_mix(key, (uint64_t)run.rank * 977) % 8) * 60 : 0;
    int64_t end = hd_clock_get_ns() + us * 1000;
    while (us > 0 && hd_clock_get_ns() < end)
        ;
}

static float weight(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    (void)spec, (void)bucket, (void)data;
    return (float)(1 + partial);
}

/* A result has derived data behind its floats: the double of each. */
static void derive(float *result, int64_t lo, int64_t hi)
{
    for (int64_t i = lo; i < hi; i++)
        result[run.elements + i] = 2 * result[i];
}

static int copy_slowly(const struct hd_spec *spec, int64_t lo, int64_t hi, void *dst,
                       const void *src)
{
    (void)spec;
    for (int64_t i = lo; i < hi; i += HD_BLOCK) {
        delay((uint64_t)i);
        int64_t n = hi - i < HD_BLOCK ? hi - i : HD_BLOCK;
        if (dst != src)
            memcpy((float *)dst + i, (const float *)src + i, (size_t)n * sizeof(float));
    }
    derive(dst, lo, hi);
    return HD_OK;
}

static const struct hd_type type_operands = {.name = "operands", .flat = true, .weight = weight};
static const struct hd_type type_result = {
    .name = "result", .flat = true, .copy_range = copy_slowly};

static float operand(int64_t shard, int64_t partial, int64_t update, int64_t i)
{
    return (float)(hd_hash_mix((uint64_t)(shard * 16 + partial),
                               (uint64_t)(update * 4096 + i % 4096)) %
                   1024) *
           (partial ? 0.001f : 1.0f);
}

static int write_terms(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    delay((uint64_t)context->iteration * 31);
    for (int64_t partial = 0; partial < run.job.partials; partial++)
        for (int64_t i = 0; i < run.elements; i++)
            ((float *)views[0].data)[partial * run.stride + i] =
                operand(context->shard, partial, context->iteration, i);
    return HD_OK;
}

static int use_slice(struct hd_context *context, const struct hd_view *views, const void *args,
                     int64_t lo, int64_t hi, const float *sum, float count)
{
    (void)args;
    if (context->iteration == run.fails_at && views[1].bucket == 1)
        return hd_body_fail(context, "meant to fail");
    delay((uint64_t)(context->iteration * 100 + lo));
    run.firsts += !context->again;
    float *result = views[1].data, *state = views[2].data;
    for (int64_t i = lo; i < hi; i++) {
        state[i] = 0.5f * state[i] + sum[i - lo] / count;
        result[i] += 0.125f * state[i];
    }
    derive(result, lo, hi);
    return HD_OK;
}

/* -- What it should be, shard by shard --------------------------------------------------------- */

static float *expected_result, *expected_state;

static float shard_sum(int64_t lo, int64_t n, int64_t update, int64_t i)
{
    if (n == 1)
        return run.job.partials == 1 ? operand(lo, 0, update, i)
                                     : operand(lo, 0, update, i) + operand(lo, 1, update, i);
    float left = shard_sum(lo, n / 2, update, i);
    return left + shard_sum(lo + n / 2, n - n / 2, update, i);
}

static void expect_update(int64_t shards, int64_t update)
{
    const int64_t samples = run.job.partials == 1 ? 1 : 3;
    for (int64_t i = 0; i < run.elements; i++) {
        float mean = shard_sum(0, shards, update, i) / (float)(samples * shards);
        expected_state[i] = 0.5f * expected_state[i] + mean;
        expected_result[i] += 0.125f * expected_state[i];
    }
}

static int check_result(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    expect_update((int64_t)run.ranks * run.job.instances, context->iteration);
    derive(expected_result, 0, run.elements);
    run.wrong +=
        memcmp(views[0].data, expected_result, 2 * (size_t)run.elements * sizeof(float)) != 0;
    return HD_OK;
}

/* -- Submitting -------------------------------------------------------------------------------- */

static int open_run(const struct hd_world *world, const struct job *job, int64_t watchdog_ns)
{
    const int buckets = job->buckets;
    run.job = *job;
    run.rank = world->rank;
    run.ranks = world->world;
    run.elements = job->blocks * HD_BLOCK + 100;
    run.stride = (run.elements + 15) / 16 * 16;
    run.operands = (struct hd_spec){.name = "grad",
                                    .type = &type_operands,
                                    .bytes = job->partials * run.stride * (int64_t)sizeof(float),
                                    .elements = run.elements,
                                    .buckets = buckets,
                                    .partials = job->partials};
    run.result = (struct hd_spec){.name = "policy",
                                  .type = &type_result,
                                  .bytes = 2 * run.elements * (int64_t)sizeof(float),
                                  .elements = run.elements,
                                  .buckets = buckets,
                                  .partials = 1};
    run.state = run.result;
    const int64_t area = job->instances * run.operands.bytes + run.result.bytes;
    if (world->world > 1)
        HD_TRY(ranks_join(world, job->hosts, &(struct hd_comm_sizes){CHANNELS, 64, area},
                          &run.rendezvous, &run.comm));
    const struct hd_session_options options = {.sequential = job->sequential,
                                               .workers = 1 + buckets % 2,
                                               .scheduler = "lws",
                                               .rank = world->rank,
                                               .ranks = world->world,
                                               .comm = run.comm,
                                               .exchange = job->exchange,
                                               .scratch_bytes =
                                                   hd_sharded_update_get_scratch_bytes(0),
                                               .watchdog_ns = watchdog_ns};
    HD_TRY(hd_session_create(&options, &run.session));
    char *memory = run.comm ? hd_session_get_area(run.session) : hd_alloc(area, 1);
    for (int i = 0; i < run.job.instances; i++) {
        run.terms[i].data = memory + i * run.operands.bytes;
        HD_TRY(hd_buffer_create(run.session, buckets, job->partials, &run.terms[i].buffer));
    }
    run.result_data = (float *)(memory + job->instances * run.operands.bytes);
    run.state_data = hd_alloc(run.elements, sizeof(float));
    expected_result = hd_alloc(2 * run.elements, sizeof(float));
    expected_state = hd_alloc(run.elements, sizeof(float));
    HD_TRY(hd_buffer_create(run.session, buckets, 1, &run.result_buffer));
    return hd_buffer_create(run.session, buckets, 1, &run.state_buffer);
}

static void close_run(void)
{
    for (int i = 0; i < run.job.instances; i++)
        hd_buffer_destroy(run.terms[i].buffer);
    hd_buffer_destroy(run.result_buffer);
    hd_buffer_destroy(run.state_buffer);
    hd_session_destroy(run.session);
    if (!run.comm)
        hd_free(run.terms[0].data);
    hd_free(run.state_data);
    hd_free(expected_result);
    hd_free(expected_state);
    hd_rendezvous_destroy(run.rendezvous);
    hd_comm_destroy(run.comm);
}

static int submit_task(int (*body)(struct hd_context *, const struct hd_view *, const void *),
                       int64_t update, int64_t shard, void *data, struct hd_buffer *buffer,
                       enum hd_mode mode)
{
    const struct hd_access access = {buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, mode};
    const struct hd_task task = {.verb = "test",
                                 .name = "test",
                                 .body = body,
                                 .context = {.iteration = update, .shard = shard},
                                 .views = {{.data = data}},
                                 .n = 1,
                                 .accesses = &access,
                                 .n_accesses = 1};
    return hd_submit_task(run.session, &task);
}

static int submit_update(int64_t update)
{
    for (int i = 0; i < run.job.instances; i++)
        HD_TRY(submit_task(write_terms, update, run.rank * run.job.instances + i, run.terms[i].data,
                           run.terms[i].buffer, HD_WRITE));
    struct hd_sharded_update sharded = {.verb = "adam",
                                        .name = "adam",
                                        .labels = labels,
                                        .update_slice = use_slice,
                                        .context = {.iteration = update, .shard = -1},
                                        .operands = &run.operands,
                                        .n_in = run.job.instances,
                                        .in = run.terms,
                                        .channels = {0, run.channels, (int)update},
                                        .n = 3};
    sharded.views[1] = (struct hd_view){.data = run.result_data, .spec = &run.result};
    sharded.views[2] = (struct hd_view){.data = run.state_data, .spec = &run.state};
    sharded.accesses[1] =
        (struct hd_access){run.result_buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    sharded.accesses[2] =
        (struct hd_access){run.state_buffer, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    sharded.wanted_whole[1] = true;
    HD_TRY(hd_submit_sharded_update(run.session, &sharded));
    return submit_task(check_result, update, -1, run.result_data, run.result_buffer, HD_READ);
}

static int run_updates(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    run = (struct run){.fails_at = -1, .delays = 1, .channels = CHANNELS};
    HD_TRY(open_run(world, job, 60000000000));
    for (int64_t update = 0; update < job->updates; update++)
        HD_TRY(submit_update(update));
    int status = hd_session_drain(run.session);
    if (status != HD_OK)
        hd_log(HD_LOG_ERROR, "%s", hd_session_get_message(run.session));
    int code = status != HD_OK                             ? 1
               : run.wrong                                 ? 2
               : run.firsts != job->updates * job->buckets ? 3
                                                           : 0;
    close_run();
    return code;
}

/* Few elements: slices of some ranks are empty. */
TEST(every_rank_holds_every_result_after_every_update, .runs = 3)
{
    const int ranks[] = {1, 2, 4};
    for (int buckets = 1; buckets <= 3; buckets++)
        for (int sequential = 0; sequential < 2; sequential++)
            for (int hosts = 1; hosts <= ranks[_i]; hosts *= 2) {
                struct job job = {buckets, hosts, sequential, HD_EXCHANGE_AUTO, 4, 2, 2, 24};
                ranks_run(ranks[_i], run_updates, &job, "");
            }
}

TEST(hosts_exchange_directly_or_halves, .runs = 6)
{
    static const struct {
        int ranks, hosts, instances;
    } shapes[] = {{4, 4, 2}, {8, 4, 2}, {8, 8, 1}, {16, 8, 1}, {16, 16, 1}, {3, 3, 1}};
    static const struct {
        enum hd_host_exchange exchange;
        int buckets, blocks, partials;
    } cases[] = {{HD_EXCHANGE_DIRECT, 3, 37, 2},
                 {HD_EXCHANGE_HALVES, 3, 37, 2},
                 {HD_EXCHANGE_HALVES, 2, 37, 1},
                 {HD_EXCHANGE_HALVES, 1, 2, 2}};
    for (int i = 0; i < 4; i++) {
        struct job job = {cases[i].buckets,  shapes[_i].hosts,
                          (i + _i) % 3 == 0, cases[i].exchange,
                          cases[i].blocks,   cases[i].partials == 1 ? 1 : shapes[_i].instances,
                          cases[i].partials, 4};
        ranks_run(shapes[_i].ranks, run_updates, &job, "");
    }
}

/* -- Failure ----------------------------------------------------------------------------------- */

static int run_failing(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    hd_log_set_level(HD_LOG_ERROR);
    run = (struct run){.fails_at = world->rank == 1 ? 10 : -1, .delays = 1};
    HD_TRY(open_run(world, job, 60000000000));
    for (int64_t update = 0; update < job->updates; update++)
        HD_TRY(submit_update(update));
    int status = hd_session_drain(run.session);
    int code = status == (world->rank == 1 ? HD_ERR_TASK : HD_ERR_PEER) && run.wrong == 0 ? 0 : 1;
    if (code)
        hd_log(HD_LOG_ERROR, "%d, %d wrong: %s", status, run.wrong,
               hd_session_get_message(run.session));
    close_run();
    return code;
}

TEST(a_rank_that_fails_shows_nothing, .runs = 2)
{
    for (int sequential = 0; sequential < 2; sequential++) {
        struct job job = {3, 1, sequential, HD_EXCHANGE_AUTO, 4, 2, 2, 24};
        ranks_run(2 + 2 * _i, run_failing, &job, "");
    }
}

/* Rank 0 never submits its second update. */
static int run_late(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    hd_log_set_level(HD_LOG_ERROR);
    run = (struct run){.fails_at = -1};
    HD_TRY(open_run(world, job, world->rank == 0 ? 0 : 2000000000));
    HD_TRY(submit_update(0));
    if (world->rank == 0) {
        hd_session_drain(run.session);
        for (int i = 0; i < 20000 && !hd_comm_is_aborted(run.comm); i++)
            usleep(1000);
        close_run();
        return 0;
    }
    HD_TRY(submit_update(1));
    int status = hd_session_drain(run.session);
    const char *message = hd_session_get_message(run.session);
    bool named = strstr(message, "rank 1 waits in #7 mean(grad.0)") &&
                 strstr(message, "rank 0 last finished #6 mean(grad.2)");
    if (!named)
        hd_log(HD_LOG_ERROR, "%d: %s", status, message);
    close_run();
    return status == HD_ERR_WATCHDOG && named ? 0 : 1;
}

TEST(a_late_rank_is_named_with_the_part)
{
    struct job job = {3, 1, false, HD_EXCHANGE_AUTO, 4, 2, 2, 24};
    ranks_run(2, run_late, &job, "");
}

static atomic_int *n_given_up; /* ranks whose watchdog has ended their run */

/* Rank 1 waits for its pair on host 0, which has nobody to tell it that the others gave up. */
static int run_late_pair(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    hd_log_set_level(HD_LOG_ERROR);
    run = (struct run){.fails_at = -1};
    HD_TRY(open_run(world, job, world->rank == 0 ? 0 : 2000000000));
    HD_TRY(submit_update(0));
    if (world->rank != 0)
        HD_TRY(submit_update(1));
    int status = hd_session_drain(run.session);
    const char *message = hd_session_get_message(run.session);
    bool named = world->rank != 1 || (strstr(message, "rank 1 waits in #13 mean(grad.0)") &&
                                      strstr(message, "rank 0 last finished #12 mean(grad.2)"));
    if (!named)
        hd_log(HD_LOG_ERROR, "%d: %s", status, message);
    if (world->rank != 0)
        atomic_fetch_add(n_given_up, 1);
    for (int ms = 0; world->rank == 0 && atomic_load(n_given_up) < 3 && ms < 60000; ms++)
        usleep(1000);
    close_run();
    return status == (world->rank == 0 ? HD_OK : HD_ERR_WATCHDOG) && named ? 0 : 1;
}

TEST(a_late_pair_is_named_with_the_part)
{
    struct job job = {3, 4, false, HD_EXCHANGE_HALVES, 16, 2, 2, 2};
    n_given_up = share_memory(sizeof *n_given_up);
    ranks_run(4, run_late_pair, &job, "");
}
