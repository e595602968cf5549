/* SPDX-License-Identifier: Apache-2.0 */
/* push_replay and sample_replay: transition blocks pass through the ring to batches. Also the type
 * env_counters. */
#include "kernels/replay/replay.h"
#include "tasks/types/data/batch.h"
#include "tasks/types/output/env_counters.h"
#include "tests/tasks/data/transitions.h"

#include <math.h>

enum { OBS = 4, N_SAMPLE = 6, CAPACITY = 20, B = 8, NSTEP = 2 };

static const struct step push_replay = {.verb = &hd_verb_push_replay},
                         sample_replay = {.verb = &hd_verb_sample_replay};

static struct world *open_replay(int64_t shard)
{
    struct world *w = world_make(shard, 2);
    world_set(w, "policy.collect.n_sample=6; policy.other.replay_buffer.replay_buffer_size=20; "
                 "policy.learn.batch_size=8; policy.nstep=2; env.collector_env_num=1");
    world_open(w, &push_replay, &sample_replay, NULL);
    return w;
}

static const struct hd_transition_block_shape *get_block_shape(const struct world *w)
{
    return hd_transition_block_get_shape(&world_get(w, "transitions")->spec);
}

static void push(struct world *w, int32_t first)
{
    const struct hd_transition_block block = fill_transitions(w, first, N_SAMPLE, NSTEP, OBS);
    for (int32_t i = 0; i < N_SAMPLE; i++) {
        struct hd_transition *transition = hd_transition_get(block.transitions, NSTEP, 1, i);
        transition->reward[0] = (float)(2 * (first + i));
        transition->reward[1] = (float)(3 * (first + i));
        transition->value_gamma = .5f;
    }
    world_run(w, &push_replay, first);
}

static int64_t replay_size(const struct world *w)
{
    return hd_replay_get_size(world_get(w, "replay")->spec.shape, world_get(w, "replay")->data);
}

/* The submitter counts the transitions in the ring, for every number of blocks. */
TEST(test_counted_size)
{
    struct world *w = open_replay(0);
    const struct hd_counted_attribute *size = &hd_verb_push_replay.counted[0];
    ck_assert_str_eq(hd_type_replay.counted[0], size->attribute);
    ck_assert_str_eq(hd_verb_push_replay.ports[size->port].name, "replay");
    void *args = world_prepare(w, &push_replay);
    int64_t counted = 0;
    for (int32_t first = 0; first < 5 * N_SAMPLE; first += N_SAMPLE) {
        ck_assert_int_eq(replay_size(w), counted);
        push(w, first);
        counted = size->next(args, &counted);
    }
    ck_assert_int_eq(counted, CAPACITY);
    ck_assert_int_eq(replay_size(w), CAPACITY);
    world_release(&push_replay, args);
}

/* 24 transitions are in a ring of 20: position p holds 20 + p for p < 4, else p. Item i of the
 * step's stream chooses row i. */
TEST(test_sample)
{
    struct world *w = open_replay(1);
    struct value *batch = world_get(w, "batch");
    for (int32_t first = 0; first < 4 * N_SAMPLE; first += N_SAMPLE)
        push(w, first);
    value_save_load(world_get(w, "replay"));
    const struct hd_context where = world_at(w, &sample_replay, 9);
    world_run_at(w, &sample_replay, where);
    const struct hd_transition_shape *shape = hd_batch_get_shape(&batch->spec);
    const struct hd_transitions rows = hd_batch_get_rows(&batch->spec, batch->data);
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
    value_save_load(batch);
    value_save_load(world_get(w, "transitions"));
    uint64_t hash = value_hash(batch);
    world_run(w, &sample_replay, 9);
    ck_assert_uint_eq(value_hash(batch), hash);
    world_run(w, &sample_replay, 10);
    ck_assert_uint_ne(value_hash(batch), hash);
}

TEST(test_empty)
{
    check_names(world_fail(open_replay(0), &sample_replay, 0), "'replay'|replay.size");
}

