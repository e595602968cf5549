/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points of simulated ranks: who has arrived, and which messages are under way. */
#include "runner/simulate/model/cluster_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"

static int get_host(const struct hd_rank *rank)
{
    return rank->number / rank->simulation->cluster->hosts.ranks;
}

static const struct hd_peer_bytes *get_exchange(const struct hd_rank *rank, int node)
{
    return &rank->exchanges->list[rank->submission->nodes[node].sync];
}

/* Bytes go through sockets by a thread of the rank, which has no processor of its own. What a sync
 * point's bytes take longer than a worker was idle meanwhile delays the task that runs, or else the
 * end of the sync point; by how much is returned. */
static double move_bytes(struct hd_rank *rank, int node)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    const struct hd_peer_bytes *exchange = get_exchange(rank, node);
    const double idle_s = hd_rank_get_idle(rank, cluster->network->now()) - rank->played[node].idle;
    const double left_s =
        cluster->byte_s * (double)(exchange->out_bytes + exchange->in_bytes) / 2 - idle_s;
    if (left_s <= 0)
        return 0;
    if (rank->workers_busy < cluster->workers)
        return left_s;
    rank->delay_s += left_s;
    return 0;
}

/* Lets a rank go on, that waited for `last` last. */
static void pass(struct hd_rank *rank, int64_t sequence, int last)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    const int node = rank->posts[sequence].node;
    const double delay_s = cluster->hosts.n > 1 ? move_bytes(rank, node) : 0;
    rank->played[node].last = last;
    cluster->network->at(cluster->network->now() + delay_s, rank->simulation->pass, rank, node);
}

static void pass_all(struct hd_simulation *simulation, int first, int n, int64_t sequence, int last)
{
    for (int i = 0; i < n; i++)
        pass(&simulation->list[first + i], sequence, last);
}

/* -- On a host --------------------------------------------------------------------------------- */

static void arrive_on_host(struct hd_rank *rank, int64_t sequence)
{
    struct hd_simulation *simulation = rank->simulation;
    const int host = get_host(rank), ranks = simulation->cluster->hosts.ranks;
    if (++simulation->hosts[host].arrived[sequence] == ranks)
        pass_all(simulation, host * ranks, ranks, sequence, rank->number);
}

/* -- Pairs ------------------------------------------------------------------------------------- */

/* A message is named by its sequence number and receiver. */
static int64_t pack(int64_t sequence, int to)
{
    return sequence * HD_WORLD_MAX + to;
}

static void end_message(struct hd_rank *rank, int64_t sequence, int last)
{
    struct hd_post *post = &rank->posts[sequence];
    if (--post->messages == 0 && post->arrived)
        pass(rank, sequence, last);
}

static void message_arrived(void *arg, int64_t what)
{
    struct hd_rank *from = arg;
    struct hd_rank *to = &from->simulation->list[what % HD_WORLD_MAX];
    const int64_t sequence = what / HD_WORLD_MAX;
    const struct hd_post *sent = &from->posts[sequence], *received = &to->posts[sequence];
    const bool later =
        received->arrived && to->played[received->node].begin > from->played[sent->node].begin;
    const int last = later ? to->number : from->number;
    end_message(from, sequence, last);
    end_message(to, sequence, last);
}

static void send(struct hd_rank *from, int to, int64_t bytes, void (*call)(void *arg, int64_t what),
                 int64_t what)
{
    const struct hd_cluster *cluster = from->simulation->cluster;
    from->simulation->sent_bytes += (double)bytes;
    cluster->network->send(get_host(from), to / cluster->hosts.ranks, (double)bytes, call, from,
                           what);
}

/* The message to the other rank, and the one from it, end at both. */
static void send_to_peer(struct hd_rank *rank, int64_t sequence)
{
    struct hd_post *post = &rank->posts[sequence];
    const struct hd_peer_bytes *exchange = get_exchange(rank, post->node);
    post->messages += 2;
    send(rank, exchange->peer, exchange->out_bytes, message_arrived,
         pack(sequence, exchange->peer));
}

/* -- All ranks --------------------------------------------------------------------------------- */

/* All messages of a rank end together, as they share its link, and nobody goes on without those of
 * all ranks: even the last rank to arrive sends to everybody. */
static void flow_arrived(void *arg, int64_t sequence)
{
    struct hd_rank *from = arg;
    struct hd_simulation *simulation = from->simulation;
    struct hd_meeting *meeting = &simulation->meetings[sequence];
    const double now = simulation->cluster->network->now(),
                 begin = from->played[from->posts[sequence].node].begin;
    if (now > meeting->end || begin > meeting->last_begin) {
        meeting->last = from->number;
        meeting->last_begin = begin;
    }
    meeting->end = now;
    if (--meeting->flows > 0 || meeting->arrived < simulation->cluster->ranks)
        return;
    pass_all(simulation, 0, simulation->cluster->ranks, sequence, meeting->last);
    hd_traffic_release(&meeting->traffic);
}

