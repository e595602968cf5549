/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/simulate/model/cluster.h"

#include "runner/simulate/model/cluster_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <string.h>

/* -- The trace --------------------------------------------------------------------------------- */

static void trace_lane(const struct hd_simulation *simulation, int lane, const char *name)
{
    const struct hd_cluster *cluster = simulation->cluster;
    fprintf(cluster->trace,
            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":"
            "{\"name\":\"%s\"}}",
            cluster->traced, lane, name);
}

/* In the form of hd_trace_write, so that what reads a run's trace reads this one. */
static void trace_begin(const struct hd_simulation *simulation)
{
    const struct hd_cluster *cluster = simulation->cluster;
    if (cluster->traced < 0)
        return;
    fprintf(cluster->trace,
            "{\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
            "{\"name\":\"rank %d\"}}",
            cluster->traced, cluster->traced);
    for (int i = 0; i < cluster->workers + cluster->gpus; i++) {
        char name[32];
        const bool gpu = i >= cluster->workers;
        snprintf(name, sizeof name, gpu ? "GPU %d" : "worker %d", gpu ? i - cluster->workers : i);
        trace_lane(simulation, i, name);
    }
    for (int i = 0; i < cluster->submissions[cluster->traced]->channels; i++)
        trace_lane(simulation, cluster->workers + cluster->gpus + i, "collectives");
}

static void trace_event(const struct hd_rank *rank, int node, int lane, double begin, double end)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    const struct hd_submitted *at = &rank->submission->nodes[node];
    if (rank->number != cluster->traced)
        return;
    fprintf(cluster->trace,
            ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"iteration\":%d,\"shard\":%d,\"part\":%d,\"item\":%d,\"stage\":%d}}",
            rank->submission->names[at->name], rank->number, lane, begin * 1e6, (end - begin) * 1e6,
            at->iteration, at->shard, at->bucket, at->item, at->stage);
}

/* Workers for GPUs have the lanes behind the others. */
static int count_lanes(const struct hd_rank *rank)
{
    return rank->simulation->cluster->workers + rank->simulation->cluster->gpus;
}

/* -- Ready tasks ------------------------------------------------------------------------------- */

/* Tasks of higher priority come first, of the same priority those that became ready first. */
static bool is_before(const struct hd_rank *rank, struct hd_ready a, struct hd_ready b)
{
    const int pa = rank->submission->nodes[a.node].priority,
              pb = rank->submission->nodes[b.node].priority;
    return pa != pb ? pa > pb : a.order < b.order;
}

