/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/halving.h"
#include "runtime/engine/collective/sharded_update_internal.h"

/* -- Shared memory: the operands of all shards are added where they lie ------------------------ */

static int64_t partial_stride(const struct hd_update_bucket *bucket)
{
    return bucket->update.operands->bytes / bucket->update.operands->partials /
           (int64_t)sizeof(float);
}

static void add_shared(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                       float *buffer)
{
    (void)buffer;
    hd_tree_add(bucket->groups, bucket->group, bucket->update.operands->partials,
                partial_stride(bucket), lo, hi, sum);
}

static float partial_weights(const struct hd_update_bucket *bucket, const float *data, int64_t lo,
                             int64_t n)
{
    const struct hd_spec *spec = bucket->update.operands;
    if (n == 1)
        return spec->type->weight(spec, bucket->index, data, lo);
    float left = partial_weights(bucket, data, lo, n / 2);
    return left + partial_weights(bucket, data, lo + n / 2, n - n / 2);
}

static float group_weights(const struct hd_update_bucket *bucket, const float *const *group,
                           int64_t lo, int64_t n)
{
    if (n == 1)
        return partial_weights(bucket, group[lo], 0, bucket->update.operands->partials);
    float left = group_weights(bucket, group, lo, n / 2);
    return left + group_weights(bucket, group, lo + n / 2, n - n / 2);
}

static float count_shared(const struct hd_update_bucket *bucket)
{
    return group_weights(bucket, bucket->group, 0, bucket->groups);
}

static int find_at_owner(const struct hd_update_bucket *bucket, int rank)
{
    (void)bucket;
    return rank;
}

static const struct hd_update_ops shared_memory = {
    .add = add_shared, .count = count_shared, .find_results = find_at_owner};

/* -- Message passing: every host's operands are added before sums are sent --------------------- */

static const struct hd_comm *comm_of(const struct hd_update_bucket *bucket)
{
    return bucket->session->options.comm;
}

static int rank_of(const struct hd_update_bucket *bucket)
{
    return bucket->session->options.rank;
}

static int partner_on(const struct hd_update_bucket *bucket, int host)
{
    return hd_comm_get_partner(comm_of(bucket), host);
}

static int host_of(const struct hd_update_bucket *bucket)
{
    return hd_comm_get_host(comm_of(bucket));
}

bool hd_update_has_single_operand(const struct hd_update_bucket *bucket)
{
    return bucket->n_local * bucket->update.operands->partials == 1;
}

/* Adds elements [lo, hi) of the operands of this host's shards. */
static void add_local(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum)
{
    hd_tree_add(bucket->n_local, bucket->local, bucket->update.operands->partials,
                partial_stride(bucket), lo, hi, sum);
}

static float count_local(const struct hd_update_bucket *bucket)
{
    return group_weights(bucket, bucket->local, 0, bucket->n_local);
}

/* Lists the transfers with a partner by which it gets a part of this host's sum with the number of
 * samples in it, counts[own], and `there` a part of its sum and counts[other]. Returns how many. */
static int list_sums(const struct hd_update_bucket *bucket, int partner, void *sum,
                     struct hd_elements sent, int own, void *there, struct hd_elements received,
                     int other, struct hd_comm_transfer *transfers)
{
    const struct hd_elements own_count = {own, own + 1}, other_count = {other, other + 1};
    transfers[0] = hd_halving_make_transfer(partner, true, sum, sent);
    transfers[1] = hd_halving_make_transfer(partner, true, bucket->counts, own_count);
    transfers[2] = hd_halving_make_transfer(partner, false, there, received);
    transfers[3] = hd_halving_make_transfer(partner, false, bucket->counts, other_count);
    return 4;
}

/* Lists the transfers with a partner by which it gets elements of the results that every rank needs
 * whole, and the area of rank `at` others. Returns how many. */
static int list_results_of(const struct hd_update_bucket *bucket, int partner,
                           struct hd_elements sent, int at, struct hd_elements received,
                           struct hd_comm_transfer *transfers)
{
    int n = 0;
    for (int i = 1; i < bucket->update.n; i++) {
        if (!bucket->update.wanted_whole[i])
            continue;
        void *here = bucket->update.views[i].data;
        void *there = hd_update_get_place(bucket->session, at, here);
        transfers[n++] = hd_halving_make_transfer(partner, true, here, sent);
        transfers[n++] = hd_halving_make_transfer(partner, false, there, received);
    }
    return n;
}

