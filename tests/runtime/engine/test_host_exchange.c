/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors that hosts add: in every way the bits of a single rank, one collective after another, by
 * ranks at different speeds. Halving visits every slice once, and sends as many bytes as a direct
 * exchange in fewer messages. */
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/comm/comm.h"
#include "runtime/engine/collective/halving.h"
#include "runtime/engine/collective/sharded_update.h"
#include "tests/harness/check.h"
#include "tests/runtime/comm/ranks.h"

#include <stdlib.h>

enum { MAX_RANKS = 16, COLLECTIVES = 12, SCRATCH = 1 << 20, BUFFER = 1 << 18, CHANNELS = 3 };

/* -- A flat type: elements, then their number of samples --------------------------------------- */

static int64_t vector_bytes(const struct hd_spec *spec, int bucket)
{
    (void)bucket;
    return (spec->elements + 1) * (int64_t)sizeof(float);
}

static void pack(const struct hd_spec *spec, int bucket, const void *data, void *vector)
{
    memcpy(vector, data, (size_t)vector_bytes(spec, bucket));
}

static void add(const struct hd_spec *spec, int bucket, enum hd_combine how, void *into,
                const void *other)
{
    (void)bucket, (void)how;
    for (int64_t i = 0; i <= spec->elements; i++)
        ((float *)into)[i] += ((const float *)other)[i];
}

static void unpack(const struct hd_spec *spec, int bucket, enum hd_combine how, const void *vector,
                   void *data)
{
    (void)how;
    memcpy(data, vector, (size_t)vector_bytes(spec, bucket));
}

static float weight(const struct hd_spec *spec, int bucket, const void *data, int64_t partial)
{
    (void)bucket, (void)partial;
    return ((const float *)data)[spec->elements];
}

static const struct hd_reduction reduction = {
    .bytes = vector_bytes, .pack = pack, .combine = add, .unpack = unpack};
static const struct hd_type type = {
    .name = "floats", .flat = true, .weight = weight, .reduction = &reduction};

static float value_of(int64_t shard, int64_t collective, int64_t i)
{
    const uint64_t key = hd_hash_mix((uint64_t)(shard * 64 + collective), (uint64_t)i);
    return (float)(key % 1000) * (key % 7 ? 0.001f : 100.0f);
}

static float sum_of(int64_t lo, int64_t n, int64_t collective, int64_t i)
{
    if (n == 1)
        return value_of(lo, collective, i);
    const float left = sum_of(lo, n / 2, collective, i);
    return left + sum_of(lo + n / 2, n - n / 2, collective, i);
}

static struct hd_spec make_spec(int64_t elements)
{
    return (struct hd_spec){.name = "floats",
                            .type = &type,
                            .bytes = (elements + 1) * (int64_t)sizeof(float),
                            .elements = elements,
                            .buckets = 1,
                            .partials = 1};
}

/* -- Sums -------------------------------------------------------------------------------------- */

struct job {
    int hosts, instances;
    bool sequential;
    enum hd_host_exchange exchange;
};

/* One collective of each length after the other, so that buffers are used again. */
static int64_t elements_of(int64_t collective)
{
    static const int64_t lengths[] = {7, 5000, 1023, 40001, 300};
    return lengths[collective % 5];
}

static void be_late(int rank, int64_t collective)
{
    const uint64_t key = hd_hash_mix((uint64_t)rank, (uint64_t)collective);
    usleep(key % 4 == 0 ? (useconds_t)(key % 900) : 0);
}

static int submit_sum(struct hd_session *session, const struct job *job, int64_t collective,
                      const struct hd_memory *in, struct hd_memory out)
{
    const struct hd_spec spec = make_spec(elements_of(collective));
    const struct hd_collective sum = {.verb = "sum",
                                      .name = "sum",
                                      .kind = HD_COLLECTIVE_REDUCE,
                                      .how = HD_SUM,
                                      .in_spec = &spec,
                                      .out_spec = &spec,
                                      .n_in = job->instances,
                                      .in = in,
                                      .out = out,
                                      .channel = (int)collective,
                                      .iteration = collective};
    HD_TRY(hd_submit_collective(session, &sum));
    return hd_session_drain(session);
}

