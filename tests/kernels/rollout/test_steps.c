/* SPDX-License-Identifier: Apache-2.0 */
/* Observations and minibatches assembled on a GPU from the steps of a collect, against windows of
 * frames that slide along with envs that play at random. */
#include "kernels/rollout/minibatch.h"
#include "kernels/rollout/steps.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"

#include <string.h>

/* -- Collects ---------------------------------------------------------------------------------- */

struct shape {
    int64_t groups, envs, samples, steps, stack, frame_bytes, actions;
};

static const struct shape shapes[] = {{1, 3, 40, 20, 4, 48, 3},   {3, 2, 17, 12, 3, 20, 18},
                                      {2, 4, 33, 9, 2, 7, 2},     {1, 1, 5, 6, 4, 7056, 6},
                                      {40, 1, 2, 2, 1, 16, 40},   {2, 5, 100, 40, 1, 4, 1},
                                      {1, 30, 1500, 70, 2, 16, 2}};
enum { MAX_GROUPS = 40, SHAPES = sizeof shapes / sizeof shapes[0] };

/* A group's arrays in host memory, and what each step showed. */
struct group {
    char *memory;
    char *obs, *next_obs; /* [E][T][stack frames] */
};

struct collect {
    struct shape is;
    struct hd_steps steps; /* on the device */
    char *memory;          /* all groups */
    struct group group[MAX_GROUPS];
    struct hd_rng rng;
    uint32_t draws;
};

static int64_t draw(struct collect *c, int64_t below)
{
    return hd_rng_draw_below(&c->rng, c->draws++, below);
}

/* Room for an array in a group, of which *bytes_p are taken. */
static int64_t place(int64_t *bytes_p, int64_t bytes, int64_t alignment)
{
    const int64_t at = (*bytes_p + alignment - 1) / alignment * alignment;
    *bytes_p = at + bytes;
    return at;
}

static void lay_out(struct collect *c)
{
    const struct shape *is = &c->is;
    const int64_t steps = is->envs * is->steps, obs_bytes = is->stack * is->frame_bytes;
    int64_t bytes = 0;
    c->steps.at.row = place(&bytes, is->samples * 4, 4);
    c->steps.at.end = place(&bytes, is->samples * 4, 4);
    c->steps.at.frame = place(&bytes, steps * 4, 4);
    c->steps.at.frame_age = place(&bytes, steps * 4, 4);
    c->steps.at.action = place(&bytes, steps * c->steps.dims * 4, 4);
    c->steps.at.reward = place(&bytes, steps * 4, 4);
    c->steps.at.done = place(&bytes, steps * 4, 4);
    c->steps.at.logit = place(&bytes, steps * is->actions * 4, 4);
    c->steps.at.frames = place(&bytes, is->envs * c->steps.frames * is->frame_bytes, 64);
    c->steps.group_bytes = (bytes + 63) / 64 * 64;
    c->memory = test_alloc(is->groups, (size_t)c->steps.group_bytes);
    for (int64_t l = 0; l < is->groups; l++)
        c->group[l] = (struct group){.memory = c->memory + l * c->steps.group_bytes,
                                     .obs = test_alloc(steps, (size_t)obs_bytes),
                                     .next_obs = test_alloc(steps, (size_t)obs_bytes)};
}

static float *floats(const struct group *group, int64_t at)
{
    return (float *)(group->memory + at);
}

static int32_t *ints(const struct group *group, int64_t at)
{
    return (int32_t *)(group->memory + at);
}

/* An env at play: the window holds its last frames. */
struct env {
    char *frames; /* those it may show in this collect */
    int64_t shown;
    char *window;
    int64_t age; /* frames of its episode before the last one */
};

/* Shows a frame: appends it to the window, or fills the window with the first frame of an
 * episode. */
