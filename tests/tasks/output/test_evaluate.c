/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation against envs played one by one, and what it leaves behind. */
#include "runtime/base/log.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/learn/params.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/eval_result.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { POLICY, TOTALS, ENVS, BEST, RESULT, N_VALUES };
enum { BATCH_NORM_STATS = 7, BEST_BATCH_NORM_STATS, N_PORTS }; /* ports of nets with batch norm */
enum { OBS = 4, MAX_STACK = 3, MAX_EPISODES = 16 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_PORTS]; /* those behind N_VALUES: absent */
    struct value state, best_state;                 /* of nets with batch norm */
};

static bool has_norms(const struct world *w)
{
    return hd_net_count_levels(hd_params_get_net(&w->values[POLICY].spec)) > 0;
}

static void open_state(struct world *w, struct value *state, int port, int of)
{
    *state = (struct value){.spec = {.name = "batch_norm_stats",
                                     .type = &hd_type_batch_norm_stats,
                                     .placement = HD_RANK0,
                                     .of = &w->values[of].spec,
                                     .location = w->setup.location,
                                     .buckets = 1,
                                     .partials = 1}};
    ck_assert_int_eq(hd_type_batch_norm_stats.resolve(&state->spec, &w->setup), HD_OK);
    value_init(state, &w->setup, 0);
    w->ports[port] = state;
}

static void world_open(struct world *w, const char *const *sets, int n)
{
    static const struct hd_type *const types[] = {&hd_type_params, &hd_type_env_counters,
                                                  &hd_type_envs, &hd_type_params,
                                                  &hd_type_eval_result};
    static const char *const names[] = {"policy", "totals", "eval_envs", "best", "result"};
    *w = (struct world){.setup = setup_open(sets, n)};
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve_at(&w->values[i], &w->setup, types[i], names[i], "evaluator", HD_RANK0);
        value_init(&w->values[i], &w->setup, 0);
        w->ports[i] = &w->values[i];
    }
    if (!has_norms(w))
        return;
    open_state(w, &w->state, BATCH_NORM_STATS, POLICY);
    open_state(w, &w->best_state, BEST_BATCH_NORM_STATS, BEST);
    float *running = hd_batch_norm_stats_get_running(w->state.data);
    struct hd_rng rng = hd_rng_make(8, 8, 0, 0, 0);
    const int64_t floats = hd_net_count_running(hd_params_get_net(&w->state.spec));
    for (int64_t i = 0; i < floats; i++)
        running[i] += (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f;
}

static void world_close(struct world *w)
{
    if (has_norms(w)) {
        value_close(&w->state);
        value_close(&w->best_state);
    }
    for (int i = 0; i < N_VALUES; i++)
        value_close(&w->values[i]);
    setup_close(&w->setup);
}

static struct hd_eval_result *evaluate(struct world *w, int64_t update)
{
    struct hd_context where = at(&w->setup, -1, update);
    where.update = update;
    run(&hd_verb_evaluate, &w->setup, w->ports, &where);
    return w->values[RESULT].data;
}

/* Sets the policy's action for every observation, whatever the net: all parameters are zero but the
 * biases of the last layers, which end the array. With `action` < 0 the policy depends on the
 * observation. */
static void set_policy(struct world *w, int action)
{
    const struct hd_net *net = hd_params_get_net(&w->values[POLICY].spec);
    float *params = w->values[POLICY].data;
    struct hd_rng rng = hd_rng_make(3, 3, 0, 0, 0);
    hd_net_init(net, &rng, params);
    if (action < 0)
        return;
    memset(params, 0, (size_t)hd_net_count_params(net) * sizeof *params);
    for (int i = 0; i < hd_net_count_tensors(net); i++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, i);
        if (strcmp(tensor->name, "head.A.1.0.bias") == 0)
            params[tensor->offset + action] = 1;
    }
}