static void push_ready(struct hd_rank *rank, int node)
{
    struct hd_ready_list *list = &rank->ready[rank->submission->nodes[node].home];
    struct hd_ready *heap = list->heap, new = {node, rank->n_became_ready++};
    int i = list->n++;
    for (; i > 0 && is_before(rank, new, heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = new;
}

static int pop_ready(const struct hd_rank *rank, struct hd_ready_list *list)
{
    struct hd_ready *heap = list->heap;
    const int node = heap[0].node;
    const struct hd_ready last = heap[--list->n];
    int i = 0;
    for (int child; (child = 2 * i + 1) < list->n; i = child) {
        if (child + 1 < list->n && is_before(rank, heap[child + 1], heap[child]))
            child++;
        if (!is_before(rank, heap[child], last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return node;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static double get_now(const struct hd_rank *rank)
{
    return rank->simulation->cluster->network->now();
}

/* One dependence of a node has ended: the node `by` of this rank, or, HD_BY_SUBMISSION, that it is
 * submitted. */
static void release_node(struct hd_rank *rank, int node, int by)
{
    const struct hd_submitted *at = &rank->submission->nodes[node];
    if (--rank->left[node] > 0)
        return;
    rank->played[node].ready = get_now(rank);
    rank->played[node].cause = by;
    switch (at->kind) {
    case HD_SUBMITTED_TASK:
        if (hd_submitted_is_sliced(at))
            rank->background[rank->background_end++] = node;
        else
            push_ready(rank, node);
        break;
    case HD_SUBMITTED_SYNC:
        hd_rank_arrive(rank, node);
        break;
    case HD_SUBMITTED_WAIT:
        rank->played[node].end = get_now(rank);
        break;
    }
}

static void end_node(struct hd_rank *rank, int node)
{
    const struct hd_submission *submission = rank->submission;
    rank->played[node].end = get_now(rank);
    for (int i = submission->nodes[node].after; i < submission->nodes[node + 1].after; i++)
        release_node(rank, submission->after[i], node);
}

static void end_sync(struct hd_rank *rank, int node)
{
    const double now = get_now(rank);
    const int channel = (int)(rank->submission->nodes[node].sequence % rank->submission->channels);
    trace_event(rank, node, count_lanes(rank) + channel, rank->played[node].begin, now);
    hd_rank_mark_exposed(rank, now);
    rank->n_open--;
    end_node(rank, node);
}

/* -- Workers ----------------------------------------------------------------------------------- */

static void note_body(struct hd_worker *worker, int change)
{
    struct hd_rank *rank = worker->rank;
    const double now = get_now(rank);
    if (rank->bodies == 0)
        rank->busy_since_s = now;
    rank->bodies += change;
    if (rank->bodies == 0)
        rank->busy_union_s += now - rank->busy_since_s;
    if (worker->home != HD_HOST)
        return;
    if (rank->workers_busy == rank->simulation->cluster->workers)
        rank->full_union_s += now - rank->full_since_s;
    rank->workers_busy += change;
    rank->full_since_s = now;
}

static void advance(struct hd_rank *rank);

static void call_after(struct hd_worker *worker, double seconds,
                       void (*call)(void *arg, int64_t what))
{
    const struct hd_network *network = worker->rank->simulation->cluster->network;
    worker->idle = false;
    network->at(network->now() + seconds, call, worker, 0);
}

static void slice_ended(void *arg, int64_t what)
{
    struct hd_worker *worker = arg;
    struct hd_rank *rank = worker->rank;
    const int node = worker->node;
    const double now = get_now(rank), delay_s = rank->delay_s;
    (void)what;
    if (worker->home == HD_HOST && delay_s > 0) {
        rank->delay_s = 0;
        call_after(worker, delay_s, slice_ended);
        return;
    }
    note_body(worker, -1);
    *(worker->home == HD_HOST ? &rank->busy_s : &rank->gpu_busy_s) += now - worker->begin_s;
    trace_event(rank, node, worker->lane, worker->begin_s, now);
    worker->idle = true;
    worker->previous = node;
    rank->played[node].work -= worker->length;
    if (rank->played[node].work > 0)
        rank->background[rank->background_end++] = node;
    else
        end_node(rank, node);
    advance(rank);
}

static void run_node(struct hd_worker *worker, int node)
{
    enum { SLICE_MS = 5 };
    struct hd_rank *rank = worker->rank;
    struct hd_played *played = &rank->played[node];
    const double now = get_now(rank), start_s = rank->simulation->cluster->calibration->start_s;
    if (played->work <= 0) {
        played->work = hd_rank_draw_time(rank, node);
        played->begin = now;
        if (played->ready < now && worker->previous >= 0)
            played->cause = worker->previous;
    }
    const bool cut =
        hd_submitted_is_sliced(&rank->submission->nodes[node]) && played->work > SLICE_MS * 1e-3;
    worker->node = node;
    worker->length = cut ? SLICE_MS * 1e-3 : played->work;
    worker->begin_s = now + start_s;
    note_body(worker, 1);
    call_after(worker, start_s + worker->length, slice_ended);
}

static void submitted(void *arg, int64_t what)
{
    struct hd_worker *worker = arg;
    struct hd_rank *rank = worker->rank;
    (void)what;
    worker->idle = true;
    release_node(rank, rank->next++, HD_BY_SUBMISSION);
    advance(rank);
}

static void report_progress(const struct hd_rank *rank)
{
    const struct hd_cluster *cluster = rank->simulation->cluster;
    if (rank->number == 0 && cluster->progress)
        cluster->progress(cluster->progress_arg, rank->n_marks, rank->submission->n_marks - 1,
                          get_now(rank));
}

static void note_marks(struct hd_rank *rank)
{
    const struct hd_submission *submission = rank->submission;
    for (;
         rank->n_marks < submission->n_marks && submission->marks[rank->n_marks].node <= rank->next;
         rank->n_marks++) {
        report_progress(rank);
        if (rank->n_marks == rank->simulation->cluster->first_mark)
            rank->first =
                (struct hd_totals){get_now(rank), rank->exposed_s, rank->busy_s, rank->gpu_busy_s};
        if (rank->n_marks == submission->n_marks - 1)
            rank->last =
                (struct hd_totals){get_now(rank), rank->exposed_s, rank->busy_s, rank->gpu_busy_s};
    }
}

/* Returns whether the submitter has something to submit: not while it waits, nor at the end. */
static bool can_submit(struct hd_rank *rank)
{
    note_marks(rank);
    while (rank->next < rank->submission->n_nodes &&
           rank->submission->nodes[rank->next].kind == HD_SUBMITTED_WAIT) {
        if (!rank->waits)
            release_node(rank, rank->next, HD_BY_SUBMISSION);
        rank->waits = rank->left[rank->next] > 0;
        if (rank->waits)
            return false;
        rank->next++;
        note_marks(rank);
    }
    return rank->next < rank->submission->n_nodes;
}

static void find_work(struct hd_worker *worker)
{
    struct hd_rank *rank = worker->rank;
    if (worker->lane == 0 && can_submit(rank))
        call_after(worker, rank->simulation->cluster->calibration->submit_s, submitted);
    else if (worker->lane == 0 && rank->simulation->cluster->submits_only)
        return;
    else if (rank->ready[worker->home].n > 0)
        run_node(worker, pop_ready(rank, &rank->ready[worker->home]));
    else if (worker->home == HD_HOST && rank->background_begin < rank->background_end)
        run_node(worker, rank->background[rank->background_begin++]);
}

/* Ends the sync points that have been passed, and gives idle workers something to do. */
static void advance(struct hd_rank *rank)
{
    while (rank->n_passed > 0)
        end_sync(rank, rank->passed[--rank->n_passed]);
    for (int i = 0; i < count_lanes(rank); i++)
        if (rank->workers[i].idle)
            find_work(&rank->workers[i]);
}

/* On one host, workers find out between tasks; between hosts a thread waits for it. */
static void pass(void *arg, int64_t node)
{
    struct hd_rank *rank = arg;
    bool idle = rank->simulation->cluster->hosts.n > 1;
    rank->passed[rank->n_passed++] = (int)node;
    for (int i = 0; i < count_lanes(rank); i++)
        idle = idle || rank->workers[i].idle;
    if (idle)
        advance(rank);
}

static void begin_rank(void *arg, int64_t what)
{
    (void)what;
    advance(arg);
}

/* -- Making and releasing ---------------------------------------------------------------------- */

/* A background task may stand in the list once for each of its slices. */
static int64_t count_slices(const struct hd_rank *rank)
{
    double slices = 0;
    for (int i = 0; i < rank->submission->n_nodes; i++)
        if (hd_submitted_is_sliced(&rank->submission->nodes[i]))
            slices += 2 + hd_rank_draw_time(rank, i) / 5e-3;
    return (int64_t)slices + 1;
}

/* Tasks that are ready wait by home. */
static int make_ready_lists(struct hd_rank *rank)
{
    const int homes = 1 + rank->simulation->cluster->gpus;
    rank->ready = hd_alloc(homes, sizeof *rank->ready);
    if (!rank->ready)
        return HD_ERR_NOMEM;
    for (int home = 0; home < homes; home++) {
        int64_t n = 1;
        for (int i = 0; i < rank->submission->n_nodes; i++)
            n += rank->submission->nodes[i].home == home;
        rank->ready[home].heap = hd_alloc(n, sizeof *rank->ready[home].heap);
        if (!rank->ready[home].heap)
            return HD_ERR_NOMEM;
    }
    return HD_OK;
}

static int make_workers(struct hd_rank *rank)
{
    const int workers = rank->simulation->cluster->workers;
    rank->workers = hd_alloc(count_lanes(rank), sizeof *rank->workers);
    if (!rank->workers)
        return HD_ERR_NOMEM;
    for (int i = 0; i < count_lanes(rank); i++)
        rank->workers[i] = (struct hd_worker){.rank = rank,
                                              .lane = i,
                                              .home = i < workers ? HD_HOST : 1 + i - workers,
                                              .node = -1,
                                              .previous = -1,
                                              .idle = true};
    return HD_OK;
}

static int make_rank(struct hd_simulation *simulation, int number)
{
    const struct hd_cluster *cluster = simulation->cluster;
    struct hd_rank *rank = &simulation->list[number];
    const struct hd_submission *submission = cluster->submissions[number];
    const int64_t n = submission->n_nodes + 1;
    *rank = (struct hd_rank){.simulation = simulation,
                             .number = number,
                             .submission = submission,
                             .exchanges = cluster->exchanges[number]};
    HD_TRY(hd_rank_find_times(rank));
    HD_TRY(make_ready_lists(rank));
    HD_TRY(make_workers(rank));
    rank->left = hd_alloc(n, sizeof *rank->left);
    rank->played = hd_alloc(n, sizeof *rank->played);
    rank->background = hd_alloc(count_slices(rank), sizeof *rank->background);
    rank->posts = hd_alloc(submission->last_sequence + 1, sizeof *rank->posts);
    if (!rank->left || !rank->played || !rank->background || !rank->posts)
        return HD_ERR_NOMEM;
    for (int i = 0; i < submission->n_nodes; i++)
        rank->left[i] = submission->nodes[i].before + 1;
    return HD_OK;
}

static int make_ranks(struct hd_simulation *simulation)
{
    const struct hd_cluster *cluster = simulation->cluster;
    simulation->list = hd_alloc(cluster->ranks, sizeof *simulation->list);
    simulation->hosts = hd_alloc(cluster->hosts.n, sizeof *simulation->hosts);
    if (!simulation->list || !simulation->hosts)
        return HD_ERR_NOMEM;
    for (int i = 0; i < cluster->ranks; i++)
        HD_TRY(make_rank(simulation, i));
    for (int i = 0; i < cluster->hosts.n; i++) {
        simulation->hosts[i].arrived =
            hd_alloc(cluster->submissions[0]->last_sequence + 1, sizeof(int));
        if (!simulation->hosts[i].arrived)
            return HD_ERR_NOMEM;
    }
    return hd_meetings_create(simulation);
}

static void release(struct hd_simulation *simulation)
{
    for (int i = 0; simulation->list && i < simulation->cluster->ranks; i++) {
        struct hd_rank *rank = &simulation->list[i];
        hd_free(rank->owned_times);
        hd_free(rank->left);
        hd_free(rank->played);
        for (int home = 0; rank->ready && home <= simulation->cluster->gpus; home++)
            hd_free(rank->ready[home].heap);
        hd_free(rank->ready);
        hd_free(rank->background);
        hd_free(rank->workers);
        hd_free(rank->posts);
    }
    for (int i = 0; simulation->hosts && i < simulation->cluster->hosts.n; i++)
        hd_free(simulation->hosts[i].arrived);
    hd_meetings_release(simulation);
    hd_free(simulation->list);
    hd_free(simulation->hosts);
}

/* -- Results ----------------------------------------------------------------------------------- */

static int check_end(const struct hd_simulation *simulation)
{
    for (int i = 0; i < simulation->cluster->ranks; i++) {
        const struct hd_rank *rank = &simulation->list[i];
        if (rank->next < rank->submission->n_nodes || rank->n_open > 0)
            return hd_fail(HD_ERR_UNSUPPORTED,
                           "the simulation stands still: rank %d is at %s, %d sync points are open",
                           i,
                           rank->next < rank->submission->n_nodes
                               ? rank->submission->names[rank->submission->nodes[rank->next].name]
                               : "its end",
                           rank->n_open);
    }
    return HD_OK;
}

static struct hd_cluster_result summarize(const struct hd_simulation *simulation)
{
    const struct hd_cluster *cluster = simulation->cluster;
    const struct hd_submission *first = cluster->submissions[0];
    struct hd_cluster_result result = {
        .updates =
            first->marks[first->n_marks - 1].updates - first->marks[cluster->first_mark].updates,
        .seconds = simulation->list[0].last.at_s - simulation->list[0].first.at_s,
        .sent_bytes = simulation->sent_bytes};
    for (int i = 0; i < cluster->ranks; i++) {
        const struct hd_rank *rank = &simulation->list[i];
        result.exposed_s += (rank->last.exposed_s - rank->first.exposed_s) / cluster->ranks;
        result.busy_s += (rank->last.busy_s - rank->first.busy_s) / cluster->ranks;
        result.gpu_busy_s += (rank->last.gpu_busy_s - rank->first.gpu_busy_s) / cluster->ranks;
    }
    hd_critical_path_find(simulation, &result);
    return result;
}

static int simulate(struct hd_simulation *simulation, struct hd_cluster_result *result_p)
{
    const struct hd_cluster *cluster = simulation->cluster;
    HD_TRY(make_ranks(simulation));
    trace_begin(simulation);
    for (int i = 0; i < cluster->ranks; i++)
        cluster->network->at(0, begin_rank, &simulation->list[i], 0);
    cluster->network->run();
    if (cluster->traced >= 0)
        fprintf(cluster->trace, "\n]}\n");
    HD_TRY(check_end(simulation));
    *result_p = summarize(simulation);
    return HD_OK;
}

int hd_cluster_simulate(const struct hd_cluster *cluster, struct hd_cluster_result *result_p)
{
    struct hd_simulation simulation = {.cluster = cluster, .pass = pass};
    const int status = simulate(&simulation, result_p);
    release(&simulation);
    return status;
}
