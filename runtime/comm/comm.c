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
#include <time.h>

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

void *hd_comm_get_buffer(struct hd_comm *comm, int rank, int64_t seq)
{
    return comm->buffers + (2 * (int64_t)rank + (seq & 1)) * comm->buffer_bytes;
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

void hd_comm_record_arrival(struct hd_comm *comm, int rank, int64_t seq, const char *name)
{
    struct hd_comm_line *line = &comm->header->lines[rank];
    describe(line, seq, name);
    atomic_store_explicit(&line->arrived, seq, memory_order_release);
}

void hd_comm_post(struct hd_comm *comm, int64_t seq, const char *name,
                  const struct hd_comm_transfer *transfers, int n)
{
    hd_comm_record_arrival(comm, comm->rank, seq, name);
    comm->ops->post(comm, seq, name, transfers, n);
}

void hd_comm_arrive(struct hd_comm *comm, int64_t seq, const char *name)
{
    hd_comm_post(comm, seq, name, NULL, 0);
}

void hd_comm_arrive_on_host(struct hd_comm *comm, int64_t seq, const char *name)
{
    atomic_store_explicit(&comm->on_host, seq, memory_order_relaxed);
    hd_comm_record_arrival(comm, comm->rank, seq, name);
}

void hd_comm_post_pairs(struct hd_comm *comm, int64_t seq, const char *name,
                        const struct hd_comm_transfer *transfers, int n)
{
    atomic_store_explicit(&comm->pairs, seq, memory_order_relaxed);
    hd_comm_record_arrival(comm, comm->rank, seq, name);
    comm->ops->post_pairs(comm, seq, name, transfers, n);
}

bool hd_comm_test(struct hd_comm *comm, int64_t seq)
{
    const bool on_host = atomic_load_explicit(&comm->on_host, memory_order_relaxed) == seq;
    const int first = on_host ? hd_comm_get_first_rank(comm) : 0;
    const int n = on_host ? comm->hosts.ranks : comm->world;
    comm->ops->progress(comm);
    if (atomic_load_explicit(&comm->pairs, memory_order_relaxed) == seq)
        return comm->ops->test_pairs(comm, seq);
    for (int r = first; r < first + n; r++)
        if (atomic_load_explicit(&comm->header->lines[r].arrived, memory_order_acquire) < seq)
            return false;
    return true;
}

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

int hd_comm_wait(struct hd_comm *comm, int64_t seq, int64_t timeout_ns,
                 bool (*cancelled)(void *arg), void *arg)
{
    /* A peer on a core of its own is seen within the spin; one that shares this core needs it, soon
     * by a yield, and for good by naps, because yielding keeps a core busy. */
    enum { POLLS = 64, SPIN_NS = 3000, YIELD_NS = 1000000, NAP_NS = 50000 };
    int64_t start_ns = hd_clock_get_ns();
    for (;;) {
        for (int i = 0; i < POLLS; i++) {
            if (hd_comm_test(comm, seq))
                return HD_OK;
            relax();
        }
        if (hd_comm_is_aborted(comm))
            return HD_ERR_PEER;
        if (cancelled && cancelled(arg))
            return HD_ERR_STOPPED;
        int64_t waited_ns = hd_clock_get_ns() - start_ns;
        if (timeout_ns > 0 && waited_ns > timeout_ns) {
            char report[512];
            hd_comm_report(comm, report, sizeof report);
            return hd_fail(HD_ERR_WATCHDOG, "%s", report);
        }
        if (waited_ns > YIELD_NS)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        else if (waited_ns > SPIN_NS)
            sched_yield();
    }
}

void hd_comm_wait_for_data(struct hd_comm *comm)
{
    comm->ops->wait_for_data(comm);
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
    enum { TRIES = 2000, NAP_NS = 50000 }; /* its writer may have died half way */
    const struct hd_comm_header *header = comm->header;
    int state = atomic_load_explicit(&header->abort, memory_order_acquire);
    if (state == HD_COMM_OK)
        return false;
    for (int i = 0; i < TRIES && state == HD_COMM_ABORTING; i++) {
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        state = atomic_load_explicit(&header->abort, memory_order_acquire);
    }
    if (state == HD_COMM_ABORTED)
        *failure_p =
            (struct hd_comm_failure){header->abort_rank, header->abort_status, header->abort_text};
    else
        *failure_p = (struct hd_comm_failure){-1, HD_ERR_PEER, ""};
    return true;
}

void hd_comm_get_status(struct hd_comm *comm, int rank, int64_t *seq_p, char name_p[HD_COMM_NAME],
                        int64_t *since_ns_p)
{
    enum { TRIES = 1000 }; /* its writer may have died half way; then a torn name is all there is */
    struct hd_comm_line *line = &comm->header->lines[rank];
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
    for (int r = 0; r < comm->world; r++)
        if (comm->ops->is_ahead(comm, r, &ahead))
            describe(&comm->header->lines[r], ahead, "(next)");
}

/* Who waits for a pair knows of nobody else. */
static bool concerns(struct hd_comm *comm, int rank)
{
    const int64_t local =
        atomic_load_explicit(&comm->header->lines[comm->rank].arrived, memory_order_relaxed);
    return rank == comm->rank || local == 0 ||
           atomic_load_explicit(&comm->pairs, memory_order_relaxed) != local ||
           comm->ops->is_awaited(comm, rank, local);
}

void hd_comm_report(struct hd_comm *comm, char *text, size_t bytes)
{
    int64_t now_ns = hd_clock_get_ns(), finished = INT64_MAX, seq, since_ns;
    char name[HD_COMM_NAME];
    size_t used = 0;
    for (int r = 0; r < comm->world; r++) {
        hd_comm_get_status(comm, r, &seq, name, &since_ns);
        if (concerns(comm, r) && seq < finished)
            finished = seq;
    }
    if (bytes > 0)
        text[0] = '\0';
    for (int r = 0; r < comm->world && used < bytes; r++) {
        if (!concerns(comm, r))
            continue;
        hd_comm_get_status(comm, r, &seq, name, &since_ns);
        long long s = (long long)(now_ns - since_ns) / 1000000000, n = (long long)seq;
        const char *next = used > 0 ? "; " : "";
        int k;
        if (seq > finished)
            k = snprintf(text + used, bytes - used, "%srank %d waits in #%lld %s since %lld s",
                         next, r, n, name, s);
        else if (seq > 0)
            k = snprintf(text + used, bytes - used, "%srank %d last finished #%lld %s %lld s ago",
                         next, r, n, name, s);
        else
            k = snprintf(text + used, bytes - used, "%srank %d has not reached #1", next, r);
        used += (size_t)k;
    }
}
