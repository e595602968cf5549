/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of pixel Pong as GPUs step them: every byte against the CPU's env, collect by collect
 * against a collector written separately, and episode by episode of an evaluation. */
#include "kernels/envs/seed.h"
#include "runtime/base/hash.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"
#include "tests/kernels/envs/pong_fixture.h"

#include <string.h>

enum { MAX_STATE = 256 };

/* A GPU's group starts like the CPU's and has the same states. */
TEST(test_group)
{
    struct fixture f = make(3, "-1");
    char message[HD_ENV_MESSAGE], state[MAX_STATE];
    const int64_t one = env->state_bytes(f.group);
    ck_assert_int_le(one, MAX_STATE);
    char *group = test_alloc(hd_pixel_pong_get_cuda_bytes(3), 1);
    memset(group, 0xFF, (size_t)hd_pixel_pong_get_cuda_bytes(3));
    hd_pixel_pong_init_cuda(group, 3, -1);
    for (int64_t i = 0; i < 3; i++) {
        ck_assert_int_eq(env->save(f.group, i, state, message), 0);
        ck_assert_mem_eq(hd_pixel_pong_get_cuda_state(group, i), state, (size_t)one);
    }
    const char *last = hd_pixel_pong_get_cuda_state(group, 2);
    ck_assert_int_eq(last + one - group, hd_pixel_pong_get_cuda_bytes(3));
    drop(&f);
}

TEST(test_seed)
{
    for (int64_t i = 0; i < 100; i++) {
        const int64_t episode = i % 2 ? i : i << 33 | 5;
        const struct hd_rng rng =
            hd_rng_make((uint64_t)i, hd_hash_text("env reset"), 3, 7 * i, episode >> 32);
        ck_assert_uint_eq(hd_env_get_seed((uint64_t)i, 3, 7 * i, episode),
                          hd_rng_draw_u64(&rng, (uint32_t)episode));
    }
}

#if HD_CUDA

/* Some players follow the ball, some do so most of the time, others play at random. */
static int32_t choose(const struct fixture *f, int64_t i, int64_t t)
{
    const struct hd_pong_scene *now = &hd_pixel_pong_get_scenes(f->group, i)[1];
    const int below = now->ball_y + HD_PONG_BALL / 2 - (now->paddle[1] + HD_PONG_PADDLE_HEIGHT / 2);
    const struct hd_rng rng = hd_rng_make(1, 2, 3, i, 5);
    if (i % 3 == 0 || (i % 3 == 1 && t % 37 < 9))
        return (int32_t)hd_rng_draw_below(&rng, (uint32_t)t, HD_PIXEL_PONG_ACTIONS);
    return below < -4 ? UP : below > 4 ? DOWN : NOOP;
}

static void check_same(const void *device, const void *expected, int64_t bytes, const char *what,
                       int64_t t)
{
    char *found = hd_alloc(bytes, 1);
    device_get(found, device, bytes);
    ck_assert_msg(memcmp(found, expected, (size_t)bytes) == 0, "%s differ at %lld", what,
                  (long long)t);
    hd_free(found);
}

static void *make_group(const struct fixture *f, int background)
{
    const int64_t bytes = hd_pixel_pong_get_cuda_bytes(f->envs);
    char *group = test_alloc(bytes, 1);
    hd_pixel_pong_init_cuda(group, f->envs, background);
    return device_make(group, bytes);
}

static void check_states(const struct fixture *f, void *group)
{
    char message[HD_ENV_MESSAGE], state[MAX_STATE];
    for (int64_t i = 0; i < f->envs; i++) {
        ck_assert_int_eq(env->save(f->group, i, state, message), 0);
        check_same(hd_pixel_pong_get_cuda_state(group, i), state, env->state_bytes(f->group),
                   "states", i);
    }
}

/* -- Collect by collect ------------------------------------------------------------------------ */

enum { ENVS = 4, STEPS = 60, STACK = 4, MAX_FRAMES = STACK + 2 * STEPS };
enum { SEED = 11, SHARD = 3, FIRST = 8 };

