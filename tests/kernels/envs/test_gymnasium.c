/* SPDX-License-Identifier: Apache-2.0 */
/* The bridge to Gymnasium, where scripts/gymnasium has made its Python: spaces, steps against the
 * built-in CartPole to the bit, wrappers, saved states, pictures, and what fails. */
#include "kernels/envs/classic/classic.h"
#include "tests/kernels/envs/bridge.h"

#include <math.h>
#include <pthread.h>

#define WALK "gymnasium_envs:Walk-v0"

enum { ENVS = 3 };

/* -- Spaces ------------------------------------------------------------------------------------ */

static const struct {
    const char *obs, *actions;
    enum hd_env_element element;
    int dims;
    int64_t shape[HD_ENV_DIMS];
    enum hd_env_actions_kind kind;
    int action_dims;
    int64_t n[3];
} spaces[] = {
    {"vector", "discrete", HD_ENV_F32, 1, {3}, HD_ENV_DISCRETE, 1, {4}},
    {"doubles", "from_one", HD_ENV_F32, 1, {3}, HD_ENV_DISCRETE, 1, {4}},
    {"gray", "several", HD_ENV_U8, 2, {6, 5}, HD_ENV_MULTI_DISCRETE, 2, {3, 2}},
    {"colours", "bits", HD_ENV_U8, 3, {3, 6, 5}, HD_ENV_MULTI_DISCRETE, 3, {2, 2, 2}},
    {"vector", "box", HD_ENV_F32, 1, {3}, HD_ENV_BOX, 2, {0}},
    {"matrix", "one_of_several", HD_ENV_F32, 1, {4}, HD_ENV_DISCRETE, 1, {4}},
    {"number", "choices", HD_ENV_F32, 1, {1}, HD_ENV_MULTI_DISCRETE, 5, {2, 2, 3}},
    {"choice", "discrete", HD_ENV_F32, 1, {5}, HD_ENV_DISCRETE, 1, {4}},
    {"choices", "discrete", HD_ENV_F32, 1, {9}, HD_ENV_DISCRETE, 1, {4}},
    {"bits", "discrete", HD_ENV_F32, 1, {6}, HD_ENV_DISCRETE, 1, {4}},
    {"dict", "reals", HD_ENV_F32, 1, {4}, HD_ENV_BOX, 2, {0}},
    {"nested", "discrete", HD_ENV_F32, 1, {26}, HD_ENV_DISCRETE, 1, {4}},
};

TEST(test_spaces, .runs = COUNT(spaces))
{
    char options[128];
    snprintf(options, sizeof options, "kwargs={\"obs\": \"%s\", \"actions\": \"%s\"}",
             spaces[_i].obs, spaces[_i].actions);
    struct fixture *f = make(1, WALK, options);
    const struct hd_env_actions *actions = &f->spec.actions;
    ck_assert_int_eq(f->spec.element, spaces[_i].element);
    ck_assert_int_eq(f->spec.dims, spaces[_i].dims);
    ck_assert_mem_eq(f->spec.shape, spaces[_i].shape, sizeof f->spec.shape);
    ck_assert_int_eq(actions->kind, spaces[_i].kind);
    ck_assert_int_eq(actions->dims, spaces[_i].action_dims);
    for (int i = 0; i < actions->dims && i < 3; i++)
        ck_assert_int_eq(actions->n[i], spaces[_i].n[i]);
    if (strcmp(spaces[_i].actions, "box") == 0)
        ck_assert(actions->low[1] == -2 && actions->high[0] == 1 && isinf(actions->high[1]));
    const int32_t choices[5] = {1, 1, 1};
    const float reals[2] = {0.5f, 0.5f};
    reset(f, 0, 5);
    step(f, actions->kind == HD_ENV_BOX ? (const void *)reals : choices);
    ck_assert(!f->done[0] && f->reward[0] > 0);
    if (_i == 0 || _i == 1) /* from_one: the first action is 1 */
        ck_assert_float_eq(f->obs[2], _i == 1 ? 2 : 1);
    release(f);
}

/* Pictures come with their channels last, and go with these first. */
TEST(test_colours)
{
    struct fixture *f = make(1, WALK, "kwargs={\"obs\": \"colours\"}");
    const uint8_t *obs = get_obs(f, 0);
    reset(f, 0, 5);
    for (int y = 0; y < 6; y++)
        for (int x = 0; x < 5; x++)
            for (int c = 0; c < 3; c++)
                ck_assert_int_eq(obs[(c * 6 + y) * 5 + x], (y * 5 + x) * 3 + c);
    release(f);
}

