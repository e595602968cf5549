/* SPDX-License-Identifier: Apache-2.0 */
/* collect and push_replay against a naive collector (tests/tasks/collect/naive.h). */
#include "kernels/common/argmax.h"
#include "kernels/replay/replay.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/collect/naive.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { POLICY, TOTALS, ENVS, COUNTERS, EPISODES, TRANSITION_BLOCK, REPLAY, N_VALUES };
enum { OBS = 4, WINDOW = 20 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES], *push_replay[3];
};

static void world_open(struct world *w, const char *const *sets, int n, int64_t shard)
{
    static const struct hd_type *const types[] = {
        &hd_type_params,  &hd_type_env_counters,     &hd_type_envs,  &hd_type_env_counters,
        &hd_type_scalars, &hd_type_transition_block, &hd_type_replay};
    static const char *const names[] = {"policy",   "totals",           "envs",  "counters",
                                        "episodes", "transition_block", "replay"};
    *w = (struct world){.setup = setup_open(sets, n)};
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    w->push_replay[0] = &w->values[TRANSITION_BLOCK];
    w->push_replay[1] = &w->values[REPLAY];
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_collect, &w->setup, w->ports, specs);
    ck_assert_int_eq(hd_verb_collect.declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, shard);
}

static void world_close(struct world *w)
{
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

static void collect(struct world *w, int64_t shard, int64_t iteration)
{
    struct hd_context where = at(&w->setup, shard, iteration);
    /* The old content of a written value may be anything. */
    memset(w->values[TRANSITION_BLOCK].data, 0xFF, (size_t)w->values[TRANSITION_BLOCK].spec.bytes);
    run(&hd_verb_collect, &w->setup, w->ports, &where);
    run(&hd_verb_push_replay, &w->setup, w->push_replay, &where);
}

static uint64_t world_hash(const struct world *w)
{
    uint64_t hash = 0;
    for (int i = 0; i < N_VALUES; i++)
        hash = hash * 31 + value_hash(&w->values[i]);
    return hash;
}

/* -- Against the naive collector, seen through the replay ring --------------------------------- */

/* While frames suffice, position p holds the last sample whose number is p modulo the capacity. */
static void check_replay(const struct naive *naive, const struct world *w)
{
    const struct hd_replay_shape *ring = w->values[REPLAY].spec.shape;
    const struct hd_obs_shape *obs = &naive->shape->obs;
    const struct hd_transition_shape shape = {1, obs->obs_bytes, naive->nstep, 1, naive->nstep > 1};
    const int64_t size = hd_replay_get_size(ring, w->values[REPLAY].data);
    void *block = hd_alloc(1, (size_t)hd_transitions_get_bytes(&shape));
    struct hd_transitions row = hd_transitions_lay_out(&shape, block);
    ck_assert_int_eq(size, naive->kept < ring->capacity ? naive->kept : ring->capacity);
    for (int64_t p = 0; p < size; p++) {
        int64_t rounds = (naive->kept - 1 - p) / ring->capacity;
        const struct naive_sample *sample = &naive->samples[p + rounds * ring->capacity];
        hd_replay_get(ring, w->values[REPLAY].data, p, &shape, row, 0);
        ck_assert_mem_eq(row.obs, sample->obs, (size_t)obs->obs_bytes);
        ck_assert_mem_eq(row.next_obs, sample->next_obs, (size_t)obs->obs_bytes);
        ck_assert_int_eq(row.action[0].choice, sample->action);
        ck_assert(row.done[0] == (float)sample->done);
        for (int64_t j = 0; j < naive->nstep; j++)
            ck_assert_double_eq((double)row.reward[j], sample->reward[j]);
        if (naive->nstep > 1)
            ck_assert_float_eq(row.value_gamma[0], (float)sample->gamma);
    }
    hd_free(block);
}

static double episode_field(const struct world *w, const char *name)
{
    const struct value *episodes = &w->values[EPISODES];
    int field = hd_value_find_field(&episodes->spec, name);
    ck_assert_int_ge(field, 0);
    return episodes->spec.type->field(&episodes->spec, episodes->data, field);
}

/* Statistics of the last episodes. */
static void check_episodes(const struct naive *naive, const struct world *w)
{
    int64_t n = naive->counters.episode, from = n > WINDOW ? n - WINDOW : 0;
    double sum = 0, squares = 0, length = 0, max = -1e9, min = 1e9;
    for (int64_t i = from; i < n; i++) {
        sum += naive->returns[i];
        squares += naive->returns[i] * naive->returns[i];
        length += naive->lengths[i];
        max = fmax(max, naive->returns[i]);
        min = fmin(min, naive->returns[i]);
    }
    double count = (double)(n - from);
    ck_assert_double_eq_tol(episode_field(w, "reward_mean"), sum / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "avg_envstep_per_episode"), length / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "reward_square"), squares / count, 1e-9);
    ck_assert_double_eq(episode_field(w, "reward_max"), max);
    ck_assert_double_eq(episode_field(w, "reward_min"), min);
}