static void show(struct collect *c, struct env *env, bool first)
{
    const size_t bytes = (size_t)c->is.frame_bytes;
    char *frame = env->frames + env->shown++ * c->is.frame_bytes;
    ck_assert_int_le(env->shown, c->steps.frames);
    for (size_t i = 0; i < bytes; i++)
        frame[i] = (char)draw(c, 256);
    for (int64_t k = 0; k < c->is.stack; k++)
        memmove(env->window + (size_t)k * bytes,
                first || k == c->is.stack - 1 ? frame : env->window + (size_t)(k + 1) * bytes,
                bytes);
    env->age = first ? 0 : env->age + 1;
}

/* Plays all steps of an env, which is in the middle of an episode at first. */
static void play(struct collect *c, struct group *group, int64_t number)
{
    const int64_t obs_bytes = c->is.stack * c->is.frame_bytes;
    struct env env = {.frames = group->memory + c->steps.at.frames +
                                number * c->steps.frames * c->is.frame_bytes,
                      .window = test_alloc(1, (size_t)obs_bytes)};
    for (int64_t k = 0; k < c->is.stack; k++)
        show(c, &env, false);
    env.age = c->is.stack - 1;
    for (int64_t t = 0; t < c->is.steps; t++) {
        const int64_t step = number * c->is.steps + t;
        ints(group, c->steps.at.frame)[step] = (int32_t)(env.shown - 1);
        ints(group, c->steps.at.frame_age)[step] = (int32_t)env.age;
        for (int64_t d = 0; d < c->steps.dims; d++)
            ints(group, c->steps.at.action)[step * c->steps.dims + d] =
                (int32_t)draw(c, c->is.actions);
        floats(group, c->steps.at.reward)[step] = (float)draw(c, 100);
        floats(group, c->steps.at.done)[step] = draw(c, 4) == 0;
        for (int64_t i = 0; i < c->is.actions; i++)
            floats(group, c->steps.at.logit)[step * c->is.actions + i] = (float)draw(c, 1000);
        memcpy(group->obs + step * obs_bytes, env.window, (size_t)obs_bytes);
        show(c, &env, false);
        memcpy(group->next_obs + step * obs_bytes, env.window, (size_t)obs_bytes);
        if (floats(group, c->steps.at.done)[step] != 0)
            show(c, &env, true);
    }
}

static void collect_make(struct collect *c, const struct shape *is, int64_t seed)
{
    *c = (struct collect){.is = *is, .rng = hd_rng_make((uint64_t)seed, 1, 0, 0, 0)};
    c->steps = (struct hd_steps){.groups = is->groups,
                                 .samples = is->samples,
                                 .steps = is->steps,
                                 .frames = is->stack + 2 * is->steps,
                                 .stack = is->stack,
                                 .frame_bytes = is->frame_bytes,
                                 .logits = is->actions,
                                 .dims = 1 + is->actions % 3};
    lay_out(c);
    for (int64_t l = 0; l < is->groups; l++) {
        struct group *group = &c->group[l];
        for (int64_t env = 0; env < is->envs; env++)
            play(c, group, env);
        for (int64_t i = 0; i < is->samples; i++) {
            ints(group, c->steps.at.row)[i] = (int32_t)draw(c, is->envs * is->steps);
            floats(group, c->steps.at.end)[i] = draw(c, 3) == 0;
        }
    }
    c->steps.data = c->memory;
}

static int64_t all_samples(const struct collect *c)
{
    return c->is.groups * c->is.samples;
}

/* Returns the group and the step of a sample. */
static const struct group *group_of(const struct collect *c, int64_t sample, int64_t *step_p)
{
    const struct group *group = &c->group[sample / c->is.samples];
    *step_p = ints(group, c->steps.at.row)[sample % c->is.samples];
    return group;
}

static void check_obs(const struct collect *c, int64_t sample, bool after, const char *found)
{
    const int64_t bytes = c->is.stack * c->is.frame_bytes;
    int64_t step;
    const struct group *group = group_of(c, sample, &step);
    ck_assert_mem_eq(found, (after ? group->next_obs : group->obs) + step * bytes, (size_t)bytes);
}

