/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation against envs played one by one, and what it leaves behind. */
#include "runtime/base/log.h"
#include "tasks/types/collect/envs.h"
#include "tasks/types/learn/batch_norm_stats.h"
#include "tasks/types/output/env_counters.h"
#include "tasks/types/output/eval_result.h"
#include "tests/tasks/world.h"

#include <math.h>

enum { OBS = 4, MAX_STACK = 3, MAX_EPISODES = 16 };

static const struct step evaluate = {.verb = &hd_verb_evaluate, .ports = "totals best"},
                         evaluate_norms = {.verb = &hd_verb_evaluate,
                                           .ports = "totals best batch_norm_stats "
                                                    "best_batch_norm_stats"};

/* Returns a world on rank 0, with batch norm's statistics as if they were learned. */
static struct world *open_with(const char *sets, const struct step *step)
{
    struct world *w = world_make(-1, 2);
    world_set(w, "%s", sets);
    w->role = "evaluator";
    if (step == &evaluate_norms) {
        const struct value *best =
            world_declare(w, (struct hd_spec){.name = "best", .type = &hd_type_params}, NULL);
        world_declare(w,
                      (struct hd_spec){.name = "best_batch_norm_stats",
                                       .type = &hd_type_batch_norm_stats,
                                       .of = &best->spec,
                                       .placement = HD_RANK0},
                      NULL);
    }
    world_open(w, step, NULL);
    const int64_t floats = hd_net_count_running(world_net(w, "policy"));
    const struct hd_rng rng = hd_rng_make(8, 8, 0, 0, 0);
    for (int64_t i = 0; i < floats && step == &evaluate_norms; i++)
        hd_batch_norm_stats_get_running(world_get(w, "batch_norm_stats")->data)[i] +=
            (float)hd_rng_draw_uniform(&rng, (uint32_t)i) - 0.5f;
    return w;
}

static struct world *open_plain(void)
{
    return open_with("env.type=cartpole", &evaluate);
}

static const struct hd_eval_result *run(struct world *w, const struct step *step, int64_t update)
{
    w->update = update;
    world_run(w, step, update);
    return world_get(w, "result")->data;
}

/* Sets the policy's action for every observation, whatever the net: all parameters are zero but the
 * biases of the last layers, which end the array. With `action` < 0 the policy depends on the
 * observation. */
