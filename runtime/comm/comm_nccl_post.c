/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of posted collectives, which whoever polls drives on. */
#if HD_CUDA
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_nccl_internal.h"
#include "runtime/machine/gpu_path.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <time.h>

static void settle(struct hd_nccl *nccl)
{
    while (nccl->done < nccl->issued) {
        const struct hd_nccl_posted *oldest = hd_nccl_get_posted(nccl, nccl->done);
        cudaError_t error = cudaEventQuery(oldest->event);
        if (error == cudaErrorNotReady) {
            cudaGetLastError(); /* else the thread's next launch is thought to have failed */
            return;
        }
        if (hd_nccl_check_cuda(nccl, error, "a collective") != HD_OK)
            return;
        nccl->done++;
        atomic_store_explicit(&nccl->done_sequence, oldest->sequence, memory_order_release);
    }
}

/* Queues the next thing: a stage, or, behind the last one, the event. */
static void issue(struct hd_nccl *nccl)
{
    struct hd_nccl_posted *next = hd_nccl_get_posted(nccl, nccl->issued);
    bool more;
    if (hd_nccl_issue(nccl, next, &more) == HD_OK && !more &&
        hd_nccl_check_cuda(nccl, cudaEventRecord(next->event, nccl->stream), "cudaEventRecord") ==
            HD_OK)
        nccl->issued++;
}

static void progress(struct hd_nccl *nccl)
{
    while (hd_nccl_is_ok(nccl) && nccl->issued < nccl->posted && hd_nccl_is_ready(nccl))
        issue(nccl);
    if (hd_nccl_is_ok(nccl))
        settle(nccl);
}

static const char *mistake_in_sum(const struct hd_nccl *nccl, const struct hd_nccl_collective *c)
{
    if (!c->operands || !c->to || (c->count && !c->total))
        return "a sum needs operands, a place for it, and one for the sum of counts";
    if (c->kind != HD_NCCL_FAST && (!c->add || (nccl->options.ranks > 1 && !c->scratch)))
        return "a sum in tree order needs scratch memory and a function that adds";
    return NULL;
}

static const char *mistake_in(const struct hd_nccl *nccl, int64_t sequence,
                              const struct hd_nccl_collective *c)
{
    if (sequence <= nccl->posted_sequence)
        return "numbers of collectives must grow";
    if (nccl->posted - nccl->done >= HD_NCCL_OPEN_MAX)
        return "too many collectives are open";
    if (!c->name || c->n < 0)
        return "a collective needs a name and a size";
    if (c->kind == HD_NCCL_GATHER && (c->n_data < 1 || c->n_data > HD_NCCL_ARRAYS))
        return "a gather needs one to four arrays";
    if (c->kind == HD_NCCL_BROADCAST && c->n_data != 1)
        return "a broadcast needs one array";
    if (c->kind == HD_NCCL_GATHER || c->kind == HD_NCCL_BROADCAST)
        return NULL;
    return mistake_in_sum(nccl, c);
}

int hd_nccl_post(struct hd_nccl *nccl, int64_t sequence,
                 const struct hd_nccl_collective *collective)
{
    pthread_mutex_lock(&nccl->lock);
    const char *mistake = mistake_in(nccl, sequence, collective);
    int status = mistake ? HD_ERR_INPUT : atomic_load(&nccl->status);
    if (status == HD_OK) {
        struct hd_nccl_posted *next = hd_nccl_get_posted(nccl, nccl->posted);
        next->collective = *collective;
        next->sequence = nccl->posted_sequence = sequence;
        next->since_ns = hd_clock_get_ns();
        next->stage = 0;
        nccl->posted++;
        if (nccl->options.comm)
            hd_comm_arrive(nccl->options.comm, sequence, collective->name);
        int before = hd_nccl_enter(nccl);
        progress(nccl);
        hd_nccl_leave(nccl, before);
        status = atomic_load(&nccl->status);
    }
    pthread_mutex_unlock(&nccl->lock);
    if (mistake)
        return hd_fail(status, "NCCL collective #%lld %s: %s", (long long)sequence,
                       collective->name ? collective->name : "", mistake);
    return status;
}