struct shape_case {
    int64_t n_sample, envs, nstep, collects, capacity;
    const char *set[5]; /* the env, the shape of observations */
};

#define CARTPOLE                                                                                   \
    {                                                                                              \
        "env.type=cartpole"                                                                        \
    }
#define STACKED                                                                                    \
    {                                                                                              \
        "env.frame_stack=3", "policy.model.obs_shape=12"                                           \
    }
#define NET "policy.model.action_shape=3", "policy.model.encoder_hidden_size_list=[4,4,8]"
#define PIXELS                                                                                     \
    {                                                                                              \
        "env.type=blink", "env.frame_stack=4", "policy.model.obs_shape=[4,36,40]", NET             \
    }
#define MOMENTS                                                                                    \
    {                                                                                              \
        "env={type: blink, options: {longest: 1}}", "env.frame_stack=2",                           \
            "policy.model.obs_shape=[2,36,40]", NET                                                \
    }

/* Fragments of one step and longer ones; n_sample a multiple of the envs or not, or below them;
 * n-steps shorter and longer than a fragment; rings as large as a transition block; one frame or
 * several; episodes longer and shorter than a fragment or than an observation, or of a single step.
 */
static const struct shape_case cases[] = {
    {8, 8, 1, 60, 100, CARTPOLE},  {8, 8, 3, 60, 20000, CARTPOLE}, {7, 3, 1, 60, 50, CARTPOLE},
    {13, 4, 2, 40, 100, CARTPOLE}, {3, 8, 1, 60, 20, CARTPOLE},    {96, 4, 3, 12, 300, CARTPOLE},
    {1, 1, 1, 60, 10, CARTPOLE},   {40, 3, 8, 20, 40, CARTPOLE},   {96, 4, 3, 12, 300, STACKED},
    {13, 4, 2, 40, 100, STACKED},  {96, 4, 3, 8, 500, PIXELS},     {8, 8, 1, 30, 100, PIXELS},
    {13, 4, 2, 30, 100, PIXELS},   {40, 3, 8, 15, 40, PIXELS},     {1, 5, 3, 60, 10, PIXELS},
    {96, 4, 3, 5, 150, MOMENTS},   {7, 3, 1, 30, 50, MOMENTS},     {1, 5, 3, 60, 10, MOMENTS},
};

