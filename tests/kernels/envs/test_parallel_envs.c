/* SPDX-License-Identifier: Apache-2.0 */
/* Parallel envs of PettingZoo through the bridge, where scripts/gymnasium has made its Python:
 * their agents are envs of a group. */
#include "tests/kernels/envs/bridge.h"

#define WALKERS "gymnasium_envs:Walkers"

static const struct {
    const char *env_id, *options, *names;
} refused[] = {
    {"gymnasium_envs:Walk-v0", "agents=2", "parallel envs of PettingZoo"},
    {"gymnasium_envs:Walk-v0", "black_death=true", "parallel envs of PettingZoo"},
    {WALKERS, "agents=0", "env.options.agents|number from 1"},
    {WALKERS, "agents=2;max_episode_steps=9",
     "env.options.agents is 2|walker_0, walker_1, walker_2"},
    {WALKERS, "kwargs.differ=observations;max_episode_steps=9", "observation|Box("},
    {WALKERS, "kwargs.differ=actions;max_episode_steps=9", "supersuit:pad_action_space_v0"},
    {WALKERS, "kwargs.agents=0;max_episode_steps=9", "possible_agents"},
    {WALKERS, "wrappers=FlattenObservation;max_episode_steps=9", "FlattenObservation"},
    {WALKERS, "", "no limit"},
    {"gymnasium_envs:Turns", "", "parallel_env"},
};

TEST(test_refused, .runs = COUNT(refused))
{
    check_refused(refused[_i].env_id, refused[_i].options, refused[_i].names);
}

/* Starts parallel env p of three agents, whose agents say their own seeds; the first counts. */
static void start_walkers(struct fixture *f, int64_t p, uint64_t seed)
{
    for (int64_t i = 0; i < 3; i++)
        reset(f, 3 * p + i, seed + 100 * (uint64_t)i);
}

/* Steps by draws from *rng, and starts again what has ended, from seeds that count on. */
static void play_walkers(struct fixture *f, int n, uint64_t *rng, uint64_t *seed)
{
    for (int t = 0; t < n; t++) {
        int32_t action[6];
        for (int i = 0; i < 6; i++)
            action[i] = draw(rng, 4);
        step(f, action);
        for (int64_t p = 0; p < 2; p++)
            if (f->done[3 * p])
                start_walkers(f, p, (*seed)++);
    }
}

/* Agents of a parallel env see each other's actions, end together, and are drawn as one. */
TEST(test_parallel)
{
    struct fixture *f =
        make(6, WALKERS, "worker=2;max_episode_steps=9;kwargs.length=4;render=true");
    const int32_t action[6] = {3, 0, 0, 1, 1, 1};
    uint8_t rgb[4][7][3];
    ck_assert_int_eq(f->spec.agents, 3);
    start_walkers(f, 0, 5);
    start_walkers(f, 1, 6);
    for (int t = 1; t <= 4; t++) {
        const float mean = f->obs[2], own = f->obs[0], other = f->obs[3];
        step(f, action);
        ck_assert_float_eq(f->obs[1], (float)t);
        ck_assert(f->obs[0] > own + 3 && f->obs[3] > other && f->obs[3] < other + 1);
        ck_assert(f->obs[2] > mean + 1 && f->obs[2] == f->obs[5] && f->obs[2] == f->obs[8]);
        ck_assert(f->obs[2] != f->obs[11]);
        for (int i = 0; i < 6; i++) {
            ck_assert_float_eq(f->reward[i], f->obs[3 * i]);
            ck_assert(f->done[i] == (t == 4) && !f->truncated[i]);
        }
        ck_assert_msg(env->render(f->group, 4, rgb[0][0], message) == 0, "%s", message);
        ck_assert(rgb[0][0][0] == t && rgb[3][6][2] == t);
    }
    start_walkers(f, 0, 5);
    ck_assert_float_eq(f->obs[1], 0);
    ck_assert_float_eq(f->obs[10], 4);
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    release(f);
}

