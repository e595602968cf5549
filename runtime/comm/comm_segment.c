/* SPDX-License-Identifier: Apache-2.0 */
/* The segment of a communicator, private or shared. */
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static int64_t header_bytes(const struct hd_comm *comm)
{
    size_t lines = (size_t)comm->n_channels * (size_t)comm->world * sizeof(struct hd_comm_line);
    return round_up((int64_t)(sizeof(struct hd_comm_header) + lines), HD_COMM_PAGE);
}

static int64_t count_buffers(const struct hd_comm *comm)
{
    return 2 * (int64_t)comm->world * comm->n_channels;
}

int hd_comm_set_sizes(struct hd_comm *comm, const struct hd_comm_sizes *sizes)
{
    const int64_t buffer_bytes = sizes->buffer_bytes, area_bytes = sizes->area_bytes;
    int64_t buffers, areas;
    if (sizes->channels < 1 || sizes->channels > HD_CHANNELS_MAX || buffer_bytes <= 0 ||
        buffer_bytes > INT64_MAX - HD_COMM_PAGE || area_bytes < 0 ||
        area_bytes > INT64_MAX - HD_COMM_HUGE_PAGE)
        return hd_fail(HD_ERR_INPUT,
                       "%d channels, buffers of %lld bytes and areas of %lld for collectives",
                       sizes->channels, (long long)buffer_bytes, (long long)area_bytes);
    comm->n_channels = sizes->channels;
    comm->buffer_bytes = round_up(buffer_bytes, HD_COMM_PAGE);
    comm->area_bytes = round_up(area_bytes, HD_COMM_HUGE_PAGE);
    if (__builtin_mul_overflow(comm->buffer_bytes, count_buffers(comm), &buffers) ||
        __builtin_add_overflow(header_bytes(comm), buffers, &buffers) ||
        buffers > INT64_MAX - HD_COMM_HUGE_PAGE ||
        __builtin_mul_overflow(comm->area_bytes, (int64_t)comm->world, &areas) ||
        __builtin_add_overflow(round_up(buffers, HD_COMM_HUGE_PAGE), areas, &comm->segment_bytes))
        return hd_fail(HD_ERR_INPUT,
                       "buffers of %lld bytes and areas of %lld for %d ranks overflow",
                       (long long)buffer_bytes, (long long)area_bytes, comm->world);
    if (area_bytes == 0)
        comm->segment_bytes = buffers;
    return HD_OK;
}

/* -- Operations of memory that all ranks see: there is nothing to send ------------------------- */

static void post(struct hd_channel *channel, int64_t seq, const char *name,
                 const struct hd_comm_transfer *transfers, int n)
{
    (void)channel, (void)seq, (void)name, (void)transfers, (void)n;
}

static void post_pairs(struct hd_channel *channel, int64_t seq, const char *name,
                       const struct hd_comm_transfer *transfers, int n)
{
    (void)channel, (void)seq, (void)name, (void)transfers, (void)n;
}

static bool test_pairs(struct hd_channel *channel, int64_t seq)
{
    (void)channel, (void)seq;
    return true;
}

static void comm_segment_progress(struct hd_channel *channel)
{
    (void)channel;
}

static bool is_awaited(struct hd_channel *channel, int rank, int64_t seq)
{
    (void)channel, (void)rank, (void)seq;
    return false;
}

static bool is_ahead(struct hd_channel *channel, int rank, int64_t *seq_p)
{
    (void)channel, (void)rank, (void)seq_p;
    return false;
}

void hd_comm_unmap(struct hd_comm *comm)
{
    munmap(comm->header, (size_t)comm->segment_bytes);
}

static const struct hd_comm_ops ops = {.post = post,
                                       .post_pairs = post_pairs,
                                       .test_pairs = test_pairs,
                                       .progress = comm_segment_progress,
                                       .is_awaited = is_awaited,
                                       .is_ahead = is_ahead,
                                       .close = hd_comm_unmap};

static void attach(struct hd_comm *comm, void *segment)
{
    comm->ops = &ops;
    comm->header = segment;
    comm->areas = (char *)segment + comm->segment_bytes - comm->world * comm->area_bytes;
    char *buffers = (char *)segment + header_bytes(comm);
    for (int i = 0; i < comm->n_channels; i++)
        comm->channels[i] = (struct hd_channel){
            .comm = comm,
            .lines = comm->header->lines + (ptrdiff_t)i * comm->world,
            .buffers = buffers + 2 * (int64_t)i * comm->world * comm->buffer_bytes,
            .messages = comm->channels[i].messages,
        };
}

/* -- The segment ------------------------------------------------------------------------------- */

/* Asks for one huge page more than needed, to find an address that is aligned to one. */
int hd_comm_map(struct hd_comm *comm, int fd)
{
    const size_t bytes = (size_t)comm->segment_bytes, huge = HD_COMM_HUGE_PAGE;
    char *mapping =
        mmap(NULL, bytes + huge, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED)
        return HD_ERR_SYSTEM;
    char *at = (char *)round_up((int64_t)(intptr_t)mapping, HD_COMM_HUGE_PAGE);
    const int flags =
        MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED);
    void *segment = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    const int error = errno;
    if (at > mapping)
        munmap(mapping, (size_t)(at - mapping));
    munmap(at + bytes, huge - (size_t)(at - mapping));
    if (segment == MAP_FAILED)
        munmap(at, bytes);
    errno = error;
    if (segment == MAP_FAILED)
        return HD_ERR_SYSTEM;
    if (comm->area_bytes > 0) /* a request; where it is not granted, pages are small */
        madvise(at + bytes - comm->world * comm->area_bytes,
                (size_t)(comm->world * comm->area_bytes), MADV_HUGEPAGE);
    attach(comm, segment);
    return HD_OK;
}

/* Pages that are never touched cost nothing. */
int hd_comm_self_open(struct hd_comm *comm)
{
    if (hd_comm_map(comm, -1) != HD_OK)
        return hd_fail(HD_ERR_NOMEM, "no memory for buffers of %lld bytes: %s",
                       (long long)comm->segment_bytes, strerror(errno));
    return HD_OK;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

void hd_comm_touch_area(struct hd_comm *comm)
{
    char *area = comm->areas + comm->rank * comm->area_bytes;
    if (comm->area_bytes == 0)
        return;
    memset(area, 0, (size_t)comm->area_bytes);
    madvise(area, (size_t)comm->area_bytes, MADV_COLLAPSE);
}
