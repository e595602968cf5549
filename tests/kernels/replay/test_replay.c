/* SPDX-License-Identifier: Apache-2.0 */
/* The replay ring against a naive one that keeps every transition with its full observations for
 * ever, and stratified sampling against a walk over prefix sums. A ring on a GPU is the host's,
 * byte by byte, and gives the same rows. */
#include "kernels/replay/replay.h"
#include "runtime/base/alloc.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

enum {
    MAX_ENVS = 5,
    MAX_STACK = 5,
    MAX_NSTEP = 4,
    MAX_DIMS = 3,
    MAX_FRAME = 24,
    MAX_OBS = MAX_STACK * MAX_FRAME
};
enum { MAX_FRAMES = 4000, MAX_TRANSITIONS = 16000 };

/* -- The naive ring ---------------------------------------------------------------------------- */

struct naive_frame {
    unsigned char bytes[MAX_FRAME];
    int64_t episode;
};

struct naive_transition {
    unsigned char obs[MAX_OBS], next_obs[MAX_OBS];
    int64_t env, oldest; /* the oldest frame that it needs */
    struct hd_transition is;
    float reward[MAX_NSTEP];
    int32_t action[MAX_DIMS];
};

struct naive {
    struct hd_replay_shape shape;
    struct naive_frame frames[MAX_ENVS][MAX_FRAMES];
    int64_t shown[MAX_ENVS], episode[MAX_ENVS];
    struct naive_transition transitions[MAX_TRANSITIONS];
    int64_t added;
};

/* Assembles the observation that ends with frame `frame` by walking back to the start of its
 * episode. Returns its oldest frame. */
static int64_t naive_stack(const struct naive *naive, int64_t env, int64_t frame,
                           unsigned char *obs)
{
    const struct naive_frame *frames = naive->frames[env];
    int64_t at = frame;
    for (int64_t i = naive->shape.stack - 1; i >= 0; i--) {
        memcpy(obs + i * naive->shape.frame_bytes, frames[at].bytes,
               (size_t)naive->shape.frame_bytes);
        if (i > 0 && at > 0 && frames[at - 1].episode == frames[at].episode)
            at--;
    }
    return at;
}

/* Returns the first of the last `capacity` transitions after the last one with an overwritten
 * frame. */
static int64_t naive_first(const struct naive *naive)
{
    int64_t first = naive->added - naive->shape.capacity;
    for (int64_t t = first < 0 ? 0 : first; t < naive->added; t++) {
        const struct naive_transition *transition = &naive->transitions[t];
        if (transition->oldest < naive->shown[transition->env] - naive->shape.frames)
            first = t + 1;
    }
    return first < 0 ? 0 : first;
}

/* -- Playing at random ------------------------------------------------------------------------- */

struct game {
    struct naive *naive;
    void *ring;
    struct hd_rng rng;
    uint32_t draws;
};

static int64_t draw(struct game *game, int64_t below)
{
    return (int64_t)hd_rng_draw_below(&game->rng, game->draws++, below);
}

static void show(struct game *game, int64_t env)
{
    struct naive *naive = game->naive;
    struct naive_frame *frame = &naive->frames[env][naive->shown[env]++];
    ck_assert_int_lt(naive->shown[env], MAX_FRAMES);
    frame->episode = naive->episode[env];
    for (int i = 0; i < MAX_FRAME; i++)
        frame->bytes[i] = (unsigned char)draw(game, 256);
}

static void begin_episode(struct game *game, int64_t env)
{
    game->naive->episode[env]++;
    show(game, env);
}

/* Returns how many frames of its episode were shown before a frame. */
static int64_t age_of(const struct naive *naive, int64_t env, int64_t frame)
{
    const struct naive_frame *frames = naive->frames[env];
    int64_t age = 0;
    while (age < frame && frames[frame - age - 1].episode == frames[frame].episode)
        age++;
    return age;
}