/* Plays a greedy episode from a seed and returns its return and steps. */
static double play(const struct world *w, uint64_t seed, int64_t *steps_p)
{
    const struct hd_envs_shape *shape = hd_envs_get_shape(&w->values[ENVS].spec);
    const struct hd_net *net = hd_params_get_net(&w->values[POLICY].spec);
    const int64_t stack = shape->obs.stack;
    struct hd_env_settings settings = shape->settings;
    struct hd_env_spec spec;
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, 1)), *group;
    char message[HD_ENV_MESSAGE];
    float frames[201][OBS], obs[MAX_STACK][OBS], reward, q[2];
    bool done = false, truncated;
    double sum = 0;
    int64_t step = 0;
    settings.envs = 1;
    ck_assert_int_eq(shape->env->create(&settings, &spec, &group, message), 0);
    ck_assert_int_eq(shape->env->reset(group, 0, seed, frames[0], message), 0);
    while (!done) {
        for (int64_t i = 0; i < stack; i++) {
            int64_t k = step - stack + 1 + i;
            memcpy(obs[i], frames[k < 0 ? 0 : k], sizeof obs[i]);
        }
        hd_net_forward_running(net, w->values[POLICY].data,
                               hd_batch_norm_stats_get_running(w->state.data), NULL, obs[0], 1,
                               work, q);
        int32_t action = q[1] > q[0];
        struct hd_env_outcome outcome = {frames[++step], &reward, &done, &truncated};
        ck_assert_int_eq(shape->env->step(group, &action, &outcome, message), 0);
        sum += (double)reward;
    }
    shape->env->destroy(group);
    hd_free(work);
    *steps_p += step;
    return sum;
}

static const char norm_set[] = "policy.model.norm=sync_batch_norm";

struct quota_case {
    int episodes, envs;
    int env_of[MAX_EPISODES];
    const char *set[2];
};

static const struct quota_case cases[] = {
    {5, 5, {0, 1, 2, 3, 4}, {0}},
    {8, 5, {0, 0, 1, 1, 2, 2, 3, 4}, {0}},
    {3, 5, {0, 1, 2}, {0}},
    {4, 1, {0, 0, 0, 0}, {0}},
    {7, 3, {0, 0, 0, 1, 1, 2, 2}, {0}},
    {7, 3, {0, 0, 0, 1, 1, 2, 2}, {"env.frame_stack=3", "policy.model.obs_shape=12"}},
    {5, 5, {0, 1, 2, 3, 4}, {norm_set, "env.frame_stack=1"}},
};

TEST(test_against_single_episodes, .runs = COUNT(cases))
{
    const struct quota_case *c = &cases[_i];
    char episodes[64], envs[64];
    snprintf(episodes, sizeof episodes, "env.n_evaluator_episode=%d", c->episodes);
    snprintf(envs, sizeof envs, "env.evaluator_env_num=%d", c->envs);
    const char *const sets[] = {episodes, envs, c->set[0], c->set[1]};
    struct world w;
    world_open(&w, sets, c->set[0] ? 4 : 2);
    ((struct hd_env_counters *)w.values[TOTALS].data)->env_step = 12345;
    for (int action = -1; action < 2; action++) {
        set_policy(&w, action);
        memset(w.values[RESULT].data, 0xFF, (size_t)w.values[RESULT].spec.bytes);
        const struct hd_eval_result *result = evaluate(&w, 77);
        double sum = 0, squares = 0, max = 0, min = 1e9;
        int64_t steps = 0;
        for (int i = 0; i < c->episodes; i++) {
            double expected = play(&w, w.setup.seed + (uint64_t)c->env_of[i], &steps);
            ck_assert_double_eq(result->returns[i], expected);
            sum += expected;
            squares += expected * expected;
            max = fmax(max, expected);
            min = fmin(min, expected);
        }
        double mean = sum / c->episodes;
        ck_assert_double_eq_tol(result->mean, mean, 1e-12);
        ck_assert_double_eq_tol(result->std, sqrt(fmax(0, squares / c->episodes - mean * mean)),
                                1e-6);
        ck_assert_double_eq(result->max, max);
        ck_assert_double_eq(result->min, min);
        ck_assert_int_eq(result->episodes, c->episodes);
        ck_assert_int_eq(result->steps, steps);
        ck_assert_int_eq(result->env_step, 12345);
        ck_assert_int_eq(result->train_iter, 77);
    }
    world_close(&w);
}