/* -- Directly: each two partners at one sync point --------------------------------------------- */

/* Puts every partner's slice of the sum where no message arrives, at that slice of the memory for
 * that partner's operands. */
static int run_partial_sums(struct hd_context *context, const struct hd_view *views,
                            const void *args)
{
    (void)context, (void)views;
    const struct hd_update_bucket *bucket = args;
    const int hosts = hd_comm_count_hosts(comm_of(bucket)), own = host_of(bucket);
    bucket->counts[own] = count_local(bucket);
    for (int host = 0; host < hosts && !hd_update_has_single_operand(bucket); host++) {
        const int partner = partner_on(bucket, host);
        float *there = hd_update_get_place(bucket->session, partner, bucket->update.in[0]);
        const struct hd_elements slice = hd_update_get_slice(bucket, partner);
        if (host != own)
            add_local(bucket, slice.lo, slice.hi, there + slice.lo);
    }
    return HD_OK;
}

static void add_received(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                         float *buffer)
{
    for (int64_t host = 0; host < bucket->groups; host++)
        bucket->at[host] = bucket->group[host] + lo;
    if (!hd_update_has_single_operand(bucket)) {
        add_local(bucket, lo, hi, buffer);
        bucket->at[host_of(bucket)] = buffer;
    }
    hd_tree_add(bucket->groups, bucket->at, 1, 0, 0, hi - lo, sum);
}

static float count_received(const struct hd_update_bucket *bucket)
{
    const float *counts = bucket->counts;
    float count;
    hd_tree_add(1, &counts, bucket->groups, 1, 0, 1, &count);
    return count;
}

/* Sends each partner its slice of the host's sum with the number of samples in it. */
static int list_operands(const struct hd_update_bucket *bucket, int k,
                         struct hd_comm_transfer *transfers)
{
    (void)k;
    const int own = host_of(bucket);
    void *here = bucket->update.in[0];
    int n = 0;
    for (int host = 0; host < bucket->groups; host++) {
        const int partner = partner_on(bucket, host);
        void *there = hd_update_get_place(bucket->session, partner, here);
        void *sum = hd_update_has_single_operand(bucket) ? here : there;
        if (host == own)
            continue;
        n += list_sums(bucket, partner, sum, hd_update_get_slice(bucket, partner), own, there,
                       hd_update_get_slice(bucket, rank_of(bucket)), host, transfers + n);
    }
    return n;
}

/* Sends the own slices of the results that every rank needs whole. */
static int list_results(const struct hd_update_bucket *bucket, int k,
                        struct hd_comm_transfer *transfers)
{
    (void)k;
    int n = 0;
    for (int host = 0; host < bucket->groups; host++) {
        const int partner = partner_on(bucket, host);
        if (host != host_of(bucket))
            n += list_results_of(bucket, partner, hd_update_get_slice(bucket, rank_of(bucket)),
                                 partner, hd_update_get_slice(bucket, partner), transfers + n);
    }
    return n;
}

static const struct hd_update_ops direct = {.by_host = true,
                                            .add_local = run_partial_sums,
                                            .add = add_received,
                                            .count = count_received,
                                            .list_operands = list_operands,
                                            .list_results = list_results,
                                            .find_results = find_at_owner};

/* -- By halving: with one partner at each of several sync points ------------------------------- */

/* Returns the elements whose sums `rank` keeps after k rounds of A. */
static struct hd_elements find_kept(const struct hd_update_bucket *bucket, int rank, int k)
{
    const struct hd_comm *comm = comm_of(bucket);
    return hd_halving_cut(bucket->lo, bucket->hi, HD_BLOCK, hd_halving_get_slices(comm, rank, k),
                          hd_comm_count_ranks(comm));
}

static int run_local_sum(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct hd_update_bucket *bucket = args;
    const struct hd_elements kept = find_kept(bucket, rank_of(bucket), 0);
    bucket->counts[0] = count_local(bucket);
    if (!hd_update_has_single_operand(bucket))
        add_local(bucket, kept.lo, kept.hi, bucket->sum + kept.lo);
    return HD_OK;
}

/* Returns this rank's sum before round k. */
static float *get_sum(const struct hd_update_bucket *bucket, int k)
{
    return k == 0 && hd_update_has_single_operand(bucket) ? bucket->update.in[0] : bucket->sum;
}

