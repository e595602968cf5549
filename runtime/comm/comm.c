/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/comm/comm.h"

#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "atomics between processes must be lock-free");

void hd_comm_destroy(struct hd_comm *comm)
{
    if (!comm)
        return;
    comm->ops->close(comm);
    hd_free(comm);
}

int hd_comm_get_rank(const struct hd_comm *comm)
{
    return comm->rank;
}

int hd_comm_count_ranks(const struct hd_comm *comm)
{
    return comm->world;
}

int hd_comm_get_host(const struct hd_comm *comm)
{
    return comm->rank / comm->hosts.ranks;
}

int hd_comm_count_hosts(const struct hd_comm *comm)
{
    return comm->hosts.n;
}

int hd_comm_count_host_ranks(const struct hd_comm *comm)
{
    return comm->hosts.ranks;
}

int hd_comm_get_first_rank(const struct hd_comm *comm)
{
    return hd_comm_get_host(comm) * comm->hosts.ranks;
}

int hd_comm_get_partner(const struct hd_comm *comm, int host)
{
    return hd_comm_find_partner(&comm->hosts, comm->rank, host);
}

struct hd_channel *hd_comm_get_channel(struct hd_comm *comm, int i)
{
    return &comm->channels[i];
}

int hd_comm_count_channels(const struct hd_comm *comm)
{
    return comm->n_channels;
}

void *hd_channel_get_buffer(struct hd_channel *channel, int rank, int64_t seq)
{
    return channel->buffers + (2 * (int64_t)rank + (seq & 1)) * channel->comm->buffer_bytes;
}

char *hd_comm_get_area(struct hd_comm *comm, int rank)
{
    return comm->areas + rank * comm->area_bytes;
}

/* -- Sync points ------------------------------------------------------------------------------- */

static void describe(struct hd_comm_line *line, int64_t seq, const char *name)
{
    uint64_t words[HD_COMM_NAME / 8] = {0};
    strncpy((char *)words, name, sizeof words - 1);
    uint64_t version = atomic_load_explicit(&line->version, memory_order_relaxed);
    atomic_store_explicit(&line->version, version + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&line->seq, seq, memory_order_relaxed);
    atomic_store_explicit(&line->since_ns, hd_clock_get_ns(), memory_order_relaxed);
    for (int i = 0; i < HD_COMM_NAME / 8; i++)
        atomic_store_explicit(&line->name[i], words[i], memory_order_relaxed);
    atomic_store_explicit(&line->version, version + 2, memory_order_release);
}

void hd_channel_record_arrival(struct hd_channel *channel, int rank, int64_t seq, const char *name)
{
    struct hd_comm_line *line = &channel->lines[rank];
    describe(line, seq, name);
    atomic_store_explicit(&line->arrived, seq, memory_order_release);
}

void hd_channel_post(struct hd_channel *channel, int64_t seq, const char *name,
                     const struct hd_comm_transfer *transfers, int n)
{
    hd_channel_record_arrival(channel, channel->comm->rank, seq, name);
    channel->comm->ops->post(channel, seq, name, transfers, n);
}

void hd_channel_arrive(struct hd_channel *channel, int64_t seq, const char *name)
{
    hd_channel_post(channel, seq, name, NULL, 0);
}

void hd_channel_arrive_on_host(struct hd_channel *channel, int64_t seq, const char *name)
{
    atomic_store_explicit(&channel->on_host, seq, memory_order_relaxed);
    hd_channel_record_arrival(channel, channel->comm->rank, seq, name);
}

void hd_channel_post_pairs(struct hd_channel *channel, int64_t seq, const char *name,
                           const struct hd_comm_transfer *transfers, int n)
{
    atomic_store_explicit(&channel->pairs, seq, memory_order_relaxed);
    hd_channel_record_arrival(channel, channel->comm->rank, seq, name);
    channel->comm->ops->post_pairs(channel, seq, name, transfers, n);
}

bool hd_channel_test(struct hd_channel *channel, int64_t seq)
{
    const struct hd_comm *comm = channel->comm;
    const bool on_host = atomic_load_explicit(&channel->on_host, memory_order_relaxed) == seq;
    const int first = on_host ? hd_comm_get_first_rank(comm) : 0;
    const int n = on_host ? comm->hosts.ranks : comm->world;
    comm->ops->progress(channel);
    if (atomic_load_explicit(&channel->pairs, memory_order_relaxed) == seq)
        return comm->ops->test_pairs(channel, seq);
    for (int r = first; r < first + n; r++)
        if (atomic_load_explicit(&channel->lines[r].arrived, memory_order_acquire) < seq)
            return false;
    return true;
}

