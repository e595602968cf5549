/* SPDX-License-Identifier: Apache-2.0 */
/* push_replay and sample_replay: transition blocks pass through the ring to batches. Also the type
 * env_counters. */
#include "kernels/replay/replay.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/output/env_counters.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { TRANSITION_BLOCK, REPLAY, BATCH, N_VALUES };
enum { OBS = 4, N_SAMPLE = 6, CAPACITY = 20, B = 8, NSTEP = 2 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES];
    struct value *push_replay[3], *sample[3]; /* without priorities */
};

static void world_open(struct world *w)
{
    static const char *const sets[] = {
        "policy.collect.n_sample=6", "policy.other.replay_buffer.replay_buffer_size=20",
        "policy.learn.batch_size=8", "policy.nstep=2", "env.collector_env_num=1"};
    static const struct hd_type *const types[] = {&hd_type_transition_block, &hd_type_replay,
                                                  &hd_type_batch};
    static const char *const names[] = {"transition_block", "replay", "batch"};
    *w = (struct world){.setup = setup_open(sets, 5)};
    for (int i = 0; i < N_VALUES; i++)
        value_open(&w->values[i], &w->setup, types[i], names[i], NULL);
    w->push_replay[0] = &w->values[TRANSITION_BLOCK];
    w->push_replay[1] = &w->values[REPLAY];
    w->sample[0] = &w->values[REPLAY];
    w->sample[1] = &w->values[BATCH];
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

/* Pushes a transition block whose transitions are numbered from `first`. Transition k leads from
 * frame k of env 0 to the next one; frame k starts with the number k. */
static void push(struct world *w, int32_t first)
{
    const struct hd_transition_block_shape *shape =
        hd_transition_block_get_shape(&w->values[TRANSITION_BLOCK].spec);
    struct hd_transition_block block =
        hd_transition_block_get(shape, w->values[TRANSITION_BLOCK].data);
    hd_transition_block_clear(shape, w->values[TRANSITION_BLOCK].data);
    block.first[0] = first == 0 ? 0 : first + 1;
    for (int64_t k = block.first[0]; k <= first + N_SAMPLE; k++)
        ((float *)block.frames)[(*block.n_frames)++ * OBS] = (float)k;
    for (int32_t i = 0; i < N_SAMPLE; i++) {
        struct hd_transition *transition = hd_transition_get(block.transitions, NSTEP, 1, i);
        transition->frame = transition->age = first + i;
        hd_transition_get_action(transition, NSTEP)->choice = first + i;
        transition->ahead = 1;
        transition->reward[0] = (float)(2 * (first + i));
        transition->reward[1] = (float)(3 * (first + i));
        transition->value_gamma = .5f;
    }
    struct hd_context where = at(&w->setup, 0, first);
    run(&hd_verb_push_replay, &w->setup, w->push_replay, &where);
}

static int64_t replay_size(const struct world *w)
{
    return hd_replay_get_size(w->values[REPLAY].spec.shape, w->values[REPLAY].data);
}

/* The submitter counts the transitions in the ring, for every number of blocks. */
TEST(test_counted_size)
{
    struct world w;
    world_open(&w);
    ck_assert_str_eq(hd_type_replay.counted[0], hd_verb_push_replay.counted[0].attribute);
    ck_assert_ptr_eq(w.push_replay[hd_verb_push_replay.counted[0].port], &w.values[REPLAY]);
    void *args = prepare(&hd_verb_push_replay, &w.setup, w.push_replay);
    int64_t counted = 0;
    for (int32_t first = 0; first < 5 * N_SAMPLE; first += N_SAMPLE) {
        ck_assert_int_eq(replay_size(&w), counted);
        push(&w, first);
        counted = hd_verb_push_replay.counted[0].next(args, &counted);
    }
    ck_assert_int_eq(counted, CAPACITY);
    ck_assert_int_eq(replay_size(&w), CAPACITY);
    unprepare(&hd_verb_push_replay, args);
    world_close(&w);
}

/* 24 transitions are in a ring of 20: position p holds 20 + p for p < 4, else p. Item i of the
 * step's stream chooses row i. */
TEST(test_sample)
{
    struct world w;
    world_open(&w);
    for (int32_t first = 0; first < 4 * N_SAMPLE; first += N_SAMPLE)
        push(&w, first);
    value_save_load(&w.values[REPLAY]);
    struct hd_context where = at(&w.setup, 1, 9);
    memset(w.values[BATCH].data, 0xFF, (size_t)w.values[BATCH].spec.bytes);
    run(&hd_verb_sample_replay, &w.setup, w.sample, &where);
    const struct hd_transition_shape *shape = hd_batch_get_shape(&w.values[BATCH].spec);
    struct hd_transitions rows = hd_batch_get_rows(&w.values[BATCH].spec, w.values[BATCH].data);
    ck_assert_int_eq(shape->rows, B);
    ck_assert_int_eq(shape->nstep, NSTEP);
    for (int32_t i = 0; i < B; i++) {
        double u = hd_rng_draw_uniform(&where.rng, (uint32_t)i);
        int32_t position = (int32_t)floor((i + u) * CAPACITY / B);
        int32_t number = position < 4 ? 20 + position : position;
        ck_assert_int_eq(rows.action[i].choice, number);
        ck_assert_float_eq(((float *)rows.obs)[i * OBS], (float)number);
        ck_assert_float_eq(((float *)rows.next_obs)[i * OBS], (float)(number + 1));
        ck_assert_float_eq(rows.reward[i], (float)(2 * number));
        ck_assert_float_eq(rows.reward[B + i], (float)(3 * number));
        ck_assert_float_eq(rows.done[i], 0);
        ck_assert_float_eq(rows.value_gamma[i], .5f);
    }
    value_save_load(&w.values[BATCH]);
    value_save_load(&w.values[TRANSITION_BLOCK]);
    uint64_t hash = value_hash(&w.values[BATCH]);
    run(&hd_verb_sample_replay, &w.setup, w.sample, &where);
    ck_assert_uint_eq(value_hash(&w.values[BATCH]), hash);
    where = at(&w.setup, 1, 10);
    run(&hd_verb_sample_replay, &w.setup, w.sample, &where);
    ck_assert_uint_ne(value_hash(&w.values[BATCH]), hash);
    world_close(&w);
}

TEST(test_empty)
{
    struct world w;
    world_open(&w);
    struct hd_context where = at(&w.setup, 0, 0);
    char message[HD_MESSAGE_BYTES] = "";
    ck_assert_int_eq(run_body(&hd_verb_sample_replay, w.sample, &where, NULL, message),
                     HD_ERR_TASK);
    ck_assert_ptr_nonnull(strstr(message, "'replay' is empty"));
    world_close(&w);
}

/* A file that is cut off must not load, nor a block of more frames than its capacity. */
TEST(test_wrong_files)
{
    struct world w;
    world_open(&w);
    push(&w, 0);
    for (int i = 0; i < N_VALUES; i++) {
        char bytes[1 << 16];
        FILE *file = tmpfile(), *shorter = tmpfile();
        ck_assert_int_eq(hd_value_save(&w.values[i].spec, w.values[i].data, file), HD_OK);
        rewind(file);
        size_t n = fread(bytes, 1, sizeof bytes, file);
        ck_assert(n > 0 && n < sizeof bytes);
        ck_assert_uint_eq(fwrite(bytes, 1, n - 1, shorter), n - 1);
        rewind(shorter);
        ck_assert_int_lt(hd_value_load(&w.values[i].spec, w.values[i].data, shorter), 0);
        fclose(file);
        fclose(shorter);
    }
    const struct hd_transition_block_shape *shape =
        hd_transition_block_get_shape(&w.values[TRANSITION_BLOCK].spec);
    FILE *file = tmpfile();
    ck_assert_int_eq(
        hd_value_save(&w.values[TRANSITION_BLOCK].spec, w.values[TRANSITION_BLOCK].data, file),
        HD_OK);
    rewind(file);
    int64_t frames = shape->frames + 1;
    ck_assert_uint_eq(fwrite(&frames, sizeof frames, 1, file), 1);
    rewind(file);
    ck_assert_int_eq(
        hd_value_load(&w.values[TRANSITION_BLOCK].spec, w.values[TRANSITION_BLOCK].data, file),
        HD_ERR_FORMAT);
    fclose(file);
    world_close(&w);
}

/* DI-engine's Pong: 100,000 transitions in 0.75 GB, with frames to spare. */
TEST(test_memory_of_pong)
{
    static const char *const sets[] = {"policy.model.obs_shape=[4,84,84]",
                                       "env.frame_stack=4",
                                       "policy.nstep=3",
                                       "env.collector_env_num=4",
                                       "policy.collect.n_sample=96",
                                       "policy.other.replay_buffer.replay_buffer_size=100000"};
    struct hd_setup setup = setup_open(sets, 6);
    struct value replay;
    value_resolve(&replay, &setup, &hd_type_replay, "replay", NULL);
    const struct hd_replay_shape *shape = replay.spec.shape;
    ck_assert_int_eq(shape->frame_bytes, 84 * 84);
    ck_assert_int_eq(shape->capacity, 100000);
    ck_assert_int_le(replay.spec.bytes, 750000000);
    ck_assert_double_ge((double)(shape->frames * shape->envs), 1.05 * (double)shape->capacity);
    value_close(&replay);
    setup_close(&setup);
}

/* However few frames a large ring of pictures has, a transition block fits in. */
TEST(test_short_of_frames)
{
    static const char *const sets[] = {"policy.model.obs_shape=[1,3000,3000]",
                                       "policy.collect.n_sample=4", "env.collector_env_num=1",
                                       "policy.other.replay_buffer.replay_buffer_size=10",
                                       "policy.other.replay_buffer.frame_slack=0"};
    struct hd_setup setup = setup_open(sets, 5);
    struct value replay;
    value_resolve(&replay, &setup, &hd_type_replay, "replay", NULL);
    const struct hd_replay_shape *shape = replay.spec.shape;
    const struct hd_transition_block_shape block = hd_transition_block_shape_read(setup.config);
    ck_assert_int_ge(shape->frames, 2 * block.frames_of_env);
    ck_assert_int_lt(shape->frames, 4 * block.frames_of_env);
    value_close(&replay);
    setup_close(&setup);
}

TEST(test_counts)
{
    struct hd_setup setup = setup_open(NULL, 0);
    struct value buckets[2], total;
    for (int i = 0; i < 2; i++) {
        value_open(&buckets[i], &setup, &hd_type_env_counters, "counters", NULL);
        *(struct hd_env_counters *)buckets[i].data =
            (struct hd_env_counters){.env_step = 100 + i, .episode = 10 + i, .sample = 90 + i};
        value_save_load(&buckets[i]);
    }
    value_open(&total, &setup, &hd_type_env_counters, "totals", NULL);
    const struct hd_reduction *reduction = hd_type_env_counters.reduction;
    size_t bytes = (size_t)reduction->bytes(&total.spec, 0);
    void *vectors[2] = {hd_alloc(1, bytes), hd_alloc(1, bytes)};
    for (int i = 0; i < 2; i++)
        reduction->pack(&buckets[i].spec, 0, buckets[i].data, vectors[i]);
    reduction->combine(&total.spec, 0, HD_SUM, vectors[0], vectors[1]);
    reduction->unpack(&total.spec, 0, HD_SUM, vectors[0], total.data);
    static const char *const names[] = {"env_step", "episode", "sample"};
    static const double expected[] = {201, 21, 181};
    for (int i = 0; i < 3; i++) {
        int field = hd_value_find_field(&total.spec, names[i]);
        ck_assert_int_ge(field, 0);
        ck_assert_double_eq(hd_type_env_counters.field(&total.spec, total.data, field),
                            expected[i]);
    }
    ck_assert_int_eq(hd_value_find_field(&total.spec, "steps"), -1);
    for (int i = 0; i < 2; i++) {
        hd_free(vectors[i]);
        value_close(&buckets[i]);
    }
    value_close(&total);
    setup_close(&setup);
}