static void send_to_all(struct hd_rank *rank, int64_t sequence)
{
    struct hd_simulation *simulation = rank->simulation;
    struct hd_meeting *meeting = &simulation->meetings[sequence];
    meeting->arrived++;
    if (simulation->cluster->hosts.n == 1) {
        if (meeting->arrived == simulation->cluster->ranks)
            pass_all(simulation, 0, simulation->cluster->ranks, sequence, rank->number);
        return;
    }
    for (int i = meeting->traffic.first[rank->number]; i != HD_NO_FLOW;
         i = meeting->traffic.flows[i].next)
        meeting->flows++;
    for (int i = meeting->traffic.first[rank->number]; i != HD_NO_FLOW;
         i = meeting->traffic.flows[i].next)
        send(rank, meeting->traffic.flows[i].to, meeting->traffic.flows[i].bytes, flow_arrived,
             sequence);
}

/* -- Arriving ---------------------------------------------------------------------------------- */

/* Starts the rank's messages, which wait for nobody: over sockets, UCX sends all at once. */
static void start_messages(void *arg, int64_t sequence)
{
    struct hd_rank *rank = arg;
    struct hd_post *post = &rank->posts[sequence];
    post->arrived = true;
    switch (rank->submission->nodes[post->node].scope) {
    case HD_SYNC_ALL_RANKS:
        send_to_all(rank, sequence);
        break;
    case HD_SYNC_HOST:
        arrive_on_host(rank, sequence);
        break;
    case HD_SYNC_PAIRS:
        send_to_peer(rank, sequence);
        break;
    }
}

void hd_rank_arrive(struct hd_rank *rank, int node)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    const int64_t sequence = rank->submission->nodes[node].sequence;
    const double now = cluster->network->now(),
                 cost = cluster->message_s * get_exchange(rank, node)->messages;
    rank->played[node].begin = now;
    rank->played[node].idle = hd_rank_get_idle(rank, now);
    hd_rank_mark_exposed(rank, now);
    rank->n_open++;
    rank->posts[sequence].node = node;
    if (cost > 0)
        cluster->network->at(now + cost, start_messages, rank, sequence);
    else
        start_messages(rank, sequence);
}

/* -- Planning ---------------------------------------------------------------------------------- */

/* The bytes of all sync points of all ranks. */
struct sums {
    int64_t *out, *in; /* [sequence numbers][ranks] */
    bool *all;         /* [sequence numbers]: it is a sync point of all ranks */
};

static void add_rank(const struct hd_rank *rank, const struct sums *sums)
{
    for (int i = 0; i < rank->submission->n_nodes; i++) {
        const struct hd_submitted *node = &rank->submission->nodes[i];
        if (node->kind != HD_SUBMITTED_SYNC || node->scope != HD_SYNC_ALL_RANKS)
            continue;
        const int64_t at = node->sequence * rank->simulation->cluster->ranks + rank->number;
        sums->out[at] = get_exchange(rank, i)->out_bytes;
        sums->in[at] = get_exchange(rank, i)->in_bytes;
        sums->all[node->sequence] = true;
    }
}

/* Where equal bytes go differs between sync points, so that in the mean they load a network as
 * messages to all do. */
static int plan(struct hd_simulation *simulation, const struct sums *sums, int64_t sequences)
{
    const struct hd_cluster *cluster = simulation->cluster;
    for (int64_t i = 0; i < sequences; i++) {
        const uint64_t others = (uint64_t)cluster->hosts.n - 1;
        if (sums->all[i])
            HD_TRY(hd_traffic_plan(cluster->hosts.n, cluster->hosts.ranks,
                                   sums->out + i * cluster->ranks, sums->in + i * cluster->ranks,
                                   1 + (int)(hd_hash_mix(0, (uint64_t)i) % others),
                                   &simulation->meetings[i].traffic));
    }
    return HD_OK;
}

int hd_meetings_create(struct hd_simulation *simulation)
{
    const struct hd_cluster *cluster = simulation->cluster;
    const int64_t n = cluster->submissions[0]->last_sequence + 1;
    simulation->meetings = hd_alloc(n, sizeof *simulation->meetings);
    if (!simulation->meetings)
        return HD_ERR_NOMEM;
    if (cluster->hosts.n == 1)
        return HD_OK;
    const struct sums sums = {hd_alloc(n * cluster->ranks, sizeof(int64_t)),
                              hd_alloc(n * cluster->ranks, sizeof(int64_t)),
                              hd_alloc(n, sizeof(bool))};
    int status = sums.out && sums.in && sums.all ? HD_OK : HD_ERR_NOMEM;
    for (int i = 0; i < cluster->ranks && status == HD_OK; i++)
        add_rank(&simulation->list[i], &sums);
    if (status == HD_OK)
        status = plan(simulation, &sums, n);
    hd_free(sums.out);
    hd_free(sums.in);
    hd_free(sums.all);
    return status;
}

void hd_meetings_release(struct hd_simulation *simulation)
{
    const int64_t n = simulation->cluster->submissions[0]->last_sequence + 1;
    for (int64_t i = 0; simulation->meetings && i < n; i++)
        hd_traffic_release(&simulation->meetings[i].traffic);
    hd_free(simulation->meetings);
}
