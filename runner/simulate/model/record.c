/* SPDX-License-Identifier: Apache-2.0 */
/* Records what the executor of a rank submits. */
#include "graph/execute/execute.h"
#include "runner/simulate/model/record_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/device_comm.h"
#include "runtime/engine/submit.h"

#include <string.h>

/* Before the first update a run may only collect. */
enum { ITERATIONS_MAX = 100000 };

static struct hd_recording *get_recording(struct hd_recorder *recorder)
{
    return (struct hd_recording *)recorder;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

static int find_name(struct hd_recording *recording, const char *name, int *index_p)
{
    struct hd_submission *submission = recording->submission;
    for (int i = 0; i < submission->n_names; i++)
        if (strcmp(submission->names[i], name) == 0) {
            *index_p = i;
            return HD_OK;
        }
    HD_TRY(hd_grow((void **)&submission->names, &recording->names_capacity, submission->n_names + 1,
                   sizeof *submission->names));
    submission->names[submission->n_names] = hd_strdup(name);
    if (!submission->names[submission->n_names])
        return HD_ERR_NOMEM;
    *index_p = submission->n_names++;
    return HD_OK;
}

static int add_edges(struct hd_recording *recording, const int *before, int64_t n)
{
    struct hd_submission *submission = recording->submission;
    HD_TRY(hd_grow((void **)&recording->edges, &recording->edges_capacity, recording->n_edges + n,
                   sizeof *recording->edges));
    for (int64_t i = 0; i < n; i++) {
        int *edge = recording->edges[recording->n_edges++];
        edge[0] = before[i];
        edge[1] = recording->base + submission->n_nodes;
    }
    submission->nodes[submission->n_nodes].before = (int)n;
    return HD_OK;
}

static int begin_node(struct hd_recording *recording, const char *name,
                      const struct hd_submitted *node)
{
    struct hd_submission *submission = recording->submission;
    HD_TRY(hd_grow((void **)&submission->nodes, &recording->nodes_capacity, submission->n_nodes + 2,
                   sizeof *submission->nodes));
    submission->nodes[submission->n_nodes] = *node;
    if (recording->observes)
        submission->nodes[submission->n_nodes].at_ns = hd_clock_get_ns();
    return find_name(recording, name, &submission->nodes[submission->n_nodes].name);
}

static struct hd_recorded_group *find_group(struct hd_recording *recording,
                                            const struct hd_task_group *group)
{
    for (int i = 0; i < recording->n_groups; i++)
        if (recording->groups[i].group == group)
            return &recording->groups[i];
    if (recording->n_groups == HD_GROUPS_MAX)
        return NULL;
    recording->groups[recording->n_groups].group = group;
    return &recording->groups[recording->n_groups++];
}

/* Moves what is left of a list behind its first elements to its start; an empty list may have no
 * memory. */
static void drop_first(void *list, int64_t dropped, int64_t left, size_t bytes)
{
    if (left > 0)
        memmove(list, (char *)list + (size_t)dropped * bytes, (size_t)left * bytes);
}

/* Forgets the oldest HD_KEPT_NODES nodes. */
static void forget(struct hd_recording *recording)
{
    struct hd_submission *submission = recording->submission;
    int64_t edges = 0;
    int syncs = 0;
    int marks = 0;
    for (int i = 0; i < HD_KEPT_NODES; i++)
        syncs += submission->nodes[i].kind == HD_SUBMITTED_SYNC;
    recording->base += HD_KEPT_NODES;
    submission->n_nodes -= HD_KEPT_NODES;
    drop_first(submission->nodes, HD_KEPT_NODES, submission->n_nodes, sizeof *submission->nodes);
    for (int i = 0; i < submission->n_nodes; i++)
        submission->nodes[i].sync -= syncs;
    submission->n_syncs -= syncs;
    recording->exchanges->n -= syncs;
    drop_first(recording->exchanges->list, syncs, recording->exchanges->n,
               sizeof *recording->exchanges->list);
    while (edges < recording->n_edges && recording->edges[edges][1] < recording->base)
        edges++;
    recording->n_edges -= edges;
    drop_first(recording->edges, edges, recording->n_edges, sizeof *recording->edges);
    while (marks < submission->n_marks && submission->marks[marks].node < recording->base)
        marks++;
    submission->n_marks -= marks;
    drop_first(submission->marks, marks, submission->n_marks, sizeof *submission->marks);
}

static void count_node(struct hd_recording *recording)
{
    if (++recording->submission->n_nodes == 2 * HD_KEPT_NODES && recording->observes)
        forget(recording);
}

/* Ends the node that was begun: it depends on what its accesses say, and belongs to a group. */
static int end_node(struct hd_recording *recording, const struct hd_access *accesses, int n,
                    const void *token, const struct hd_task_group *of)
{
    struct hd_submission *submission = recording->submission;
    const int *before, number = recording->base + submission->n_nodes;
    int n_before;
    HD_TRY(hd_dependences_find(recording->dependences, number, accesses, n, token, &before,
                               &n_before));
    HD_TRY(add_edges(recording, before, n_before));
    if (of) {
        struct hd_recorded_group *group = find_group(recording, of);
        if (!group)
            return hd_fail(HD_ERR_UNSUPPORTED, "more than %d task groups", HD_GROUPS_MAX);
        HD_TRY(
            hd_grow((void **)&group->nodes, &group->capacity, group->n + 1, sizeof *group->nodes));
        group->nodes[group->n++] = number;
    }
    count_node(recording);
    return HD_OK;
}

/* The addresses of this and of channels stand for the tokens of the engine. */
static const char log_token;

/* Returns the number of a shard on this rank; -1: it is none of its shards. */
static int find_shard(const struct hd_recording *recording, int64_t shard)
{
    return shard < recording->first_shard ? -1 : (int)(shard - recording->first_shard);
}

static int record_task(struct hd_recorder *recorder, const struct hd_task *task)
{
    struct hd_recording *recording = get_recording(recorder);
    const struct hd_context *context = &task->context;
    const struct hd_submitted node = {.kind = HD_SUBMITTED_TASK,
                                      .iteration = (int)context->iteration,
                                      .shard = find_shard(recording, context->shard),
                                      .bucket = task->n > 0 ? task->views[0].bucket : 0,
                                      .item = (int)context->item,
                                      .stage = (int)context->stage,
                                      .priority = task->priority,
                                      .home = task->home,
                                      .background = task->background,
                                      .waits = task->waits,
                                      .copies = task->home != HD_HOST && task->n == 2 &&
                                                strcmp(task->verb, "transfer") == 0,
                                      .volume = task->volume};
    HD_TRY(begin_node(recording, task->name, &node));
    return end_node(recording, task->accesses, task->n_accesses,
                    task->logs ? (const void *)&log_token : task->channel, task->group);
}

static int record_wait(struct hd_recorder *recorder, const struct hd_task_group *of)
{
    struct hd_recording *recording = get_recording(recorder);
    const struct hd_submitted node = {.kind = HD_SUBMITTED_WAIT, .shard = -1};
    struct hd_recorded_group *group = find_group(recording, of);
    if (recording->ended)
        return HD_ERR_STOPPED;
    if (!group)
        return hd_fail(HD_ERR_UNSUPPORTED, "more than %d task groups", HD_GROUPS_MAX);
    HD_TRY(begin_node(recording, "wait", &node));
    HD_TRY(add_edges(recording, group->nodes, group->n));
    group->n = 0;
    count_node(recording);
    return HD_OK;
}

/* -- Exchanges --------------------------------------------------------------------------------- */

/* At a sync point of all ranks, partners exchange at least an empty message in each direction. The
 * transfers with a partner stand side by side. */
static struct hd_peer_bytes sum_transfers(const struct hd_comm *comm,
                                          const struct hd_sync_point *point)
{
    enum { EMPTY = 2 };
    struct hd_peer_bytes exchange = {0};
    int n = 0;
    if (!point->on_host && !point->pairs)
        exchange.messages = EMPTY * (hd_comm_count_hosts(comm) - 1);
    for (int i = 0; i < point->n_transfers; i++) {
        const struct hd_comm_transfer *transfer = &point->transfers[i];
        n = i > 0 && transfer->rank == transfer[-1].rank ? n : 0;
        n += transfer->bytes > 0;
        exchange.messages += transfer->bytes > 0 && (point->pairs || n > EMPTY);
        exchange.peer = transfer->rank;
        *(transfer->out ? &exchange.out_bytes : &exchange.in_bytes) += transfer->bytes;
    }
    return exchange;
}

/* The floats that the ranks of a host send to those of other hosts, and receive from them. */
struct floats {
    int64_t out, in;
};

/* Every rank sends every other that one's slice; backwards, every rank sends every other its own.
 */
static struct floats sum_slices(const struct hd_comm *comm, int64_t n, bool back)
{
    const int ranks = hd_comm_count_ranks(comm), local = hd_comm_count_host_ranks(comm),
              first = hd_comm_get_first_rank(comm);
    int64_t lo, hi, unused;
    hd_device_comm_get_slice(n, first, ranks, &lo, &unused);
    hd_device_comm_get_slice(n, first + local - 1, ranks, &unused, &hi);
    const int64_t others = local * (n - (hi - lo)), own = (hi - lo) * (ranks - local);
    return back ? (struct floats){own, others} : (struct floats){others, own};
}

/* Slices go around a ring, which crosses the link of each host once. */
static struct floats sum_ring(const struct hd_comm *comm, int64_t n)
{
    const int ranks = hd_comm_count_ranks(comm);
    return (struct floats){n * (ranks - 1) / ranks, n * (ranks - 1) / ranks};
}

/* NCCL gathers equal slices by a ring (runtime/comm/nccl/comm_nccl.c). */
static struct floats sum_gather(const struct hd_comm *comm, int64_t n)
{
    const bool equal = n % ((int64_t)hd_comm_count_ranks(comm) * HD_BLOCK) == 0;
    return equal ? sum_ring(comm, n) : sum_slices(comm, n, true);
}

static struct floats sum_device_collective(const struct hd_comm *comm,
                                           const struct hd_device_collective *collective)
{
    const int64_t n = collective->n;
    const struct floats there = sum_slices(comm, n, false), back = sum_gather(comm, n),
                        ring = sum_ring(comm, n);
    return collective->kind == HD_DEVICE_ALL_REDUCE_TREE
               ? (struct floats){there.out + back.out, there.in + back.in}
               : (struct floats){2 * ring.out, 2 * ring.in};
}

/* The ranks of a host share what its link carries. */
static struct hd_peer_bytes share_link(const struct hd_comm *comm, struct floats floats)
{
    const int ranks = hd_comm_count_host_ranks(comm), hosts = hd_comm_count_hosts(comm);
    if (hosts == 1)
        return (struct hd_peer_bytes){0};
    return (struct hd_peer_bytes){.messages = 2 * (hosts - 1),
                                  .out_bytes = floats.out * (int64_t)sizeof(float) / ranks,
                                  .in_bytes = floats.in * (int64_t)sizeof(float) / ranks};
}

static int record_exchange(struct hd_recording *recording, const struct hd_sync_point *point)
{
    struct hd_peers *exchanges = recording->exchanges;
    HD_TRY(hd_grow((void **)&exchanges->list, &exchanges->capacity, exchanges->n + 1,
                   sizeof *exchanges->list));
    exchanges->list[exchanges->n++] =
        point->device_collective
            ? share_link(recording->comm,
                         sum_device_collective(recording->comm, point->device_collective))
            : sum_transfers(recording->comm, point);
    return HD_OK;
}

static int record_sync(struct hd_recorder *recorder, const struct hd_sync_point *point)
{
    struct hd_recording *recording = get_recording(recorder);
    struct hd_submission *submission = recording->submission;
    const struct hd_submitted node = {.kind = HD_SUBMITTED_SYNC,
                                      .scope = point->on_host ? HD_SYNC_HOST
                                               : point->pairs ? HD_SYNC_PAIRS
                                                              : HD_SYNC_ALL_RANKS,
                                      .iteration = (int)point->iteration,
                                      .shard = -1,
                                      .priority = point->priority,
                                      .sync = submission->n_syncs++,
                                      .sequence = hd_sync_point_get_number(point)};
    if (node.sequence > submission->last_sequence)
        submission->last_sequence = node.sequence;
    HD_TRY(record_exchange(recording, point));
    HD_TRY(begin_node(recording, point->name, &node));
    return end_node(recording, point->accesses, point->n_accesses, point->channel, point->group);
}

/* -- Iterations -------------------------------------------------------------------------------- */

/* Called before every iteration. */
static void begin_iteration(void *arg)
{
    struct hd_recording *recording = arg;
    struct hd_submission *submission = recording->submission;
    const int64_t updates = hd_executor_get_counter(recording->executor, "update");
    const int iteration = submission->n_marks;
    if (hd_grow((void **)&submission->marks, &recording->marks_capacity, iteration + 1,
                sizeof *submission->marks) != HD_OK) {
        recording->ended = true;
        return;
    }
    submission->marks[submission->n_marks++] =
        (struct hd_iteration_mark){.node = submission->n_nodes, .updates = updates};
    if (updates > 0 && recording->end == 0)
        recording->end = iteration - 1 + recording->options->iterations;
    recording->ended = iteration == (recording->end > 0 ? recording->end : ITERATIONS_MAX);
}

static unsigned get_no_requests(void *arg)
{
    (void)arg;
    return 0;
}

/* Leaves out what belongs to the iteration in which recording ended. */
static void cut(struct hd_recording *recording)
{
    struct hd_submission *submission = recording->submission;
    submission->n_nodes = submission->marks[submission->n_marks - 1].node;
    while (recording->n_edges > 0 &&
           recording->edges[recording->n_edges - 1][1] >= submission->n_nodes)
        recording->n_edges--;
    submission->n_syncs = 0;
    for (int i = 0; i < submission->n_nodes; i++)
        submission->n_syncs += submission->nodes[i].kind == HD_SUBMITTED_SYNC;
}

int hd_submission_list_after(struct hd_submission *submission, const int (*edges)[2], int64_t n)
{
    struct hd_submitted *nodes = submission->nodes;
    submission->after = hd_alloc(n, sizeof *submission->after);
    int *next = hd_alloc(submission->n_nodes + 1, sizeof *next);
    if (!submission->after || !next) {
        hd_free(next);
        return HD_ERR_NOMEM;
    }
    nodes[submission->n_nodes] = (struct hd_submitted){0};
    for (int64_t i = 0; i < n; i++)
        next[edges[i][0]]++;
    for (int i = 0, sum = 0; i <= submission->n_nodes; i++) {
        nodes[i].after = sum;
        sum += next[i];
        next[i] = nodes[i].after;
    }
    for (int64_t i = 0; i < n; i++)
        submission->after[next[edges[i][0]]++] = edges[i][1];
    hd_free(next);
    return HD_OK;
}

static uint64_t hash(const struct hd_submission *submission)
{
    uint64_t hash =
        hd_hash_bytes(submission->nodes, (size_t)submission->n_nodes * sizeof *submission->nodes);
    hash = hd_hash_mix(hash, hd_hash_bytes(submission->after,
                                           (size_t)submission->nodes[submission->n_nodes].after *
                                               sizeof *submission->after));
    for (int i = 0; i < submission->n_names; i++)
        hash = hd_hash_mix(hash, hd_hash_text(submission->names[i]));
    return hash;
}

static int finish(struct hd_recording *recording, int status)
{
    if (status != HD_ERR_STOPPED && status != HD_OK)
        return status;
    if (recording->end == 0)
        return hd_fail(HD_ERR_INPUT, "none of the first %d iterations makes an update",
                       recording->submission->n_marks - 1);
    if (!recording->ended)
        return hd_fail(HD_ERR_INPUT, "the run ends after %d iterations: raise max_train_iter",
                       recording->submission->n_marks);
    cut(recording);
    HD_TRY(hd_submission_list_after(recording->submission, (const int(*)[2])recording->edges,
                                    recording->n_edges));
    recording->submission->hash = hash(recording->submission);
    return HD_OK;
}

/* -- Recording a rank -------------------------------------------------------------------------- */

static int run(struct hd_recording *recording, struct hd_plan *plan, struct hd_session *session)
{
    const struct hd_executor_options options = {.window = recording->options->window,
                                                .tick = begin_iteration,
                                                .tick_arg = recording,
                                                .get_requests = get_no_requests,
                                                .requests_arg = recording};
    const char *reason;
    HD_TRY(hd_executor_create(plan, session, &options, &recording->executor));
    const int status = hd_executor_run(recording->executor, &reason);
    hd_executor_destroy(recording->executor);
    return finish(recording, status);
}

static int run_session(struct hd_recording *recording, struct hd_plan *plan)
{
    const struct hd_record_options *from = recording->options;
    struct hd_session_options options = {.sequential = true,
                                         .recorder = &recording->recorder,
                                         .workers = 1,
                                         .rank = from->rank,
                                         .ranks = from->ranks,
                                         .exchange = from->exchange,
                                         .n_devices = from->gpus};
    const struct hd_comm_sizes sizes = {.channels = plan->channels,
                                        .buffer_bytes = hd_plan_get_payload_bytes(plan),
                                        .area_bytes = plan->shared_bytes};
    struct hd_session *session;
    recording->submission->channels = plan->channels;
    if (from->ranks > 1)
        HD_TRY(hd_comm_create_alone(from->rank, from->ranks, &from->hosts, &sizes, &options.comm));
    recording->comm = options.comm;
    int status = hd_session_create(&options, &session);
    if (status == HD_OK) {
        status = run(recording, plan, session);
        hd_session_destroy(session);
    }
    if (options.comm)
        hd_comm_destroy(options.comm);
    return status;
}

int hd_recording_begin(struct hd_recording *recording)
{
    recording->recorder =
        (struct hd_recorder){.task = record_task, .sync = record_sync, .wait = record_wait};
    recording->submission = hd_alloc(1, sizeof *recording->submission);
    recording->exchanges = hd_alloc(1, sizeof *recording->exchanges);
    return recording->submission && recording->exchanges
               ? hd_dependences_create(&recording->dependences)
               : HD_ERR_NOMEM;
}

void hd_recording_end(struct hd_recording *recording)
{
    hd_dependences_destroy(recording->dependences);
    hd_free(recording->edges);
    for (int i = 0; i < recording->n_groups; i++)
        hd_free(recording->groups[i].nodes);
}

static int record(struct hd_recording *recording)
{
    const struct hd_record_options *options = recording->options;
    const struct hd_plan_gpus gpus = {options->gpus, options->gpus > 0 && options->ranks > 1};
    struct hd_plan *plan;
    HD_TRY(hd_recording_begin(recording));
    HD_TRY(hd_plan_create(options->graph, options->rank, options->ranks, &gpus,
                          options->param_check_interval, &plan));
    hd_plan_assign_channels(plan, options->open_exchanges, options->hosts.n == 1);
    const int status = run_session(recording, plan);
    hd_plan_destroy(plan);
    return status;
}

int hd_submission_record(const struct hd_record_options *options,
                         struct hd_submission **submission_p, struct hd_peers **exchanges_p)
{
    struct hd_recording recording = {
        .options = options, .first_shard = options->graph->shards / options->ranks * options->rank};
    const int status = record(&recording);
    hd_recording_end(&recording);
    if (status != HD_OK) {
        hd_submission_release(recording.submission);
        hd_peers_release(recording.exchanges);
        return status;
    }
    *submission_p = recording.submission;
    *exchanges_p = recording.exchanges;
    return HD_OK;
}

void hd_submission_release(struct hd_submission *submission)
{
    if (!submission)
        return;
    for (int i = 0; i < submission->n_names; i++)
        hd_free(submission->names[i]);
    hd_free(submission->names);
    hd_free(submission->nodes);
    hd_free(submission->after);
    hd_free(submission->marks);
    hd_free(submission);
}

void hd_peers_release(struct hd_peers *exchanges)
{
    if (!exchanges)
        return;
    hd_free(exchanges->list);
    hd_free(exchanges);
}