static int add_all(struct hd_session *session, const struct job *job, int rank, int ranks)
{
    const int64_t shards = (int64_t)job->instances * ranks;
    struct hd_memory memory[3], *out = &memory[2]; /* two inputs, and the output */
    float *data[3];
    for (int i = 0; i < 3; i++) {
        memory[i].data = data[i] = hd_alloc(elements_of(3) + 1, sizeof(float));
        HD_TRY(hd_buffer_create(session, 1, 1, &memory[i].buffer));
    }
    int wrong = 0;
    for (int64_t c = 0; c < COLLECTIVES; c++) {
        for (int i = 0; i < job->instances; i++)
            for (int64_t e = 0; e <= elements_of(c); e++)
                data[i][e] = value_of((int64_t)rank * job->instances + i, c, e);
        be_late(rank, c);
        HD_TRY(submit_sum(session, job, c, memory, *out));
        for (int64_t e = 0; e <= elements_of(c); e++)
            wrong += data[2][e] != sum_of(0, shards, c, e);
    }
    for (int i = 0; i < 3; i++) {
        hd_buffer_destroy(memory[i].buffer);
        hd_free(data[i]);
    }
    return wrong > 0;
}

static int run_sums(const struct hd_world *world, void *arg)
{
    const struct job *job = arg;
    struct hd_rendezvous *rendezvous;
    struct hd_comm *comm;
    struct hd_session *session;
    HD_TRY(ranks_join(world, job->hosts, &(struct hd_comm_sizes){CHANNELS, BUFFER, 0}, &rendezvous,
                      &comm));
    const struct hd_session_options options = {.sequential = job->sequential,
                                               .workers = 1,
                                               .scheduler = "lws",
                                               .rank = world->rank,
                                               .ranks = world->world,
                                               .comm = comm,
                                               .exchange = job->exchange,
                                               .scratch_bytes = SCRATCH,
                                               .watchdog_ns = 60000000000};
    HD_TRY(hd_session_create(&options, &session));
    const int code = add_all(session, job, world->rank, world->world);
    if (hd_session_get_status(session) != HD_OK)
        hd_log(HD_LOG_ERROR, "%s", hd_session_get_message(session));
    hd_session_destroy(session);
    hd_rendezvous_destroy(rendezvous);
    hd_comm_destroy(comm);
    return code;
}

TEST(every_way_gives_the_bits_of_one_rank, .runs = 6)
{
    static const struct {
        int ranks, hosts, instances;
    } shapes[] = {{2, 2, 1}, {4, 4, 2}, {8, 4, 1}, {8, 8, 1}, {16, 8, 2}, {3, 3, 1}};
    for (int exchange = HD_EXCHANGE_AUTO; exchange <= (int)HD_EXCHANGE_HALVES; exchange++) {
        struct job job = {shapes[_i].hosts, shapes[_i].instances, exchange % 2 == _i % 2,
                          (enum hd_host_exchange)exchange};
        char what[32];
        snprintf(what, sizeof what, "exchange %d", exchange);
        ranks_run(shapes[_i].ranks, run_sums, &job, what);
    }
}

/* -- Slices ------------------------------------------------------------------------------------ */

static struct hd_comm *make_comm(int rank, int hosts, int ranks, int64_t area_bytes)
{
    const struct hd_comm_hosts shape = {hosts, ranks};
    struct hd_comm *comm;
    const struct hd_comm_sizes sizes = {1, BUFFER, area_bytes};
    ck_assert_int_eq(hd_comm_create_alone(rank, hosts * ranks, &shape, &sizes, &comm), 0);
    return comm;
}