/* Adds the transition from frame `frame` in a fragment that ends with frame `last`. */
static void add_naive(struct game *game, int64_t env, int64_t frame, int64_t last)
{
    struct naive *naive = game->naive;
    struct naive_transition *to = &naive->transitions[naive->added++];
    ck_assert_int_lt(naive->added, MAX_TRANSITIONS);
    memset(to, 0, sizeof *to);
    to->env = env;
    to->is.env = (int32_t)env;
    to->is.frame = frame;
    to->is.age = (int32_t)age_of(naive, env, frame);
    to->is.ahead = (int32_t)(last - frame < naive->shape.nstep ? last - frame : naive->shape.nstep);
    for (int64_t d = 0; d < naive->shape.dims; d++)
        to->action[d] = (int32_t)draw(game, 1000);
    to->is.done = (float)draw(game, 2);
    to->is.value_gamma = naive->shape.nstep > 1 ? (float)draw(game, 100) : 0;
    for (int64_t j = 0; j < naive->shape.nstep; j++)
        to->reward[j] = (float)draw(game, 1000);
    to->oldest = naive_stack(naive, env, frame, to->obs);
    naive_stack(naive, env, frame + to->is.ahead, to->next_obs);
}

/* Plays a fragment of up to `max` steps; some are dropped, some end an episode. */
static void play_fragment(struct game *game, int64_t env, int64_t max)
{
    const int64_t steps = 1 + draw(game, max);
    const bool done = draw(game, 3) == 0, dropped = draw(game, 4) == 0;
    if (game->naive->shown[env] == 0)
        begin_episode(game, env);
    const int64_t first = game->naive->shown[env] - 1;
    for (int64_t i = 0; i < steps; i++)
        show(game, env);
    for (int64_t i = 0; i < steps && !dropped; i++)
        add_naive(game, env, first + i, first + steps);
    if (done)
        begin_episode(game, env);
}

/* Plays a rollout: every env plays some fragments; their frames are added first, then the
 * transitions that were not dropped. */
static void roll(struct game *game, int64_t max)
{
    struct naive *naive = game->naive;
    const struct hd_replay_shape *shape = &naive->shape;
    int64_t first = naive->added;
    for (int64_t env = 0; env < shape->envs; env++)
        for (int64_t n = draw(game, 3); n >= 0; n--)
            play_fragment(game, env, max);
    for (int64_t env = 0; env < shape->envs; env++)
        for (int64_t k = hd_replay_count_shown(shape, game->ring, env); k < naive->shown[env]; k++)
            hd_replay_add_frame(shape, game->ring, env, naive->frames[env][k].bytes);
    char memory[sizeof(struct hd_transition) + (MAX_NSTEP + MAX_DIMS) * sizeof(float)]
        __attribute__((aligned(8))) = {0};
    for (int64_t t = first; t < naive->added; t++) {
        const struct naive_transition *from = &naive->transitions[t];
        memcpy(memory, &from->is, sizeof from->is);
        memcpy(((struct hd_transition *)memory)->reward, from->reward,
               (size_t)shape->nstep * sizeof(float));
        memcpy(hd_transition_get_action((struct hd_transition *)memory, shape->nstep), from->action,
               (size_t)shape->dims * sizeof *from->action);
        hd_replay_add(shape, game->ring, (struct hd_transition *)memory);
    }
}

/* -- What the ring holds ----------------------------------------------------------------------- */

static void check_row(const struct hd_replay_shape *shape, const struct naive_transition *expected,
                      const struct hd_transition_shape *rows_shape, struct hd_transitions rows,
                      int64_t row)
{
    size_t obs_bytes = (size_t)(shape->stack * shape->frame_bytes);
    ck_assert_mem_eq((char *)rows.obs + row * rows_shape->obs_bytes, expected->obs, obs_bytes);
    ck_assert_mem_eq((char *)rows.next_obs + row * rows_shape->obs_bytes, expected->next_obs,
                     obs_bytes);
    for (int64_t j = 0; j < shape->nstep; j++)
        ck_assert_float_eq(rows.reward[j * rows_shape->rows + row], expected->reward[j]);
    ck_assert_float_eq(rows.done[row], expected->is.done);
    ck_assert_mem_eq(rows.action + row * shape->dims, expected->action,
                     (size_t)shape->dims * sizeof *expected->action);
    if (rows_shape->has_value_gamma)
        ck_assert_float_eq(rows.value_gamma[row], expected->is.value_gamma);
}

/* Compares position by position with the naive transitions that are left, in the order of t mod
 * capacity. */