/* What happens does not depend on workers, and one agent may be all. */
TEST(test_parallel_workers)
{
    static const char *const options[] = {"worker=1", "worker=2", "worker=6",
                                          "worker=2;obs_shape=3;actions=4;agents=3"};
    enum { WAYS = sizeof options / sizeof *options };
    struct fixture *f[WAYS];
    for (int way = 0; way < WAYS; way++) {
        char text[128];
        uint64_t rng = 1, seed = 70;
        snprintf(text, sizeof text, "%s;max_episode_steps=9;kwargs.length=13", options[way]);
        f[way] = make(6, WALKERS, text);
        start_walkers(f[way], 1, 6);
        start_walkers(f[way], 0, 5);
        play_walkers(f[way], 25, &rng, &seed);
        ck_assert_mem_eq(f[way]->obs, f[0]->obs, sizeof f[0]->obs);
        ck_assert_mem_eq(f[way]->reward, f[0]->reward, sizeof f[0]->reward);
    }
    for (int way = 1; way < WAYS; way++)
        drop(f[way]);
    release(f[0]);
}

TEST(test_parallel_limits)
{
    struct fixture *f = make(3, WALKERS, "max_episode_steps=3"),
                   *own = make(3, WALKERS, "max_episode_steps=3;kwargs.length=3;kwargs.cut=true");
    struct fixture *one = make(2, WALKERS, "max_episode_steps=3;kwargs.agents=1");
    const int32_t action[3] = {1, 1, 1};
    start_walkers(f, 0, 5);
    start_walkers(own, 0, 5);
    reset(one, 0, 1);
    reset(one, 1, 2);
    ck_assert_float_ne(one->obs[0], one->obs[3]);
    for (int t = 1; t <= 3; t++) {
        step(f, action);
        step(own, action);
        step(one, action);
        for (int i = 0; i < 3; i++)
            ck_assert(f->done[i] == (t == 3) && f->truncated[i] == (t == 3));
        ck_assert_mem_eq(f->done, own->done, sizeof f->done);
        ck_assert_mem_eq(f->truncated, own->truncated, sizeof f->truncated);
        ck_assert(one->done[1] == (t == 3) && one->truncated[1] == (t == 3));
    }
    drop(own);
    drop(one);
    release(f);
}

/* An agent that dies keeps its place: it sees zeros, gets nothing, and ends with the others. */
TEST(test_black_death)
{
    struct fixture *f = make(3, WALKERS, "black_death=true;max_episode_steps=5;kwargs.dies=2"),
                   *late = make(3, WALKERS, "black_death=true;max_episode_steps=5;kwargs.late=1");
    const int32_t action[3] = {1, 1, 1};
    start_walkers(f, 0, 5);
    start_walkers(late, 0, 5);
    ck_assert(late->obs[0] == 0 && late->obs[3] == f->obs[3]);
    for (int t = 1; t <= 5; t++) {
        step(f, action);
        ck_assert((f->obs[1] == (float)t) == (t < 2) && (f->reward[0] > 0) == (t <= 2));
        ck_assert(f->obs[4] == (float)t && f->reward[1] > 0);
        ck_assert(f->done[0] == (t == 5) && !f->truncated[0]);
        ck_assert(f->done[1] == (t == 5) && f->truncated[1] == (t == 5));
    }
    start_walkers(f, 0, 6);
    ck_assert_float_gt(f->obs[0], 0);
    drop(late);
    release(f);
}

static const struct {
    const char *options, *names;
    int64_t envs;
    int steps;
} parallel_failures[] = {
    {"kwargs.dies=2",
     WALKERS ": envs 3 to 5, step 2 from seed 6: |ValueError|walker_0|"
             "env.options.black_death: true",
     6, 2},
    {"kwargs.late=true", WALKERS ": envs 3 to 5, step 0 from seed 6: |ValueError|walker_0", 6, 0},
    {"kwargs.fail_at=3",
     WALKERS ": envs 3 to 5, step 3 from seed 6: |ValueError at gymnasium_envs.py:|"
             ": the walkers fell over",
     6, 3},
    {"", WALKERS ": 3 agents|4 envs", 4, 0},
};

/* Parallel env 0 is younger: it does not fail first. */
TEST(test_parallel_failures, .runs = COUNT(parallel_failures))
{
    char options[128];
    snprintf(options, sizeof options, "worker=2;max_episode_steps=9;%s",
             parallel_failures[_i].options);
    struct fixture *f = make(parallel_failures[_i].envs, WALKERS, options);
    const int32_t action[6] = {1, 1, 1, 1, 1, 1};
    int status = env->reset(f->group, 3, 6, f->obs, message);
    ck_assert_int_eq(status, parallel_failures[_i].steps > 0 ? 0 : -1);
    for (int64_t i = 0; status == 0 && i < 6; i++)
        if (i != 3)
            reset(f, i, 5);
    for (int t = 1; status == 0; t++) {
        start_walkers(f, 0, 5);
        status = env->step(f->group, action, &f->outcome, message);
        ck_assert_int_eq(status, t < parallel_failures[_i].steps ? 0 : -1);
    }
    check_names(message, parallel_failures[_i].names);
    release(f);
}

