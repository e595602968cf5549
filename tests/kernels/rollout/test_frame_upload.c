/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that envs show on the host and that a GPU reads now and then, against lists of whole
 * observations. */
#include "kernels/rollout/frame_upload.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

enum { ENVS = 3, SHOWN = 60, MAX_STACK = 4, GUARD = 64 };

/* There is capacity for all frames, for an observation's alone, or for one more; words of several
 * sizes. */
static const struct size {
    int64_t frames, stack, frame_bytes;
} sizes[] = {{SHOWN + MAX_STACK, 4, 48},
             {4, 4, 48},
             {4, 4, 7056},
             {5, 4, 20},
             {3, 3, 7},
             {1, 1, 16},
             {2, 1, 1}};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static struct hd_frame_upload make_upload(const struct size *size, void *(*alloc)(int64_t))
{
    return (struct hd_frame_upload){.envs = ENVS,
                                    .frames = size->frames,
                                    .stack = size->stack,
                                    .frame_bytes = size->frame_bytes,
                                    .host_frames =
                                        alloc(ENVS * size->frames * size->frame_bytes + GUARD),
                                    .shown = alloc(ENVS * 8),
                                    .age = alloc(ENVS * 8),
                                    .here = alloc(ENVS * 8)};
}

/* Fills a frame with bytes that no other frame has. */
static void paint(char *frame, int64_t bytes, int env, int number)
{
    for (int64_t i = 0; i < bytes; i++)
        frame[i] = (char)(env * 90 + number + i % 3);
}

/* Appends a frame to the env's observation, or fills the observation with copies of it. */
static void move_on(char *obs, const struct size *size, const char *frame, bool begins)
{
    const int64_t one = size->frame_bytes;
    for (int64_t i = 0; i < size->stack; i++)
        if (begins || i + 1 == size->stack)
            memcpy(obs + i * one, frame, (size_t)one);
        else
            memmove(obs + i * one, obs + (i + 1) * one, (size_t)one);
}

/* Begins all envs with some observation. */
static void begin(const struct hd_frame_upload *upload, const struct size *size, char *wanted)
{
    for (int env = 0; env < ENVS; env++) {
        char *obs = wanted + env * size->stack * size->frame_bytes;
        for (int i = 0; i < size->stack; i++)
            paint(obs + i * size->frame_bytes, size->frame_bytes, env, i - 9);
        hd_frame_upload_add_obs(upload, env, obs);
    }
}

/* Shows a frame of each env; each begins an episode now and then. */
static void add_next(const struct hd_frame_upload *upload, const struct size *size, int step,
                     char *wanted)
{
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    char *frame = test_alloc(size->frame_bytes, 1);
    for (int env = 0; env < ENVS; env++) {
        const bool begins = hd_rng_draw_below(&rng, (uint32_t)(step * ENVS + env), 5) == 0;
        paint(frame, size->frame_bytes, env, step);
        memcpy(hd_frame_upload_next(upload, env, begins), frame, (size_t)size->frame_bytes);
        move_on(wanted + env * size->stack * size->frame_bytes, size, frame, begins);
    }
}

static void *alloc_here(int64_t bytes)
{
    return test_alloc(bytes, 1);
}

TEST(frames_of_observations, .runs = SIZES)
{
    const struct size *size = &sizes[_i];
    const struct hd_frame_upload upload = make_upload(size, alloc_here);
    char *wanted = test_alloc(ENVS * size->stack * size->frame_bytes, 1);
    begin(&upload, size, wanted);
    for (int step = 0; step < SHOWN; step++) {
        for (int i = 0; i < ENVS * size->stack; i++) {
            const int64_t env = i / size->stack, k = i % size->stack;
            const int64_t at =
                hd_frame_upload_find_obs(&upload, env, upload.shown[env], upload.age[env], k);
            ck_assert_mem_eq(upload.host_frames + at, wanted + i * size->frame_bytes,
                             (size_t)size->frame_bytes);
        }
        add_next(&upload, size, step, wanted);
    }
}

#if HD_CUDA