/* The functions that kernels call find the frames of an observation. */
TEST(frames_of_observations, .runs = SHAPES)
{
    struct collect *c = test_alloc(1, sizeof *c);
    collect_make(c, &shapes[_i], 30 + _i);
    const int64_t bytes = c->is.frame_bytes;
    char *obs = test_alloc(c->is.stack, (size_t)bytes);
    for (int64_t i = 0; i < all_samples(c); i++)
        for (int ahead = 0; ahead <= 1; ahead++) {
            for (int64_t k = 0; k < c->is.stack; k++)
                memcpy(obs + k * bytes, hd_steps_find_frame(&c->steps, i, ahead, k), (size_t)bytes);
            check_obs(c, i, ahead == 1, obs);
        }
}

#if HD_CUDA

static void collect_make_on_device(struct collect *c, const struct shape *is, int64_t seed)
{
    collect_make(c, is, seed);
    c->steps.data = device_make(c->memory, is->groups * c->steps.group_bytes);
}

/* -- Device memory followed by a guard --------------------------------------------------------- */

enum { GUARD = 64 };

static void *guarded(int64_t bytes)
{
    return device_make(NULL, bytes + GUARD);
}

/* Returns a host copy of a device array; its guard must be unchanged. */
static void *fetched(const void *device, int64_t bytes)
{
    char *host = test_alloc(1, (size_t)bytes + GUARD);
    device_get(host, device, bytes + GUARD);
    for (int i = 0; i < GUARD; i++)
        ck_assert_int_eq((unsigned char)host[bytes + i], 0xFF);
    return host;
}

/* -- Observations ------------------------------------------------------------------------------ */

TEST(observations_in_a_row_and_apart, .runs = SHAPES, .cuda = true)
{
    struct collect *c = test_alloc(1, sizeof *c);
    collect_make_on_device(c, &shapes[_i], _i);
    const int64_t n = all_samples(c), bytes = c->is.stack * c->is.frame_bytes;
    const int64_t ranges[][3] = {{0, n, n}, {n / 3, 3, 3}, {0, n, (n + 2) / 3}, {n - 1, 1, 1}};
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        const int64_t first = ranges[r][0], population = ranges[r][1], rows = ranges[r][2];
        if (first + population > n)
            continue;
        char *obs = guarded(rows * bytes);
        ck_assert_int_eq(
            hd_steps_gather_obs_cuda(&c->steps, first, population, rows, obs, device_stream()),
            HD_OK);
        const char *found = fetched(obs, rows * bytes);
        for (int64_t i = 0; i < rows; i++)
            check_obs(c, first + i * population / rows, false, found + i * bytes);
    }
    ck_assert_int_eq(hd_steps_gather_obs_cuda(&c->steps, 0, 0, 0, NULL, device_stream()), HD_OK);
}

/* There is more capacity than needed, as always. */
TEST(observations_after_fragments, .runs = SHAPES, .cuda = true)
{
    struct collect *c = test_alloc(1, sizeof *c);
    collect_make_on_device(c, &shapes[_i], 10 + _i);
    const int64_t n = all_samples(c), capacity = n + 3, bytes = c->is.stack * c->is.frame_bytes;
    int32_t *after = guarded(capacity * 4);
    char *obs = guarded(capacity * bytes);
    ck_assert_int_eq(hd_steps_find_bootstraps_cuda(&c->steps, after, capacity, device_stream()),
                     HD_OK);
    ck_assert_int_eq(
        hd_steps_gather_bootstrap_obs_cuda(&c->steps, after, capacity, obs, device_stream()),
        HD_OK);
    const int32_t *found = fetched(after, capacity * 4);
    const char *found_obs = fetched(obs, capacity * bytes);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t step;
        const struct group *group = group_of(c, i, &step);
        if (floats(group, c->steps.at.end)[i % c->is.samples] == 0 ||
            floats(group, c->steps.at.done)[step] != 0)
            continue;
        ck_assert_int_eq(found[count], i);
        check_obs(c, i, true, found_obs + count++ * bytes);
    }
    for (; count < capacity; count++) {
        ck_assert_int_eq(found[count], -1);
        check_obs(c, 0, false, found_obs + count * bytes);
    }
}