static void check_ring(const struct game *game)
{
    const struct naive *naive = game->naive;
    const struct hd_replay_shape *shape = &naive->shape;
    const int64_t first = naive_first(naive), size = naive->added - first;
    const struct hd_transition_shape rows_shape = {3, shape->stack * shape->frame_bytes,
                                                   shape->nstep, shape->dims, shape->nstep > 1};
    void *block = hd_alloc(1, (size_t)hd_transitions_get_bytes(&rows_shape));
    struct hd_transitions rows = hd_transitions_lay_out(&rows_shape, block);
    ck_assert_int_eq(hd_replay_get_size(shape, game->ring), size);
    char message[HD_NUMBERS_MESSAGE];
    const struct hd_env_actions actions = {
        .kind = HD_ENV_MULTI_DISCRETE, .dims = (int)shape->dims, .n = {1000, 1000, 1000}};
    ck_assert_msg(hd_replay_check(shape, &actions, game->ring, message) == HD_OK, "%s", message);
    int64_t position = 0;
    for (int64_t place = 0; place < shape->capacity; place++) {
        int64_t t = first + ((place - first) % shape->capacity + shape->capacity) % shape->capacity;
        if (t >= naive->added)
            continue;
        ck_assert_int_eq(t % shape->capacity, place);
        hd_replay_get(shape, game->ring, position++, &rows_shape, rows, 1);
        check_row(shape, &naive->transitions[t], &rows_shape, rows, 1);
    }
    ck_assert_int_eq(position, size);
    hd_free(block);
}

struct ring_case {
    struct hd_replay_shape shape; /* capacity, envs, frames, frame_bytes, stack, nstep,
                                     dims */
    int64_t fragment;
    bool enough; /* frames never run out */
};

static const struct ring_case cases[] = {
    {{50, 1, 400, 16, 1, 1, 1}, 1, true},  {{300, 3, 1000, 16, 1, 3, 2}, 5, true},
    {{300, 3, 1000, 6, 4, 3, 3}, 6, true}, {{97, 5, 500, 24, 5, 4, 1}, 9, true},
    {{1, 1, 100, 6, 4, 1, 2}, 1, true},    {{300, 2, 60, 6, 4, 3, 3}, 6, false},
    {{300, 3, 25, 6, 4, 2, 1}, 2, false},  {{100, 1, 9, 16, 4, 3, 2}, 3, false},
    {{200, 4, 37, 24, 1, 1, 3}, 4, false}, {{1000, 2, 17, 6, 5, 4, 1}, 4, false},
    {{5, 3, 12, 6, 2, 2, 1}, 3, false},
};

TEST(test_against_naive, .runs = COUNT(cases))
{
    const struct ring_case *c = &cases[_i];
    struct naive *naive = hd_alloc(1, sizeof *naive);
    naive->shape = c->shape;
    struct game game = {.naive = naive, .rng = hd_rng_make(_i, 3, 0, 0, 0)};
    const int64_t bytes = hd_replay_get_bytes(&c->shape);
    game.ring = hd_alloc(1, (size_t)bytes + 64);
    memset((char *)game.ring + bytes, 0xA5, 64);
    int64_t full = 0, lost = 0;
    for (int rollout = 0; rollout < 60; rollout++) {
        roll(&game, c->fragment);
        check_ring(&game);
        int64_t size = hd_replay_get_size(&c->shape, game.ring);
        full += size == c->shape.capacity;
        lost += size < c->shape.capacity && size < naive->added;
    }
    if (c->enough)
        ck_assert(full > 0 && lost == 0);
    else
        ck_assert_int_gt(lost, 0);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(((unsigned char *)game.ring)[bytes + i], 0xA5);
    hd_free(game.ring);
    hd_free(naive);
}