static struct hd_frame_upload make_upload_on_gpu(const struct size *size)
{
    struct hd_frame_upload upload = make_upload(size, device_shared);
    upload.frames_here = device_make(NULL, ENVS * size->frames * size->frame_bytes + GUARD);
    return upload;
}

/* Checks the GPU's observations, and that nothing else has changed. */
static void check_obs(const struct hd_frame_upload *upload, char *there, const char *wanted)
{
    const int64_t bytes = ENVS * upload->stack * upload->frame_bytes;
    char *found = test_alloc(bytes + GUARD, 1);
    ck_assert_int_eq(hd_frame_upload_run_cuda(upload, 1, there, device_stream()), HD_OK);
    device_get(found, there, bytes);
    ck_assert_mem_eq(found, wanted, (size_t)bytes);
    device_get(found, upload->frames_here + ENVS * upload->frames * upload->frame_bytes, GUARD);
    for (int i = 0; i < GUARD; i++)
        ck_assert_int_eq((uint8_t)found[i], 0xFF);
    for (int env = 0; env < ENVS; env++)
        ck_assert_int_eq(upload->here[env], upload->shown[env]);
}

/* The GPU reads at one step of three. Uploaded frames are overwritten on the host, so bytes that
 * were uploaded twice would be found. */
TEST(frames_travel_once, .runs = SIZES, .cuda = true)
{
    const struct size *size = &sizes[_i];
    const struct hd_frame_upload upload = make_upload_on_gpu(size);
    const int64_t bytes = ENVS * size->stack * size->frame_bytes;
    const struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    char *wanted = test_alloc(bytes, 1), *there = device_make(NULL, bytes + GUARD);
    begin(&upload, size, wanted);
    for (int step = 0; step < SHOWN; step++) {
        if (hd_rng_draw_below(&rng, (uint32_t)step, 3) == 0) {
            check_obs(&upload, there, wanted);
            memset(upload.host_frames, 0xEE, (size_t)(ENVS * size->frames * size->frame_bytes));
        }
        add_next(&upload, size, step, wanted);
    }
    check_obs(&upload, there, wanted);
}

/* Groups of envs have memory of their own, and their observations lie behind one another. */
TEST(groups_share_a_launch, .runs = SIZES, .cuda = true)
{
    enum { GROUPS = HD_FRAME_UPLOADS };
    const struct size *size = &sizes[_i];
    const int64_t bytes = ENVS * size->stack * size->frame_bytes;
    struct hd_frame_upload uploads[GROUPS];
    char *wanted = test_alloc(GROUPS * bytes, 1), *found = test_alloc(GROUPS * bytes, 1);
    char *there = device_make(NULL, GROUPS * bytes);
    for (int group = 0; group < GROUPS; group++) {
        uploads[group] = make_upload_on_gpu(size);
        begin(&uploads[group], size, wanted + group * bytes);
        for (int step = 0; step < group; step++)
            add_next(&uploads[group], size, step, wanted + group * bytes);
    }
    ck_assert_int_eq(hd_frame_upload_run_cuda(uploads, GROUPS, there, device_stream()), HD_OK);
    device_get(found, there, GROUPS * bytes);
    ck_assert_mem_eq(found, wanted, (size_t)(GROUPS * bytes));
}

/* Without an observation, all existing frames are uploaded, for a learner. */
TEST(all_frames_are_fetched, .cuda = true)
{
    const struct size *size = &sizes[0];
    const struct hd_frame_upload upload = make_upload_on_gpu(size);
    const int64_t bytes = ENVS * size->frames * size->frame_bytes;
    char *found = test_alloc(bytes, 1);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++)
            for (int env = 0; env < ENVS; env++)
                paint(hd_frame_upload_next(&upload, env, i == 7), size->frame_bytes, env,
                      20 * round + i);
        ck_assert_int_eq(hd_frame_upload_run_cuda(&upload, 1, NULL, device_stream()), HD_OK);
        device_get(found, upload.frames_here, bytes);
        for (int env = 0; env < ENVS; env++) {
            const int64_t first = hd_frame_upload_find_frame(&upload, env, 0);
            ck_assert_mem_eq(found + first, upload.host_frames + first,
                             (size_t)(upload.shown[env] * size->frame_bytes));
        }
    }
}

#endif