static void load_walkers(struct fixture *f, int64_t p, uint8_t *const *states)
{
    for (int64_t i = 0; i < 3; i++)
        ck_assert_msg(env->load(f->group, 3 * p + i, states[i], message) == 0, "%s", message);
}

static const char *const saves[] = {"actions", "pickle"};

TEST(test_parallel_states, .runs = COUNT(saves))
{
    char options[128];
    snprintf(options, sizeof options,
             "worker=2;max_episode_steps=30;kwargs.dies=9;black_death=true;"
             "save=%s",
             saves[_i]);
    struct fixture *f = make(6, WALKERS, options), *other = make(6, WALKERS, options);
    uint64_t rng = 1, seed = 70, again = 70;
    uint8_t *states[6];
    start_walkers(f, 0, 5);
    start_walkers(f, 1, 6);
    play_walkers(f, 41, &rng, &seed);
    start_walkers(f, 1, 7);
    play_walkers(f, 3, &rng, &seed);
    for (int64_t i = 0; i < 6; i++)
        states[i] = save(f, i);
    load_walkers(other, 0, states + 3);
    load_walkers(other, 1, states);
    load_walkers(f, 0, states + 3);
    load_walkers(f, 1, states);
    uint8_t *same = save(other, 4);
    ck_assert_mem_eq(same, states[1], (size_t)env->state_bytes(f->group));
    uint64_t draws = rng;
    again = seed;
    play_walkers(f, 40, &rng, &seed);
    play_walkers(other, 40, &draws, &again);
    ck_assert_mem_eq(f->obs, other->obs, sizeof f->obs);
    ck_assert_mem_eq(f->reward, other->reward, sizeof f->reward);
    for (int64_t i = 0; i < 6; i++) {
        uint8_t *later = save(f, i), *elsewhere = save(other, i);
        ck_assert_mem_eq(later, elsewhere, (size_t)env->state_bytes(f->group));
    }
    drop(other);
    release(f);
}

static void check_torn(struct fixture *f, const int32_t *action)
{
    ck_assert_int_eq(env->step(f->group, action, &f->outcome, message), -1);
    check_names(message, "same step");
}

/* The agents of a parallel env are loaded from one step of it, and all of them. */
TEST(test_parallel_states_refused)
{
    struct fixture *f = make(3, WALKERS, "max_episode_steps=30");
    const int32_t action[3] = {1, 1, 1};
    start_walkers(f, 0, 5);
    step(f, action);
    uint8_t *early[3] = {save(f, 0), save(f, 1), save(f, 2)};
    step(f, action);
    uint8_t *late = save(f, 2);
    for (int64_t i = 0; i < 3; i++)
        ck_assert_int_eq(env->load(f->group, i, i < 2 ? early[i] : late, message), 0);
    check_torn(f, action);
    start_walkers(f, 0, 5);
    step(f, action);
    ck_assert_int_eq(env->load(f->group, 1, early[1], message), 0);
    check_torn(f, action);
    release(f);
}

/* A group that was made for its description alone has no whole parallel env. */
TEST(test_part_of_a_parallel_env)
{
    struct fixture *f = make(1, WALKERS, "max_episode_steps=30");
    ck_assert_int_eq(f->spec.agents, 3);
    ck_assert_msg(env->load(f->group, 0, save(f, 0), message) == 0, "%s", message);
    env->announce(f->group, 0, 5);
    ck_assert_int_eq(env->reset(f->group, 0, 5, f->obs, message), -1);
    check_names(message, "3 agents play together, which 1 envs cannot be");
    release(f);
}

TEST(test_parallel_wrapper)
{
    struct fixture *f = make(3, WALKERS,
                             "max_episode_steps=30;"
                             "wrappers={\"gymnasium_envs:Louder\": {\"factor\": 3}}");
    const int32_t action[3] = {1, 1, 1};
    start_walkers(f, 0, 5);
    step(f, action);
    ck_assert_float_eq_tol(f->reward[0], 3 * f->obs[0], 1e-5f);
    release(f);
}
