/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "runtime/base/tree.h"
#include "runtime/engine/collective/collective_internal.h"
#include "runtime/engine/collective/sharded_update_internal.h"

static const struct hd_comm *comm_of(const struct hd_update_bucket *bucket)
{
    return bucket->session->options.comm;
}

static int rank_of(const struct hd_update_bucket *bucket)
{
    return bucket->session->options.rank;
}

static int host_of(const struct hd_update_bucket *bucket)
{
    return hd_comm_get_host(comm_of(bucket));
}

/* -- Slices and their places ------------------------------------------------------------------- */

void *hd_update_get_place(const struct hd_session *session, int rank, const void *local)
{
    if (session->options.ranks == 1)
        return (void *)local;
    return hd_comm_get_area(session->options.comm, rank) +
           ((const char *)local - hd_session_get_area(session));
}

struct hd_elements hd_sharded_update_get_slice(const struct hd_session *session,
                                               const struct hd_spec *spec, int bucket, int rank)
{
    const int ranks = session->options.ranks;
    const int slice = ranks == 1 ? 0 : hd_halving_get_slice(session->options.comm, rank);
    int64_t lo, hi;
    hd_spec_get_bucket(spec, bucket, &lo, &hi);
    return hd_halving_cut(lo, hi, HD_BLOCK, (struct hd_slices){slice, slice + 1}, ranks);
}

struct hd_elements hd_update_get_slice(const struct hd_update_bucket *bucket, int rank)
{
    return hd_sharded_update_get_slice(bucket->session, bucket->update.operands, bucket->index,
                                       rank);
}

/* Returns the elements whose sums `rank` keeps in round k of A. */
static struct hd_elements find_kept(const struct hd_update_bucket *bucket, int rank, int k)
{
    const struct hd_comm *comm = comm_of(bucket);
    const struct hd_slices kept =
        hd_halving_get_kept(comm, rank, bucket->pairs ? k : HD_ALL_PARTNERS);
    return hd_halving_cut(bucket->lo, bucket->hi, HD_BLOCK, kept, hd_comm_count_ranks(comm));
}

/* Returns whether this rank meets its partner on a host in round k of A. */
static bool meets(const struct hd_update_bucket *bucket, int host, int k)
{
    return hd_halving_meets(comm_of(bucket), host, bucket->pairs ? k : HD_ALL_PARTNERS);
}

/* -- Adding operands --------------------------------------------------------------------------- */

static int64_t partial_stride(const struct hd_update_bucket *bucket)
{
    return bucket->update.operands->bytes / bucket->update.operands->partials /
           (int64_t)sizeof(float);
}

int64_t hd_update_count_local(const struct hd_update_bucket *bucket)
{
    return bucket->n_local * bucket->update.operands->partials;
}

/* Adds elements [lo, hi) of the operands of this host's shards. */
static void add_local(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum)
{
    hd_tree_add(bucket->n_local, bucket->local, bucket->update.operands->partials,
                partial_stride(bucket), lo, hi, sum);
}

/* Returns where this rank's sum for its partner on a host is in round k of A. Directly every
 * partner's slice of it is where no message arrives, at that slice of the memory for that partner's
 * operands. */
static float *find_sum(const struct hd_update_bucket *bucket, int host, int k)
{
    if (k == 0 && hd_update_count_local(bucket) == 1)
        return bucket->update.in[0].data;
    return bucket->pairs ? bucket->sum : (float *)bucket->group[host];
}

/* Directly hd_update_add adds the own slice, by halving the rounds go on with all slices. */
int hd_update_add_host(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct hd_update_bucket *bucket = args;
    const int own = host_of(bucket);
    bucket->counts[own] = hd_weights_add(bucket->update.operands, bucket->index,
                                         (const void *const *)bucket->local, bucket->n_local);
    for (int host = 0; host < bucket->groups && hd_update_count_local(bucket) > 1; host++) {
        const int partner = hd_comm_get_partner(comm_of(bucket), host);
        const struct hd_elements slice = hd_update_get_slice(bucket, partner);
        if (bucket->pairs || host != own)
            add_local(bucket, slice.lo, slice.hi, find_sum(bucket, host, 0) + slice.lo);
    }
    return HD_OK;
}

/* Adds in round k of A, by halving, the own sum and that of the pair. */
static void add_pair(const struct hd_update_bucket *bucket, int k, int64_t lo, int64_t hi,
                     float *sum)
{
    const float *both[] = {find_sum(bucket, 0, k), bucket->received};
    hd_tree_add(2, both, 1, 0, lo, hi, sum);
}

static float count_pair(const struct hd_update_bucket *bucket, int k)
{
    const int own = host_of(bucket);
    return bucket->counts[own] + bucket->counts[own ^ 1 << k];
}

int hd_update_add_half(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct hd_update_bucket *bucket = args;
    const int k = (int)context->item;
    const struct hd_elements kept = find_kept(bucket, rank_of(bucket), k);
    bucket->counts[host_of(bucket)] = count_pair(bucket, k);
    add_pair(bucket, k, kept.lo, kept.hi, bucket->sum + kept.lo);
    return HD_OK;
}

