/* SPDX-License-Identifier: Apache-2.0 */
/* collect_on_policy against naive collectors (tests/tasks/collect/naive_on_policy.h), one for each
 * environment group. */
#include "runtime/base/hash.h"
#include "tasks/types/collect/trajectories.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"
#include "tests/tasks/collect/naive_on_policy.h"

#include <stdlib.h>

enum { POLICY, NORM, ENVS, COUNTERS, EPISODES, TRAJECTORIES, N_VALUES };
enum { MAX_GROUPS = 4, MAX_SETS = 16, WINDOW = 20, MOST_ENDED = 16384 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES];
};

static void world_open(struct world *w, const char *const *sets, int n, int64_t shard, bool norm)
{
    static const struct hd_type *const types[] = {&hd_type_params,  &hd_type_moments,
                                                  &hd_type_envs,    &hd_type_env_counters,
                                                  &hd_type_scalars, &hd_type_trajectories};
    static const char *const names[] = {"policy",   "obs_norm", "envs",
                                        "counters", "episodes", "trajectories"};
    const char *all[MAX_SETS + 2] = {"policy.type=ppo", "policy.learn.ppo_param_init=false"};
    ck_assert_int_le(n, MAX_SETS);
    for (int i = 0; i < n; i++)
        all[2 + i] = sets[i];
    w->setup = setup_open(all, n + 2);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_collect_on_policy, &w->setup, w->ports, specs);
    ck_assert_int_eq(hd_verb_collect_on_policy.declare(&step), HD_OK);
    for (int i = 0; i < N_VALUES; i++)
        value_init(&w->values[i], &w->setup, shard);
    if (!norm)
        w->ports[NORM] = NULL;
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
    memset(w->values[TRAJECTORIES].data, 0xFF, (size_t)w->values[TRAJECTORIES].spec.bytes);
    run(&hd_verb_collect_on_policy, &w->setup, w->ports, &where);
}

static uint64_t world_hash(const struct world *w)
{
    uint64_t hash = 0;
    for (int i = 0; i < N_VALUES; i++)
        hash = hd_hash_mix(hash, value_hash(&w->values[i]));
    return hash;
}

/* Observations on a scale of their own, as learned from rows of random ones. */
static void fill_norm(struct world *w)
{
    enum { ROWS = 5 };
    const struct value *norm = &w->values[NORM];
    const int64_t n = hd_moments_count_elements(&norm->spec);
    const bool u8 = hd_net_has_u8_obs(hd_params_get_net(&w->values[POLICY].spec));
    struct hd_rng rng = hd_rng_make(5, 4, 3, 2, 1);
    float *x = hd_alloc(ROWS * n, sizeof *x);
    struct value other = *norm;
    for (int64_t i = 0; i < ROWS * n; i++)
        x[i] = (float)(hd_rng_draw_uniform(&rng, (uint32_t)i) * (u8 ? 255 : 1));
    other.data = hd_alloc(1, (size_t)norm->spec.bytes);
    hd_moments_compute(x, ROWS, n, hd_moments_get(&norm->spec, other.data));
    hd_moments_join(&norm->spec, norm->data, other.data);
    hd_free(other.data);
    hd_free(x);
}

/* -- Against the naive collector --------------------------------------------------------------- */