/* The memory of a collector and the records of a collect, as in hd_env_gpu_envs and _steps. */
struct collector {
    int64_t frames;
    uint64_t episode_seed[ENVS];
    int64_t episode[ENVS], episode_steps[ENVS], all_shown[ENVS], shown[ENVS], age[ENVS];
    double episode_return[ENVS];
    uint8_t obs[ENVS][STACK][FRAME];
    int32_t action[ENVS][STEPS], frame[ENVS][STEPS], frame_age[ENVS][STEPS];
    float reward[ENVS][STEPS], done[ENVS][STEPS];
    bool truncated[ENVS][STEPS];
    double ended_return[ENVS][STEPS];
    int64_t ended_steps[ENVS][STEPS];
    uint8_t kept[ENVS * MAX_FRAMES][FRAME];
};

static void keep(struct collector *c, int64_t i, const uint8_t *frame)
{
    memcpy(c->kept[i * c->frames + c->shown[i]++ % c->frames], frame, FRAME);
}

static void start(struct collector *c, struct fixture *f, int64_t i)
{
    c->episode_seed[i] = hd_env_get_seed(SEED, SHARD, FIRST + i, c->episode[i]);
    c->episode_return[i] = 0;
    c->episode_steps[i] = 0;
    c->all_shown[i]++;
    reset(f, i, c->episode_seed[i]);
    for (int k = 0; k < STACK; k++)
        memcpy(c->obs[i][k], f->obs[i], FRAME);
}

static void begin(struct collector *c, struct fixture *f)
{
    for (int64_t i = 0; i < ENVS; i++) {
        if (c->all_shown[i] == 0)
            start(c, f, i);
        c->shown[i] = 0;
        for (int k = 0; k < STACK; k++)
            keep(c, i, c->obs[i][k]);
        c->age[i] = STACK - 1;
    }
}

static void observe(struct collector *c, struct fixture *f, int64_t i, int64_t t)
{
    memmove(c->obs[i][0], c->obs[i][1], (STACK - 1) * FRAME);
    memcpy(c->obs[i][STACK - 1], f->obs[i], FRAME);
    keep(c, i, f->obs[i]);
    c->all_shown[i]++;
    c->age[i] = c->age[i] < STACK - 1 ? c->age[i] + 1 : STACK - 1;
    c->episode_return[i] += (double)f->reward[i];
    c->episode_steps[i]++;
    c->reward[i][t] = f->reward[i];
    c->done[i][t] = f->done[i] ? 1.0f : 0.0f;
    c->truncated[i][t] = f->truncated[i];
    c->ended_return[i][t] = 0;
    c->ended_steps[i][t] = 0;
}

static void play(struct collector *c, struct fixture *f, int64_t t, int64_t clock)
{
    int32_t action[ENVS];
    for (int64_t i = 0; i < ENVS; i++) {
        action[i] = c->action[i][t] = choose(f, i, clock);
        c->frame[i][t] = (int32_t)(c->shown[i] - 1);
        c->frame_age[i][t] = (int32_t)c->age[i];
    }
    step(f, action);
    for (int64_t i = 0; i < ENVS; i++) {
        observe(c, f, i, t);
        if (!f->done[i])
            continue;
        c->ended_return[i][t] = c->episode_return[i];
        c->ended_steps[i][t] = c->episode_steps[i];
        c->episode[i]++;
        start(c, f, i);
        keep(c, i, c->obs[i][0]);
        c->age[i] = 0;
    }
}

static void *zeros(int64_t bytes)
{
    return device_make(test_alloc(bytes, 1), bytes);
}

static struct hd_env_gpu_envs device_envs(const struct fixture *f)
{
    return (struct hd_env_gpu_envs){
        .envs = ENVS,
        .stack = STACK,
        .seed = SEED,
        .shard = SHARD,
        .first = FIRST,
        .group = make_group(f, -1),
        .episode_seed = zeros(ENVS * (int64_t)sizeof(uint64_t)),
        .episode = zeros(ENVS * (int64_t)sizeof(int64_t)),
        .episode_return = zeros(ENVS * (int64_t)sizeof(double)),
        .episode_steps = zeros(ENVS * (int64_t)sizeof(int64_t)),
        .shown = zeros(ENVS * (int64_t)sizeof(int64_t)),
        .obs = device_make(NULL, ENVS * STACK * FRAME),
    };
}