TEST(test_known_episode)
{
    const char *const sets[] = {"env.n_evaluator_episode=1", "env.evaluator_env_num=1"};
    struct world w;
    world_open(&w, sets, 2);
    w.setup.seed = 0;
    set_policy(&w, 0);
    ck_assert_double_eq(evaluate(&w, 0)->mean, 11);
    world_close(&w);
}

TEST(test_repeats)
{
    struct world w;
    world_open(&w, NULL, 0);
    evaluate(&w, 5);
    uint64_t result = value_hash(&w.values[RESULT]), envs = value_hash(&w.values[ENVS]);
    value_save_load(&w.values[ENVS]);
    value_save_load(&w.values[RESULT]);
    evaluate(&w, 5);
    ck_assert_uint_eq(value_hash(&w.values[RESULT]), result);
    ck_assert_uint_eq(value_hash(&w.values[ENVS]), envs);
    world_close(&w);
}

/* `best` follows the policy only when the mean is above every mean before; the first always is. */
TEST(test_best)
{
    struct world w;
    world_open(&w, NULL, 0);
    uint64_t hashes[2];
    double means[2];
    for (int action = 0; action < 2; action++) {
        struct world fresh;
        world_open(&fresh, NULL, 0);
        set_policy(&fresh, action);
        means[action] = evaluate(&fresh, 0)->mean;
        hashes[action] = value_hash(&fresh.values[POLICY]);
        ck_assert_uint_eq(value_hash(&fresh.values[BEST]), hashes[action]);
        world_close(&fresh);
    }
    ck_assert_double_ne(means[0], means[1]);
    int better = means[1] > means[0], worse = !better;
    const int order[] = {worse, better, worse, better};
    for (int i = 0; i < 4; i++) {
        set_policy(&w, order[i]);
        evaluate(&w, i);
        ck_assert_uint_eq(value_hash(&w.values[BEST]), hashes[i == 0 ? worse : better]);
        value_save_load(&w.values[ENVS]);
    }
    world_close(&w);
}

TEST(test_without_totals)
{
    struct world w;
    world_open(&w, NULL, 0);
    w.ports[TOTALS] = NULL;
    ck_assert_int_eq(evaluate(&w, 0)->env_step, 0);
    world_close(&w);
}

TEST(test_without_best)
{
    struct world w;
    world_open(&w, NULL, 0);
    uint64_t before = value_hash(&w.values[BEST]);
    w.ports[BEST] = NULL;
    set_policy(&w, 1);
    evaluate(&w, 0);
    ck_assert_uint_eq(value_hash(&w.values[BEST]), before);
    world_close(&w);
}

static void catch_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    snprintf(arg, HD_MESSAGE_BYTES, "%s", line);
}

/* An episode that reaches env.max_evaluator_step ends there, and is told of. */
TEST(test_step_limit, .runs = 4)
{
    static const struct {
        const char *set;
        double limit;
    } limits[] = {{"env.max_evaluator_step=5", 5},
                  {"env.max_evaluator_step=10", 10},
                  {"env.max_evaluator_step=11", 11},
                  {"env.max_evaluator_step=0", INFINITY}};
    const double limit = limits[_i].limit;
    const char *const sets[] = {"env.n_evaluator_episode=3", "env.evaluator_env_num=2",
                                limits[_i].set};
    char line[HD_MESSAGE_BYTES] = "";
    int64_t steps = 0;
    struct world w;
    world_open(&w, sets, 3);
    w.setup.seed = 0;
    set_policy(&w, 0);
    const double longest[] = {play(&w, 0, &steps), play(&w, 0, &steps), play(&w, 1, &steps)};
    hd_log_set_sink(catch_line, line);
    const struct hd_eval_result *result = evaluate(&w, 30);
    hd_log_set_sink(NULL, NULL);
    int64_t cut = 0;
    steps = 0;
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(result->returns[i], fmin(longest[i], limit));
        steps += (int64_t)result->returns[i];
        cut += longest[i] > limit;
    }
    ck_assert_int_eq(result->steps, steps);
    ck_assert_int_eq(cut > 0, strstr(line, "did not end within env.max_evaluator_step") != NULL);
    if (cut > 0) {
        char expected[32];
        snprintf(expected, sizeof expected, "%d of 3 episodes", (int)cut);
        ck_assert_ptr_nonnull(strstr(line, expected));
    }
    world_close(&w);
}