struct shape_case {
    int64_t n_sample, envs, groups, collects;
    bool segment_at_done, norm;
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
#define LONG                                                                                       \
    {                                                                                              \
        "env={type: blink, options: {longest: 60}}", "env.frame_stack=2",                          \
            "policy.model.obs_shape=[2,36,40]", NET                                                \
    }
#define MOMENTS                                                                                    \
    {                                                                                              \
        "env={type: blink, options: {longest: 1}}", "env.frame_stack=2",                           \
            "policy.model.obs_shape=[2,36,40]", NET                                                \
    }

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

static void open_case(struct world *w, const struct shape_case *c, int64_t shard, bool split)
{
    char text[5][64];
    const char *sets[10] = {text[0], text[1], text[2], text[3], text[4]};
    snprintf(text[0], sizeof text[0], "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(text[1], sizeof text[1], "env.collector_env_num=%d", (int)c->envs);
    snprintf(text[2], sizeof text[2], "policy.collect.env_groups=%d", (int)c->groups);
    snprintf(text[3], sizeof text[3], "policy.collect.segment_at_done=%s",
             c->segment_at_done ? "true" : "false");
    snprintf(text[4], sizeof text[4], "policy.collect.overlap_act_step=%s",
             split ? "true" : "false");
    int n = 5;
    for (int i = 0; i < 5 && c->set[i]; i++)
        sets[n++] = c->set[i];
    world_open(w, sets, n, shard, c->norm);
    if (c->norm)
        fill_norm(w);
}

/* The naive side of a shard, and what it saw in all collects. */
struct naive {
    int64_t groups;
    struct hd_env_counters counters;
    double returns[MOST_ENDED], lengths[MOST_ENDED];
    struct naive_group group[MAX_GROUPS];
};

static struct naive *make_naive(const struct world *w, const struct shape_case *c, int64_t shard,
                                struct hd_obs_norm *norm)
{
    struct naive *naive = hd_alloc(1, sizeof *naive);
    struct hd_view view = {.spec = &w->values[NORM].spec,
                           .data = c->norm ? w->values[NORM].data : NULL};
    naive->groups = c->groups;
    for (int64_t g = 0; g < c->groups; g++) {
        struct naive_group *group = &naive->group[g];
        group->shape = hd_envs_get_shape(&w->values[ENVS].spec);
        group->net = hd_params_get_net(&w->values[POLICY].spec);
        group->params = w->values[POLICY].data;
        group->norm = hd_moments_get_obs_norm(&view, norm);
        group->seed = w->setup.seed;
        group->shard = shard;
        group->all = c->envs;
        group->envs = c->envs / c->groups;
        group->first = g * group->envs;
        group->n_sample = c->n_sample / c->groups;
        group->segment_at_done = c->segment_at_done;
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

static double episode_field(const struct world *w, const char *name)
{
    const struct value *episodes = &w->values[EPISODES];
    const int field = hd_value_find_field(&episodes->spec, name);
    ck_assert_int_ge(field, 0);
    return episodes->spec.type->field(&episodes->spec, episodes->data, field);
}

/* Statistics of the last episodes. */
static void check_episodes(const struct naive *naive, const struct world *w)
{
    const int64_t n = naive->counters.episode, from = n > WINDOW ? n - WINDOW : 0;
    double sum = 0, squares = 0, length = 0, max = -1e9, min = 1e9;
    for (int64_t i = from; i < n; i++) {
        sum += naive->returns[i];
        squares += naive->returns[i] * naive->returns[i];
        length += naive->lengths[i];
        max = fmax(max, naive->returns[i]);
        min = fmin(min, naive->returns[i]);
    }
    const double count = (double)(n - from);
    ck_assert_int_gt(n, 0);
    ck_assert_double_eq_tol(episode_field(w, "reward_mean"), sum / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "avg_envstep_per_episode"), length / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "reward_square"), squares / count, 1e-9);
    ck_assert_double_eq(episode_field(w, "reward_max"), max);
    ck_assert_double_eq(episode_field(w, "reward_min"), min);
}

TEST(test_against_naive, .runs = COUNT(cases))
{
    const struct shape_case *c = &cases[_i];
    struct world w;
    struct hd_obs_norm norm;
    open_case(&w, c, 1, false);
    struct naive *naive = make_naive(&w, c, 1, &norm);
    for (int64_t iteration = 0; iteration < c->collects; iteration++) {
        const struct hd_rng rng = at(&w.setup, 1, iteration).rng;
        collect(&w, 1, iteration);
        collect_naive(naive, &rng);
        if (iteration % 5 == 3)
            for (int i = ENVS; i < N_VALUES; i++)
                value_save_load(&w.values[i]);
        for (int64_t g = 0; g < c->groups; g++)
            check_group(&w.values[TRAJECTORIES].spec, w.values[TRAJECTORIES].data, g,
                        &naive->group[g]);
        ck_assert_mem_eq(w.values[COUNTERS].data, &naive->counters, sizeof naive->counters);
    }
    check_episodes(naive, &w);
    destroy_naive(naive);
    world_close(&w);
}

/* -- What results may depend on ---------------------------------------------------------------- */

/* One task for a group's whole collect, or two for each of its steps; tasks of different groups in
 * either order; one task object for all, or a new one each time. */
TEST(test_schedules, .runs = COUNT(cases))
{
    const struct shape_case *c = &cases[_i];
    struct world fused, split, kept;
    char message[HD_MESSAGE_BYTES];
    open_case(&fused, c, 1, false);
    open_case(&split, c, 1, true);
    open_case(&kept, c, 1, false);
    void *args = prepare(&hd_verb_collect_on_policy, &kept.setup, kept.ports);
    for (int64_t iteration = 0; iteration < 4; iteration++) {
        struct hd_context where = at(&kept.setup, 1, iteration);
        first_item_first = false;
        collect(&fused, 1, iteration);
        ck_assert_int_eq(run_body(&hd_verb_collect_on_policy, kept.ports, &where, args, message),
                         HD_OK);
        first_item_first = true;
        collect(&split, 1, iteration);
        ck_assert_uint_eq(world_hash(&fused), world_hash(&split));
        ck_assert_uint_eq(world_hash(&fused), world_hash(&kept));
    }
    unprepare(&hd_verb_collect_on_policy, args);
    world_close(&fused);
    world_close(&split);
    world_close(&kept);
}

/* A snapshot holds the collect of which it was taken, after the next one has begun. */
TEST(test_snapshot, .runs = COUNT(cases))
{
    struct world w;
    open_case(&w, &cases[_i], 1, false);
    struct value *from = &w.values[TRAJECTORIES], copy = *from;
    copy.data = hd_alloc(1, (size_t)copy.spec.bytes);
    ck_assert_int_eq(hd_value_init(&copy.spec, &w.setup, 1, copy.data), HD_OK);
    for (int64_t iteration = 0; iteration < 3; iteration++) {
        collect(&w, 1, iteration);
        const uint64_t hash = value_hash(from);
        ck_assert_int_eq(hd_value_snapshot(&copy.spec, copy.data, from->data), HD_OK);
        collect(&w, 1, 100 + iteration);
        ck_assert_uint_eq(value_hash(&copy), hash);
        ck_assert_uint_ne(value_hash(from), hash);
    }
    hd_free(copy.data);
    world_close(&w);
}

/* Random actions and first states differ between shards and between iterations. */
TEST(test_streams)
{
    static const struct shape_case c = {96, 8, 2, 1, true, false, CARTPOLE};
    uint64_t hash[3];
    for (int i = 0; i < 3; i++) {
        struct world w;
        open_case(&w, &c, i == 1, false);
        collect(&w, i == 1, i == 2);
        hash[i] = value_hash(&w.values[TRAJECTORIES]);
        world_close(&w);
    }
    ck_assert_uint_ne(hash[0], hash[1]);
    ck_assert_uint_ne(hash[0], hash[2]);
}

/* -- Mistakes and failures --------------------------------------------------------------------- */

static void check_mistake(const char *const *sets, int n, const char *role, const char *says)
{
    struct world w;
    struct hd_spec *specs[MAX_PORTS];
    void *args = NULL;
    world_open(&w, sets, n, 0, false);
    struct value other;
    value_open(&other, &w.setup, &hd_type_envs, "others", role);
    w.ports[ENVS] = &other;
    struct hd_setup step = step_setup(&hd_verb_collect_on_policy, &w.setup, w.ports, specs);
    ck_assert_int_eq(hd_verb_collect_on_policy.prepare(&step, &args), HD_ERR_INPUT);
    const char *line = hd_diag_get_line(w.setup.diag, 0);
    ck_assert_msg(strstr(line, says), "%s", line);
    hd_free(args);
    value_close(&other);
    world_close(&w);
}

TEST(test_mistakes)
{
    static const char *const dqn[] = {"policy.type=dqn"};
    check_mistake(NULL, 0, "evaluator", "'others' is of role evaluator");
    check_mistake(dqn, 1, "collector", "policy.type must be a2c or ppo");
}

/* A number of groups that divides neither envs nor samples is reported at its key. */
TEST(test_groups)
{
    static const char *const uneven_envs[] = {
        "env.collector_env_num=8", "policy.collect.n_sample=30", "policy.collect.env_groups=3"};
    static const char *const uneven_samples[] = {
        "env.collector_env_num=8", "policy.collect.n_sample=30", "policy.collect.env_groups=4"};
    struct hd_setup setup = setup_open(uneven_envs, 3);
    struct hd_spec envs = {.name = "envs", .type = &hd_type_envs, .role = "collector"};
    ck_assert_int_eq(hd_type_envs.resolve(&envs, &setup), HD_ERR_INPUT);
    ck_assert_str_eq(hd_diag_get_line(setup.diag, 0),
                     "--set:6:27: policy.collect.env_groups: expected a divisor of "
                     "env.collector_env_num 8, found 3");
    setup_close(&setup);
    setup = setup_open(uneven_samples, 3);
    struct hd_spec to = {.name = "trajectories", .type = &hd_type_trajectories};
    ck_assert_int_eq(hd_type_trajectories.resolve(&to, &setup), HD_ERR_INPUT);
    ck_assert_str_eq(hd_diag_get_line(setup.diag, 0),
                     "--set:6:27: policy.collect.env_groups: expected a divisor of "
                     "policy.collect.n_sample 30, found 4");
    setup_close(&setup);
}

/* A message about envs of the second group gives their number in the shard. */
TEST(test_failing_envs)
{
    static const struct {
        const char *option, *says;
    } failures[] = {
        {"env={type: blink, options: {fail_reset: 1}}", "(shard 1): env 2 cannot start from seed"},
        {"env={type: blink, options: {fail_step: 1}}", "broke; env 2 is at step 0 from seed"},
    };
    for (int i = 0; i < 4; i++) {
        const char *const sets[] = {failures[i / 2].option,
                                    "policy.model.obs_shape=[1,36,40]",
                                    NET,
                                    "env.collector_env_num=4",
                                    "policy.collect.env_groups=2",
                                    i % 2 ? "policy.collect.overlap_act_step=true"
                                          : "policy.collect.overlap_act_step=false"};
        struct world w;
        char message[HD_MESSAGE_BYTES] = "";
        world_open(&w, sets, 7, 1, false);
        void *args = prepare(&hd_verb_collect_on_policy, &w.setup, w.ports);
        struct hd_context where = at(&w.setup, 1, 0);
        ck_assert_int_eq(run_body(&hd_verb_collect_on_policy, w.ports, &where, args, message),
                         HD_ERR_TASK);
        ck_assert_msg(strstr(message, failures[i / 2].says), "%s", message);
        unprepare(&hd_verb_collect_on_policy, args);
        world_close(&w);
    }
}