/* One env shows single frames, with capacity 4, 6 frames and n = 1. */
TEST(test_by_hand)
{
    const struct hd_replay_shape shape = {
        .capacity = 4, .envs = 1, .frames = 6, .frame_bytes = 1, .stack = 3, .nstep = 1, .dims = 1};
    const struct hd_transition_shape rows_shape = {1, 3, 1, 1, false};
    char ring[4096] __attribute__((aligned(64))) = {0}, block[4096] __attribute__((aligned(64)));
    char memory[sizeof(struct hd_transition) + 8] __attribute__((aligned(8))) = {0};
    struct hd_transition *transition = (struct hd_transition *)memory;
    struct hd_transitions rows = hd_transitions_lay_out(&rows_shape, block);
    ck_assert_int_le(hd_replay_get_bytes(&shape), (int64_t)sizeof ring);
    /* An episode a b c d, of which the transitions a>b, b>c, c>d are added. */
    for (const char *frame = "abcd"; *frame; frame++)
        hd_replay_add_frame(&shape, ring, 0, frame);
    for (int i = 0; i < 3; i++) {
        *transition = (struct hd_transition){.frame = i, .age = i, .ahead = 1};
        hd_transition_get_action(transition, 1)->choice = i;
        hd_replay_add(&shape, ring, transition);
    }
    ck_assert_int_eq(hd_replay_get_size(&shape, ring), 3);
    hd_replay_get(&shape, ring, 0, &rows_shape, rows, 0);
    ck_assert_mem_eq(rows.obs, "aaaaab", 6);
    hd_replay_get(&shape, ring, 2, &rows_shape, rows, 0);
    ck_assert_mem_eq(rows.obs, "abcbcd", 6);
    /* The next episode begins e f, and its g overwrites a, which all three need (a also replaces
     * what was before it). */
    hd_replay_add_frame(&shape, ring, 0, "e");
    hd_replay_add_frame(&shape, ring, 0, "f");
    ck_assert_int_eq(hd_replay_get_size(&shape, ring), 3);
    hd_replay_add_frame(&shape, ring, 0, "g");
    ck_assert_int_eq(hd_replay_get_size(&shape, ring), 0);
    *transition = (struct hd_transition){.frame = 4, .age = 0, .ahead = 1};
    hd_transition_get_action(transition, 1)->choice = 9;
    hd_replay_add(&shape, ring, transition);
    ck_assert_int_eq(hd_replay_get_size(&shape, ring), 1);
    hd_replay_get(&shape, ring, 0, &rows_shape, rows, 0);
    ck_assert_mem_eq(rows.obs, "eeeeef", 6);
    ck_assert_int_eq(rows.action[0].choice, 9);
}

/* All priorities 1: walk the prefix sum to the mass (i + u) / batch * size. */
static int64_t walk(int64_t i, double u, int64_t batch, int64_t size)
{
    double mass = ((double)i + u) / (double)batch * (double)size, sum = 0;
    int64_t position = 0;
    while (position < size - 1 && sum + 1 <= mass) {
        sum += 1;
        position++;
    }
    return position;
}

TEST(test_closed_form)
{
    struct hd_rng rng = hd_rng_make(7, 1, 0, 0, 0);
    static const int64_t batches[] = {1, 2, 7, 64}, sizes[] = {1, 5, 64, 65, 1000};
    uint32_t item = 0;
    for (int b = 0; b < 4; b++)
        for (int s = 0; s < 5; s++)
            for (int64_t i = 0; i < batches[b]; i++) {
                double u = hd_rng_draw_uniform(&rng, item++);
                ck_assert_int_eq(hd_replay_get_stratum(i, u, batches[b], sizes[s]),
                                 walk(i, u, batches[b], sizes[s]));
            }
}

TEST(test_every_item_once)
{
    struct hd_rng rng = hd_rng_make(8, 1, 0, 0, 0);
    for (int64_t i = 0; i < 64; i++)
        ck_assert_int_eq(hd_replay_get_stratum(i, hd_rng_draw_uniform(&rng, (uint32_t)i), 64, 64),
                         i);
}

/* The i-th draw lies in [i V/B, (i + 1) V/B), so draws are in ring order; the range ends hold. */
TEST(test_strata)
{
    struct hd_rng rng = hd_rng_make(9, 1, 0, 0, 0);
    const int64_t batch = 64, size = 1001;
    const double below_one = nextafter(1, 0);
    int64_t before = 0;
    for (int64_t i = 0; i < batch; i++) {
        int64_t at = hd_replay_get_stratum(i, hd_rng_draw_uniform(&rng, (uint32_t)i), batch, size);
        double width = (double)size / (double)batch;
        ck_assert_double_ge((double)at, floor((double)i * width));
        ck_assert_double_lt((double)at, (double)(i + 1) * width);
        ck_assert_int_ge(at, before);
        before = at;
    }
    ck_assert_int_eq(hd_replay_get_stratum(0, 0, batch, size), 0);
    ck_assert_int_eq(hd_replay_get_stratum(batch - 1, below_one, batch, size), size - 1);
    ck_assert_int_eq(hd_replay_get_stratum(0, below_one, 1, 20000), 19999);
}