bool hd_nccl_test(struct hd_nccl *nccl, int64_t sequence)
{
    if (atomic_load_explicit(&nccl->done_sequence, memory_order_acquire) < sequence &&
        hd_nccl_is_ok(nccl) && pthread_mutex_trylock(&nccl->lock) == 0) {
        int before = hd_nccl_enter(nccl);
        progress(nccl);
        hd_nccl_leave(nccl, before);
        pthread_mutex_unlock(&nccl->lock);
    }
    return atomic_load_explicit(&nccl->done_sequence, memory_order_acquire) >= sequence &&
           hd_nccl_is_ok(nccl) &&
           (!nccl->options.comm || hd_comm_test(nccl->options.comm, sequence));
}

static int report_late(struct hd_nccl *nccl)
{
    char text[512], others[512] = "";
    hd_nccl_report(nccl, text, sizeof text);
    if (nccl->options.comm)
        hd_comm_report(nccl->options.comm, others, sizeof others);
    return hd_fail(HD_ERR_WATCHDOG, "%s%s%s", text, others[0] ? "; " : "", others);
}

int hd_nccl_wait(struct hd_nccl *nccl, int64_t sequence, int64_t timeout_ns,
                 bool (*cancelled)(void *arg), void *arg)
{
    enum { SPIN_NS = 100000, NAP_NS = 50000 };
    char why[HD_NCCL_MESSAGE_BYTES];
    const int64_t start_ns = hd_clock_get_ns();
    while (!hd_nccl_test(nccl, sequence)) {
        const int64_t waited_ns = hd_clock_get_ns() - start_ns;
        HD_TRY(hd_nccl_get_error(nccl, why, sizeof why));
        if (nccl->options.comm && hd_comm_is_aborted(nccl->options.comm, NULL, NULL))
            return HD_ERR_PEER;
        if (cancelled && cancelled(arg))
            return HD_ERR_STOPPED;
        if (timeout_ns > 0 && waited_ns > timeout_ns)
            return report_late(nccl);
        if (waited_ns > SPIN_NS)
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return HD_OK;
}

int hd_nccl_get_error(struct hd_nccl *nccl, char *text, size_t bytes)
{
    pthread_mutex_lock(&nccl->lock);
    int before = hd_nccl_enter(nccl);
    if (hd_nccl_is_ok(nccl))
        hd_nccl_is_ready(nccl);
    hd_nccl_leave(nccl, before);
    int status = atomic_load(&nccl->status);
    snprintf(text, bytes, "%s", status == HD_OK ? "" : nccl->why);
    pthread_mutex_unlock(&nccl->lock);
    return status;
}

void hd_nccl_report(struct hd_nccl *nccl, char *text, size_t bytes)
{
    char version[HD_NCCL_VERSION_BYTES], error[HD_NCCL_MESSAGE_BYTES];
    hd_nccl_format_version(hd_nccl_get_loaded_version(), version);
    int status = hd_nccl_get_error(nccl, error, sizeof error);
    pthread_mutex_lock(&nccl->lock);
    const struct hd_nccl_posted *open = hd_nccl_get_posted(nccl, nccl->done);
    long long s = (long long)(hd_clock_get_ns() - open->since_ns) / 1000000000;
    const int device = nccl->options.devices[0], rank = nccl->options.rank;
    if (status != HD_OK)
        snprintf(text, bytes, "NCCL %s: %s", version, error);
    else if (nccl->done == nccl->posted)
        snprintf(text, bytes, "GPU %d of rank %d is in no collective, last finished #%lld", device,
                 rank, (long long)atomic_load(&nccl->done_sequence));
    else
        snprintf(text, bytes,
                 "GPU %d of rank %d is in #%lld %s since %lld s (%s; NCCL %s reports no error)",
                 device, rank, (long long)open->sequence, open->collective.name, s,
                 nccl->issued > nccl->done ? "waits for the others" : "connects to the others",
                 version);
    pthread_mutex_unlock(&nccl->lock);
}
#endif
