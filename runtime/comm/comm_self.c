/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/comm/comm_segment.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void release(struct hd_comm *comm)
{
    munmap(comm->header, (size_t)comm->segment_bytes);
}

/* Pages that are never touched cost nothing: one rank writes one of its two buffers at a time. */
int hd_comm_self_open(struct hd_comm *comm)
{
    void *segment;
    if (hd_comm_map(comm, -1, &segment) != HD_OK)
        return hd_fail(HD_ERR_NOMEM, "no memory for buffers of %lld bytes: %s",
                       (long long)comm->segment_bytes, strerror(errno));
    hd_comm_attach(comm, segment, release);
    return HD_OK;
}