static const struct {
    const char *env_id, *options, *names;
} refused[] = {
    {WALK, "kwargs={\"obs\": \"words\"}", "part mission|Text|env.options.wrappers"},
    {WALK, "kwargs={\"obs\": \"many\"}", "2000000 numbers"},
    {WALK, "kwargs={\"actions\": \"mixed\"}", "choices|real numbers|turn, thrust"},
    {WALK, "kwargs={\"actions\": \"whole\"}", "int64|MultiDiscrete"},
    {WALK, "kwargs={\"actions\": \"long\"}", "65 numbers"},
    {WALK, "kwargs={\"actions\": \"text\"}", "actions of Text"},
    {WALK, "kwargs={\"speed\": 3}", "'speed'"},
    {WALK, "wrappers=Halve", "Halve|gymnasium.wrappers"},
    {WALK, "lives=3", "env.options.lives|gymnasium"},
    {WALK, "worker=0", "env.options.worker|number from 1"},
    {WALK, "worker=1.5", "env.options.worker|whole number"},
    {WALK, "save=always", "env.options.save|actions or pickle"},
    {WALK, "obs_shape=[3,]", "env.options.obs_shape|`actions`|`box`"},
    {WALK, "obs_shape=x", "env.options.obs_shape|a list"},
    {WALK, "obs_shape=3;actions=4", "max_episode_steps"},
    {"gymnasium_envs:Walk", "", "no limit"},
    {"NoSuchEnv-v3", "", "NoSuchEnv"},
    {"no_such_module:Env-v0", "", "'no_such_module'"},
    {"", "", "env.env_id"},
    {WALK, "python=/no/such/python", "/no/such/python"},
};

TEST(test_refused, .runs = COUNT(refused))
{
    check_refused(refused[_i].env_id, refused[_i].options, refused[_i].names);
}

TEST(test_wrappers)
{
    struct fixture *plain = make(1, WALK, ""),
                   *half = make(1, WALK, "wrappers=gymnasium_envs:Half");
    struct fixture *tenth = make(
        1, WALK, "wrappers=[\"FlattenObservation\", {\"gymnasium_envs:Half\": {\"divisor\": 10}}]");
    struct fixture *flat = make(1, WALK, "kwargs.obs=dict;wrappers=[\"FlattenObservation\"]");
    struct fixture *reshaped =
        make(1, WALK, "wrappers=[{\"ReshapeObservation\": {\"shape\": [1, 3]}}]");
    reset(plain, 0, 5);
    reset(half, 0, 5);
    reset(tenth, 0, 5);
    ck_assert_float_eq(half->obs[0], plain->obs[0] / 2);
    ck_assert_float_eq_tol(tenth->obs[0], plain->obs[0] / 10, 1e-7f);
    ck_assert_int_eq(flat->spec.shape[0], 4);
    ck_assert_int_eq(reshaped->spec.shape[0], 3);
    drop(plain);
    drop(half);
    drop(flat);
    drop(reshaped);
    release(tenth);
}

/* -- Play -------------------------------------------------------------------------------------- */

/* Gymnasium's own CartPole, from the same seeds and by the same actions, is the built-in one. */
TEST(test_cartpole)
{
    struct fixture *f = make(ENVS, "CartPole-v1", "worker=2;max_episode_steps=200");
    const struct hd_env_settings settings = {.envs = ENVS, .env_id = ""};
    struct hd_env_spec spec;
    void *group;
    float obs[ENVS][4], reward[ENVS];
    bool done[ENVS], truncated[ENVS];
    const struct hd_env_outcome outcome = {obs, reward, done, truncated};
    uint64_t rng = 1, seed = UINT64_MAX - 200;
    int64_t late = 0, ended = 0;
    ck_assert_int_eq(hd_env_cartpole.create(&settings, &spec, &group, message), 0);
    memset(done, 1, sizeof done);
    for (int t = 0; t < 4000; t++) {
        int32_t action[ENVS];
        for (int i = 0; i < ENVS; i++) {
            if (done[i]) {
                reset(f, i, seed);
                hd_env_cartpole.reset(group, i, seed++, obs[i], message);
            }
            /* Env 0 balances a while. */
            action[i] = i == 0 ? obs[i][2] + obs[i][3] > 0 : draw(&rng, 2);
        }
        ck_assert_mem_eq(f->obs, obs, sizeof obs);
        step(f, action);
        hd_env_cartpole.step(group, action, &outcome, message);
        ck_assert_mem_eq(f->obs, obs, sizeof obs);
        ck_assert_mem_eq(f->reward, reward, sizeof reward);
        ck_assert_mem_eq(f->done, done, sizeof done);
        ck_assert_mem_eq(f->truncated, truncated, sizeof truncated);
        for (int i = 0; i < ENVS; i++) {
            ended += done[i];
            late += truncated[i];
        }
    }
    ck_assert_int_gt(late, 3);
    ck_assert_int_gt(ended, 100);
    hd_env_cartpole.destroy(group);
    release(f);
}

