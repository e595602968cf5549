/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting, against a naive collector with one list of steps per env that shares with it only the
 * env, the net's outputs and the stream of random numbers. */
#include "kernels/dqn_loss.h"
#include "kernels/envs/cartpole.h"
#include "tasks/types/counts.h"
#include "tasks/types/envs.h"
#include "tasks/types/params.h"
#include "tasks/types/scalars.h"
#include "tasks/types/transitions.h"
#include "tests/tasks/values.h"

#include <math.h>
#include <stdlib.h>

enum { POLICY, TOTALS, ENVS, COUNTS, EPISODES, ROLLOUT, N_VALUES };
enum { MAX_ENVS = 8, OBS = 4, WINDOW = 20 };

struct world {
    struct hd_setup setup;
    struct value values[N_VALUES], *ports[N_VALUES];
};

static void world_open(struct world *w, const char *const *sets, int n, int64_t shard)
{
    static const struct hd_type *const types[] = {&hd_type_params,  &hd_type_counts,
                                                  &hd_type_envs,    &hd_type_counts,
                                                  &hd_type_scalars, &hd_type_rollout};
    static const char *const names[] = {"policy", "totals",   "envs",
                                        "counts", "episodes", "rollout"};
    w->setup = setup_open(sets, n);
    for (int i = 0; i < N_VALUES; i++) {
        value_resolve(&w->values[i], &w->setup, types[i], names[i], "collector");
        w->ports[i] = &w->values[i];
    }
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
    run(&hd_verb_collect, &w->setup, w->ports, &where);
}

static uint64_t world_hash(const struct world *w)
{
    uint64_t hash = 0;
    for (int i = 0; i < N_VALUES; i++)
        hash = hash * 31 + value_hash(&w->values[i]);
    return hash;
}

/* -- The naive collector -------------------------------------------------------------------------
 */

struct naive_step {
    float obs[OBS], next_obs[OBS], reward;
    int32_t action;
    bool done;
};

struct naive_sample {
    float obs[OBS], next_obs[OBS];
    double reward[8], gamma;
    int32_t action;
    bool done;
};

struct naive {
    int64_t n_sample, envs, nstep, shard;
    double gamma, epsilon;
    void *group[MAX_ENVS]; /* one env each */
    float obs[MAX_ENVS][OBS];
    struct naive_step list[MAX_ENVS][64];
    int64_t listed[MAX_ENVS], episode[MAX_ENVS], steps[MAX_ENVS];
    double reward[MAX_ENVS];
    struct hd_counts counts;
    double returns[4096];
    struct naive_sample samples[512];
};

static void naive_reset(struct naive *naive, uint64_t seed, int64_t env)
{
    char message[HD_ENV_MESSAGE];
    hd_env_cartpole.reset(naive->group[env], 0,
                          hd_envs_seed(seed, naive->shard, env, naive->episode[env]),
                          naive->obs[env], message);
    naive->reward[env] = 0;
}

static void naive_open(struct naive *naive, uint64_t seed)
{
    const struct hd_env_settings settings = {.envs = 1, .env_id = ""};
    struct hd_env_spec spec;
    char message[HD_ENV_MESSAGE];
    for (int64_t i = 0; i < naive->envs; i++) {
        ck_assert_int_eq(hd_env_cartpole.create(&settings, &spec, &naive->group[i], message), 0);
        naive_reset(naive, seed, i);
    }
}

static void naive_close(struct naive *naive)
{
    for (int64_t i = 0; i < naive->envs; i++)
        hd_env_cartpole.destroy(naive->group[i]);
}

/* Sample i of a list of `length` steps, DI-engine's rule (spec 2.4). */
static struct naive_sample naive_nstep(const struct naive *naive, const struct naive_step *list,
                                       int64_t length, int64_t i)
{
    struct naive_sample sample = {.action = list[i].action};
    int64_t n = naive->nstep, last = i + n - 1 < length ? i + n - 1 : length - 1;
    memcpy(sample.obs, list[i].obs, sizeof sample.obs);
    memcpy(sample.next_obs, list[last].next_obs, sizeof sample.next_obs);
    for (int64_t j = i; j <= last; j++)
        sample.reward[j - i] = (double)list[j].reward;
    sample.done = list[last].done;
    sample.gamma = pow(naive->gamma, (double)(i < length - n ? n : length - i - 1));
    return sample;
}