void hd_update_add(const struct hd_update_bucket *bucket, int64_t lo, int64_t hi, float *sum,
                   float *buffer)
{
    if (!bucket->by_host) {
        hd_tree_add(bucket->groups, bucket->group, bucket->update.operands->partials,
                    partial_stride(bucket), lo, hi, sum);
        return;
    }
    if (bucket->pairs) {
        add_pair(bucket, bucket->rounds - 1, lo, hi, sum);
        return;
    }
    for (int64_t host = 0; host < bucket->groups; host++)
        bucket->at[host] = bucket->group[host] + lo;
    if (hd_update_count_local(bucket) > 1) {
        add_local(bucket, lo, hi, buffer);
        bucket->at[host_of(bucket)] = buffer;
    }
    hd_tree_add(bucket->groups, bucket->at, 1, 0, 0, hi - lo, sum);
}

float hd_update_count(const struct hd_update_bucket *bucket)
{
    const float *counts = bucket->counts;
    float count;
    if (!bucket->by_host)
        return hd_weights_add(bucket->update.operands, bucket->index,
                              (const void *const *)bucket->group, bucket->groups);
    if (bucket->pairs)
        return count_pair(bucket, bucket->rounds - 1);
    hd_tree_add(1, &counts, bucket->groups, 1, 0, 1, &count);
    return count;
}

/* -- Transfers --------------------------------------------------------------------------------- */

/* A partner gets its part of this host's sum with the number of samples in it. */
int hd_update_list_operands(const struct hd_update_bucket *bucket, int k,
                            struct hd_comm_transfer *transfers)
{
    const int own = host_of(bucket);
    const struct hd_elements kept = find_kept(bucket, rank_of(bucket), k);
    int n = 0;
    for (int host = 0; host < bucket->groups; host++) {
        const int partner = hd_comm_get_partner(comm_of(bucket), host);
        void *there = bucket->pairs ? bucket->received : (float *)bucket->group[host];
        if (!meets(bucket, host, k))
            continue;
        transfers[n++] = hd_halving_make_transfer(partner, true, find_sum(bucket, host, k),
                                                  find_kept(bucket, partner, k));
        transfers[n++] = hd_halving_make_transfer(partner, true, bucket->counts,
                                                  (struct hd_elements){own, own + 1});
        transfers[n++] = hd_halving_make_transfer(partner, false, there, kept);
        transfers[n++] = hd_halving_make_transfer(partner, false, bucket->counts,
                                                  (struct hd_elements){host, host + 1});
    }
    return n;
}

/* A partner gets what this rank has of the results that every rank needs whole. By halving this
 * goes back: what was kept together with the pair in a round of A is brought together. */
int hd_update_list_results(const struct hd_update_bucket *bucket, int k,
                           struct hd_comm_transfer *transfers)
{
    const int back = bucket->rounds - 1 - k;
    int n = 0;
    for (int host = 0; host < bucket->groups; host++) {
        const int partner = hd_comm_get_partner(comm_of(bucket), host);
        for (int i = 1; i < bucket->update.n && meets(bucket, host, back); i++) {
            if (!bucket->update.wanted_whole[i])
                continue;
            void *here = bucket->update.views[i].data;
            void *there =
                hd_update_get_place(bucket->session, hd_update_find_results(bucket, partner), here);
            transfers[n++] = hd_halving_make_transfer(partner, true, here,
                                                      find_kept(bucket, rank_of(bucket), back));
            transfers[n++] =
                hd_halving_make_transfer(partner, false, there, find_kept(bucket, partner, back));
        }
    }
    return n;
}

/* All slices of a number come, by halving, to the rank of this host that has it. */
int hd_update_find_results(const struct hd_update_bucket *bucket, int rank)
{
    const struct hd_comm *comm = comm_of(bucket);
    return bucket->pairs ? hd_comm_get_first_rank(comm) + rank % hd_comm_count_host_ranks(comm)
                         : rank;
}

/* -- The choice -------------------------------------------------------------------------------- */

/* Lists where the operands of the shards of ranks [first, first + ranks) begin. */
static int list_shards(const struct hd_update_bucket *bucket, int first, int ranks,
                       const float **operands)
{
    int n = 0;
    for (int rank = first; rank < first + ranks; rank++)
        for (int i = 0; i < bucket->update.n_in; i++)
            operands[n++] = hd_update_get_place(bucket->session, rank, bucket->update.in[i].data);
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
        bucket->group[host] = hd_update_get_place(bucket->session, hd_comm_get_partner(comm, host),
                                                  bucket->update.in[0].data);
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
    bucket->by_host = options->ranks > 1 && hd_comm_count_hosts(options->comm) > 1;
    if (!bucket->by_host) {
        bucket->groups = list_shards(bucket, 0, options->ranks, bucket->group);
        return;
    }
    find_hosts(bucket);
    bucket->pairs = hd_message_choose_update(options, bytes) == HD_MESSAGE_HALVES;
    if (bucket->pairs)
        find_halves(bucket);
}