#if HD_CUDA
/* -- On a GPU ---------------------------------------------------------------------------------- */

/* Pushes of more frames and transitions than a thread block has threads, and of more frames of an
 * env than its ring keeps, are included. */
static const struct ring_case large_cases[] = {
    {{500, 5, 400, 16, 4, 3, 2}, 100, false},
    {{700, 4, 50, 20, 3, 1, 3}, 40, false},
    {{60, 3, 700, 4, 1, 2, 1}, 30, true},
};
enum { CASES = sizeof cases / sizeof cases[0], ALL_CASES = CASES + 3, ROLLOUTS = 12 };

/* A ring on the GPU that mirrors a game's. */
struct mirror {
    struct game game;
    void *ring;
    int64_t shown[MAX_ENVS], added; /* of the game, pushed so far */
    struct hd_replay_result *report;
};

static void mirror_make(struct mirror *m, const struct ring_case *c, int64_t seed)
{
    const int64_t bytes = hd_replay_get_bytes(&c->shape);
    *m = (struct mirror){.game = {.naive = test_alloc(1, sizeof(struct naive)),
                                  .ring = test_alloc(1, (size_t)bytes),
                                  .rng = hd_rng_make((uint64_t)seed, 4, 0, 0, 0)}};
    m->game.naive->shape = c->shape;
    m->ring = device_make(m->game.ring, bytes);
    m->report = device_shared(sizeof *m->report);
}

static void check_mirror(const struct mirror *m)
{
    const int64_t bytes = hd_replay_get_bytes(&m->game.naive->shape);
    char *found = hd_alloc(1, (size_t)bytes);
    device_get(found, m->ring, bytes);
    ck_assert(memcmp(found, m->game.ring, (size_t)bytes) == 0);
    hd_free(found);
}

/* Places content in host or device memory. */
static void *placed(const void *content, int64_t bytes, bool shared)
{
    return shared ? memcpy(device_shared(bytes), content, (size_t)bytes)
                  : device_make(content, bytes);
}

/* Finds the frames that the game has shown since the last push, alternating between envs. */
static void news_frames(struct mirror *m, bool shared, struct hd_replay_input *input)
{
    const struct naive *naive = m->game.naive;
    const struct hd_replay_shape *shape = &naive->shape;
    int64_t n = 0, max = 0;
    for (int64_t env = 0; env < shape->envs; env++)
        n += naive->shown[env] - m->shown[env];
    int32_t *env_of = hd_alloc(n + 1, sizeof *env_of);
    char *frames = hd_alloc(n + 1, (size_t)shape->frame_bytes);
    int64_t at[MAX_ENVS];
    memcpy(at, m->shown, sizeof at);
    while (max < n)
        for (int64_t env = 0; env < shape->envs; env++)
            if (at[env] < naive->shown[env]) {
                memcpy(frames + max * shape->frame_bytes, naive->frames[env][at[env]++].bytes,
                       (size_t)shape->frame_bytes);
                env_of[max++] = (int32_t)env;
            }
    input->n_frames = placed(&n, sizeof n, shared);
    input->max_frames = n + 3;
    input->env = placed(env_of, (n + 1) * 4, shared);
    input->frames = placed(frames, (n + 1) * shape->frame_bytes, shared);
    input->first = placed(m->shown, shape->envs * 8, shared);
    memcpy(m->shown, naive->shown, sizeof m->shown);
    hd_free(env_of);
    hd_free(frames);
}

static void news_transitions(struct mirror *m, bool shared, struct hd_replay_input *input)
{
    const struct naive *naive = m->game.naive;
    const int64_t nstep = naive->shape.nstep, dims = naive->shape.dims;
    const int64_t bytes = hd_transition_get_bytes(nstep, dims);
    const int64_t n = naive->added - m->added;
    char *block = hd_alloc(n + 1, (size_t)bytes);
    for (int64_t i = 0; i < n; i++) {
        const struct naive_transition *from = &naive->transitions[m->added + i];
        struct hd_transition *to = hd_transition_get(block, nstep, dims, i);
        memcpy(to, &from->is, sizeof from->is);
        memcpy(to->reward, from->reward, (size_t)nstep * sizeof(float));
        memcpy(hd_transition_get_action(to, nstep), from->action, (size_t)dims * sizeof(int32_t));
    }
    input->transitions = placed(block, (n + 1) * bytes, shared);
    input->n_transitions = n;
    m->added = naive->added;
    hd_free(block);
}