TEST(test_time_limit)
{
    struct fixture *f = make(1, WALK, "max_episode_steps=4");
    const int32_t action = 3;
    reset(f, 0, 1);
    for (int t = 1; t <= 4; t++) {
        ck_assert(!f->done[0]);
        step(f, &action);
        ck_assert_int_eq((int)f->obs[1], t);
    }
    ck_assert(f->done[0] && f->truncated[0]);
    ck_assert_int_eq(env->step(f->group, &action, &f->outcome, message), -1);
    check_names(message, "4 steps");
    release(f);
}

TEST(test_picture)
{
    struct fixture *f = make(2, WALK, "render=true");
    const int32_t action[2] = {1, 1};
    uint8_t rgb[4][7][3];
    ck_assert_int_eq(f->spec.render_height, 4);
    ck_assert_int_eq(f->spec.render_width, 7);
    reset(f, 0, 1);
    reset(f, 1, 2);
    step(f, action);
    step(f, action);
    ck_assert_msg(env->render(f->group, 1, rgb[0][0], message) == 0, "%s", message);
    ck_assert(rgb[0][0][0] == 2 && rgb[3][6][2] == 2);
    release(f);
}

/* -- Declared spaces --------------------------------------------------------------------------- */

/* What is declared needs no Python until an env is reset. */
TEST(test_declared)
{
    struct fixture *f =
        make(1, WALK, "python=/no/such/python;obs_shape=3;actions=[3, 2];max_episode_steps=50");
    float obs[3];
    ck_assert_int_eq(f->spec.actions.kind, HD_ENV_MULTI_DISCRETE);
    ck_assert_int_eq(f->spec.actions.n[1], 2);
    uint8_t *state = save(f, 0);
    ck_assert_int_eq(env->load(f->group, 0, state, message), 0);
    ck_assert_int_eq(env->reset(f->group, 0, 1, obs, message), -1);
    check_names(message, "/no/such/python)");
    release(f);
}

TEST(test_declared_wrongly)
{
    struct fixture *f =
        make(1, WALK, "obs_shape=3;box=2;low=-1;high=[1, .inf];max_episode_steps=50");
    ck_assert_int_eq(env->reset(f->group, 0, 1, f->obs, message), -1);
    check_names(message, "obs_shape [3]|a box of 2|low [-1.0, -1.0]|high [1.0, inf]|actions [4]");
    release(f);
}

/* The bounds of a box are declared with it, and are the env's. */
TEST(test_declared_bounds)
{
    static const char *const mistakes[][2] = {
        {"obs_shape=3;box=2;max_episode_steps=9", "low and high"},
        {"obs_shape=3;box=2;low=-1;max_episode_steps=9", "low and high"},
        {"obs_shape=3;box=2;low=-1;high=[1];max_episode_steps=9", "a list of 2"},
        {"obs_shape=3;box=2;low=-1;high=[1, x];max_episode_steps=9", "env.options.high"},
        {"obs_shape=3;actions=2;low=-1;high=1;max_episode_steps=9", "need `box`"},
        {"low=1", "need `box`"}};
    struct fixture *f = make(1, WALK,
                             "kwargs={\"actions\": \"box\"};obs_shape=3;box=2;low=-1;high=[2, 3.5];"
                             "max_episode_steps=50");
    ck_assert(f->spec.actions.low[1] == -1 && f->spec.actions.high[1] == 3.5f);
    ck_assert_int_eq(env->reset(f->group, 0, 1, f->obs, message), -1);
    check_names(message, "high [2.0, 3.5]|low [");
    release(f);
    for (int i = 0; i < COUNT(mistakes); i++)
        check_refused(WALK, mistakes[i][0], mistakes[i][1]);
}

