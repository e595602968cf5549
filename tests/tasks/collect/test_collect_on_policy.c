/* SPDX-License-Identifier: Apache-2.0 */
/* collect_on_policy against naive collectors (tests/tasks/collect/naive_on_policy.h), one for each
 * environment group. */
#include "tasks/types/output/env_counters.h"
#include "tests/tasks/collect/check_episodes.h"
#include "tests/tasks/collect/naive_on_policy.h"
#include "tests/tasks/on_policy.h"

enum { MAX_GROUPS = 4, MOST_ENDED = 16384 };

/* -- Against the naive collector --------------------------------------------------------------- */

struct shape_case {
    int n_sample, envs, groups, collects;
    bool segment_at_done, norm;
    const char *set; /* the env, the shape of observations */
};

#define CARTPOLE "env.type=cartpole"
#define STACKED "env.frame_stack=3; policy.model.obs_shape=12"
#define NET "policy.model.action_shape=3; policy.model.encoder_hidden_size_list=[4,4,8]; "
#define PIXELS NET "env.type=blink; env.frame_stack=4; policy.model.obs_shape=[4,36,40]"
#define TWO_FRAMES NET "env.frame_stack=2; policy.model.obs_shape=[2,36,40]; "
#define LONG TWO_FRAMES "env={type: blink, options: {longest: 60}}"
#define MOMENTS TWO_FRAMES "env={type: blink, options: {longest: 1}}"

/* Fragments of one step and longer ones; n_sample a multiple of the envs or not, or below them; one
 * group or several; one frame or several; episodes longer and shorter than a fragment or than an
 * observation, or of a single step; fragments cut by the quota and not. */
static const struct shape_case cases[] = {
    {256, 8, 1, 6, true, false, CARTPOLE}, {256, 8, 1, 6, false, false, CARTPOLE},
    {256, 8, 4, 6, true, false, CARTPOLE}, {96, 8, 2, 20, false, true, CARTPOLE},
    {7, 3, 1, 60, true, false, CARTPOLE},  {7, 3, 1, 60, false, false, CARTPOLE},
    {3, 8, 1, 60, true, true, CARTPOLE},   {1, 1, 1, 60, true, false, CARTPOLE},
    {62, 4, 2, 15, true, true, CARTPOLE},  {62, 4, 2, 15, false, false, STACKED},
    {96, 4, 1, 12, true, false, STACKED},  {30, 6, 3, 30, true, false, STACKED},
    {96, 4, 1, 8, true, false, PIXELS},    {96, 4, 2, 8, false, true, PIXELS},
    {50, 4, 1, 8, true, true, PIXELS},     {50, 4, 2, 8, true, false, PIXELS},
    {4, 4, 4, 30, true, false, PIXELS},    {14, 4, 2, 30, false, false, PIXELS},
    {90, 3, 1, 8, true, false, LONG},      {90, 3, 3, 8, false, true, LONG},
    {64, 4, 2, 8, true, false, LONG},      {96, 4, 2, 5, true, false, MOMENTS},
    {9, 4, 1, 20, false, false, MOMENTS},  {9, 4, 1, 20, true, true, MOMENTS},
};

static const struct step *get_step(const struct shape_case *c)
{
    return c->norm ? &collect_normalised : &collect;
}

static struct world *open_with(const struct shape_case *c, int64_t shard, bool split,
                               const char *surplus)
{
    struct world *w = make_on_policy(shard);
    world_set(w,
              "policy.learn.ppo_param_init=false; policy.collect.n_sample=%d; "
              "env.collector_env_num=%d; policy.collect.env_groups=%d; %s",
              c->n_sample, c->envs, c->groups, c->set);
    world_set(w, "policy.collect.segment_at_done=%s; policy.collect.overlap_act_step=%s",
              c->segment_at_done ? "true" : "false", split ? "true" : "false");
    world_set(w, "policy.collect.surplus=%s", surplus);
    world_open(w, get_step(c), NULL);
    if (c->norm)
        add_moments(world_get(w, "obs_norm"), 5, 0,
                    hd_net_has_u8_obs(world_net(w, "policy")) ? 255 : 1);
    return w;
}

static struct world *open_case(const struct shape_case *c, int64_t shard, bool split)
{
    return open_with(c, shard, split, "first");
}

/* The naive side of a shard, and what it saw in all collects. */
struct naive {
    int64_t groups;
    struct hd_env_counters counters;
    double returns[MOST_ENDED], lengths[MOST_ENDED];
    struct naive_group group[MAX_GROUPS];
};