/* -- Minibatches ------------------------------------------------------------------------------- */

/* Returns advantages of all samples, numbers that distinguish them. */
static const float *numbers(struct collect *c, const float **host_p)
{
    const int64_t n = all_samples(c);
    float *host = test_alloc(n, sizeof *host);
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)draw(c, 1 << 20);
    *host_p = host;
    return device_make(host, n * 4);
}

static void check_row(const struct collect *c, const float *const expected[3], int64_t sample,
                      const struct hd_minibatch_arrays *found, int64_t row)
{
    int64_t step;
    const struct group *group = group_of(c, sample, &step);
    check_obs(c, sample, false, found->obs + row * c->is.stack * c->is.frame_bytes);
    ck_assert_mem_eq(found->action + row * c->steps.dims,
                     ints(group, c->steps.at.action) + step * c->steps.dims,
                     (size_t)c->steps.dims * 4);
    ck_assert_mem_eq(found->logit + row * c->is.actions,
                     floats(group, c->steps.at.logit) + step * c->is.actions,
                     (size_t)c->is.actions * 4);
    ck_assert_float_eq(found->advantage[row], expected[0][sample]);
    ck_assert_float_eq(found->target[row], expected[1][sample]);
    ck_assert_float_eq(found->value[row], expected[2][sample]);
}

/* Lists of samples are in host and in device memory, and batches full and short. */
TEST(rows_of_minibatches, .runs = SHAPES, .cuda = true)
{
    enum { B = 11 };
    struct collect *c = test_alloc(1, sizeof *c);
    collect_make_on_device(c, &shapes[_i], 20 + _i);
    const int64_t n = all_samples(c), bytes = c->is.stack * c->is.frame_bytes;
    const float *expected[3];
    struct hd_minibatch_source gather = {.from = c->steps, .rows = B};
    gather.advantage = numbers(c, &expected[0]);
    gather.target = numbers(c, &expected[1]);
    gather.value = numbers(c, &expected[2]);
    for (int64_t used = 1; used <= B; used += 5) {
        int32_t *sample = device_shared(2 * B * 4);
        struct hd_minibatch_range *range = device_shared(sizeof *range);
        const bool told = used > 1;
        *range = (struct hd_minibatch_range){used, 2 * used};
        for (int64_t i = range->lo; i < range->hi; i++)
            sample[i] = (int32_t)draw(c, n);
        gather.sample = told ? sample : device_make(sample, 2 * B * 4);
        gather.range = told ? range : device_make(range, sizeof *range);
        struct hd_minibatch_arrays to = {.used = told ? guarded(8) : NULL,
                                         .obs = guarded(B * bytes),
                                         .action = guarded(B * c->steps.dims * 4),
                                         .logit = guarded(B * c->is.actions * 4),
                                         .advantage = guarded(B * 4),
                                         .target = guarded(B * 4),
                                         .value = guarded(B * 4)};
        ck_assert_int_eq(hd_minibatch_gather_cuda(&gather, &to, device_stream()), HD_OK);
        const struct hd_minibatch_arrays found = {.obs = fetched(to.obs, B * bytes),
                                                  .action =
                                                      fetched(to.action, B * c->steps.dims * 4),
                                                  .logit = fetched(to.logit, B * c->is.actions * 4),
                                                  .advantage = fetched(to.advantage, B * 4),
                                                  .target = fetched(to.target, B * 4),
                                                  .value = fetched(to.value, B * 4)};
        for (int64_t row = 0; row < B; row++)
            check_row(c, expected, sample[range->lo + (row < used ? row : 0)], &found, row);
        if (told)
            ck_assert_int_eq(*(int64_t *)fetched(to.used, 8), used);
    }
}

#endif