/* Statistics belong to the run, or to a pickle of the env. */
TEST(test_wrappers_that_remember)
{
    check_refused(WALK, "wrappers=NormalizeReward",
                  "NormalizeReward|policy.collect.normalize_reward");
    check_refused(WALK, "wrappers=[\"NormalizeObservation\"]", "policy.collect.normalize_obs");
    release(make(1, WALK, "wrappers=NormalizeReward;save=pickle"));
}

/* -- States ------------------------------------------------------------------------------------ */

/* Plays n steps of two envs by draws from `rng`. */
static void play(struct fixture *f, int n, uint64_t rng)
{
    for (int t = 0; t < n; t++) {
        const int32_t action[2] = {draw(&rng, 4), draw(&rng, 4)};
        step(f, action);
    }
}

static void check_states(const char *options)
{
    struct fixture *f = make(2, WALK, options), *other = make(2, WALK, options);
    uint8_t *fresh = save(f, 0);
    ck_assert_int_eq(env->load(other->group, 1, fresh, message), 0);
    reset(f, 0, 5);
    reset(f, 1, 6);
    play(f, 7, 1);
    uint8_t *first = save(f, 0), *second = save(f, 1);
    ck_assert_int_eq(env->load(other->group, 0, second, message), 0);
    ck_assert_int_eq(env->load(other->group, 1, first, message), 0);
    /* A loaded state is saved again without a step. */
    uint8_t *again = save(other, 1);
    ck_assert_mem_eq(again, first, (size_t)env->state_bytes(f->group));
    ck_assert_int_eq(env->load(f->group, 0, second, message), 0);
    ck_assert_int_eq(env->load(f->group, 1, first, message), 0);
    play(f, 20, 2);
    play(other, 20, 2);
    ck_assert_mem_eq(f->obs, other->obs, 2 * 3 * sizeof(float));
    ck_assert_mem_eq(f->reward, other->reward, 2 * sizeof(float));
    uint8_t *later = save(f, 0), *elsewhere = save(other, 0);
    ck_assert_mem_eq(later, elsewhere, (size_t)env->state_bytes(f->group));
    drop(other);
    release(f);
}

TEST(test_states)
{
    check_states("worker=2");
}

TEST(test_pickles)
{
    check_states("worker=2;save=pickle");
}

/* Byte by byte, a state is loaded or refused; a count of steps or an action out of range is
 * refused. */
TEST(test_damaged_states)
{
    struct fixture *f = make(2, WALK, "");
    reset(f, 0, 5);
    reset(f, 1, 6);
    play(f, 7, 1);
    uint8_t *state = save(f, 0);
    const int64_t bytes = env->state_bytes(f->group);
    const int64_t steps[] = {-2, 51, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint8_t *damaged = test_alloc(bytes, 1);
        memcpy(damaged, state, (size_t)bytes);
        memcpy(damaged + 8, &steps[i], sizeof *steps);
        ck_assert_int_eq(env->load(f->group, 0, damaged, message), -1);
        check_names(message, "saved state");
    }
    const int32_t choice = 4;
    memcpy(state + 40, &choice, sizeof choice); /* the first action */
    ck_assert_int_eq(env->load(f->group, 0, state, message), -1);
    release(f);
}

TEST(test_small_pickle)
{
    struct fixture *f = make(1, WALK, "save=pickle;pickle_bytes=100");
    uint8_t *state = test_alloc(env->state_bytes(f->group), 1);
    reset(f, 0, 1);
    ck_assert_int_eq(env->save(f->group, 0, state, message), -1);
    check_names(message, "env.options.pickle_bytes");
    release(f);
}

/* An env that keeps something from one episode to the next is not the one that was saved. */
TEST(test_memory)
{
    struct fixture *f = make(2, WALK, "kwargs.remembers=true");
    reset(f, 0, 5);
    reset(f, 1, 5);
    reset(f, 0, 5);
    uint8_t *state = save(f, 0);
    ck_assert_int_eq(env->load(f->group, 1, state, message), 0);
    ck_assert_int_eq(env->load(f->group, 0, state, message), 0);
    const int32_t action[2] = {0, 0};
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    check_names(message, "same seed");
    release(f);
}