/* Another rank may wait for what this one sends on another channel. */
static void progress_all(struct hd_comm *comm)
{
    for (int i = 0; i < comm->n_channels; i++)
        comm->ops->progress(&comm->channels[i]);
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

int hd_channel_wait(struct hd_channel *channel, int64_t seq, int64_t timeout_ns,
                    bool (*cancelled)(void *arg), void *arg)
{
    /* A peer on a core of its own is seen within the spin; one that shares this core needs it, soon
     * by a yield, and for good by naps, because yielding keeps a core busy. */
    enum { POLLS = 64, SPIN_NS = 3000, YIELD_NS = 1000000 };
    int64_t start_ns = hd_clock_get_ns();
    for (;;) {
        for (int i = 0; i < POLLS; i++) {
            if (hd_channel_test(channel, seq))
                return HD_OK;
            relax();
        }
        progress_all(channel->comm);
        if (hd_comm_is_aborted(channel->comm))
            return HD_ERR_PEER;
        if (cancelled && cancelled(arg))
            return HD_ERR_STOPPED;
        int64_t waited_ns = hd_clock_get_ns() - start_ns;
        if (timeout_ns > 0 && waited_ns > timeout_ns) {
            char report[512];
            hd_comm_report(channel->comm, report, sizeof report);
            return hd_fail(HD_ERR_WATCHDOG, "%s", report);
        }
        if (waited_ns > YIELD_NS)
            hd_nap(waited_ns - YIELD_NS);
        else if (waited_ns > SPIN_NS)
            sched_yield();
    }
}

void hd_comm_wait_for_data(struct hd_comm *comm, int wake_fd, int64_t waited_ns)
{
    comm->ops->wait_for_data(comm, wake_fd, waited_ns);
}

int64_t hd_comm_count_sent_bytes(struct hd_comm *comm)
{
    return comm ? atomic_load_explicit(&comm->header->sent_bytes, memory_order_relaxed) : 0;
}

/* -- Failure ----------------------------------------------------------------------------------- */

bool hd_comm_abort(struct hd_comm *comm, const struct hd_comm_failure *failure)
{
    struct hd_comm_header *header = comm->header;
    int ok = HD_COMM_OK;
    if (!atomic_compare_exchange_strong(&header->abort, &ok, HD_COMM_ABORTING))
        return false;
    header->abort_rank = failure->rank;
    header->abort_status = failure->status;
    snprintf(header->abort_text, sizeof header->abort_text, "%s", failure->text);
    atomic_store_explicit(&header->abort, HD_COMM_ABORTED, memory_order_release);
    return true;
}

bool hd_comm_is_aborted(struct hd_comm *comm)
{
    return atomic_load_explicit(&comm->header->abort, memory_order_acquire) != HD_COMM_OK;
}

bool hd_comm_get_failure(struct hd_comm *comm, struct hd_comm_failure *failure_p)
{
    enum { TRIES = 2000 }; /* its writer may have died half way */
    const struct hd_comm_header *header = comm->header;
    int state = atomic_load_explicit(&header->abort, memory_order_acquire);
    if (state == HD_COMM_OK)
        return false;
    for (int i = 0; i < TRIES && state == HD_COMM_ABORTING; i++) {
        hd_nap(0);
        state = atomic_load_explicit(&header->abort, memory_order_acquire);
    }
    if (state == HD_COMM_ABORTED)
        *failure_p =
            (struct hd_comm_failure){header->abort_rank, header->abort_status, header->abort_text};
    else
        *failure_p = (struct hd_comm_failure){-1, HD_ERR_PEER, ""};
    return true;
}

void hd_channel_get_status(struct hd_channel *channel, int rank, int64_t *seq_p,
                           char name_p[HD_COMM_NAME], int64_t *since_ns_p)
{
    enum { TRIES = 1000 }; /* its writer may have died half way; then a torn name is all there is */
    struct hd_comm_line *line = &channel->lines[rank];
    uint64_t words[HD_COMM_NAME / 8];
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = atomic_load_explicit(&line->version, memory_order_acquire);
        *seq_p = atomic_load_explicit(&line->seq, memory_order_relaxed);
        *since_ns_p = atomic_load_explicit(&line->since_ns, memory_order_relaxed);
        for (int k = 0; k < HD_COMM_NAME / 8; k++)
            words[k] = atomic_load_explicit(&line->name[k], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (before % 2 == 0 && atomic_load_explicit(&line->version, memory_order_relaxed) == before)
            break;
    }
    memcpy(name_p, words, HD_COMM_NAME);
    name_p[HD_COMM_NAME - 1] = '\0';
}

void hd_comm_probe(struct hd_comm *comm)
{
    int64_t ahead;
    for (int i = 0; i < comm->n_channels; i++)
        for (int r = 0; r < comm->world; r++)
            if (comm->ops->is_ahead(&comm->channels[i], r, &ahead))
                describe(&comm->channels[i].lines[r], ahead, "(next)");
}

/* -- Reports ----------------------------------------------------------------------------------- */

/* A line that is being written. */
struct report {
    char *text;
    size_t bytes, used;
    int64_t now_ns;
};

/* Who waits for a pair knows of nobody else. */
static bool concerns(struct hd_channel *channel, int rank)
{
    const struct hd_comm *comm = channel->comm;
    const int64_t local =
        atomic_load_explicit(&channel->lines[comm->rank].arrived, memory_order_relaxed);
    return rank == comm->rank || local == 0 ||
           atomic_load_explicit(&channel->pairs, memory_order_relaxed) != local ||
           comm->ops->is_awaited(channel, rank, local);
}

/* Stores the numbers that the first and the last of the ranks have reached. */
static void find_range(struct hd_channel *channel, int64_t *first_p, int64_t *last_p)
{
    int64_t seq, since_ns;
    char name[HD_COMM_NAME];
    *first_p = INT64_MAX;
    *last_p = 0;
    for (int r = 0; r < channel->comm->world; r++) {
        if (!concerns(channel, r))
            continue;
        hd_channel_get_status(channel, r, &seq, name, &since_ns);
        *first_p = seq < *first_p ? seq : *first_p;
        *last_p = seq > *last_p ? seq : *last_p;
    }
}

/* Adds what a rank does on a channel, of whose numbers all have finished `finished`. */
static void report_rank(struct report *report, struct hd_channel *channel, int rank,
                        int64_t finished)
{
    int64_t seq, since_ns;
    char name[HD_COMM_NAME];
    if (report->used >= report->bytes)
        return;
    hd_channel_get_status(channel, rank, &seq, name, &since_ns);
    const long long s = (long long)(report->now_ns - since_ns) / 1000000000, n = (long long)seq;
    const char *next = report->used > 0 ? "; " : "";
    char *at = report->text + report->used;
    const size_t left = report->bytes - report->used;
    int k;
    if (seq > finished)
        k = snprintf(at, left, "%srank %d waits in #%lld %s since %lld s", next, rank, n, name, s);
    else if (seq > 0)
        k = snprintf(at, left, "%srank %d last finished #%lld %s %lld s ago", next, rank, n, name,
                     s);
    else
        k = snprintf(at, left, "%srank %d has not reached #1", next, rank);
    report->used += (size_t)k;
}

/* Returns whether somebody waits on the channel. */
static bool report_waits(struct report *report, struct hd_channel *channel)
{
    int64_t first, last;
    find_range(channel, &first, &last);
    for (int r = 0; last > first && r < channel->comm->world; r++)
        if (concerns(channel, r))
            report_rank(report, channel, r, first);
    return last > first;
}

/* Returns the channel on which a rank arrived last. */
static struct hd_channel *find_last_channel(struct hd_comm *comm, int rank)
{
    struct hd_channel *last = &comm->channels[0];
    int64_t seq, since_ns, last_ns = -1;
    char name[HD_COMM_NAME];
    for (int i = 0; i < comm->n_channels; i++) {
        hd_channel_get_status(&comm->channels[i], rank, &seq, name, &since_ns);
        if (seq > 0 && since_ns > last_ns) {
            last = &comm->channels[i];
            last_ns = since_ns;
        }
    }
    return last;
}

void hd_comm_report(struct hd_comm *comm, char *text, size_t bytes)
{
    struct report report = {.text = text, .bytes = bytes, .now_ns = hd_clock_get_ns()};
    bool waits = false;
    if (bytes > 0)
        text[0] = '\0';
    for (int i = 0; i < comm->n_channels; i++)
        waits |= report_waits(&report, &comm->channels[i]);
    for (int r = 0; r < comm->world && !waits; r++)
        report_rank(&report, find_last_channel(comm, r), r, INT64_MAX);
}