static struct hd_env_gpu_steps device_steps(int64_t frames, const int32_t *action)
{
    const int64_t records = ENVS * STEPS;
    return (struct hd_env_gpu_steps){
        .steps = STEPS,
        .frames = frames,
        .shown = device_make(NULL, ENVS * (int64_t)sizeof(int64_t)),
        .age = device_make(NULL, ENVS * (int64_t)sizeof(int64_t)),
        .frame_data = device_make(NULL, ENVS * frames * FRAME),
        .action = action,
        .frame = device_make(NULL, records * (int64_t)sizeof(int32_t)),
        .frame_age = device_make(NULL, records * (int64_t)sizeof(int32_t)),
        .reward = device_make(NULL, records * (int64_t)sizeof(float)),
        .done = device_make(NULL, records * (int64_t)sizeof(float)),
        .truncated = device_make(NULL, records),
        .ended_return = device_make(NULL, records * (int64_t)sizeof(double)),
        .ended_steps = device_make(NULL, records * (int64_t)sizeof(int64_t)),
    };
}

static void check_collect(const struct collector *c, const struct hd_env_gpu_envs *envs,
                          const struct hd_env_gpu_steps *steps, int64_t t)
{
    check_same(envs->episode_seed, c->episode_seed, sizeof c->episode_seed, "seeds", t);
    check_same(envs->episode, c->episode, sizeof c->episode, "episodes", t);
    check_same(envs->episode_return, c->episode_return, sizeof c->episode_return, "returns", t);
    check_same(envs->episode_steps, c->episode_steps, sizeof c->episode_steps, "lengths", t);
    check_same(envs->shown, c->all_shown, sizeof c->all_shown, "frames of all time", t);
    check_same(envs->obs, c->obs, sizeof c->obs, "observations", t);
    check_same(steps->shown, c->shown, sizeof c->shown, "counts of frames", t);
    check_same(steps->age, c->age, sizeof c->age, "ages", t);
    check_same(steps->frame_data, c->kept, ENVS * c->frames * FRAME, "frames", t);
    check_same(steps->frame, c->frame, sizeof c->frame, "numbers of frames", t);
    check_same(steps->frame_age, c->frame_age, sizeof c->frame_age, "ages of frames", t);
    check_same(steps->reward, c->reward, sizeof c->reward, "rewards", t);
    check_same(steps->done, c->done, sizeof c->done, "dones", t);
    check_same(steps->truncated, c->truncated, sizeof c->truncated, "truncations", t);
    check_same(steps->ended_return, c->ended_return, sizeof c->ended_return, "ended returns", t);
    check_same(steps->ended_steps, c->ended_steps, sizeof c->ended_steps, "ended lengths", t);
}

/* There is capacity for all frames of a collect, or just for the last observation's. */
static const int64_t capacities[] = {MAX_FRAMES, STACK};

TEST(test_collects_cuda, .runs = 2, .cuda = true)
{
    static struct fixture f;
    static struct collector c;
    c = (struct collector){.frames = capacities[_i]};
    f = make(ENVS, "-1");
    memset(c.kept, 0xFF, sizeof c.kept);
    int32_t *action = device_shared(sizeof c.action);
    const struct hd_env_gpu_envs envs = device_envs(&f);
    const struct hd_env_gpu_steps steps = device_steps(c.frames, action);
    for (int64_t n = 0; n < 30; n++) {
        begin(&c, &f);
        for (int64_t t = 0; t < STEPS; t++)
            play(&c, &f, t, n * STEPS + t);
        memcpy(action, c.action, sizeof c.action);
        ck_assert_int_eq(hd_pixel_pong_begin_cuda(&envs, &steps, device_stream()), HD_OK);
        for (int64_t t = 0; t < STEPS; t++)
            ck_assert_int_eq(hd_pixel_pong_play_cuda(&envs, &steps, t, device_stream()), HD_OK);
        check_collect(&c, &envs, &steps, n);
    }
    ck_assert_int_ge(c.episode[0] + c.episode[1] + c.episode[3], 4);
    check_states(&f, envs.group);
    drop(&f);
}

/* -- Episode by episode ------------------------------------------------------------------------ */

enum { OUTPUTS = HD_PIXEL_PONG_ACTIONS + 1, MOST_EPISODES = 4, MAX_EPISODE_STEPS = 700 };
enum { PLAYED_BYTES = sizeof(struct hd_played) + MOST_EPISODES * sizeof(double) };

/* The last env never plays, and the others not equally often. */
static const int64_t episodes[ENVS] = {2, 1, MOST_EPISODES, 0};

/* An env of the CPU in an evaluation. */
struct contender {
    int64_t ended, steps, all_steps, cut;
    double sum, returns[MOST_EPISODES];
    uint8_t obs[STACK][FRAME];
};

static uint64_t get_seed(int64_t i, int64_t episode)
{
    return (uint64_t)(100 * i + (i == 2 ? episode : 0));
}

