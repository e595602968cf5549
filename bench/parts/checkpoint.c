/* SPDX-License-Identifier: Apache-2.0 */
/* Measures a checkpoint of a replay of 100,000 frames of 84 x 84: how long the learner waits for
 * it, and when it is on the disk of the working directory; for the first checkpoint and for one
 * after 5,000 new frames. */
#include "runtime/io/checkpoint/checkpoint.h"

#include "bench/parts/parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/clock.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 100000, FRAME_BYTES = 84 * 84, NEW = 5000 };

static double seconds_since(int64_t begin_ns)
{
    return (double)(hd_clock_get_ns() - begin_ns) * 1e-9;
}

static int write_one(struct hd_checkpoint_writer *checkpoints, int64_t iteration,
                     const char *replay, const char *name)
{
    char label[64];
    const int64_t begin_ns = hd_clock_get_ns();
    HD_TRY(hd_checkpoint_writer_begin(checkpoints, iteration));
    HD_TRY(hd_checkpoint_writer_add_journal(checkpoints, "replay", replay,
                                            (int64_t)FRAMES * FRAME_BYTES));
    hd_checkpoint_writer_submit(checkpoints, json_object());
    snprintf(label, sizeof label, "%s_stall", name);
    hd_part_report(label, 1e3 * seconds_since(begin_ns), "ms");
    if (!hd_checkpoint_writer_wait(checkpoints))
        return HD_ERR_SYSTEM;
    snprintf(label, sizeof label, "%s_written", name);
    hd_part_report(label, 1e3 * seconds_since(begin_ns), "ms");
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    (void)argc, (void)argv;
    char folder[] = "checkpoint-XXXXXX", command[64];
    char *replay = hd_alloc(FRAMES, FRAME_BYTES);
    struct hd_checkpoint_writer *checkpoints = NULL;
    if (!replay || !mkdtemp(folder))
        return HD_ERR_SYSTEM;
    const struct hd_rng rng = hd_rng_make(1, 1, 0, 0, 0);
    for (int64_t i = 0; i < (int64_t)FRAMES * FRAME_BYTES / 8; i++)
        ((uint64_t *)replay)[i] = hd_rng_draw_u64(&rng, (uint32_t)i);
    const struct hd_checkpoint_writer_options options = {
        .dir = folder, .ranks = 1, .keep = 1, .from = -1, .timeout_s = 1e6};
    int status = hd_checkpoint_writer_create(&options, &checkpoints);
    if (status == HD_OK)
        status = write_one(checkpoints, 1, replay, "first");
    for (int64_t i = 0; i < (int64_t)NEW * FRAME_BYTES; i++)
        replay[(int64_t)FRAME_BYTES * 1234 + i] ^= 1;
    if (status == HD_OK)
        status = write_one(checkpoints, 2, replay, "next");
    hd_checkpoint_writer_destroy(checkpoints);
    hd_free(replay);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? status : HD_ERR_SYSTEM;
}

const struct hd_bench_part hd_part_checkpoint = {
    "", "a checkpoint of a replay of 100,000 frames: the first, and one after 5,000 more", measure};
