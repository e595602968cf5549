/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/trace/replay.h"

#include "runner/trace/derived.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -- Clock and network ------------------------------------------------------------------------- */
/* One link for each host, on which messages follow one another. */

struct call {
    double at;
    int64_t order;
    void (*call)(void *arg, int64_t what);
    void *arg;
    int64_t what;
};

static struct {
    struct call *heap;
    int64_t n, capacity, calls;
    double now_s, latency_s, bytes_per_s;
    double *out_free_s, *in_free_s; /* [hosts] */
    bool failed;                    /* there is no memory */
} network;

static bool is_before(const struct call *a, const struct call *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void call_at(double time, void (*call)(void *, int64_t), void *arg, int64_t what)
{
    const struct call new = {time, network.calls++, call, arg, what};
    if (hd_grow((void **)&network.heap, &network.capacity, network.n + 1, sizeof new) != HD_OK) {
        network.failed = true;
        return;
    }
    int64_t i = network.n++;
    for (; i > 0 && is_before(&new, &network.heap[(i - 1) / 2]); i = (i - 1) / 2)
        network.heap[i] = network.heap[(i - 1) / 2];
    network.heap[i] = new;
}

static struct call take_call(void)
{
    const struct call first = network.heap[0], last = network.heap[--network.n];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < network.n; i = child) {
        if (child + 1 < network.n && is_before(&network.heap[child + 1], &network.heap[child]))
            child++;
        if (!is_before(&network.heap[child], &last))
            break;
        network.heap[i] = network.heap[child];
    }
    network.heap[i] = last;
    return first;
}

static void send(int from, int to, double bytes, void (*call)(void *arg, int64_t what), void *arg,
                 int64_t what)
{
    double *out = &network.out_free_s[from], *in = &network.in_free_s[to];
    const double begin = fmax(network.now_s, fmax(*out, *in));
    *out = *in = begin + (network.bytes_per_s > 0 ? bytes / network.bytes_per_s : 0);
    call_at(*out + network.latency_s, call, arg, what);
}

static double get_now(void)
{
    return network.now_s;
}

static void run(void)
{
    while (network.n > 0 && !network.failed) {
        const struct call call = take_call();
        network.now_s = call.at;
        call.call(call.arg, call.what);
    }
}

/* -- Which iterations -------------------------------------------------------------------------- */

static const struct hd_trace_iteration *find_iteration(const struct hd_trace_file *trace, int rank,
                                                       int64_t iteration)
{
    for (int64_t i = 0; i < trace->n_iterations; i++)
        if (trace->iterations[i].rank == rank && trace->iterations[i].iteration == iteration)
            return &trace->iterations[i];
    return NULL;
}

/* An iteration can be the first if the trace has its tasks, and their events: lanes that were full
 * begin late. */
static bool is_whole(const struct hd_trace_file *trace, const struct hd_trace_iteration *at)
{
    return hd_trace_file_find_task(trace, at->rank, at->number) &&
           (!trace->cut || at->at_us >= trace->begin_us);
}

/* Stores the range that all ranks have, without the first ones that make no updates. */
static void choose(const struct hd_trace_file *trace, int64_t *first_p, int64_t *end_p)
{
    enum { TASKS_MAX = 20000 };
    *first_p = 0;
    *end_p = INT64_MAX;
    for (int rank = 0; rank < trace->ranks; rank++) {
        int64_t first = INT64_MAX, last = -1;
        int newest = 0;
        for (int64_t i = 0; i < trace->n_iterations; i++)
            if (trace->iterations[i].rank == rank) {
                last = trace->iterations[i].iteration;
                newest = trace->iterations[i].number;
            }
        for (int64_t i = trace->n_iterations - 1; i >= 0; i--) {
            const struct hd_trace_iteration *at = &trace->iterations[i];
            if (at->rank == rank && is_whole(trace, at) && at->iteration < first &&
                newest - at->number <= TASKS_MAX / trace->ranks &&
                (at->updates > 0 || trace->iterations[trace->n_iterations - 1].updates == 0))
                first = at->iteration;
        }
        *first_p = first > *first_p ? first : *first_p;
        *end_p = last < *end_p ? last : *end_p;
    }
}