static int list_half_of_sum(const struct hd_update_bucket *bucket, int k,
                            struct hd_comm_transfer *transfers)
{
    const int pair = hd_halving_get_pair(comm_of(bucket), k);
    return list_sums(bucket, pair, get_sum(bucket, k), find_kept(bucket, pair, k + 1), 0,
                     bucket->received, find_kept(bucket, rank_of(bucket), k + 1), 1, transfers);
}

static int run_add_half(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_update_bucket *bucket = args;
    const int k = (int)context->item;
    const float *both[] = {get_sum(bucket, k), bucket->received};
    const struct hd_elements kept = find_kept(bucket, rank_of(bucket), k + 1);
    bucket->counts[0] += bucket->counts[1];
    hd_tree_add(2, both, 1, 0, kept.lo, kept.hi, bucket->sum + kept.lo);
    return HD_OK;
}

static void add_last_half(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                          float *buffer)
{
    (void)buffer;
    const float *both[] = {get_sum(bucket, bucket->rounds - 1), bucket->received};
    hd_tree_add(2, both, 1, 0, lo, hi, sum);
}

static float count_both(const struct hd_update_bucket *bucket)
{
    return bucket->counts[0] + bucket->counts[1];
}

/* Goes back: what was kept together with the pair in round k of A is brought together. */
static int list_halves_of_results(const struct hd_update_bucket *bucket, int k,
                                  struct hd_comm_transfer *transfers)
{
    const int self = rank_of(bucket), back = bucket->rounds - 1 - k;
    const int pair = hd_halving_get_pair(comm_of(bucket), back);
    return list_results_of(bucket, pair, find_kept(bucket, self, back + 1), self,
                           find_kept(bucket, pair, back + 1), transfers);
}

/* All slices of a number came to the rank of this host that has it. */
static int find_on_host(const struct hd_update_bucket *bucket, int rank)
{
    const struct hd_comm *comm = comm_of(bucket);
    return hd_comm_get_first_rank(comm) + rank % hd_comm_count_host_ranks(comm);
}

static const struct hd_update_ops halving = {.by_host = true,
                                             .pairs = true,
                                             .add_local = run_local_sum,
                                             .add_round = run_add_half,
                                             .add = add_last_half,
                                             .count = count_both,
                                             .list_operands = list_half_of_sum,
                                             .list_results = list_halves_of_results,
                                             .find_results = find_on_host};

/* -- The choice -------------------------------------------------------------------------------- */

/* Lists where the operands of the shards of ranks [first, first + ranks) begin. */
static int list_shards(const struct hd_update_bucket *bucket, int first, int ranks,
                       const float **operands)
{
    int n = 0;
    for (int rank = first; rank < first + ranks; rank++)
        for (int i = 0; i < bucket->update.n_in; i++)
            operands[n++] = hd_update_get_place(bucket->session, rank, bucket->update.in[i]);
    return n;
}

/* Lists where the operands of this host's shards begin, and the sums of each host. */
static void find_hosts(struct hd_update_bucket *bucket)
{
    const struct hd_comm *comm = comm_of(bucket);
    bucket->n_local = list_shards(bucket, hd_comm_get_first_rank(comm),
                                  hd_comm_count_host_ranks(comm), bucket->local);
    bucket->groups = hd_comm_count_hosts(comm);
    for (int host = 0; host < bucket->groups; host++)
        bucket->group[host] =
            hd_update_get_place(bucket->session, partner_on(bucket, host), bucket->update.in[0]);
}

/* No message arrives in the memory for the operands of the first two partners by itself. */
static void find_halves(struct hd_update_bucket *bucket)
{
    float *const *place = (float *const *)bucket->group;
    const int own = host_of(bucket);
    bucket->rounds = hd_halving_count_rounds(comm_of(bucket));
    bucket->sum = place[own ^ 1];
    bucket->received = place[own ^ 2];
}

void hd_update_choose_way(struct hd_update_bucket *bucket)
{
    const struct hd_session_options *options = &bucket->session->options;
    const int64_t bytes = (bucket->hi - bucket->lo) * (int64_t)sizeof(float);
    bucket->rounds = 1;
    if (options->ranks == 1 || hd_comm_count_hosts(options->comm) == 1) {
        bucket->ops = &shared_memory;
        bucket->groups = list_shards(bucket, 0, options->ranks, bucket->group);
        return;
    }
    find_hosts(bucket);
    bucket->ops =
        hd_message_choose_update(options, bytes) == HD_MESSAGE_HALVES ? &halving : &direct;
    if (bucket->ops == &halving)
        find_halves(bucket);
}