static void open_case(struct world *w, const struct shape_case *c, int64_t shard)
{
    char text[4][64];
    const char *sets[11] = {text[0], text[1], text[2], text[3]};
    snprintf(text[0], sizeof text[0], "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(text[1], sizeof text[1], "policy.nstep=%d", (int)c->nstep);
    snprintf(text[2], sizeof text[2], "policy.other.replay_buffer.replay_buffer_size=%d",
             (int)c->capacity);
    snprintf(text[3], sizeof text[3], "env.collector_env_num=%d", (int)c->envs);
    int n = 4;
    sets[n++] = "policy.discount_factor=0.99";
    sets[n++] = "policy.other.eps={start: 0.5, end: 0.5}";
    for (int i = 0; i < 5 && c->set[i]; i++)
        sets[n++] = c->set[i];
    world_open(w, sets, n, shard);
}

TEST(test_against_naive, .runs = COUNT(cases))
{
    const struct shape_case *c = &cases[_i];
    struct world w;
    open_case(&w, c, 1);
    struct naive *naive = hd_alloc(1, sizeof *naive);
    *naive = (struct naive){.n_sample = c->n_sample,
                            .envs = c->envs,
                            .nstep = c->nstep,
                            .shard = 1,
                            .gamma = .99,
                            .epsilon = .5,
                            .shape = hd_envs_get_shape(&w.values[ENVS].spec),
                            .net = hd_params_get_net(&w.values[POLICY].spec),
                            .params = w.values[POLICY].data,
                            .seed = w.setup.seed};
    naive_open(naive, c->collects * c->n_sample);
    for (int64_t iteration = 0; iteration < c->collects; iteration++) {
        collect(&w, 1, iteration);
        naive_collect(naive, at(&w.setup, 1, iteration).rng);
        check_replay(naive, &w);
        ck_assert_mem_eq(w.values[COUNTERS].data, &naive->counters, sizeof naive->counters);
        if (iteration % 7 == 3)
            for (int i = 0; i < N_VALUES; i++)
                if (i != POLICY)
                    value_save_load(&w.values[i]);
    }
    ck_assert_int_gt(naive->counters.episode, 0);
    check_episodes(naive, &w);
    naive_close(naive);
    hd_free(naive);
    world_close(&w);
}

/* -- Exploration ------------------------------------------------------------------------------- */

/* Epsilon follows the totals, not the shard's own counts: with a linear decay over 1000 steps,
 * totals of 1000 leave nothing to chance. */
TEST(test_epsilon_of_totals)
{
    const char *const sets[] = {"policy.other.eps.type=linear", "policy.other.eps.start=1",
                                "policy.other.eps.end=0", "policy.other.eps.decay=1000"};
    for (int greedy = 0; greedy < 2; greedy++) {
        struct world w;
        world_open(&w, sets, 4, 0);
        ((struct hd_env_counters *)w.values[TOTALS].data)->env_step = greedy ? 1000 : 0;
        const struct hd_net *net = hd_params_get_net(&w.values[POLICY].spec);
        const struct hd_transition_block_shape *shape =
            hd_transition_block_get_shape(&w.values[TRANSITION_BLOCK].spec);
        const struct hd_replay_shape *ring = w.values[REPLAY].spec.shape;
        struct hd_transition_shape row_shape = {1, OBS * sizeof(float), 1, 1, false};
        void *block = hd_alloc(1, (size_t)hd_transitions_get_bytes(&row_shape));
        struct hd_transitions row = hd_transitions_lay_out(&row_shape, block);
        void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, 1));
        int64_t same = 0, all = 0;
        for (int64_t iteration = 0; iteration < 40; iteration++) {
            collect(&w, 0, iteration);
            for (int64_t i = 0; i < shape->n_sample; i++, all++) {
                float q[2];
                hd_replay_get(ring, w.values[REPLAY].data, all, &row_shape, row, 0);
                hd_net_forward(net, w.values[POLICY].data, NULL, row.obs, 1, work, q);
                same += row.action[0].choice == hd_argmax(q, 2);
            }
        }
        if (greedy)
            ck_assert_int_eq(same, all);
        else
            ck_assert(same > all / 3 && same < 2 * all / 3);
        hd_free(work);
        hd_free(block);
        world_close(&w);
    }
}

/* -- What results may depend on ---------------------------------------------------------------- */

/* One task object for all collects and a new one for each give bitwise identical values. */
TEST(test_rebuilt_task)
{
    const char *const sets[] = {"policy.collect.n_sample=13", "env.collector_env_num=4"};
    struct world kept, rebuilt;
    world_open(&kept, sets, 2, 0);
    world_open(&rebuilt, sets, 2, 0);
    void *args = prepare(&hd_verb_collect, &kept.setup, kept.ports);
    char message[HD_MESSAGE_BYTES];
    for (int64_t iteration = 0; iteration < 20; iteration++) {
        struct hd_context where = at(&kept.setup, 0, iteration);
        ck_assert_int_eq(run_body(&hd_verb_collect, kept.ports, &where, args, message), HD_OK);
        run(&hd_verb_push_replay, &kept.setup, kept.push_replay, &where);
        collect(&rebuilt, 0, iteration);
        ck_assert_uint_eq(world_hash(&kept), world_hash(&rebuilt));
    }
    unprepare(&hd_verb_collect, args);
    world_close(&kept);
    world_close(&rebuilt);
}

/* Every value that a collect touches, saved and loaded between two collects. */
TEST(test_save_load)
{
    const char *const sets[] = {"policy.collect.n_sample=96", "env.collector_env_num=4",
                                "policy.nstep=3"};
    struct world kept, loaded;
    world_open(&kept, sets, 3, 0);
    world_open(&loaded, sets, 3, 0);
    for (int64_t iteration = 0; iteration < 6; iteration++) {
        collect(&kept, 0, iteration);
        collect(&loaded, 0, iteration);
        ck_assert_uint_eq(world_hash(&kept), world_hash(&loaded));
        for (int i = 0; i < N_VALUES; i++)
            value_save_load(&loaded.values[i]);
    }
    world_close(&kept);
    world_close(&loaded);
}