static struct naive *make_naive(const struct world *w, const struct shape_case *c, int64_t shard,
                                bool takes_turns, struct hd_obs_norm *norm)
{
    struct naive *naive = hd_alloc(1, sizeof *naive);
    struct hd_view view = {0};
    if (c->norm)
        view = (struct hd_view){.spec = &world_get(w, "obs_norm")->spec,
                                .data = world_get(w, "obs_norm")->data};
    const bool may_drop =
        c->n_sample % c->envs != 0 || (c->segment_at_done && c->n_sample > c->envs);
    naive->groups = c->groups;
    for (int64_t g = 0; g < c->groups; g++) {
        struct naive_group *group = &naive->group[g];
        group->shape = hd_envs_get_shape(&world_get(w, "envs")->spec);
        group->net = world_net(w, "policy");
        group->params = world_get(w, "policy")->data;
        group->norm = hd_moments_get_obs_norm(&view, norm);
        group->seed = w->setup.seed;
        group->shard = shard;
        group->all = c->envs;
        group->envs = c->envs / c->groups;
        group->first = g * group->envs;
        group->n_sample = c->n_sample / c->groups;
        group->segment_at_done = c->segment_at_done;
        group->takes_turns = takes_turns && may_drop;
        naive_open(group);
    }
    return naive;
}

static void destroy_naive(struct naive *naive)
{
    for (int64_t g = 0; g < naive->groups; g++)
        naive_close(&naive->group[g]);
    hd_free(naive);
}

/* Episodes count group by group, in the order of their ends within each. */
static void collect_naive(struct naive *naive, const struct hd_rng *rng)
{
    for (int64_t g = 0; g < naive->groups; g++) {
        struct naive_group *group = &naive->group[g];
        naive_collect(group, rng);
        for (int64_t i = 0; i < group->ended; i++, naive->counters.episode++) {
            ck_assert_int_lt(naive->counters.episode, MOST_ENDED);
            naive->returns[naive->counters.episode] = group->returns[i];
            naive->lengths[naive->counters.episode] = group->lengths[i];
        }
        naive->counters.env_step += group->env_steps;
        naive->counters.sample += group->collected;
        naive->counters.dropped += group->env_steps - group->n_sample;
    }
}

static void check_group(const struct hd_spec *spec, void *data, int64_t partial,
                        const struct naive_group *group)
{
    const struct hd_trajectories_shape *shape = hd_trajectories_get_shape(spec);
    const struct hd_trajectories t = hd_trajectories_get(spec, data, partial);
    const int64_t bytes = shape->obs.obs_bytes;
    unsigned char obs[NAIVE_OBS_BYTES];
    ck_assert_int_eq(shape->samples, group->n_sample);
    ck_assert_int_eq(*t.made, group->collected);
    ck_assert_int_eq(*t.forward * group->envs, group->env_steps);
    ck_assert_int_le(*t.forward, shape->steps);
    for (int64_t env = 0; env < group->envs; env++)
        ck_assert_int_le(t.shown[env], shape->frames);
    for (int64_t i = 0; i < group->n_sample; i++) {
        const struct naive_sample *sample = &group->samples[i];
        const int64_t step = t.row[i];
        hd_trajectories_copy_obs(shape, &t, step, 0, obs);
        ck_assert_mem_eq(obs, sample->obs, (size_t)bytes);
        hd_trajectories_copy_obs(shape, &t, step, 1, obs);
        ck_assert_mem_eq(obs, sample->next_obs, (size_t)bytes);
        ck_assert_int_eq(t.action[step].choice, sample->action);
        ck_assert(t.reward[step] == sample->reward);
        ck_assert(t.done[step] == (float)sample->done);
        ck_assert_msg(t.end[i] == (float)sample->end || i + 1 == group->n_sample,
                      "sample %lld: end is %g", (long long)i, (double)t.end[i]);
        ck_assert_mem_eq(t.logit + step * shape->logits, sample->logit,
                         (size_t)shape->logits * sizeof(float));
    }
    ck_assert(t.end[group->n_sample - 1] == 1); /* nothing follows */
}

TEST(test_against_naive, .runs = 2 * COUNT(cases))
{
    const struct shape_case *c = &cases[_i / 2];
    struct world *w = open_with(c, 1, false, _i % 2 ? "turns" : "first");
    struct hd_obs_norm norm;
    struct naive *naive = make_naive(w, c, 1, _i % 2, &norm);
    for (int64_t iteration = 0; iteration < c->collects; iteration++) {
        const struct hd_rng rng = world_at(w, get_step(c), iteration).rng;
        world_run(w, get_step(c), iteration);
        collect_naive(naive, &rng);
        for (int i = 0; i < w->n_values && iteration % 5 == 3; i++)
            if (&w->values[i] != world_get(w, "policy") && strcmp(w->names[i], "obs_norm") != 0)
                value_save_load(&w->values[i]);
        for (int64_t g = 0; g < c->groups; g++)
            check_group(INSTANCE(w, "trajectories"), g, &naive->group[g]);
        ck_assert_mem_eq(world_get(w, "counters")->data, &naive->counters, sizeof naive->counters);
    }
    check_episodes(w, naive->returns, naive->lengths, naive->counters.episode);
    destroy_naive(naive);
}

/* -- What results may depend on ---------------------------------------------------------------- */

/* One task for a group's whole collect, or two for each of its steps; tasks of different groups in
 * either order; one task object for all, or a new one each time. */