/* -- A rank ------------------------------------------------------------------------------------ */

/* Lists what comes after each node, of what lies between the two. */
static int list_after(const struct hd_trace_file *trace, struct hd_replayed *rank)
{
    struct hd_submission *submission = &rank->submission;
    const struct hd_trace_task *tasks = rank->first;
    const int n = submission->n_nodes;
    int64_t n_edges = 0;
    int(*edges)[2] = hd_alloc(tasks[n].before - tasks[0].before, sizeof *edges);
    if (!edges)
        return HD_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        for (int64_t k = tasks[i].before; k < tasks[i + 1].before; k++)
            if (trace->before[k] >= tasks->number) {
                edges[n_edges][0] = trace->before[k] - tasks->number;
                edges[n_edges++][1] = i;
                submission->nodes[i].before++;
            }
    const int status = hd_submission_list_after(submission, (const int(*)[2])edges, n_edges);
    hd_free(edges);
    return status;
}

static int copy_marks(const struct hd_trace_file *trace, int number, int64_t first, int64_t end,
                      struct hd_replayed *rank)
{
    struct hd_submission *submission = &rank->submission;
    submission->marks = hd_alloc(end - first + 1, sizeof *submission->marks);
    if (!submission->marks)
        return HD_ERR_NOMEM;
    for (int64_t i = first; i <= end; i++) {
        const struct hd_trace_iteration *at = find_iteration(trace, number, i);
        if (at)
            submission->marks[submission->n_marks++] = (struct hd_iteration_mark){
                .node = at->number - rank->first->number, .updates = at->updates};
    }
    return HD_OK;
}

/* Sequence numbers count from `sequence` on. */
static int copy_rank(const struct hd_trace_file *trace, int number, int64_t first, int64_t end,
                     int64_t sequence, struct hd_replayed *rank)
{
    struct hd_submission *submission = &rank->submission;
    const struct hd_trace_iteration *begin = find_iteration(trace, number, first),
                                    *last = find_iteration(trace, number, end);
    rank->first = hd_trace_file_find_task(trace, number, begin->number);
    const int n = submission->n_nodes = last->number - begin->number;
    submission->channels = 1;
    submission->nodes = hd_alloc(n + 1, sizeof *submission->nodes);
    rank->exchanges.list = hd_alloc(n, sizeof *rank->exchanges.list);
    rank->seconds = hd_alloc(n, sizeof *rank->seconds);
    submission->names = hd_alloc(trace->n_names + 1, sizeof *submission->names);
    if (!submission->nodes || !rank->exchanges.list || !rank->seconds || !submission->names)
        return HD_ERR_NOMEM;
    for (int i = 0; i < trace->n_names; i++)
        submission->names[i] = (char *)trace->sums[i].name;
    submission->n_names = trace->n_names;
    for (int i = 0; i < n; i++) {
        struct hd_submitted *node = &submission->nodes[i];
        *node = rank->first[i].at;
        if (node->kind != HD_SUBMITTED_SYNC)
            continue;
        node->sync = submission->n_syncs++;
        node->sequence -= sequence;
        rank->exchanges.list[rank->exchanges.n++] = rank->first[i].exchange;
        if (node->sequence > submission->last_sequence)
            submission->last_sequence = node->sequence;
    }
    HD_TRY(copy_marks(trace, number, first, end, rank));
    return list_after(trace, rank);
}