static void store(struct mirror *m, const struct hd_replay_input *input)
{
    ck_assert_int_eq(
        hd_replay_push_cuda(&m->game.naive->shape, m->ring, input,
                            device_make(NULL, hd_replay_get_scratch_bytes(input->max_frames)),
                            m->report, device_stream()),
        HD_OK);
}

/* Compares sampled rows of both rings. */
static void check_sample(struct mirror *m, int64_t rows)
{
    const struct hd_replay_shape *shape = &m->game.naive->shape;
    const struct hd_transition_shape to_shape = {rows, shape->stack * shape->frame_bytes,
                                                 shape->nstep, shape->dims, shape->nstep > 1};
    const int64_t bytes = hd_transitions_get_bytes(&to_shape), guard = 64;
    const int64_t size = hd_replay_get_size(shape, m->game.ring);
    char *expected = hd_alloc(1, (size_t)bytes), *found = hd_alloc(1, (size_t)(bytes + guard));
    void *there = device_make(found, bytes + guard);
    float *weight = device_make(NULL, (rows + 1) * 4), weights[MAX_ENVS * MAX_FRAME + 1];
    int64_t *used = device_make(NULL, 8), found_used;
    const struct hd_rng *rng = device_make(&m->game.rng, sizeof m->game.rng);
    ck_assert_int_eq(hd_replay_sample_cuda(shape, m->ring, rng, &to_shape,
                                           hd_transitions_lay_out(&to_shape, there), weight, used,
                                           NULL, device_stream()),
                     HD_OK);
    for (int64_t i = 0; i < rows && size > 0; i++) {
        const double u = hd_rng_draw_uniform(&m->game.rng, (uint32_t)i);
        hd_replay_get(shape, m->game.ring, hd_replay_get_stratum(i, u, rows, size), &to_shape,
                      hd_transitions_lay_out(&to_shape, expected), i);
    }
    device_get(found, there, bytes + guard);
    device_get(weights, weight, (rows + 1) * 4);
    device_get(&found_used, used, 8);
    ck_assert(memcmp(found, expected, (size_t)bytes) == 0);
    ck_assert_int_eq(found_used, size > 0 ? rows : 0);
    for (int64_t i = 0; i < rows; i++)
        ck_assert_float_eq(weights[i], size > 0);
    ck_assert(isnan(weights[rows]));
    for (int64_t i = bytes; i < bytes + guard; i++)
        ck_assert_int_eq(found[i], 0);
    hd_free(expected);
    hd_free(found);
}

TEST(test_mirror_cuda, .runs = ALL_CASES, .cuda = true)
{
    const struct ring_case *c = _i < CASES ? &cases[_i] : &large_cases[_i - CASES];
    struct mirror m;
    mirror_make(&m, c, _i);
    check_sample(&m, 3);
    for (int rollout = 0; rollout < ROLLOUTS; rollout++) {
        struct hd_replay_input input;
        roll(&m.game, c->fragment);
        news_frames(&m, rollout % 2 == 1, &input);
        news_transitions(&m, rollout % 2 == 1, &input);
        store(&m, &input);
        check_mirror(&m);
        ck_assert_int_eq(m.report->size, hd_replay_get_size(&c->shape, m.game.ring));
        ck_assert_int_eq(m.report->broken, 0);
        check_sample(&m, 1 + 5 * rollout);
    }
}

/* A rollout that does not continue where the ring stands leaves it unchanged. */
TEST(test_broken_order_cuda, .cuda = true)
{
    const struct ring_case *c = &cases[3];
    struct mirror m;
    struct hd_replay_input input;
    mirror_make(&m, c, 77);
    roll(&m.game, c->fragment);
    news_frames(&m, true, &input);
    news_transitions(&m, true, &input);
    store(&m, &input);
    check_mirror(&m);
    int64_t first[MAX_ENVS];
    memcpy(first, m.game.naive->shown, sizeof first);
    first[1]++;
    first[4]--;
    input.first = device_make(first, sizeof first);
    store(&m, &input);
    check_mirror(&m);
    ck_assert_int_eq(m.report->broken, 2);
    ck_assert_int_eq(m.report->size, hd_replay_get_size(&c->shape, m.game.ring));
}
#endif