TEST(test_seeds)
{
    const uint64_t seed = hd_env_get_seed(5, 0, 0, 0);
    ck_assert_uint_eq(HD_ENV_SEED_STREAM, hd_hash_text("env reset"));
    ck_assert_uint_eq(hd_env_get_seed(5, 0, 0, 0), seed);
    ck_assert_uint_ne(hd_env_get_seed(6, 0, 0, 0), seed);
    ck_assert_uint_ne(hd_env_get_seed(5, 1, 0, 0), seed);
    ck_assert_uint_ne(hd_env_get_seed(5, 0, 1, 0), seed);
    ck_assert_uint_ne(hd_env_get_seed(5, 0, 0, 1), seed);
    ck_assert_uint_ne(hd_env_get_seed(5, 0, 0, (int64_t)1 << 32), seed);
    struct world first, second;
    world_open(&first, NULL, 0, 0);
    world_open(&second, NULL, 0, 1);
    collect(&first, 0, 0);
    collect(&second, 1, 0);
    ck_assert_uint_ne(value_hash(&first.values[ENVS]), value_hash(&second.values[ENVS]));
    ck_assert_uint_eq(value_hash(&first.values[POLICY]), value_hash(&second.values[POLICY]));
    world_close(&first);
    world_close(&second);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

TEST(test_wrong_role)
{
    struct world w;
    world_open(&w, NULL, 0, 0);
    struct value evaluator;
    value_open(&evaluator, &w.setup, &hd_type_envs, "eval_envs", "evaluator");
    w.ports[ENVS] = &evaluator;
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_collect, &w.setup, w.ports, specs);
    void *args = NULL;
    ck_assert_int_eq(hd_verb_collect.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(hd_diag_get_line(w.setup.diag, 0), "'eval_envs'"));
    value_close(&evaluator);
    world_close(&w);
}

TEST(test_envs_without_role)
{
    struct hd_setup setup = setup_open(NULL, 0);
    static const char *const roles[] = {NULL, "player"};
    for (int i = 0; i < 2; i++) {
        struct hd_spec spec = {.name = "envs",
                               .type = &hd_type_envs,
                               .role = roles[i],
                               .location = {"graph.yaml", i + 1, 1}};
        ck_assert_int_eq(hd_type_envs.resolve(&spec, &setup), HD_ERR_INPUT);
        ck_assert_ptr_null(spec.shape);
        ck_assert_ptr_nonnull(strstr(hd_diag_get_line(setup.diag, i), "role"));
    }
    setup_close(&setup);
}

struct mistake_case {
    const char *set[4];
    int mistakes;
    const char *says;
};

static const struct mistake_case mistakes[] = {
    {{"policy.model.obs_shape=[4,84,84]", "policy.model.action_shape=6"}, 2, "shows [4], found"},
    {{"env.frame_stack=2"}, 1, "env.frame_stack 2 shows [8], found [4]"},
    {{"env.type=blink", "policy.model.obs_shape=[36,40]", "policy.model.action_shape=3"},
     1,
     "shows [1, 36, 40], found [36, 40]"},
    {{"env={type: blink, options: {floats: true}}", "policy.model.obs_shape=[1,2,2]",
      "policy.model.action_shape=3"},
     1,
     "blink shows floats, but observations of 3 dimensions are bytes"},
    {{"env={type: blink, options: {colour: red}}"},
     1,
     "env.type blink: blink has no option colour"},
    {{"env.type=blnk"}, 1, "no environment 'blnk'"},
};

/* A mistake is reported once for all values of type envs, at its key in the config. */
TEST(test_mistakes, .runs = COUNT(mistakes))
{
    const struct mistake_case *c = &mistakes[_i];
    int n = 0;
    while (n < 4 && c->set[n])
        n++;
    struct hd_setup setup = setup_open(c->set, n);
    static const char *const roles[] = {"collector", "evaluator"};
    for (int i = 0; i < 2; i++) {
        struct hd_spec spec = {
            .name = roles[i], .type = &hd_type_envs, .role = roles[i], .location = setup.location};
        ck_assert_int_eq(hd_type_envs.resolve(&spec, &setup), HD_ERR_INPUT);
        ck_assert_ptr_null(spec.shape);
    }
    ck_assert_int_eq(hd_diag_count(setup.diag), c->mistakes);
    const char *line = hd_diag_get_line(setup.diag, 0);
    ck_assert_msg(strncmp(line, "--set:", 6) == 0 && strstr(line, c->says), "%s", line);
    setup_close(&setup);
}