static int64_t find_first_sequence(const struct hd_trace_file *trace, int64_t first)
{
    int64_t sequence = INT64_MAX;
    for (int64_t i = 0; i < trace->n_tasks; i++) {
        const struct hd_trace_iteration *begin =
            trace->tasks[i].at.kind == HD_SUBMITTED_SYNC && trace->tasks[i].at.sequence < sequence
                ? find_iteration(trace, trace->tasks[i].rank, first)
                : NULL;
        if (begin && trace->tasks[i].number >= begin->number)
            sequence = trace->tasks[i].at.sequence;
    }
    return sequence == INT64_MAX ? 0 : sequence;
}

/* -- What a task costs beside its body --------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double find_median(double *values, int64_t n)
{
    if (n > 0)
        qsort(values, (size_t)n, sizeof *values, by_value);
    return n > 0 ? values[n / 2] * 1e-6 : 0;
}

/* The submitter submits task after task, unless it waits. */
static double measure_submitting(const struct hd_replayed *rank, double *gaps)
{
    int64_t n = 0;
    for (int i = 1; i < rank->submission.n_nodes; i++)
        if (rank->first[i].at.kind != HD_SUBMITTED_WAIT &&
            rank->first[i - 1].at.kind != HD_SUBMITTED_WAIT)
            gaps[n++] = rank->first[i].at_us - rank->first[i - 1].at_us;
    return find_median(gaps, n);
}

/* A worker starts a task that is ready when it has ended another. */
static double measure_starting(const struct hd_replay *replay, double *gaps, double *ends)
{
    const struct hd_trace_file *trace = replay->trace;
    int64_t n = 0;
    for (int64_t i = 0; i < trace->n_events; i++) {
        const struct hd_trace_event *event = &trace->events[i];
        double *end = &ends[event->lane];
        if (trace->lanes[event->lane].collectives || event->task < 0 ||
            event->begin_us < replay->begin_us)
            continue;
        if (hd_trace_find_ready(trace, &trace->tasks[event->task]) <= *end)
            gaps[n++] = fmax(event->begin_us - *end, 0);
        *end = event->end_us;
    }
    return find_median(gaps, n);
}

static int measure_overheads(struct hd_replay *replay)
{
    const struct hd_trace_file *trace = replay->trace;
    double *gaps = hd_alloc(trace->n_events + trace->n_tasks, sizeof *gaps),
           *ends = hd_alloc(trace->n_lanes, sizeof *ends);
    if (gaps && ends) {
        replay->submit_s = measure_submitting(&replay->list[0], gaps);
        replay->start_s = measure_starting(replay, gaps, ends);
    }
    const int status = gaps && ends ? HD_OK : HD_ERR_NOMEM;
    hd_free(gaps);
    hd_free(ends);
    return status;
}

/* -- Making, playing and releasing ------------------------------------------------------------- */

static int fill(const struct hd_trace_file *trace, struct hd_replay *replay)
{
    int64_t first, end;
    choose(trace, &first, &end);
    for (int rank = 0; rank < trace->ranks; rank++)
        if (end - first < HD_REPLAY_ITERATIONS_MIN || trace->n_tasks == 0 ||
            !find_iteration(trace, rank, first) || !find_iteration(trace, rank, end))
            return HD_OK;
    replay->list = hd_alloc(trace->ranks, sizeof *replay->list);
    if (!replay->list)
        return HD_ERR_NOMEM;
    const int64_t sequence = find_first_sequence(trace, first);
    int64_t last_sequence = 0;
    for (int rank = 0; rank < trace->ranks; rank++) {
        HD_TRY(copy_rank(trace, rank, first, end, sequence, &replay->list[rank]));
        last_sequence = (int64_t)fmax((double)last_sequence,
                                      (double)replay->list[rank].submission.last_sequence);
    }
    for (int rank = 0; rank < trace->ranks; rank++)
        replay->list[rank].submission.last_sequence = last_sequence;
    replay->iterations = end - first;
    const struct hd_trace_iteration *begin = find_iteration(trace, 0, first),
                                    *last = find_iteration(trace, 0, end);
    replay->begin_us = begin->at_us;
    replay->end_us = last->at_us;
    replay->updates = last->updates - begin->updates;
    return measure_overheads(replay);
}