/* A file that is cut off must not load, nor a block of more frames than its capacity. */
TEST(test_wrong_files)
{
    struct world *w = open_replay(0);
    push(w, 0);
    for (int i = 0; i < w->n_values; i++) {
        const struct value *value = &w->values[i];
        char bytes[1 << 16];
        FILE *file = tmpfile(), *shorter = tmpfile();
        ck_assert_int_eq(hd_value_save(&value->spec, value->data, file), HD_OK);
        rewind(file);
        size_t n = fread(bytes, 1, sizeof bytes, file);
        ck_assert(n > 0 && n < sizeof bytes);
        ck_assert_uint_eq(fwrite(bytes, 1, n - 1, shorter), n - 1);
        rewind(shorter);
        ck_assert_int_lt(hd_value_load(&value->spec, value->data, shorter), 0);
        fclose(file);
        fclose(shorter);
    }
    FILE *file = tmpfile();
    ck_assert_int_eq(hd_value_save(INSTANCE(w, "transitions"), file), HD_OK);
    rewind(file);
    int64_t frames = get_block_shape(w)->frames + 1;
    ck_assert_uint_eq(fwrite(&frames, sizeof frames, 1, file), 1);
    rewind(file);
    ck_assert_int_eq(hd_value_load(INSTANCE(w, "transitions"), file), HD_ERR_FORMAT);
    fclose(file);
}

static const struct value *declare_replay(struct world *w)
{
    return world_declare(w, (struct hd_spec){.name = "replay", .type = &hd_type_replay}, NULL);
}

/* DI-engine's Pong: 100,000 transitions in 0.75 GB, with frames to spare. */
TEST(test_memory_of_pong)
{
    struct world *w = world_make(0, 2);
    world_set(w, "policy.model.obs_shape=[4,84,84]; env.frame_stack=4; policy.nstep=3; "
                 "env.collector_env_num=4; policy.collect.n_sample=96; "
                 "policy.other.replay_buffer.replay_buffer_size=100000");
    const struct value *replay = declare_replay(w);
    const struct hd_replay_shape *shape = replay->spec.shape;
    ck_assert_int_eq(shape->frame_bytes, 84 * 84);
    ck_assert_int_eq(shape->capacity, 100000);
    ck_assert_int_le(replay->spec.bytes, 750000000);
    ck_assert_double_ge((double)(shape->frames * shape->envs), 1.05 * (double)shape->capacity);
}

/* However few frames a large ring of pictures has, a transition block fits in. */
TEST(test_short_of_frames)
{
    struct world *w = world_make(0, 2);
    world_set(w, "policy.model.obs_shape=[1,3000,3000]; policy.collect.n_sample=4; "
                 "env.collector_env_num=1; policy.other.replay_buffer.replay_buffer_size=10; "
                 "policy.other.replay_buffer.frame_slack=0");
    const struct hd_replay_shape *shape = declare_replay(w)->spec.shape;
    const struct hd_transition_block_shape block = hd_transition_block_shape_read(w->setup.config);
    ck_assert_int_ge(shape->frames, 2 * block.frames_of_env);
    ck_assert_int_lt(shape->frames, 4 * block.frames_of_env);
}

TEST(test_counts)
{
    static const struct step collect = {.verb = &hd_verb_collect},
                             sum = {.verb = &hd_verb_sum, .ports = "from=counters to=totals"};
    struct world *worlds[] = {world_make(0, 2), world_make(1, 2)};
    for (int i = 0; i < 2; i++) {
        world_open(worlds[i], &collect, &sum, NULL);
        *(struct hd_env_counters *)world_get(worlds[i], "counters")->data =
            (struct hd_env_counters){.env_step = 100 + i, .episode = 10 + i, .sample = 90 + i};
        value_save_load(world_get(worlds[i], "counters"));
    }
    worlds_combine(worlds, 2, &sum);
    ck_assert_double_eq(world_field(worlds[0], "totals", "env_step"), 201);
    ck_assert_double_eq(world_field(worlds[0], "totals", "episode"), 21);
    ck_assert_double_eq(world_field(worlds[0], "totals", "sample"), 181);
    ck_assert_int_eq(hd_value_find_field(&world_get(worlds[0], "totals")->spec, "steps"), -1);
}
