/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: sets of StarPU handles by which dependences are tracked. */
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "runtime/engine/submit_internal.h"

static int64_t handles_of(const struct hd_buffer *buffer)
{
    return buffer->buckets * buffer->partials;
}

int hd_buffer_create(struct hd_session *session, int buckets, int64_t partials,
                     struct hd_buffer **buffer_p)
{
    struct hd_buffer *buffer =
        hd_alloc(1, sizeof *buffer + (size_t)(buckets * partials) * sizeof buffer->handles[0]);
    if (!buffer)
        return HD_ERR_NOMEM;
    buffer->session = session;
    buffer->buckets = buckets;
    buffer->partials = partials;
    for (int64_t i = 0; i < handles_of(buffer) && !session->options.sequential; i++)
        starpu_void_data_register(&buffer->handles[i]);
    *buffer_p = buffer;
    return HD_OK;
}

void hd_buffer_destroy(struct hd_buffer *buffer)
{
    if (!buffer)
        return;
    for (int64_t i = 0; i < handles_of(buffer) && !buffer->session->options.sequential; i++) {
        hd_session_drain(buffer->session);
        starpu_data_unregister_no_coherency(buffer->handles[i]);
    }
    hd_free(buffer);
}

int hd_buffer_count_buckets(const struct hd_buffer *buffer)
{
    return buffer->buckets;
}

int64_t hd_buffer_count_partials(const struct hd_buffer *buffer)
{
    return buffer->partials;
}
