/* SPDX-License-Identifier: Apache-2.0 */
/* Copies from a GPU through pinned blocks to memory that is not pinned: of any length and place,
 * between the tasks that write the one side before and after. */
#include "graph/execute/gpu/staging.h"
#include "runtime/base/status.h"
#include "runtime/engine/session.h"
#include "tests/kernels/common/device.h"

#if HD_CUDA

enum { BLOCK = 4 << 20, BYTES = 3 * BLOCK + 1000 };

static int overwrite_body(struct hd_context *context, const struct hd_view *views, const void *args)
{
    (void)args;
    return cudaMemsetAsync(views[0].data, 0x55, BYTES, context->stream) == cudaSuccess
               ? HD_OK
               : HD_ERR_DEVICE;
}

static void submit_overwrite(struct hd_session *session, const struct hd_task *transfer)
{
    const struct hd_access access = {transfer->accesses[0].buffer, 0, HD_ALL_PARTIALS, HD_WRITE};
    struct hd_task task = *transfer;
    task.body = overwrite_body;
    task.n_accesses = 1;
    task.accesses = &access;
    ck_assert_int_eq(hd_submit_task(session, &task), HD_OK);
}

/* Copies bytes [at, at + n), changes the source afterwards, and looks at the whole target. */
static void check_copy(struct hd_session *session, int64_t at, int64_t n)
{
    unsigned char *content = malloc(BYTES), *target = calloc(BYTES, 1);
    struct hd_buffer *buffers[2];
    struct hd_staging *staging;
    for (int64_t i = 0; i < BYTES; i++)
        content[i] = (unsigned char)(i * 7 + i / 1000 + 1);
    void *source = device_make(content, BYTES);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(hd_buffer_create(session, 1, 1, &buffers[i]), HD_OK);
    ck_assert_int_eq(hd_staging_create(session, &staging), HD_OK);
    const struct hd_access accesses[] = {{buffers[0], 0, HD_ALL_PARTIALS, HD_READ},
                                         {buffers[1], 0, HD_ALL_PARTIALS, HD_WRITE}};
    const struct hd_task transfer = {.verb = "transfer",
                                     .name = "transfer",
                                     .home = 1,
                                     .views = {{.data = source}, {.data = target}},
                                     .n = 2,
                                     .accesses = accesses,
                                     .n_accesses = 2};
    ck_assert_int_eq(hd_staging_submit_copy(staging, &transfer, at, n), HD_OK);
    submit_overwrite(session, &transfer);
    ck_assert_int_eq(hd_session_drain(session), HD_OK);
    for (int64_t i = 0; i < BYTES; i++)
        ck_assert_int_eq(target[i], i >= at && i < at + n ? content[i] : 0);
    hd_staging_destroy(staging);
    for (int i = 0; i < 2; i++)
        hd_buffer_destroy(buffers[i]);
    free(content);
    free(target);
}

/* Returns why StarPU cannot use a GPU here, or NULL. */
static const char *find_missing_devices(void)
{
    return hd_session_supports_devices() ? NULL : "built with a StarPU without CUDA";
}

PREREQUISITE(find_missing_devices)

TEST(test_lengths, .runs = 2, .cuda = true)
{
    const struct hd_session_options options = {.sequential = _i,
                                               .workers = 2,
                                               .scheduler = "lws",
                                               .ranks = 1,
                                               .n_devices = 1,
                                               .device_scratch_bytes = 1};
    struct hd_session *session;
    ck_assert_int_eq(hd_session_create(&options, &session), HD_OK);
    check_copy(session, 0, BYTES);
    check_copy(session, 1, BLOCK);
    check_copy(session, 500, 2 * BLOCK + 1);
    check_copy(session, BYTES - 1, 1);
    hd_session_destroy(session);
}

#endif
