/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/execute/gpu/staging.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

enum { BLOCKS = 2, BLOCK_BYTES = 4 << 20 };

struct hd_staging {
    struct hd_session *session;
    void *blocks[BLOCKS];
    struct hd_buffer *buffers[BLOCKS];
    int next; /* block */
};

int hd_staging_create(struct hd_session *session, struct hd_staging **staging_p)
{
    struct hd_staging *staging = hd_alloc(1, sizeof *staging);
    if (!staging)
        return HD_ERR_NOMEM;
    staging->session = session;
    *staging_p = staging;
    for (int i = 0; i < BLOCKS; i++) {
        HD_TRY(hd_buffer_create(session, 1, 1, &staging->buffers[i]));
        staging->blocks[i] =
            hd_session_get_recorder(session) ? hd_alloc(1, 1) : hd_pinned_alloc(BLOCK_BYTES);
        if (!staging->blocks[i])
            return HD_ERR_NOMEM;
    }
    return HD_OK;
}

void hd_staging_destroy(struct hd_staging *staging)
{
    for (int i = 0; staging && i < BLOCKS; i++) {
        hd_buffer_destroy(staging->buffers[i]);
        if (hd_session_get_recorder(staging->session))
            hd_free(staging->blocks[i]);
        else
            hd_pinned_free(staging->blocks[i]);
    }
    hd_free(staging);
}

struct copy {
    void *to;
    const void *from;
    int64_t bytes;
};

static int fill_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)views;
    const struct copy *copy = args;
    return hd_device_copy(copy->to, copy->from, copy->bytes, context->stream);
}

static int empty_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)context, (void)views;
    const struct copy *copy = args;
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    return HD_OK;
}

/* Submits one half of a block's way; its task is the transfer's in all else. */
static int submit(struct hd_session *session, const struct hd_task *transfer, int home,
                  struct copy copy, struct hd_access read, struct hd_access write)
{
    const struct hd_access accesses[] = {read, write};
    struct hd_task task = *transfer;
    struct copy *owned = hd_alloc(1, sizeof *owned);
    if (!owned)
        return HD_ERR_NOMEM;
    *owned = copy;
    task.args = task.owned = owned;
    task.home = home;
    task.body = home == HD_HOST ? empty_body : fill_body;
    task.volume = 2 * copy.bytes;
    task.accesses = accesses;
    int status = hd_submit_task(session, &task);
    if (status != HD_OK)
        hd_free(owned);
    return status;
}

int hd_staging_submit_copy(struct hd_staging *staging, const struct hd_task *transfer, int64_t at,
                           int64_t bytes)
{
    for (int64_t end = at + bytes; at < end; at += BLOCK_BYTES) {
        const int i = staging->next++ % BLOCKS;
        const int64_t n = end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES;
        const struct copy fill = {staging->blocks[i], (char *)transfer->views[0].data + at, n},
                          empty = {(char *)transfer->views[1].data + at, staging->blocks[i], n};
        HD_TRY(submit(staging->session, transfer, transfer->home, fill, transfer->accesses[0],
                      (struct hd_access){staging->buffers[i], 0, HD_ALL_PARTIALS, HD_WRITE}));
        HD_TRY(submit(staging->session, transfer, HD_HOST, empty,
                      (struct hd_access){staging->buffers[i], 0, HD_ALL_PARTIALS, HD_READ},
                      transfer->accesses[1]));
    }
    return HD_OK;
}