/* The running statistics of a policy are kept with the policy. */
TEST(test_norms)
{
    const char *const sets[] = {norm_set};
    struct hd_spec *specs[MAX_PORTS];
    struct world w;
    void *args = NULL;
    world_open(&w, sets, 1);
    set_policy(&w, 1);
    ck_assert_uint_ne(value_hash(&w.best_state), value_hash(&w.state));
    evaluate(&w, 0);
    ck_assert_uint_eq(value_hash(&w.best_state), value_hash(&w.state));
    value_save_load(&w.best_state);
    hd_batch_norm_stats_get_running(w.state.data)[0] += 1;
    evaluate(&w, 1); /* as good, but not better */
    ck_assert_uint_ne(value_hash(&w.best_state), value_hash(&w.state));
    w.ports[BATCH_NORM_STATS] = NULL;
    struct hd_setup step = step_setup(&hd_verb_evaluate, &w.setup, w.ports, specs);
    ck_assert_int_eq(hd_verb_evaluate.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(hd_diag_get_line(w.setup.diag, 0), "batch_norm_stats"));
    unprepare(&hd_verb_evaluate, args);
    world_close(&w);
}

/* The snapshot of a group in the middle of its episodes goes on as the group does. */
TEST(test_snapshot)
{
    struct world w;
    world_open(&w, NULL, 0);
    evaluate(&w, 0);
    struct value copy = {.spec = w.values[ENVS].spec};
    value_init(&copy, &w.setup, 0);
    ck_assert_uint_ne(value_hash(&copy), value_hash(&w.values[ENVS]));
    ck_assert_int_eq(hd_value_snapshot(&copy.spec, copy.data, w.values[ENVS].data), HD_OK);
    ck_assert_uint_eq(value_hash(&copy), value_hash(&w.values[ENVS]));
    const struct hd_envs_shape *shape = hd_envs_get_shape(&copy.spec);
    struct hd_envs groups[] = {hd_envs_get(&copy.spec, copy.data, 0),
                               hd_envs_get(&copy.spec, w.values[ENVS].data, 0)};
    ck_assert_ptr_ne(*groups[0].group, *groups[1].group);
    float obs[2][OBS], reward;
    bool done, truncated;
    char message[HD_ENV_MESSAGE];
    const int32_t action = 1;
    for (int i = 0; i < 2; i++) {
        struct hd_env_outcome outcome = {obs[i], &reward, &done, &truncated};
        ck_assert_int_eq(shape->env->step(*groups[i].group, &action, &outcome, message), 0);
    }
    ck_assert_mem_eq(obs[0], obs[1], sizeof obs[0]);
    hd_value_fini(&copy.spec, copy.data);
    hd_free(copy.data);
    world_close(&w);
}

TEST(test_fields)
{
    static const char *const names[] = {"mean",     "std",   "max",      "min",
                                        "episodes", "steps", "env_step", "train_iter"};
    struct world w;
    world_open(&w, NULL, 0);
    const struct hd_spec *spec = &w.values[RESULT].spec;
    *(struct hd_eval_result *)w.values[RESULT].data =
        (struct hd_eval_result){1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 8; i++) {
        int field = hd_value_find_field(spec, names[i]);
        ck_assert_int_ge(field, 0);
        ck_assert_double_eq(spec->type->field(spec, w.values[RESULT].data, field), i + 1);
    }
    ck_assert_int_eq(hd_value_find_field(spec, "returns"), -1);
    ck_assert(spec->type->none);
    world_close(&w);
}

TEST(test_wrong_role)
{
    struct world w;
    world_open(&w, NULL, 0);
    struct value collector;
    value_open(&collector, &w.setup, &hd_type_envs, "envs", "collector");
    w.ports[ENVS] = &collector;
    struct hd_spec *specs[MAX_PORTS];
    struct hd_setup step = step_setup(&hd_verb_evaluate, &w.setup, w.ports, specs);
    void *args = NULL;
    ck_assert_int_eq(hd_verb_evaluate.prepare(&step, &args), HD_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(hd_diag_get_line(w.setup.diag, 0), "evaluator"));
    value_close(&collector);
    world_close(&w);
}