static void naive_step_env(struct naive *naive, const struct world *w, int64_t env, int32_t action,
                           int64_t *collected)
{
    int64_t cut = (naive->n_sample + naive->envs - 1) / naive->envs;
    struct naive_step *step = &naive->list[env][naive->listed[env]++];
    bool truncated;
    memcpy(step->obs, naive->obs[env], sizeof step->obs);
    step->action = action;
    char message[HD_ENV_MESSAGE];
    hd_env_cartpole.step(
        naive->group[env], &action,
        &(struct hd_env_outcome){step->next_obs, &step->reward, &step->done, &truncated}, message);
    memcpy(naive->obs[env], step->next_obs, sizeof step->next_obs);
    naive->reward[env] += (double)step->reward;
    naive->counts.env_step++;
    bool done = step->done;
    if (done || naive->listed[env] == cut) {
        for (int64_t i = 0; i < naive->listed[env]; i++)
            naive->samples[(*collected)++] =
                naive_nstep(naive, naive->list[env], naive->listed[env], i);
        naive->listed[env] = 0;
    }
    if (done) {
        naive->returns[naive->counts.episode++] = naive->reward[env];
        naive->episode[env]++;
        naive_reset(naive, w->setup.seed, env);
    }
}

static void naive_collect(struct naive *naive, const struct world *w, int64_t iteration)
{
    const struct hd_net *net = hd_params_net(&w->values[POLICY].spec);
    struct hd_rng rng = at(&w->setup, naive->shard, iteration).rng;
    void *work = hd_alloc(1, (size_t)hd_net_forward_bytes(net, 1));
    int64_t collected = 0;
    for (uint32_t item = 0; collected < naive->n_sample; item += (uint32_t)naive->envs + 1) {
        bool greedy = hd_rng_uniform(&rng, item) > naive->epsilon;
        for (int64_t env = 0; env < naive->envs; env++) {
            float q[2];
            hd_net_forward(net, w->values[POLICY].data, naive->obs[env], 1, work, q);
            int32_t action = q[1] > q[0];
            if (!greedy)
                action = (int32_t)hd_rng_below(&rng, item + 1 + (uint32_t)env, 2);
            naive_step_env(naive, w, env, action, &collected);
        }
    }
    naive->counts.sample += collected;
    hd_free(work);
}

static void check_rollout(const struct naive *naive, const struct world *w)
{
    const struct hd_transition_shape *shape = w->values[ROLLOUT].spec.shape;
    struct hd_transitions rows = hd_transitions_at(shape, w->values[ROLLOUT].data);
    ck_assert_int_eq(shape->rows, naive->n_sample);
    ck_assert_int_eq(shape->obs_size, OBS);
    ck_assert(shape->has_value_gamma == (naive->nstep > 1));
    for (int64_t i = 0; i < shape->rows; i++) {
        const struct naive_sample *sample = &naive->samples[i];
        ck_assert_mem_eq(rows.obs + i * OBS, sample->obs, sizeof sample->obs);
        ck_assert_mem_eq(rows.next_obs + i * OBS, sample->next_obs, sizeof sample->next_obs);
        ck_assert_int_eq(rows.action[i], sample->action);
        ck_assert(rows.done[i] == (float)sample->done);
        for (int64_t j = 0; j < naive->nstep; j++)
            ck_assert_double_eq((double)rows.reward[j * shape->rows + i], sample->reward[j]);
        if (naive->nstep > 1)
            ck_assert_float_eq(rows.value_gamma[i], (float)sample->gamma);
    }
}

static double episode_field(const struct world *w, const char *name)
{
    const struct value *episodes = &w->values[EPISODES];
    int field = hd_value_field(&episodes->spec, name);
    ck_assert_int_ge(field, 0);
    return episodes->spec.type->field(&episodes->spec, episodes->data, field);
}