/* A wrapper that remembers what was earned shows the same observations, and gives other rewards. */
TEST(test_memory_of_rewards)
{
    struct fixture *f = make(2, WALK, "wrappers=gymnasium_envs:RunningReward");
    const int32_t action[2] = {1, 1};
    reset(f, 0, 5);
    reset(f, 1, 5);
    for (int t = 0; t < 10; t++)
        step(f, action);
    reset(f, 0, 5);
    for (int t = 0; t < 5; t++)
        step(f, action);
    ck_assert_int_eq(env->load(f->group, 1, save(f, 0), message), 0);
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    check_names(message, "other rewards|save: pickle");
    release(f);
}

/* -- Announced seeds --------------------------------------------------------------------------- */

/* Plays through many episodes; `ahead` is added to the seed that is announced, -1: none is. */
static uint64_t play_episodes(struct fixture *f, int64_t ahead)
{
    uint64_t rng = 3;
    uint64_t seed[ENVS] = {10, 20, 30}, hash = 7;
    for (int i = 0; i < ENVS; i++)
        reset(f, i, seed[i]);
    for (int t = 0; t < 300; t++) {
        const int32_t action[ENVS] = {draw(&rng, 4), draw(&rng, 4), draw(&rng, 4)};
        step(f, action);
        for (int i = 0; i < ENVS; i++) {
            hash = hash * 31 + (uint64_t)f->done[i];
            if (!f->done[i])
                continue;
            reset(f, i, ++seed[i]);
            if (ahead >= 0)
                env->announce(f->group, i, seed[i] + 1 + (uint64_t)ahead);
        }
        for (size_t i = 0; i < sizeof(float[ENVS][3]); i++)
            hash = hash * 31 + ((const uint8_t *)f->obs)[i];
        if (t == 100) { /* states are those of the episode that was last reset */
            uint8_t *state = save(f, 1);
            ck_assert_int_eq(env->load(f->group, 1, state, message), 0);
        }
    }
    return hash;
}

/* An env that starts its next episode early, or from a seed that then is not asked for, shows what
 * one does that starts when it is reset. */
TEST(test_announced_seeds)
{
    struct fixture *f = make(ENVS, WALK, "worker=2;kwargs.length=7");
    const uint64_t wanted = play_episodes(f, -1);
    ck_assert_uint_eq(play_episodes(f, 0), wanted);
    ck_assert_uint_eq(play_episodes(f, 1), wanted);
    release(f);
}

/* A reset ahead that fails is told with its own seed. */
TEST(test_announced_failure)
{
    struct fixture *f = make(1, WALK, "kwargs.length=2;kwargs.resets=1");
    const int32_t action[1] = {1};
    reset(f, 0, 70);
    env->announce(f->group, 0, 71);
    step(f, action);
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    check_names(message, ": env 0, step 2 from seed 70: |ValueError at gymnasium_envs.py:|"
                         "seed 71: no walk is left");
    release(f);
}

/* -- Failures ---------------------------------------------------------------------------------- */

static const struct {
    const char *failure, *names;
} failures[] = {
    {"raise", "ValueError at gymnasium_envs.py:|: the walk fell over"},
    {"exit", "code 7"},
    {"one number", "shape (1,)|observation_space says (3,)"},
    {"complex", "complex"},
    {"no reward", "reward is None|no number"},
    {"rewards", "reward is [0. 0.]|no number"},
    {"flag", "booleans|no (str)"},
    {"four", "expected 5, got 4"},
    {"hang", "0.5 s|env.options.timeout_s"},
};

/* The message says which env failed, where, and how; the group then refuses to go on. */
TEST(test_failures, .runs = COUNT(failures))
{
    char options[128];
    snprintf(options, sizeof options, "worker=2;timeout_s=%s;kwargs.failure=%s",
             strcmp(failures[_i].failure, "hang") == 0 ? "0.5" : "60", failures[_i].failure);
    struct fixture *f = make(ENVS, WALK, options);
    const int32_t action[ENVS] = {1, 1, 1};
    for (int i = 0; i < ENVS; i++)
        reset(f, i, 70 + (uint64_t)i);
    for (int t = 0; t < 2; t++)
        step(f, action);
    reset(f, 0, 80);
    step(f, action);
    step(f, action);
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    ck_assert_msg(strstr(message, WALK ": env 1, step 5 from seed 71: ") != NULL, "%s", message);
    check_names(message, failures[_i].names);
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    ck_assert_msg(strstr(message, WALK ": env 1, step 5 from seed 71: ") != NULL, "%s", message);
    release(f);
}