TEST(every_slice_has_one_rank, .runs = 8)
{
    static const int hosts[] = {1, 2, 3, 4, 6, 8, 64, 256};
    static bool seen[4 * 256];
    for (int ranks = 1; ranks <= 4; ranks++) {
        struct hd_comm *comm = make_comm(0, hosts[_i], ranks, 0);
        memset(seen, 0, sizeof seen);
        for (int rank = 0; rank < hosts[_i] * ranks; rank++) {
            const int slice = hd_halving_get_slice(comm, rank);
            ck_assert_int_ge(slice, 0);
            ck_assert_int_lt(slice, hosts[_i] * ranks);
            ck_assert(!seen[slice]);
            seen[slice] = true;
            if (hosts[_i] == 1)
                ck_assert_int_eq(slice, rank);
        }
        hd_comm_destroy(comm);
    }
}

/* What two ranks keep together before a round, each keeps half of after it. */
TEST(pairs_halve_their_slices)
{
    enum { HOSTS = 64, RANKS = 2 };
    for (int rank = 0; rank < HOSTS * RANKS; rank++) {
        struct hd_comm *comm = make_comm(rank, HOSTS, RANKS, 0);
        const int rounds = hd_halving_count_rounds(comm);
        ck_assert_int_eq(1 << rounds, HOSTS);
        for (int k = 0; k < rounds; k++) {
            const int pair = hd_halving_get_pair(comm, k);
            const struct hd_slices before = hd_halving_get_slices(comm, rank, k);
            const struct hd_slices before_pair = hd_halving_get_slices(comm, pair, k);
            const struct hd_slices kept = hd_halving_get_slices(comm, rank, k + 1);
            const struct hd_slices sent = hd_halving_get_slices(comm, pair, k + 1);
            ck_assert_int_eq(pair, rank ^ RANKS << k); /* aligned blocks of hosts grow */
            ck_assert(before.lo == before_pair.lo && before.hi == before_pair.hi);
            ck_assert_int_eq(kept.hi - kept.lo, sent.hi - sent.lo);
            ck_assert_int_eq(kept.lo < sent.lo ? kept.lo : sent.lo, before.lo);
            ck_assert_int_eq(kept.lo < sent.lo ? sent.hi : kept.hi, before.hi);
            ck_assert_int_eq(kept.lo < sent.lo ? kept.hi : sent.hi,
                             kept.lo < sent.lo ? sent.lo : kept.lo);
        }
        ck_assert_int_eq(hd_halving_get_slices(comm, rank, rounds).lo,
                         hd_halving_get_slice(comm, rank));
        hd_comm_destroy(comm);
    }
}

/* -- Messages ---------------------------------------------------------------------------------- */

/* Counts what a rank would send of data longer than a count of samples. */
struct counter {
    struct hd_recorder recorder; /* the first member */
    int64_t messages, bytes;
};

static int ignore_task(struct hd_recorder *recorder, const struct hd_task *task)
{
    (void)recorder, (void)task;
    return HD_OK;
}

static int count_sent(struct hd_recorder *recorder, const struct hd_sync_point *point)
{
    struct counter *counter = (struct counter *)recorder;
    for (int i = 0; i < point->n_transfers; i++) {
        const struct hd_comm_transfer *transfer = &point->transfers[i];
        const bool counts = transfer->out && transfer->bytes > (int64_t)sizeof(float);
        counter->messages += counts;
        counter->bytes += counts ? transfer->bytes : 0;
    }
    return HD_OK;
}

static int use_nothing(struct hd_context *context, const struct hd_view *views, const void *args,
                       int64_t lo, int64_t hi, const float *sum, float count)
{
    (void)context, (void)views, (void)args, (void)lo, (void)hi, (void)sum, (void)count;
    return HD_OK;
}