/* Statistics of the last episodes; CartPole's return is its length. */
static void check_episodes(const struct naive *naive, const struct world *w)
{
    int64_t n = naive->counts.episode, from = n > WINDOW ? n - WINDOW : 0;
    double sum = 0, squares = 0, most = 0, least = 1e9;
    for (int64_t i = from; i < n; i++) {
        sum += naive->returns[i];
        squares += naive->returns[i] * naive->returns[i];
        most = fmax(most, naive->returns[i]);
        least = fmin(least, naive->returns[i]);
    }
    double count = (double)(n - from);
    ck_assert_double_eq_tol(episode_field(w, "reward_mean"), sum / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "avg_envstep_per_episode"), sum / count, 1e-12);
    ck_assert_double_eq_tol(episode_field(w, "reward_square"), squares / count, 1e-9);
    ck_assert_double_eq(episode_field(w, "reward_max"), most);
    ck_assert_double_eq(episode_field(w, "reward_min"), least);
}

struct shape_case {
    int64_t n_sample, envs, nstep, collects;
};

/* Chunks of 1, and longer ones; n_sample a multiple of the envs or not, or below them; n-steps
 * shorter and longer than a chunk. */
static const struct shape_case cases[] = {
    {8, 8, 1, 60}, {8, 8, 3, 60},  {7, 3, 1, 60}, {13, 4, 2, 40},
    {3, 8, 1, 60}, {96, 4, 3, 12}, {1, 1, 1, 60}, {40, 3, 8, 20},
};

START_TEST(test_against_naive)
{
    const struct shape_case *c = &cases[_i];
    char n_sample[64], envs[64], nstep[64];
    snprintf(n_sample, sizeof n_sample, "policy.collect.n_sample=%d", (int)c->n_sample);
    snprintf(envs, sizeof envs, "env.collector_env_num=%d", (int)c->envs);
    snprintf(nstep, sizeof nstep, "policy.nstep=%d", (int)c->nstep);
    const char *const sets[] = {n_sample,
                                envs,
                                nstep,
                                "policy.other.eps.start=0.5",
                                "policy.other.eps.end=0.5",
                                "policy.discount_factor=0.99"};
    struct world w;
    world_open(&w, sets, 6, 1);
    struct naive *naive = hd_alloc(1, sizeof *naive);
    *naive = (struct naive){.n_sample = c->n_sample,
                            .envs = c->envs,
                            .nstep = c->nstep,
                            .shard = 1,
                            .gamma = .99,
                            .epsilon = .5};
    naive_open(naive, w.setup.seed);
    for (int64_t iteration = 0; iteration < c->collects; iteration++) {
        /* Old content of a written value may be anything. */
        memset(w.values[ROLLOUT].data, 0xFF, (size_t)w.values[ROLLOUT].spec.bytes);
        collect(&w, 1, iteration);
        naive_collect(naive, &w, iteration);
        check_rollout(naive, &w);
        ck_assert_mem_eq(w.values[COUNTS].data, &naive->counts, sizeof naive->counts);
        if (iteration % 7 == 3)
            value_save_load(&w.values[ENVS]);
    }
    ck_assert_int_gt(naive->counts.episode, 0);
    check_episodes(naive, &w);
    naive_close(naive);
    hd_free(naive);
    world_close(&w);
}
END_TEST

/* -- Exploration ---------------------------------------------------------------------------------
 */

/* Epsilon follows the totals, not the shard's own counts: with a linear decay over 1000 steps,
 * totals of 1000 leave nothing to chance. */
START_TEST(test_epsilon_of_totals)
{
    const char *const sets[] = {"policy.other.eps.type=linear", "policy.other.eps.start=1",
                                "policy.other.eps.end=0", "policy.other.eps.decay=1000"};
    for (int greedy = 0; greedy < 2; greedy++) {
        struct world w;
        world_open(&w, sets, 4, 0);
        ((struct hd_counts *)w.values[TOTALS].data)->env_step = greedy ? 1000 : 0;
        const struct hd_net *net = hd_params_net(&w.values[POLICY].spec);
        const struct hd_transition_shape *shape = w.values[ROLLOUT].spec.shape;
        void *work = hd_alloc(1, (size_t)hd_net_forward_bytes(net, 1));
        int64_t same = 0, all = 0;
        for (int64_t iteration = 0; iteration < 40; iteration++) {
            collect(&w, 0, iteration);
            struct hd_transitions rows = hd_transitions_at(shape, w.values[ROLLOUT].data);
            for (int64_t i = 0; i < shape->rows; i++, all++) {
                float q[2];
                hd_net_forward(net, w.values[POLICY].data, rows.obs + i * OBS, 1, work, q);
                same += rows.action[i] == hd_argmax(q, 2);
            }
        }
        if (greedy)
            ck_assert_int_eq(same, all);
        else
            ck_assert(same > all / 3 && same < 2 * all / 3);
        hd_free(work);
        world_close(&w);
    }
}
END_TEST