/* -- Envs that fail ---------------------------------------------------------------------------- */

static void check_failure(const char *option, int64_t collects, const char *says, bool names_seed)
{
    const char *const sets[] = {option, "policy.model.obs_shape=[1,36,40]", NET,
                                "env.collector_env_num=2"};
    struct world w;
    world_open(&w, sets, 5, 1);
    void *args = prepare(&hd_verb_collect, &w.setup, w.ports);
    char message[HD_MESSAGE_BYTES] = "", seed[64];
    int status = HD_OK;
    int64_t iteration = 0;
    for (; status == HD_OK && iteration < 100; iteration++) {
        struct hd_context where = at(&w.setup, 1, iteration);
        status = run_body(&hd_verb_collect, w.ports, &where, args, message);
    }
    ck_assert_int_eq(status, HD_ERR_TASK);
    ck_assert_int_ge(iteration, collects);
    ck_assert_msg(strstr(message, says), "%s", message);
    snprintf(seed, sizeof seed, "seed %llu",
             (unsigned long long)hd_env_get_seed(w.setup.seed, 1, 0, 0));
    ck_assert_msg(!names_seed || strstr(message, seed), "%s lacks %s", message, seed);
    unprepare(&hd_verb_collect, args);
    world_close(&w);
}

TEST(test_failing_envs)
{
    check_failure("env={type: blink, options: {fail_reset: 1}}", 1,
                  "blink (shard 1): env 0 cannot start from seed", true);
    check_failure("env={type: blink, options: {fail_reset: 3}}", 2, "the lamp is out", false);
    check_failure("env={type: blink, options: {fail_step: 1}}", 1,
                  "blink (shard 1): the lamp of env 0 broke; env 0 is at step 0 from seed", true);
}

/* -- Transition blocks are pushed once each, in order ------------------------------------------ */

TEST(test_missing_block)
{
    struct world w;
    world_open(&w, NULL, 0, 0);
    collect(&w, 0, 0);
    for (int i = 0; i < 2; i++) {
        char message[HD_MESSAGE_BYTES] = "";
        struct hd_context where = at(&w.setup, 0, i);
        ck_assert_int_eq(run_body(&hd_verb_push_replay, w.push_replay, &where, NULL, message),
                         HD_ERR_TASK);
        ck_assert_msg(strstr(message, "every collect must be pushed exactly once"), "%s", message);
        /* The first time a block is pushed twice; the second time one is left out before it. */
        void *args = prepare(&hd_verb_collect, &w.setup, w.ports);
        for (int j = 0; j < 2; j++) {
            where = at(&w.setup, 0, 1 + j);
            ck_assert_int_eq(run_body(&hd_verb_collect, w.ports, &where, args, message), HD_OK);
        }
        unprepare(&hd_verb_collect, args);
    }
    world_close(&w);
}

/* A transition block has capacity for every frame that its collect can show: in episodes of one
 * step each step has two frames, and a long episode leaves every step pending. Guard zones show
 * whether it is exceeded. */
TEST(test_capacity)
{
    static const char *const longest[] = {"env={type: blink, options: {longest: 1}}",
                                          "env={type: blink, options: {longest: 2}}",
                                          "env={type: blink, options: {longest: 30}}"};
    static const char *const n_sample[] = {
        "policy.collect.n_sample=1", "policy.collect.n_sample=33", "policy.collect.n_sample=64"};
    for (int i = 0; i < 9; i++) {
        const char *const sets[] = {longest[i / 3], n_sample[i % 3],
                                    "policy.model.obs_shape=[1,36,40]", NET,
                                    "policy.other.eps={start: 1, end: 1}"};
        struct world w;
        world_open(&w, sets, 6, 0);
        const struct hd_transition_block_shape *shape =
            hd_transition_block_get_shape(&w.values[TRANSITION_BLOCK].spec);
        for (int64_t iteration = 0; iteration < 50; iteration++) {
            collect(&w, 0, iteration);
            struct hd_transition_block block =
                hd_transition_block_get(shape, w.values[TRANSITION_BLOCK].data);
            ck_assert_int_le(*block.n_frames, shape->frames);
            int64_t of_env[8] = {0};
            for (int64_t f = 0; f < *block.n_frames; f++)
                of_env[block.env[f]]++;
            for (int e = 0; e < 8; e++)
                ck_assert_int_le(of_env[e], shape->frames_of_env);
        }
        world_close(&w);
    }
}