int hd_replay_create(const struct hd_trace_file *trace, struct hd_replay *replay_p)
{
    *replay_p = (struct hd_replay){.trace = trace};
    const int status = fill(trace, replay_p);
    if (status != HD_OK)
        hd_replay_release(replay_p);
    return status;
}

void hd_replay_release(struct hd_replay *replay)
{
    for (int rank = 0; replay->list && rank < replay->trace->ranks; rank++) {
        struct hd_replayed *one = &replay->list[rank];
        hd_free(one->submission.nodes);
        hd_free(one->submission.after);
        hd_free(one->submission.names);
        hd_free(one->submission.marks);
        hd_free(one->exchanges.list);
        hd_free(one->seconds);
    }
    hd_free(replay->list);
    *replay = (struct hd_replay){0};
}

static void set_times(struct hd_replay *replay, int free)
{
    for (int rank = 0; rank < replay->trace->ranks; rank++) {
        const struct hd_replayed *one = &replay->list[rank];
        for (int i = 0; i < one->submission.n_nodes; i++)
            one->seconds[i] =
                one->submission.nodes[i].name == free ? 0 : one->first[i].work_us * 1e-6;
    }
}

static int play(struct hd_replay *replay, const struct hd_replay_change *change,
                const struct hd_submission **submissions, const struct hd_peers **exchanges,
                const double **seconds, double *seconds_p)
{
    static const struct hd_network functions = {call_at, send, get_now, run};
    const struct hd_trace_file *trace = replay->trace;
    enum { MANY_WORKERS = 64 };
    const double message_s = 5e-6; /* as runner simulate takes it */
    struct hd_cluster_result result;
    const struct hd_calibration calibration = {
        .submit_s = change->no_overheads ? 0 : replay->submit_s,
        .start_s = change->no_overheads ? 0 : replay->start_s};
    for (int rank = 0; rank < trace->ranks; rank++) {
        submissions[rank] = &replay->list[rank].submission;
        exchanges[rank] = &replay->list[rank].exchanges;
        seconds[rank] = replay->list[rank].seconds;
    }
    const struct hd_cluster cluster = {
        .network = &functions,
        .ranks = trace->ranks,
        .workers = change->many_workers ? MANY_WORKERS : trace->workers - trace->gpus,
        .submits_only = change->many_workers,
        .hosts = trace->hosts,
        .submissions = submissions,
        .exchanges = exchanges,
        .calibration = &calibration,
        .seconds = seconds,
        .gpus = trace->gpus,
        .message_s = change->no_network ? 0 : message_s,
        .traced = -1};
    const int status = hd_cluster_simulate(&cluster, &result);
    if (network.failed) /* which leaves the simulation standing still */
        return HD_ERR_NOMEM;
    if (status == HD_OK)
        *seconds_p = result.seconds;
    return status;
}

int hd_replay_run(struct hd_replay *replay, const struct hd_replay_change *change,
                  double *seconds_p)
{
    const int ranks = replay->trace->ranks, hosts = replay->trace->hosts.n;
    const void **lists = hd_alloc(3 * (int64_t)ranks, sizeof *lists);
    memset(&network, 0, sizeof network);
    network.out_free_s = hd_alloc(2 * (int64_t)hosts, sizeof(double));
    int status = lists && network.out_free_s ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK) {
        network.in_free_s = network.out_free_s + hosts;
        network.latency_s = change->no_network ? 0 : replay->latency_s;
        network.bytes_per_s = change->no_network ? 0 : replay->bytes_per_s;
        set_times(replay, change->free);
        status = play(replay, change, (const struct hd_submission **)lists,
                      (const struct hd_peers **)lists + ranks, (const double **)lists + 2 * ranks,
                      seconds_p);
    }
    hd_free(network.out_free_s);
    hd_free(network.heap);
    hd_free(lists);
    return status;
}
