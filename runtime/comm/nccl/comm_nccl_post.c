/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of posted collectives. Every call of test drives it on. */
#if HD_CUDA
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/comm/comm.h"
#include "runtime/comm/nccl/comm_nccl_internal.h"
#include "runtime/machine/gpu_path.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

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

/* Queues the next stage, or, behind the last one, the event. */
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

static const char *mistake_in(const struct hd_nccl *nccl, int64_t sequence,
                              const struct hd_device_collective *c)
{
    if (sequence <= nccl->posted_sequence)
        return "numbers of collectives must grow";
    if (nccl->posted - nccl->done >= HD_DEVICE_COMM_OPEN_MAX)
        return "too many collectives are open";
    if (!c->name || c->n < 0)
        return "a collective needs a name and a size";
    if (!c->operands || !c->to || (c->count && !c->total))
        return "a sum needs operands, a place for it, and one for the sum of counts";
    if (c->kind == HD_DEVICE_ALL_REDUCE_TREE &&
        (!c->add || (nccl->options.ranks > 1 && !c->scratch)))
        return "a sum in tree order needs scratch memory and a function that adds";
    return NULL;
}

static int post(struct hd_device_comm *device_comm, int64_t sequence,
                const struct hd_device_collective *collective)
{
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
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
        if (nccl->base.channel)
            hd_channel_arrive(nccl->base.channel, sequence, collective->name);
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

static bool test(struct hd_device_comm *device_comm, int64_t sequence)
{
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
    if (atomic_load_explicit(&nccl->done_sequence, memory_order_acquire) < sequence &&
        hd_nccl_is_ok(nccl) && pthread_mutex_trylock(&nccl->lock) == 0) {
        int before = hd_nccl_enter(nccl);
        progress(nccl);
        hd_nccl_leave(nccl, before);
        pthread_mutex_unlock(&nccl->lock);
    }
    return atomic_load_explicit(&nccl->done_sequence, memory_order_acquire) >= sequence &&
           hd_nccl_is_ok(nccl) &&
           (!nccl->base.channel || hd_channel_test(nccl->base.channel, sequence));
}

static int get_error(struct hd_device_comm *device_comm, char *text, size_t bytes)
{
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
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

static void report(struct hd_device_comm *device_comm, char *text, size_t bytes)
{
    struct hd_nccl *nccl = (struct hd_nccl *)device_comm;
    char version[HD_NCCL_VERSION_BYTES], error[HD_DEVICE_COMM_MESSAGE_BYTES];
    hd_nccl_format_version(hd_nccl_get_loaded_version(), version);
    int status = get_error(device_comm, error, sizeof error);
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

const struct hd_device_comm_ops hd_nccl_ops = {.post = post,
                                               .test = test,
                                               .get_error = get_error,
                                               .report = report,
                                               .abort = hd_nccl_abort,
                                               .destroy = hd_nccl_destroy};
#endif
