/* SPDX-License-Identifier: Apache-2.0 */
/* Records what a run submits, and forgets what is old. */
#include "runner/simulate/model/record_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/status.h"

struct hd_observer {
    struct hd_recording recording;
};

int hd_observer_create(int64_t first_shard, const struct hd_comm *comm,
                       struct hd_observer **observer_p)
{
    struct hd_observer *observer = hd_alloc(1, sizeof *observer);
    if (!observer)
        return HD_ERR_NOMEM;
    observer->recording =
        (struct hd_recording){.first_shard = first_shard, .comm = comm, .observes = true};
    if (hd_recording_begin(&observer->recording) != HD_OK) {
        hd_observer_destroy(observer);
        return HD_ERR_NOMEM;
    }
    *observer_p = observer;
    return HD_OK;
}

void hd_observer_destroy(struct hd_observer *observer)
{
    if (!observer)
        return;
    hd_recording_end(&observer->recording);
    hd_submission_release(observer->recording.submission);
    hd_peers_release(observer->recording.exchanges);
    hd_free(observer);
}

struct hd_recorder *hd_observer_get_recorder(struct hd_observer *observer)
{
    return observer ? &observer->recording.recorder : NULL;
}

int hd_observer_begin_iteration(struct hd_observer *observer, int64_t iteration, int64_t updates)
{
    struct hd_recording *recording = &observer->recording;
    struct hd_submission *submission = recording->submission;
    HD_TRY(hd_grow((void **)&submission->marks, &recording->marks_capacity, submission->n_marks + 1,
                   sizeof *submission->marks));
    submission->marks[submission->n_marks++] =
        (struct hd_iteration_mark){.node = recording->base + submission->n_nodes,
                                   .updates = updates,
                                   .iteration = iteration,
                                   .at_ns = hd_clock_get_ns()};
    return HD_OK;
}

void hd_submitted_write(const struct hd_submitted *node, const struct hd_peer_bytes *exchange,
                        int rank, int number, const char *name, double at_us, FILE *file)
{
    fprintf(file, "\n[%d,%d,\"%s\",%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%lld,%d,%d,%lld,%lld,%.3f,[", rank,
            number, name, node->kind, node->scope, node->iteration, node->shard, node->bucket,
            node->item, node->stage, node->priority, node->home, node->background + 2 * node->waits,
            (long long)node->sequence, exchange->peer, exchange->messages,
            (long long)exchange->out_bytes, (long long)exchange->in_bytes, at_us);
}

/* Numbers count from 1 on, as those of the session do. Returns the first edge of the next node. */
static int64_t write_node(const struct hd_recording *recording, int i, int64_t edge, int rank,
                          FILE *file)
{
    static const struct hd_peer_bytes none;
    const struct hd_submission *submission = recording->submission;
    const struct hd_submitted *node = &submission->nodes[i];
    const int number = recording->base + i;
    const char *comma = "";
    hd_submitted_write(
        node, node->kind == HD_SUBMITTED_SYNC ? &recording->exchanges->list[node->sync] : &none,
        rank, 1 + number, submission->names[node->name], (double)node->at_ns * 1e-3, file);
    for (; edge < recording->n_edges && recording->edges[edge][1] == number; edge++)
        if (recording->edges[edge][0] >= recording->base) {
            fprintf(file, "%s%d", comma, 1 + recording->edges[edge][0]);
            comma = ",";
        }
    fputs(i + 1 < submission->n_nodes ? "]]," : "]]", file);
    return edge;
}

void hd_observer_write(const struct hd_observer *observer, int rank, FILE *file)
{
    const struct hd_recording *recording = &observer->recording;
    const struct hd_submission *submission = recording->submission;
    fputs("\"iterations\":[", file);
    for (int i = 0; i < submission->n_marks; i++)
        fprintf(file, "%s\n[%d,%lld,%d,%lld,%.3f]", i > 0 ? "," : "", rank,
                (long long)submission->marks[i].iteration, 1 + submission->marks[i].node,
                (long long)submission->marks[i].updates, (double)submission->marks[i].at_ns * 1e-3);
    fputs("\n],\n\"tasks\":[", file);
    int64_t edge = 0;
    for (int i = 0; i < submission->n_nodes; i++)
        edge = write_node(recording, i, edge, rank, file);
    fputs("\n]", file);
}