static void submit_update(struct hd_session *session, const struct hd_spec *spec)
{
    static const char *const labels[] = {"mean"};
    char *area = hd_session_get_area(session);
    struct hd_memory in = {.data = area};
    struct hd_buffer *changed;
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &in.buffer), HD_OK);
    ck_assert_int_eq(hd_buffer_create(session, 1, 1, &changed), HD_OK);
    struct hd_sharded_update update = {.verb = "use",
                                       .name = "use",
                                       .labels = labels,
                                       .update_slice = use_nothing,
                                       .operands = spec,
                                       .n_in = 1,
                                       .in = &in,
                                       .n = 2};
    update.views[1] = (struct hd_view){.data = area + spec->bytes, .spec = spec};
    update.accesses[1] = (struct hd_access){changed, HD_ALL_BUCKETS, HD_ALL_PARTIALS, HD_UPDATE};
    update.wanted_whole[1] = true;
    ck_assert_int_eq(hd_submit_sharded_update(session, &update), HD_OK);
    hd_buffer_destroy(in.buffer);
    hd_buffer_destroy(changed);
}

static struct counter count_messages(int hosts, enum hd_host_exchange exchange, bool sharded)
{
    const struct hd_spec spec = make_spec((int64_t)hosts * HD_BLOCK);
    struct counter counter = {.recorder = {.task = ignore_task, .sync = count_sent}};
    struct hd_comm *comm = make_comm(1, hosts, 1, 3 * spec.bytes);
    struct hd_session *session;
    const struct hd_session_options options = {.sequential = true,
                                               .recorder = &counter.recorder,
                                               .workers = 1,
                                               .rank = 1,
                                               .ranks = hosts,
                                               .comm = comm,
                                               .exchange = exchange,
                                               .scratch_bytes = 64};
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    if (sharded) {
        submit_update(session, &spec);
    } else {
        const struct hd_collective sum = {.verb = "sum",
                                          .name = "sum",
                                          .kind = HD_COLLECTIVE_REDUCE,
                                          .in_spec = &spec,
                                          .out_spec = &spec};
        ck_assert_int_eq(hd_submit_collective(session, &sum), HD_OK);
    }
    hd_session_destroy(session);
    hd_comm_destroy(comm);
    return counter;
}

TEST(halving_sends_the_bytes_in_fewer_messages)
{
    for (int sharded = 0; sharded < 2; sharded++)
        for (int hosts = 4, rounds = 2; hosts <= 256; hosts *= 2, rounds++) {
            const struct counter direct = count_messages(hosts, HD_EXCHANGE_DIRECT, sharded);
            const struct counter halves = count_messages(hosts, HD_EXCHANGE_HALVES, sharded);
            ck_assert_int_eq(direct.messages, 2 * (hosts - 1));
            ck_assert_int_eq(halves.messages, 2 * rounds);
            const int64_t sliced = 2 * (hosts - 1) * HD_BLOCK * (int64_t)sizeof(float);
            if (sharded) {
                ck_assert_int_eq(direct.bytes, sliced);
                ck_assert_int_eq(halves.bytes, sliced);
            }
            /* A line more, which has the count. */
            ck_assert_int_ge(halves.bytes, sliced);
            ck_assert_int_le(halves.bytes, sliced + 2 * HD_ALIGNMENT * rounds);
        }
}

/* The estimate has few hosts exchange directly and many in halves. */
TEST(many_hosts_choose_halves)
{
    ck_assert_int_eq(count_messages(4, HD_EXCHANGE_AUTO, true).messages, 2 * 3);
    ck_assert_int_eq(count_messages(16, HD_EXCHANGE_AUTO, true).messages, 2 * 15);
    ck_assert_int_eq(count_messages(256, HD_EXCHANGE_AUTO, true).messages, 2 * 8);
    ck_assert_int_eq(count_messages(256, HD_EXCHANGE_AUTO, false).messages, 2 * 8);
}
