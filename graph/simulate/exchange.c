/* SPDX-License-Identifier: Apache-2.0 */
/* Sync points of simulated ranks: who has arrived, and which messages are under way. */
#include "graph/simulate/cluster_internal.h"

static int get_host(const struct hd_rank *rank)
{
    return rank->number / rank->simulation->cluster->hosts.ranks;
}

static enum hd_sync_scope get_scope(const struct hd_rank *rank, int64_t sequence)
{
    return rank->submission->nodes[rank->posts[sequence].node].scope;
}

/* Lets a rank go on, that waited for `last` last. */
static void pass(struct hd_rank *rank, int64_t sequence, int last)
{
    const struct hd_network *network = rank->simulation->cluster->network;
    rank->played[rank->posts[sequence].node].last = last;
    network->at(network->now(), rank->simulation->pass, rank, 0);
}

/* The rank has arrived and its messages have ended. All ranks of a host go on together. */
static void complete(struct hd_rank *rank, int64_t sequence, int last)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    const int host = get_host(rank), first = host * cluster->hosts.ranks;
    if (get_scope(rank, sequence) == HD_SYNC_PAIRS) {
        pass(rank, sequence, last);
        return;
    }
    if (++rank->simulation->hosts[host].complete[sequence] < cluster->hosts.ranks)
        return;
    for (int i = 0; i < cluster->hosts.ranks; i++)
        pass(&rank->simulation->list[first + i], sequence, last);
}

static void end_message(struct hd_rank *rank, int64_t sequence, int last)
{
    struct hd_post *post = &rank->posts[sequence];
    if (--post->messages == 0 && post->arrived)
        complete(rank, sequence, last);
}

/* -- Messages ---------------------------------------------------------------------------------- */

/* A message is named by its sequence number and receiver. */
static int64_t pack(int64_t sequence, int to)
{
    return sequence * HD_WORLD_MAX + to;
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

static void send(struct hd_rank *from, struct hd_rank *to, int64_t sequence, int64_t bytes)
{
    from->simulation->sent_bytes += (double)bytes;
    from->simulation->cluster->network->send(get_host(from), get_host(to), (double)bytes,
                                             message_arrived, from, pack(sequence, to->number));
}

/* Starts the rank's messages, which wait for nobody: over sockets, UCX sends all at once. */
static void start_messages(void *arg, int64_t sequence)
{
    struct hd_rank *rank = arg;
    const struct hd_peers *exchanges = rank->exchanges;
    const int list = exchanges->of_sync[rank->submission->nodes[rank->posts[sequence].node].sync];
    const struct hd_peer_bytes *all = exchanges->list + exchanges->first[list];
    struct hd_post *post = &rank->posts[sequence];
    const int n = exchanges->n[list];
    post->arrived = true;
    post->messages += 2 * n;
    for (int i = 0; i < n; i++) {
        struct hd_rank *peer = &rank->simulation->list[all[i].peer];
        send(rank, peer, sequence, all[i].out_bytes);
    }
    if (post->messages == 0)
        complete(rank, sequence, rank->number);
}

static double get_cost(const struct hd_rank *rank, int node)
{
    const struct hd_peers *exchanges = rank->exchanges;
    const int list = exchanges->of_sync[rank->submission->nodes[node].sync];
    int messages = 0;
    for (int i = 0; i < exchanges->n[list]; i++) {
        const int n = exchanges->list[exchanges->first[list] + i].messages;
        messages += n > 2 ? n : 2; /* at least an empty one each way */
    }
    return rank->simulation->cluster->message_s * messages;
}

void hd_rank_arrive(struct hd_rank *rank, int node)
{
    const struct hd_network *network = rank->simulation->cluster->network;
    const int64_t sequence = rank->submission->nodes[node].sequence;
    const double now = network->now(), cost = get_cost(rank, node);
    rank->open = node;
    rank->played[node].begin = now;
    rank->busy_at_opening_s = hd_rank_get_busy_union(rank, now);
    rank->posts[sequence].node = node;
    if (cost > 0)
        network->at(now + cost, start_messages, rank, sequence);
    else
        start_messages(rank, sequence);
}