/* -- Shared memory ----------------------------------------------------------------------------- */

static const struct {
    const char *part;
    int value;
} scribbles[] = {
    {"header", 255}, {"header", 0}, {"calls", 255}, {"calls", 0},    {"control", 255},
    {"control", 0},  {"input", 90}, {"result", 90}, {"result", 255}, {"all", 255},
    {"all", 90},     {"all", 0},    {"size", 0},
};

/* Steps all envs, and starts those again that have ended. Returns whether that succeeded, 0 or -1.
 */
static int play_on(struct fixture *f)
{
    const int32_t action[SLOTS] = {1, 2, 3, 1, 2, 3};
    if (env->step(f->group, action, &f->outcome, message) != 0)
        return -1;
    for (int i = 0; i < SLOTS; i++)
        if (f->done[i]) {
            if (env->reset(f->group, i, 7 + (uint64_t)i, get_obs(f, i), message) != 0)
                return -1;
            env->announce(f->group, i, 7 + (uint64_t)i);
        }
    return 0;
}

/* An env that writes over shared memory ends the run with a message, or harms nothing. */
TEST(test_scribbles, .runs = COUNT(scribbles))
{
    char options[128];
    snprintf(options, sizeof options,
             "worker=2;timeout_s=2;kwargs.length=5;wrappers=[{\"gymnasium_envs:Scribbling\": "
             "{\"part\": \"%s\", \"value\": %d}}]",
             scribbles[_i].part, scribbles[_i].value);
    struct fixture *plain = make(SLOTS, WALK, "kwargs.length=5"), *f = make(SLOTS, WALK, options);
    for (int i = 0; i < SLOTS; i++) {
        reset(plain, i, (uint64_t)i);
        reset(f, i, (uint64_t)i);
    }
    int status = 0;
    for (int t = 0; t < 12 && status == 0; t++) {
        ck_assert_int_eq(play_on(plain), 0);
        status = play_on(f);
        if (status == 0)
            ck_assert_mem_eq(f->obs, plain->obs, SLOTS * (size_t)f->frame_bytes);
        else
            ck_assert_msg(strstr(message, "has written over") ||
                              strstr(message, "no answer for 2 s"),
                          "%s", message);
    }
    drop(plain);
    release(f);
}

/* A worker's numbers are not believed: which env it is at, what its envs are, how long a pickle is.
 */
TEST(test_false_numbers)
{
    check_refused("gymnasium_envs:make_liar", "max_episode_steps=9", "makes no sense");
    struct fixture *f =
        make(SLOTS, WALK, "wrappers=[{\"gymnasium_envs:Scribbling\": {\"part\": \"at\"}}]");
    for (int i = 0; i < SLOTS; i++)
        reset(f, i, (uint64_t)i);
    ck_assert(play_on(f) == 0 && play_on(f) == 0);
    ck_assert_int_eq(play_on(f), -1);
    check_names(message, WALK ": Python raised|fell over");
    drop(f);
    f = make(1, "gymnasium_envs:Boasting", "save=pickle");
    reset(f, 0, 1);
    uint8_t *state = test_alloc(env->state_bytes(f->group), 1);
    ck_assert_int_eq(env->save(f->group, 0, state, message), -1);
    check_names(message, "env 0, step 0 from seed 1|1099511627776 bytes");
    release(f);
}

/* -- Shared workers ---------------------------------------------------------------------------- */

enum { GROUPS = 5 };

static int count_children(void)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    const size_t bytes = fread(text, 1, sizeof text - 1, file);
    text[bytes] = '\0';
    fclose(file);
    int n = 0;
    for (char *at = text; *at; at++)
        n += *at == ' ';
    return n;
}

/* Plays a group to its end from a seed, in a thread of its own. */
static void *play_group(void *memory)
{
    struct fixture *f = memory;
    char why[HD_ENV_MESSAGE];
    const uint64_t seed = (uint64_t)f->reward[0];
    const int32_t actions[2] = {(int32_t)(seed % 3), 1};
    bool ok = env->reset(f->group, 0, seed, f->obs, why) == 0;
    for (uint64_t t = 0; ok && t < 10 + seed; t++)
        ok = env->step(f->group, actions, &f->outcome, why) == 0;
    f->truncated[1] = ok;
    return NULL;
}

