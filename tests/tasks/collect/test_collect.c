/* SPDX-License-Identifier: Apache-2.0 */
/* collect and push_replay against a naive collector (tests/tasks/collect/naive.h). */
#include "kernels/common/argmax.h"
#include "kernels/replay/replay.h"
#include "tasks/types/collect/transition_block.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/collect/check_episodes.h"
#include "tests/tasks/collect/naive.h"

enum { OBS = 4 };

static const struct step collect = {.verb = &hd_verb_collect},
                         push = {.verb = &hd_verb_push_replay};

static void run(struct world *w, int64_t iteration)
{
    world_run(w, &collect, iteration);
    world_run(w, &push, iteration);
}

/* -- Against the naive collector, seen through the replay ring --------------------------------- */

/* While frames suffice, position p holds the last sample whose number is p modulo the capacity. */
static void check_replay(const struct naive *naive, const struct world *w)
{
    const struct value *replay = world_get(w, "replay");
    const struct hd_replay_shape *ring = replay->spec.shape;
    const struct hd_obs_shape *obs = &naive->shape->obs;
    const struct hd_transition_shape shape = {1, obs->obs_bytes, naive->nstep, 1, naive->nstep > 1};
    const int64_t size = hd_replay_get_size(ring, replay->data);
    void *block = hd_alloc(1, (size_t)hd_transitions_get_bytes(&shape));
    struct hd_transitions row = hd_transitions_lay_out(&shape, block);
    const int64_t pushed = naive->kept - naive->waiting;
    ck_assert_int_eq(size, pushed < ring->capacity ? pushed : ring->capacity);
    for (int64_t p = 0; p < size; p++) {
        int64_t rounds = (pushed - 1 - p) / ring->capacity;
        const struct naive_sample *sample = &naive->samples[p + rounds * ring->capacity];
        hd_replay_get(ring, replay->data, p, &shape, row, 0);
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

struct shape_case {
    int n_sample, envs, nstep, collects, capacity;
    const char *set; /* the env, the shape of observations */
};

#define CARTPOLE "env.type=cartpole"
#define STACKED "env.frame_stack=3; policy.model.obs_shape=12"
#define NET "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[4,4,8]; "
#define PIXELS NET "env.type=blink; env.frame_stack=4; policy.model.obs_shape=[4,36,40]"
#define MOMENTS                                                                                    \
    NET "env={type: blink, options: {longest: 1}}; env.frame_stack=2; "                            \
        "policy.model.obs_shape=[2,36,40]"

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

static const char *const surpluses[] = {"first", "turns", "keep"};

TEST(test_against_naive, .runs = 3 * COUNT(cases))
{
    const struct shape_case *c = &cases[_i / 3];
    struct world *w = world_make(1, 2);
    world_set(w, "policy.collect.n_sample=%d; policy.nstep=%d; env.collector_env_num=%d",
              c->n_sample, c->nstep, c->envs);
    world_set(w,
              "policy.other.replay_buffer.replay_buffer_size=%d; policy.discount_factor=0.99; "
              "policy.other.eps={start: 0.5, end: 0.5}; %s",
              c->capacity, c->set);
    world_set(w, "policy.collect.surplus=%s", surpluses[_i % 3]);
    world_open(w, &collect, &push, NULL);
    struct naive *naive = hd_alloc(1, sizeof *naive);
    *naive = (struct naive){.n_sample = c->n_sample,
                            .envs = c->envs,
                            .nstep = c->nstep,
                            .shard = 1,
                            .gamma = .99,
                            .epsilon = .5,
                            .shape = hd_envs_get_shape(&world_get(w, "envs")->spec),
                            .net = world_net(w, "policy"),
                            .params = world_get(w, "policy")->data,
                            .seed = w->setup.seed,
                            .surplus = (enum naive_surplus)(_i % 3)};
    if (c->n_sample == c->envs) /* nothing is ever beyond n_sample */
        naive->surplus = NAIVE_FIRST;
    naive_open(naive, c->collects * c->n_sample + c->envs * naive_fragment(naive));
    for (int64_t iteration = 0; iteration < c->collects; iteration++) {
        run(w, iteration);
        naive_collect(naive, world_at(w, &collect, iteration).rng);
        check_replay(naive, w);
        ck_assert_mem_eq(world_get(w, "counters")->data, &naive->counters, sizeof naive->counters);
        for (int i = 0; i < w->n_values && iteration % 7 == 3; i++)
            if (w->values[i].data != naive->params)
                value_save_load(&w->values[i]);
    }
    check_episodes(w, naive->returns, naive->lengths, naive->counters.episode);
    naive_close(naive);
    hd_free(naive);
}

static struct world *open_with(int64_t shard, const char *sets)
{
    struct world *w = world_make(shard, 2);
    world_set(w, "%s", sets);
    world_open(w, &collect, &push, NULL);
    return w;
}

/* -- Exploration ------------------------------------------------------------------------------- */

/* Epsilon follows the totals, not the shard's own counts: with a linear decay over 1000 steps,
 * totals of 1000 leave nothing to chance. */
TEST(test_epsilon_of_totals)
{
    for (int greedy = 0; greedy < 2; greedy++) {
        struct world *w = world_make(0, 2);
        world_set(w, "policy.other.eps={type: linear, start: 1, end: 0, decay: 1000}");
        world_open(w, &collect, &push, NULL);
        ((struct hd_env_counters *)world_get(w, "totals")->data)->env_step = greedy ? 1000 : 0;
        const struct hd_transition_block_shape *shape =
            hd_transition_block_get_shape(&world_get(w, "transitions")->spec);
        const struct value *replay = world_get(w, "replay");
        struct hd_transition_shape row_shape = {1, OBS * sizeof(float), 1, 1, false};
        void *block = hd_alloc(1, (size_t)hd_transitions_get_bytes(&row_shape));
        struct hd_transitions row = hd_transitions_lay_out(&row_shape, block);
        int64_t same = 0, all = 0;
        for (int64_t iteration = 0; iteration < 40; iteration++) {
            run(w, iteration);
            for (int64_t i = 0; i < shape->n_sample; i++, all++) {
                float q[2];
                hd_replay_get(replay->spec.shape, replay->data, all, &row_shape, row, 0);
                world_forward(w, "policy", NULL, row.obs, 1, q);
                same += row.action[0].choice == hd_argmax(q, 2);
            }
        }
        if (greedy)
            ck_assert_int_eq(same, all);
        else
            ck_assert(same > all / 3 && same < 2 * all / 3);
        hd_free(block);
    }
}

/* -- What results may depend on ---------------------------------------------------------------- */

/* One task object for all collects and a new one for each give bitwise identical values. */
TEST(test_rebuilt_task)
{
    static const char sets[] = "policy.collect.n_sample=13; env.collector_env_num=4";
    struct world *kept = open_with(0, sets), *rebuilt = open_with(0, sets);
    void *args = world_prepare(kept, &collect);
    for (int64_t iteration = 0; iteration < 20; iteration++) {
        const struct hd_context where = world_at(kept, &collect, iteration);
        ck_assert_int_eq(world_run_prepared(kept, &collect, where, args), HD_OK);
        world_run(kept, &push, iteration);
        run(rebuilt, iteration);
        ck_assert_uint_eq(world_hash(kept), world_hash(rebuilt));
    }
    world_release(&collect, args);
}

/* Every value that a collect touches, saved and loaded between two collects. */
TEST(test_save_load)
{
    static const char sets[] =
        "policy.collect.n_sample=96; env.collector_env_num=4; policy.nstep=3";
    struct world *kept = open_with(0, sets), *loaded = open_with(0, sets);
    for (int64_t iteration = 0; iteration < 6; iteration++) {
        run(kept, iteration);
        run(loaded, iteration);
        ck_assert_uint_eq(world_hash(kept), world_hash(loaded));
        for (int i = 0; i < loaded->n_values; i++)
            value_save_load(&loaded->values[i]);
    }
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
    struct world *first = open_with(0, CARTPOLE), *second = open_with(1, CARTPOLE);
    run(first, 0);
    run(second, 0);
    ck_assert_uint_ne(value_hash(world_get(first, "envs")), value_hash(world_get(second, "envs")));
    ck_assert_uint_eq(value_hash(world_get(first, "policy")),
                      value_hash(world_get(second, "policy")));
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

TEST(test_wrong_role)
{
    static const struct step step = {.verb = &hd_verb_collect, .ports = "envs=eval_envs"};
    struct world *w = open_with(0, CARTPOLE);
    w->role = "evaluator";
    world_declare(w, (struct hd_spec){.name = "eval_envs", .type = &hd_type_envs}, NULL);
    check_names(world_mistake(w, &step), "'eval_envs'|evaluator");
}

TEST(test_envs_without_role)
{
    struct world *w = open_with(0, CARTPOLE);
    static const char *const roles[] = {NULL, "player"};
    for (int i = 0; i < 2; i++) {
        struct hd_spec spec = {.name = "envs",
                               .type = &hd_type_envs,
                               .role = roles[i],
                               .location = {"graph.yaml", i + 1, 1}};
        ck_assert_int_eq(hd_type_envs.resolve(&spec, &w->setup), HD_ERR_INPUT);
        ck_assert_ptr_null(spec.shape);
        check_names(hd_diag_get_line(w->setup.diag, i),
                    i ? "graph.yaml:2:1|role" : "graph.yaml:1:1|role");
    }
}

static const struct mistake_case {
    const char *set;
    int mistakes;
    const char *names;
} mistakes[] = {
    {"policy.model.obs_shape=[4,84,84]; policy.model.action_shape=6", 2,
     "policy.model.obs_shape|[4]|[4, 84, 84]"},
    {"env.frame_stack=2", 1, "policy.model.obs_shape|env.frame_stack 2|[8]|[4]"},
    {"env.type=blink; policy.model.obs_shape=[36,40]; policy.model.action_shape=3", 1,
     "policy.model.obs_shape|[1, 36, 40]|[36, 40]"},
    {"env={type: blink, options: {floats: true}}; policy.model.obs_shape=[1,2,2]; "
     "policy.model.action_shape=3",
     1, "blink|floats|3 dimensions"},
    {"env={type: blink, options: {colour: red}}", 1, "env.type|blink|colour"},
    {"env.type=blnk", 1, "env.type|'blnk'"},
};

/* A mistake is reported once for all values of type envs, at its key in the config. */
TEST(test_mistakes, .runs = COUNT(mistakes))
{
    const struct mistake_case *c = &mistakes[_i];
    struct world *w = world_make(0, 2);
    world_set(w, "%s", c->set);
    world_open(w, NULL);
    static const char *const roles[] = {"collector", "evaluator"};
    for (int i = 0; i < 2; i++) {
        struct hd_spec spec = {.name = roles[i],
                               .type = &hd_type_envs,
                               .role = roles[i],
                               .location = w->setup.location};
        ck_assert_int_eq(hd_type_envs.resolve(&spec, &w->setup), HD_ERR_INPUT);
        ck_assert_ptr_null(spec.shape);
    }
    ck_assert_int_eq(hd_diag_count(w->setup.diag), c->mistakes);
    const char *line = hd_diag_get_line(w->setup.diag, 0);
    ck_assert_int_eq(strncmp(line, "--set:", 6), 0);
    check_names(line, c->names);
}

/* -- Envs that fail ---------------------------------------------------------------------------- */

static void check_failure(const char *option, int64_t collects, const char *names, bool names_seed)
{
    struct world *w = world_make(1, 2);
    world_set(w,
              NET "policy.model.obs_shape=[1,36,40]; env.collector_env_num=2; "
                  "env={type: blink, options: {%s}}",
              option);
    world_open(w, &collect, &push, NULL);
    void *args = world_prepare(w, &collect);
    char seed[64] = "";
    int status = HD_OK;
    int64_t iteration = 0;
    for (; status == HD_OK && iteration < 100; iteration++)
        status = world_run_prepared(w, &collect, world_at(w, &collect, iteration), args);
    ck_assert_int_eq(status, HD_ERR_TASK);
    ck_assert_int_ge(iteration, collects);
    if (names_seed)
        snprintf(seed, sizeof seed, "seed %llu",
                 (unsigned long long)hd_env_get_seed(w->setup.seed, 1, 0, 0));
    check_names(w->message, names);
    check_names(w->message, seed);
    world_release(&collect, args);
}

TEST(test_failing_envs)
{
    check_failure("fail_reset: 1", 1, "blink|shard 1|env 0|the lamp is out", true);
    check_failure("fail_reset: 3", 2, "blink|shard 1|the lamp is out", false);
    check_failure("fail_step: 1", 1, "blink|shard 1|the lamp of env 0 broke|step 0", true);
}

/* -- Transition blocks are pushed once each, in order ------------------------------------------ */

TEST(test_missing_block)
{
    struct world *w = open_with(0, CARTPOLE);
    run(w, 0);
    for (int i = 0; i < 2; i++) {
        check_names(world_fail(w, &push, i), "'transitions'|env 0|'replay'");
        /* The first time a block is pushed twice; the second time one is left out before it. */
        world_run(w, &collect, 1);
        world_run(w, &collect, 2);
    }
}

/* A transition block has capacity for every frame that its collect can show: in episodes of one
 * step each step has two frames, and a long episode leaves every step pending. Guard zones show
 * whether it is exceeded. */
TEST(test_capacity)
{
    static const int longest[] = {1, 2, 30}, n_sample[] = {1, 33, 64};
    for (int i = 0; i < 9; i++) {
        struct world *w = world_make(0, 2);
        world_set(w, "env={type: blink, options: {longest: %d}}; policy.collect.n_sample=%d",
                  longest[i / 3], n_sample[i % 3]);
        world_set(w, NET "policy.model.obs_shape=[1,36,40]; policy.other.eps={start: 1, end: 1}");
        world_open(w, &collect, &push, NULL);
        const struct value *transitions = world_get(w, "transitions");
        const struct hd_transition_block_shape *shape =
            hd_transition_block_get_shape(&transitions->spec);
        for (int64_t iteration = 0; iteration < 50; iteration++) {
            run(w, iteration);
            struct hd_transition_block block = hd_transition_block_get(shape, transitions->data);
            ck_assert_int_le(*block.n_frames, shape->frames);
            int64_t of_env[8] = {0};
            for (int64_t f = 0; f < *block.n_frames; f++)
                of_env[block.env[f]]++;
            for (int e = 0; e < 8; e++)
                ck_assert_int_le(of_env[e], shape->frames_of_env);
        }
    }
}
