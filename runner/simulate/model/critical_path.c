/* SPDX-License-Identifier: Apache-2.0 */

#include "runner/simulate/model/cluster_internal.h"

#include <stdlib.h>
#include <string.h>

static void add(struct hd_cluster_result *result, const char *name, bool message, double seconds)
{
    int i = 0;
    while (i < result->n_path &&
           (result->path[i].message != message || strcmp(result->path[i].name, name) != 0))
        i++;
    if (i == HD_PATH_NAMES || seconds <= 0)
        return;
    if (i == result->n_path)
        result->path[result->n_path++] = (struct hd_path_share){name, message, 0};
    result->path[i].seconds += seconds;
}

static int by_seconds(const void *a, const void *b)
{
    const struct hd_path_share *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Where the path is, seen from its end. */
struct place {
    const struct hd_rank *rank;
    int node;
    double until; /* what is later has been added */
};

static struct place find_end(const struct hd_simulation *simulation)
{
    struct place end = {.rank = &simulation->list[0]};
    for (int r = 0; r < simulation->cluster->ranks; r++) {
        const struct hd_rank *rank = &simulation->list[r];
        for (int i = 0; i < rank->submission->n_nodes; i++)
            if (!rank->submission->nodes[i].background && rank->played[i].end > end.until)
                end = (struct place){rank, i, rank->played[i].end};
    }
    return end;
}

/* A node that waited for its submission waited for all that was submitted since the submitter
 * waited before. */
static int find_wait(const struct hd_rank *rank, int node)
{
    node--;
    while (node >= 0 && rank->submission->nodes[node].kind != HD_SUBMITTED_WAIT)
        node--;
    return node;
}

/* Goes from a node to what it waited for last; `node` is then -1 at the start of the path. */
static void step_back(struct place *place, double since, struct hd_cluster_result *result)
{
    const struct hd_rank *rank = place->rank;
    const struct hd_submitted *node = &rank->submission->nodes[place->node];
    const struct hd_played *played = &rank->played[place->node];
    double begin = node->kind == HD_SUBMITTED_WAIT ? played->end : played->begin;
    if (node->kind == HD_SUBMITTED_SYNC) {
        const struct hd_rank *last = &rank->simulation->list[played->last];
        place->rank = last;
        place->node = last->posts[node->sequence].node;
        begin = last->played[place->node].begin;
    }
    if (node->kind != HD_SUBMITTED_WAIT)
        add(result, rank->submission->names[node->name], node->kind == HD_SUBMITTED_SYNC,
            place->until - (begin > since ? begin : since));
    place->until = begin;
    const int cause = place->rank->played[place->node].cause;
    place->node = cause == HD_BY_SUBMISSION ? find_wait(place->rank, place->node) : cause;
    const double ended = place->node >= 0 ? place->rank->played[place->node].end : 0;
    add(result, cause == HD_BY_SUBMISSION ? "submission" : "waiting for a worker", false,
        place->until - (ended > since ? ended : since));
    place->until = ended < place->until ? ended : place->until;
}

void hd_critical_path_find(const struct hd_simulation *simulation, struct hd_cluster_result *result)
{
    const double since = simulation->list[0].first.at_s;
    struct place place = find_end(simulation);
    while (place.node >= 0 && place.until > since)
        step_back(&place, since, result);
    qsort(result->path, (size_t)result->n_path, sizeof *result->path, by_seconds);
}