static void set_policy(struct world *w, int action)
{
    const struct hd_net *net = world_net(w, "policy");
    float *params = world_get(w, "policy")->data;
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
static double play(const struct world *w, const float *running, uint64_t seed, int64_t *steps_p)
{
    const struct hd_envs_shape *shape = hd_envs_get_shape(&world_get(w, "envs")->spec);
    const struct hd_net *net = world_net(w, "policy");
    const int64_t stack = shape->obs.stack;
    struct hd_env_settings settings = shape->settings;
    struct hd_env_spec spec;
    void *work = hd_alloc(1, (size_t)hd_net_get_forward_bytes(net, 1, 1)), *group;
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
        hd_net_forward(net,
                       &(struct hd_net_pass){.params = world_get(w, "policy")->data,
                                             .running = running,
                                             .obs = obs[0],
                                             .rows = 1,
                                             .work = work},
                       q);
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
    int start_of[MAX_EPISODES]; /* what is added to the seed */
    const char *set;
};

static const struct quota_case cases[] = {
    {5, 5, {0, 1, 2, 3, 4}, "env.frame_stack=1"},
    {8, 5, {0, 1, 2, 3, 4, 5, 6, 7}, "env.frame_stack=1"},
    {3, 5, {0, 1, 2}, "env.frame_stack=1"},
    {4, 1, {0, 1, 2, 3}, "env.frame_stack=1"},
    {7, 3, {0, 1, 2, 3, 4, 5, 6}, "env.frame_stack=3; policy.model.obs_shape=12"},
    {5, 5, {0, 1, 2, 3, 4}, "policy.eval.seeds=env"},
    {8, 5, {0, 0, 1, 1, 2, 2, 3, 4}, "policy.eval.seeds=env"},
    {4, 1, {0, 0, 0, 0}, "policy.eval.seeds=env"},
    {7, 3, {0, 0, 0, 1, 1, 2, 2}, "policy.eval.seeds=env"},
    {5, 5, {0, 1, 2, 3, 4}, norm_set},
};

TEST(test_against_single_episodes, .runs = COUNT(cases))
{
    const struct quota_case *c = &cases[_i];
    const struct step *step = c->set == norm_set ? &evaluate_norms : &evaluate;
    char sets[128];
    snprintf(sets, sizeof sets, "env.n_evaluator_episode=%d; env.evaluator_env_num=%d; %s",
             c->episodes, c->envs, c->set);
    struct world *w = open_with(sets, step);
    const float *running = NULL;
    if (step == &evaluate_norms)
        running = hd_batch_norm_stats_get_running(world_get(w, "batch_norm_stats")->data);
    ((struct hd_env_counters *)world_get(w, "totals")->data)->env_step = 12345;
    for (int action = -1; action < 2; action++) {
        set_policy(w, action);
        const struct hd_eval_result *result = run(w, step, 77);
        double sum = 0, squares = 0, max = 0, min = 1e9;
        int64_t steps = 0;
        for (int i = 0; i < c->episodes; i++) {
            double expected = play(w, running, w->setup.seed + (uint64_t)c->start_of[i], &steps);
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
}

TEST(test_known_episode)
{
    struct world *w = open_with("env.n_evaluator_episode=1; env.evaluator_env_num=1", &evaluate);
    w->setup.seed = 0;
    set_policy(w, 0);
    ck_assert_double_eq(run(w, &evaluate, 0)->mean, 11);
}

TEST(test_repeats)
{
    struct world *w = open_plain();
    struct value *result = world_get(w, "result"), *envs = world_get(w, "envs");
    run(w, &evaluate, 5);
    const uint64_t result_hash = value_hash(result), envs_hash = value_hash(envs);
    value_save_load(envs);
    value_save_load(result);
    run(w, &evaluate, 5);
    ck_assert_uint_eq(value_hash(result), result_hash);
    ck_assert_uint_eq(value_hash(envs), envs_hash);
}

/* `best` follows the policy only when the mean is above every mean before; the first always is. */
TEST(test_best)
{
    struct world *w = open_plain();
    uint64_t hashes[2];
    double means[2];
    for (int action = 0; action < 2; action++) {
        struct world *fresh = open_plain();
        set_policy(fresh, action);
        means[action] = run(fresh, &evaluate, 0)->mean;
        hashes[action] = value_hash(world_get(fresh, "policy"));
        ck_assert_uint_eq(value_hash(world_get(fresh, "best")), hashes[action]);
    }
    ck_assert_double_ne(means[0], means[1]);
    int better = means[1] > means[0], worse = !better;
    const int order[] = {worse, better, worse, better};
    for (int i = 0; i < 4; i++) {
        set_policy(w, order[i]);
        run(w, &evaluate, i);
        ck_assert_uint_eq(value_hash(world_get(w, "best")), hashes[i == 0 ? worse : better]);
        value_save_load(world_get(w, "envs"));
    }
}

TEST(test_without_totals_or_best)
{
    static const struct step alone = {.verb = &hd_verb_evaluate};
    struct world *w = open_plain();
    const uint64_t before = value_hash(world_get(w, "best"));
    ((struct hd_env_counters *)world_get(w, "totals")->data)->env_step = 12345;
    set_policy(w, 1);
    ck_assert_int_eq(run(w, &alone, 0)->env_step, 0);
    ck_assert_uint_eq(value_hash(world_get(w, "best")), before);
}

static void catch_line(enum hd_log_level level, const char *line, void *arg)
{
    (void)level;
    snprintf(arg, HD_MESSAGE_BYTES, "%s", line);
}

/* An episode that reaches env.max_evaluator_step ends there, and is told of. */
TEST(test_step_limit, .runs = 4)
{
    static const int limits[] = {5, 10, 11, 0};
    const double limit = limits[_i] > 0 ? limits[_i] : INFINITY;
    char sets[128], line[HD_MESSAGE_BYTES] = "";
    int64_t steps = 0;
    snprintf(sets, sizeof sets,
             "env.n_evaluator_episode=3; env.evaluator_env_num=2; env.max_evaluator_step=%d",
             limits[_i]);
    struct world *w = open_with(sets, &evaluate);
    w->setup.seed = 0;
    set_policy(w, 0);
    const double longest[] = {play(w, NULL, 0, &steps), play(w, NULL, 1, &steps),
                              play(w, NULL, 2, &steps)};
    hd_log_set_sink(catch_line, line);
    const struct hd_eval_result *result = run(w, &evaluate, 30);
    hd_log_set_sink(NULL, NULL);
    int64_t cut = 0;
    steps = 0;
    for (int i = 0; i < 3; i++) {
        ck_assert_double_eq(result->returns[i], fmin(longest[i], limit));
        steps += (int64_t)result->returns[i];
        cut += longest[i] > limit;
    }
    ck_assert_int_eq(result->steps, steps);
    ck_assert_int_eq(cut > 0, line[0] != '\0');
    if (cut > 0) {
        char names[64];
        snprintf(names, sizeof names, "%d of 3 episodes|env.max_evaluator_step", (int)cut);
        check_names(line, names);
    }
}

/* The running statistics of a policy are kept with the policy. */
TEST(test_norms)
{
    struct world *w = open_with(norm_set, &evaluate_norms);
    const struct value *state = world_get(w, "batch_norm_stats");
    struct value *best = world_get(w, "best_batch_norm_stats");
    set_policy(w, 1);
    ck_assert_uint_ne(value_hash(best), value_hash(state));
    run(w, &evaluate_norms, 1);
    ck_assert_uint_eq(value_hash(best), value_hash(state));
    value_save_load(best);
    hd_batch_norm_stats_get_running(state->data)[0] += 1;
    run(w, &evaluate_norms, 2); /* as good, but not better */
    ck_assert_uint_ne(value_hash(best), value_hash(state));
    check_names(world_mistake(w, &evaluate), "batch_norm_stats");
}

/* The snapshot of a group in the middle of its episodes goes on as the group does. */
TEST(test_snapshot)
{
    struct world *w = open_plain();
    const struct value *envs = world_get(w, "envs");
    run(w, &evaluate, 0);
    struct value copy = {.spec = envs->spec};
    value_init(&copy, &w->setup, 0);
    ck_assert_uint_ne(value_hash(&copy), value_hash(envs));
    ck_assert_int_eq(hd_value_snapshot(&copy.spec, copy.data, envs->data), HD_OK);
    ck_assert_uint_eq(value_hash(&copy), value_hash(envs));
    const struct hd_envs_shape *shape = hd_envs_get_shape(&copy.spec);
    struct hd_envs groups[] = {hd_envs_get(&copy.spec, copy.data, 0),
                               hd_envs_get(&copy.spec, envs->data, 0)};
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
    value_fini(&copy);
}

TEST(test_fields)
{
    static const char *const names[] = {"mean",     "std",   "max",      "min",
                                        "episodes", "steps", "env_step", "train_iter"};
    struct world *w = open_plain();
    *(struct hd_eval_result *)world_get(w, "result")->data =
        (struct hd_eval_result){1, 2, 3, 4, 5, 6, 7, 8};
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq(world_field(w, "result", names[i]), i + 1);
    ck_assert_int_eq(hd_value_find_field(&world_get(w, "result")->spec, "returns"), -1);
    ck_assert(hd_type_eval_result.none);
}

TEST(test_wrong_role)
{
    static const struct step step = {.verb = &hd_verb_evaluate, .ports = "envs=collecting"};
    struct world *w = open_plain();
    w->role = "collector";
    world_declare(w, (struct hd_spec){.name = "collecting", .type = &hd_type_envs}, NULL);
    check_names(world_mistake(w, &step), "'collecting'|evaluator");
}