/* -- What results may depend on ------------------------------------------------------------------
 */

/* One task object for all collects, or a new one each time: the same bits. */
START_TEST(test_rebuilt_task)
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
        collect(&rebuilt, 0, iteration);
        ck_assert_uint_eq(world_hash(&kept), world_hash(&rebuilt));
    }
    unprepare(&hd_verb_collect, args);
    world_close(&kept);
    world_close(&rebuilt);
}
END_TEST

/* Every value that a collect touches, saved and loaded between two collects. */
START_TEST(test_save_load)
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
END_TEST

START_TEST(test_seeds)
{
    const uint64_t seed = hd_envs_seed(5, 0, 0, 0);
    ck_assert_uint_eq(hd_envs_seed(5, 0, 0, 0), seed);
    ck_assert_uint_ne(hd_envs_seed(6, 0, 0, 0), seed);
    ck_assert_uint_ne(hd_envs_seed(5, 1, 0, 0), seed);
    ck_assert_uint_ne(hd_envs_seed(5, 0, 1, 0), seed);
    ck_assert_uint_ne(hd_envs_seed(5, 0, 0, 1), seed);
    ck_assert_uint_ne(hd_envs_seed(5, 0, 0, (int64_t)1 << 32), seed);
    struct world first, second;
    world_open(&first, NULL, 0, 0);
    world_open(&second, NULL, 0, 1);
    ck_assert_uint_ne(value_hash(&first.values[ENVS]), value_hash(&second.values[ENVS]));
    ck_assert_uint_eq(value_hash(&first.values[POLICY]), value_hash(&second.values[POLICY]));
    world_close(&first);
    world_close(&second);
}
END_TEST

/* -- Mistakes ------------------------------------------------------------------------------------
 */

START_TEST(test_wrong_role)
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
    ck_assert_ptr_nonnull(strstr(hd_diag_line(w.setup.diag, 0), "'eval_envs'"));
    value_close(&evaluator);
    world_close(&w);
}
END_TEST

START_TEST(test_envs_without_role)
{
    struct hd_setup setup = setup_open(NULL, 0);
    static const char *const roles[] = {NULL, "player"};
    for (int i = 0; i < 2; i++) {
        struct hd_spec spec = {.name = "envs",
                               .type = &hd_type_envs,
                               .role = roles[i],
                               .mark = {"graph.yaml", i + 1, 1}};
        ck_assert_int_eq(hd_type_envs.resolve(&spec, &setup), HD_ERR_INPUT);
        ck_assert_ptr_null(spec.shape);
        ck_assert_ptr_nonnull(strstr(hd_diag_line(setup.diag, i), "role"));
    }
    setup_close(&setup);
}
END_TEST

START_TEST(test_model_does_not_fit)
{
    const char *const sets[] = {"policy.model.obs_shape=[4,84,84]", "policy.model.action_shape=6"};
    struct hd_setup setup = setup_open(sets, 2);
    struct hd_spec spec = {
        .name = "envs", .type = &hd_type_envs, .role = "collector", .mark = setup.mark};
    ck_assert_int_eq(hd_type_envs.resolve(&spec, &setup), HD_ERR_INPUT);
    ck_assert_int_eq(hd_diag_count(setup.diag), 2);
    setup_close(&setup);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("collect");
    TCase *tests = tcase_create("all");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, test_against_naive, 0, (int)(sizeof cases / sizeof cases[0]));
    tcase_add_test(tests, test_epsilon_of_totals);
    tcase_add_test(tests, test_rebuilt_task);
    tcase_add_test(tests, test_save_load);
    tcase_add_test(tests, test_seeds);
    tcase_add_test(tests, test_wrong_role);
    tcase_add_test(tests, test_envs_without_role);
    tcase_add_test(tests, test_model_does_not_fit);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