static void start_contender(struct contender *c, struct fixture *f, int64_t i)
{
    reset(f, i, get_seed(i, c->ended));
    c->steps = 0;
    c->sum = 0;
    for (int k = 0; k < STACK; k++)
        memcpy(c->obs[k], f->obs[i], FRAME);
}

static void advance(struct contender *c, struct fixture *f, int64_t i)
{
    memmove(c->obs[0], c->obs[1], (STACK - 1) * FRAME);
    memcpy(c->obs[STACK - 1], f->obs[i], FRAME);
    c->sum += (double)f->reward[i];
    if (++c->steps < MAX_EPISODE_STEPS && !f->done[i])
        return;
    c->cut += !f->done[i];
    c->all_steps += c->steps;
    c->returns[c->ended++] = c->sum;
    if (c->ended < episodes[i])
        start_contender(c, f, i);
}

/* Outputs whose largest one of an action is `action`; what is no action's is larger. */
static void fill_outputs(float *out, int32_t action)
{
    for (int a = 0; a < OUTPUTS; a++)
        out[a] = (float)(a == action ? 2 : a == OUTPUTS - 1 ? 9 : -a);
}

static void check_played(const struct contender *c, const char *there, int64_t i, int64_t t)
{
    static int64_t bytes[PLAYED_BYTES / sizeof(int64_t)];
    const struct hd_played *found = (const void *)bytes;
    device_get(bytes, there + i * PLAYED_BYTES, PLAYED_BYTES);
    ck_assert_int_eq(found->ended, c->ended);
    ck_assert_int_eq(found->steps, c->all_steps);
    ck_assert_int_eq(found->cut, c->cut);
    ck_assert_msg(memcmp(found->returns, c->returns, (size_t)c->ended * sizeof(double)) == 0,
                  "returns of %lld differ at %lld", (long long)i, (long long)t);
}

static char *make_played(void)
{
    char *played = test_alloc(ENVS, PLAYED_BYTES);
    for (int64_t i = 0; i < ENVS; i++) {
        struct hd_played *one = (struct hd_played *)(played + i * PLAYED_BYTES);
        *one =
            (struct hd_played){.seed = get_seed(i, 0), .seed_gap = i == 2, .episodes = episodes[i]};
    }
    return device_make(played, ENVS * PLAYED_BYTES);
}

TEST(test_evaluation_cuda, .cuda = true)
{
    static struct fixture f;
    static struct contender c[ENVS];
    f = make(ENVS, "-1");
    memset(c, 0, sizeof c);
    float *out = device_shared(ENVS * OUTPUTS * (int64_t)sizeof *out);
    const struct hd_env_gpu_evaluation evaluation = {
        .envs = ENVS,
        .stack = STACK,
        .max_steps = MAX_EPISODE_STEPS,
        .group = make_group(&f, -1),
        .obs = device_make(NULL, ENVS * STACK * FRAME),
        .played = make_played(),
        .played_bytes = PLAYED_BYTES,
    };
    for (int64_t i = 0; i < ENVS; i++)
        start_contender(&c[i], &f, i);
    ck_assert_int_eq(hd_pixel_pong_begin_evaluation_cuda(&evaluation, device_stream()), HD_OK);
    for (int64_t t = 0; c[2].ended < MOST_EPISODES; t++) {
        int32_t action[ENVS];
        for (int64_t i = 0; i < ENVS; i++) {
            if (c[i].ended < episodes[i])
                check_same(evaluation.obs + i * STACK * FRAME, c[i].obs, sizeof c[i].obs,
                           "observations", t);
            action[i] = choose(&f, i, t);
            fill_outputs(out + i * OUTPUTS, action[i]);
        }
        step(&f, action);
        for (int64_t i = 0; i < ENVS; i++)
            if (c[i].ended < episodes[i])
                advance(&c[i], &f, i);
        ck_assert_int_eq(hd_pixel_pong_evaluate_cuda(&evaluation, out, OUTPUTS, device_stream()),
                         HD_OK);
        for (int64_t i = 0; i < ENVS; i++)
            check_played(&c[i], evaluation.played, i, t);
    }
    ck_assert_int_gt(c[0].cut + c[1].cut + c[2].cut, 0);
    ck_assert_int_lt(c[0].cut + c[1].cut + c[2].cut, c[0].ended + c[1].ended + c[2].ended);
    drop(&f);
}

#endif
