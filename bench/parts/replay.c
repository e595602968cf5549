/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the full replay ring of DI-engine's Pong config. */
#include "kernels/replay/replay.h"

#include "bench/parts/parts.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/data/batch.h"

#include <string.h>

enum { EPISODE = 2000 };

struct ring {
    const struct hd_replay_shape *shape;
    const struct hd_transition_shape *batch_shape;
    void *memory;
    struct hd_transitions batch;
    struct hd_rng rng;
    uint32_t draws;
};

/* Does the work of the verb sample_replay. */
static void sample(void *arg)
{
    struct ring *ring = arg;
    const int64_t rows = ring->batch_shape->rows,
                  size = hd_replay_get_size(ring->shape, ring->memory);
    for (int64_t i = 0; i < rows; i++) {
        double u = hd_rng_draw_uniform(&ring->rng, ring->draws++);
        hd_replay_get(ring->shape, ring->memory, hd_replay_get_stratum(i, u, rows, size),
                      ring->batch_shape, ring->batch, i);
    }
}

static int fill(struct ring *ring)
{
    const struct hd_replay_shape *shape = ring->shape;
    unsigned char *frame = hd_alloc(1, (size_t)shape->frame_bytes);
    struct hd_transition *transition =
        hd_alloc(1, (size_t)hd_transition_get_bytes(shape->nstep, shape->dims));
    if (!frame || !transition)
        return HD_ERR_NOMEM;
    for (int64_t k = 0; k < shape->frames * shape->envs; k++) {
        memset(frame, (int)(k % 251), (size_t)shape->frame_bytes);
        hd_replay_add_frame(shape, ring->memory, k % shape->envs, frame);
    }
    transition->ahead = (int32_t)shape->nstep;
    for (int64_t k = 0; k < shape->capacity; k++) {
        transition->env = (int32_t)(k % shape->envs);
        transition->frame =
            shape->frames - shape->capacity / shape->envs + k / shape->envs - shape->nstep;
        transition->age = (int32_t)(transition->frame % EPISODE);
        hd_replay_add(shape, ring->memory, transition);
    }
    hd_free(frame);
    hd_free(transition);
    return HD_OK;
}

static int report(struct ring *ring, const struct hd_spec *replay, const struct hd_spec *batch)
{
    ring->shape = replay->shape;
    ring->batch_shape = hd_batch_get_shape(batch);
    ring->rng = hd_rng_make(1, 1, 0, 0, 0);
    ring->memory = hd_alloc(replay->bytes, 1);
    void *block = hd_alloc(batch->bytes, 1);
    if (!ring->memory || !block)
        return HD_ERR_NOMEM;
    ring->batch = hd_transitions_lay_out(ring->batch_shape, block);
    HD_TRY(fill(ring));
    hd_part_report("gigabytes", 1e-9 * (double)replay->bytes, "GB");
    hd_part_report("transitions", (double)hd_replay_get_size(ring->shape, ring->memory), "1");
    hd_part_report("sample", 1e3 * hd_part_measure_seconds(sample, ring), "ms");
    hd_free(ring->memory);
    hd_free(block);
    return HD_OK;
}

static int measure(int argc, char **argv)
{
    (void)argv;
    if (argc > 0)
        return HD_ERR_INPUT;
    static const struct hd_set pong[] = {
        {"policy.model.obs_shape=[4,84,84]", NULL},
        {"policy.model.action_shape=6", NULL},
        {"env.frame_stack=4", NULL},
        {"env.collector_env_num=4", NULL},
        {"policy.nstep=3", NULL},
        {"policy.collect.n_sample=96", NULL},
        {"policy.learn.batch_size=32", NULL},
        {"policy.other.replay_buffer.replay_buffer_size=100000", NULL}};
    const struct hd_key *schema = hd_task_keys;
    struct hd_diag *diag;
    struct hd_config *config;
    HD_TRY(hd_diag_create(&diag));
    HD_TRY(hd_config_create(&schema, 1, NULL, pong, 8, diag, &config));
    const struct hd_setup setup = {.config = config, .diag = diag, .shards = 1};
    struct hd_spec replay = {.name = "replay", .type = &hd_type_replay, .buckets = 1};
    struct hd_spec batch = {.name = "batch", .type = &hd_type_batch, .buckets = 1};
    struct ring ring = {0};
    HD_TRY(hd_type_replay.resolve(&replay, &setup));
    HD_TRY(hd_type_batch.resolve(&batch, &setup));
    int status = report(&ring, &replay, &batch);
    hd_free(replay.shape);
    hd_free(batch.shape);
    hd_config_destroy(config);
    hd_diag_destroy(diag);
    return status;
}

const struct hd_bench_part hd_part_replay = {
    "", "the replay ring of DI-engine's Pong: its size, and drawing a batch of 32", measure};