/* Groups that share two processes play as a group alone does, also at the same time; the processes
 * end with the last group, and a place that is left is taken again. */
TEST(test_shared_workers)
{
    struct fixture *shared[GROUPS];
    pthread_t thread[GROUPS];
    siblings = GROUPS;
    for (int i = 0; i < GROUPS; i++)
        shared[i] = make(1, WALK, "worker=2;kwargs.length=100");
    for (int i = 0; i < GROUPS; i++) {
        shared[i]->reward[0] = (float)(7 + i);
        ck_assert_int_eq(pthread_create(&thread[i], NULL, play_group, shared[i]), 0);
    }
    for (int i = 0; i < GROUPS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_int_eq(count_children(), 2);
    siblings = 0;
    for (int i = 0; i < GROUPS; i++) {
        struct fixture *alone = make(1, WALK, "kwargs.length=100");
        alone->reward[0] = (float)(7 + i);
        play_group(alone);
        ck_assert(shared[i]->truncated[1] && alone->truncated[1]);
        ck_assert_mem_eq(alone->obs, shared[i]->obs, (size_t)alone->frame_bytes);
        ck_assert(alone->reward[0] == shared[i]->reward[0]);
        ck_assert_mem_eq(save(alone, 0), save(shared[i], 0),
                         (size_t)env->state_bytes(alone->group));
        drop(alone);
    }
    siblings = GROUPS;
    drop(shared[3]);
    shared[3] = make(1, WALK, "worker=2;kwargs.length=100");
    reset(shared[3], 0, 9);
    ck_assert_int_eq(count_children(), 2);
    siblings = 0;
    for (int i = 0; i < GROUPS; i++)
        drop(shared[i]);
    check_no_children();
}

static void *step_once(void *memory)
{
    struct fixture *f = memory;
    char why[HD_ENV_MESSAGE];
    const int32_t action = 1;
    ck_assert_msg(env->step(f->group, &action, &f->outcome, why) == 0, "%s", why);
    return NULL;
}

/* An env writes over the action of another group, which waits for the same worker. */
TEST(test_scribbled_action)
{
    static const char options[] = "wrappers=[{\"gymnasium_envs:Scribbling\": {\"part\": \"input\", "
                                  "\"value\": 0, \"pause\": 1}}]";
    const int32_t action = 3;
    pthread_t thread;
    siblings = 2;
    struct fixture *one = make(1, WALK, options), *other = make(1, WALK, options);
    siblings = 0;
    reset(one, 0, 1);
    reset(other, 0, 2);
    step_once(one);
    step_once(one);
    ck_assert_int_eq(pthread_create(&thread, NULL, step_once, one), 0);
    usleep(300000);
    if (env->step(other->group, &action, &other->outcome, message) == 0)
        ck_assert_float_eq(other->obs[2], 3);
    else
        check_names(message, WALK ": env 0, step 1 from seed 2: |has written over");
    pthread_join(thread, NULL);
    drop(one);
    release(other);
}

/* A worker that fails ends all groups that share it, with the same cause. */
TEST(test_shared_failure)
{
    siblings = 2;
    struct fixture *one = make(1, WALK, "kwargs.failure=raise;kwargs.fail_at=2"),
                   *other = make(1, WALK, "kwargs.failure=raise;kwargs.fail_at=2");
    siblings = 0;
    const int32_t action[2] = {1, 1};
    reset(one, 0, 3);
    reset(other, 0, 4);
    step(one, action);
    ck_assert_int_eq(env->step(one->group, action, &one->outcome, message), -1);
    check_names(message, "env 0, step 2 from seed 3: |the walk fell over");
    ck_assert_int_eq(env->step(other->group, action, &other->outcome, message), -1);
    check_names(message, "env 0, step 2 from seed 3: |the walk fell over");
    drop(one);
    release(other);
}

TEST(test_not_reset)
{
    struct fixture *f = make(1, WALK, "");
    const int32_t action = 1;
    ck_assert_int_eq(env->step(f->group, &action, &f->outcome, message), -1);
    check_names(message, "env 0, step 0 from seed 0: |reset");
    release(f);
}