TEST(test_schedules, .runs = COUNT(cases))
{
    const struct shape_case *c = &cases[_i];
    const struct step *step = get_step(c);
    struct world *fused = open_case(c, 1, false), *split = open_case(c, 1, true),
                 *kept = open_case(c, 1, false);
    void *args = world_prepare(kept, step);
    split->first_item_first = true;
    for (int64_t iteration = 0; iteration < 4; iteration++) {
        const struct hd_context where = world_at(kept, step, iteration);
        world_run(fused, step, iteration);
        ck_assert_int_eq(world_run_prepared(kept, step, where, args), HD_OK);
        world_run(split, step, iteration);
        ck_assert_uint_eq(world_hash(fused), world_hash(split));
        ck_assert_uint_eq(world_hash(fused), world_hash(kept));
    }
    world_release(step, args);
}

/* A snapshot holds the collect of which it was taken, after the next one has begun. */
TEST(test_snapshot, .runs = COUNT(cases))
{
    struct world *w = open_case(&cases[_i], 1, false);
    struct value *from = world_get(w, "trajectories"), copy = *from;
    value_init(&copy, &w->setup, 1);
    for (int64_t iteration = 0; iteration < 3; iteration++) {
        world_run(w, get_step(&cases[_i]), iteration);
        const uint64_t hash = value_hash(from);
        ck_assert_int_eq(hd_value_snapshot(&copy.spec, copy.data, from->data), HD_OK);
        world_run(w, get_step(&cases[_i]), 100 + iteration);
        ck_assert_uint_eq(value_hash(&copy), hash);
        ck_assert_uint_ne(value_hash(from), hash);
    }
    value_fini(&copy);
}

/* Random actions and first states differ between shards and between iterations. */
TEST(test_streams)
{
    static const struct shape_case c = {96, 8, 2, 1, true, false, CARTPOLE};
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        struct world *w = open_case(&c, i == 1, false);
        world_run(w, &collect, i == 2);
        hash[i] = value_hash(world_get(w, "trajectories"));
    }
    ck_assert_uint_ne(hash[0], hash[1]);
    ck_assert_uint_ne(hash[0], hash[2]);
}

/* -- Mistakes and failures --------------------------------------------------------------------- */

TEST(test_mistakes)
{
    static const struct {
        const char *type, *role, *names;
    } mistakes[] = {{"ppo", "evaluator", "'others'|role evaluator"},
                    {"dqn", "collector", "policy.type|a2c|ppo"}};
    static const struct step step = {.verb = &hd_verb_collect_on_policy, .ports = "envs=others"};
    for (int i = 0; i < COUNT(mistakes); i++) {
        struct world *w = world_make(0, 2);
        world_set(w, "policy.type=%s", mistakes[i].type);
        w->role = mistakes[i].role;
        world_declare(w, (struct hd_spec){.name = "others", .type = &hd_type_envs}, NULL);
        world_open(w, &step, NULL);
        check_names(world_mistake(w, &step), mistakes[i].names);
    }
}

/* A number of groups that divides neither envs nor samples is reported at its key. */
TEST(test_groups)
{
    static const struct {
        int groups;
        const struct hd_type *type;
        const char *names;
    } mistakes[] = {{3, &hd_type_envs, "env.collector_env_num 8|found 3"},
                    {4, &hd_type_trajectories, "policy.collect.n_sample 30|found 4"}};
    for (int i = 0; i < COUNT(mistakes); i++) {
        struct world *w = world_make(0, 2);
        world_set(w,
                  "env.collector_env_num=8; policy.collect.n_sample=30; "
                  "policy.collect.env_groups=%d",
                  mistakes[i].groups);
        world_open(w, NULL);
        struct hd_spec spec = {.name = "a", .type = mistakes[i].type, .role = "collector"};
        ck_assert_int_eq(spec.type->resolve(&spec, &w->setup), HD_ERR_INPUT);
        check_names(hd_diag_get_line(w->setup.diag, 0), "--set:6:27: policy.collect.env_groups");
        check_names(hd_diag_get_line(w->setup.diag, 0), mistakes[i].names);
    }
}

/* A message about envs of the second group gives their number in the shard. */
TEST(test_failing_envs)
{
    static const char *const failures[][2] = {{"fail_reset", "shard 1|env 2"},
                                              {"fail_step", "shard 1|env 2|step 0"}};
    for (int i = 0; i < 4; i++) {
        struct world *w = make_on_policy(1);
        world_set(w,
                  NET "env={type: blink, options: {%s: 1}}; policy.model.obs_shape=[1,36,40]; "
                      "env.collector_env_num=4; policy.collect.env_groups=2; "
                      "policy.collect.overlap_act_step=%s",
                  failures[i / 2][0], i % 2 ? "true" : "false");
        world_open(w, &collect, NULL);
        check_names(world_fail(w, &collect, 0), failures[i / 2][1]);
    }
}
