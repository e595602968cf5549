/* SPDX-License-Identifier: Apache-2.0 */
/* The envs of classic control against Gymnasium's: starts, steps from equal states, time limits;
 * and what they share: groups, saved states, settings, pictures. */
#include "kernels/envs/classic/classic.h"
#include "kernels/envs/find/find.h"
#include "tests/golden/golden.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 3 };

union number {
    int32_t choice;
    float real;
};

struct fixture {
    const struct hd_env *env;
    struct hd_env_spec spec;
    void *group;
    int64_t envs;
    float obs[ENVS][6], reward[ENVS];
    bool done[ENVS], truncated[ENVS];
};

static char message[HD_ENV_MESSAGE];

/* A trace for each env. */
static int count_traces(void)
{
    return golden_count(golden_open("classic_traces"), "traces");
}

static struct golden get_trace(int i)
{
    return golden_get(golden_open("classic_traces"), "traces/%d", i);
}

static struct fixture make(const char *name, int64_t envs)
{
    struct fixture f = {.envs = envs};
    const struct hd_env_settings settings = {.envs = envs, .env_id = ""};
    ck_assert_int_eq(hd_env_find(name, &f.env, message), 0);
    ck_assert_int_eq(f.env->create(&settings, &f.spec, &f.group, message), 0);
    return f;
}

static void step(struct fixture *f, const union number *action)
{
    float obs[ENVS * 6];
    const struct hd_env_outcome outcome = {obs, f->reward, f->done, f->truncated};
    const int64_t shown = f->spec.shape[0];
    ck_assert_int_eq(f->env->step(f->group, action, &outcome, message), 0);
    for (int64_t i = 0; i < f->envs; i++)
        memcpy(f->obs[i], obs + i * shown, (size_t)shown * sizeof *obs);
}

static union number to_number(const struct hd_env_spec *spec, double action)
{
    if (spec->actions.kind == HD_ENV_BOX)
        return (union number){.real = (float)action};
    return (union number){.choice = (int32_t)action};
}

/* -- Against Gymnasium ------------------------------------------------------------------------- */

/* Loads a state of Gymnasium, whose continuous mountain car keeps another number here. */
static void load(struct fixture *f, const double *state, int n, int64_t age)
{
    double saved[5] = {0};
    const int64_t states = f->env->state_bytes(f->group) / 8 - 1;
    ck_assert_int_ge(states, n);
    for (int i = 0; i < states; i++)
        saved[i] = i < n ? state[i] : age > 0;
    memcpy(&saved[states], &age, sizeof age);
    ck_assert_int_eq(f->env->load(f->group, 0, saved, message), 0);
}

static void get_state(const struct fixture *f, double saved_p[5])
{
    ck_assert_int_le(f->env->state_bytes(f->group), 5 * (int64_t)sizeof *saved_p);
    ck_assert_int_eq(f->env->save(f->group, 0, saved_p, message), 0);
}

/* Returns one unit in the last place of the larger of two numbers, and of a float. */
static double unit(double a, double b)
{
    const double size = fmax(fabs(a), fabs(b));
    return nextafter(size, INFINITY) - size;
}

static double unit_of_float(float a)
{
    return (double)(nextafterf(fabsf(a), INFINITY) - fabsf(a));
}

/* NumPy has a sine and a cosine of its own; the other envs use the C library's. */
static bool uses_numpy(const char *name)
{
    return strncmp(name, "mountain_car", 12) != 0;
}

TEST(test_starts, .runs = count_traces())
{
    const struct golden trace = get_trace(_i);
    const int states = golden_count(trace, "start/0");
    struct fixture f = make(golden_text(trace, "name"), 1);
    double state[5], wanted[4];
    for (int i = 0; i < 2; i++) {
        const double seed = golden_number(golden_open("classic_traces"), "seed") + i;
        f.env->reset(f.group, 0, (uint64_t)seed, f.obs[0], message);
        get_state(&f, state);
        golden_read(trace, i == 0 ? "start/0" : "start/1", states, wanted);
        ck_assert_mem_eq(state, wanted, (size_t)states * sizeof *state);
    }
    f.env->destroy(f.group);
}

/* Takes a row's step from the state before it. */
static void check_row(struct fixture *f, struct golden row, int states, bool uses_numpy_s)
{
    const union number action = to_number(&f->spec, golden_number(row, "action"));
    const int shown = (int)f->spec.shape[0];
    double state[5], before[4], after[4], obs[6];
    golden_read(row, "before", states, before);
    golden_read(row, "after", states, after);
    golden_read(row, "obs", shown, obs);
    const float reward = (float)golden_number(row, "reward");
    const bool terminated = golden_number(row, "terminated") == 1,
               truncated = golden_number(row, "truncated") == 1;
    load(f, before, states, (int64_t)golden_number(row, "age"));
    step(f, &action);
    get_state(f, state);
    for (int i = 0; i < states; i++)
        ck_assert_double_le(fabs(state[i] - after[i]),
                            uses_numpy_s ? unit(before[i], after[i]) : 0);
    for (int i = 0; i < shown; i++)
        ck_assert_double_le(fabs((double)f->obs[0][i] - obs[i]), unit_of_float((float)obs[i]));
    ck_assert_double_le(fabs((double)(f->reward[0] - reward)), unit_of_float(reward));
    ck_assert_int_eq(f->done[0], terminated || truncated);
    ck_assert_int_eq(f->truncated[0], truncated);
}

TEST(test_steps, .runs = count_traces())
{
    const struct golden trace = get_trace(_i);
    const char *name = golden_text(trace, "name");
    struct fixture f = make(name, 1);
    for (int i = 0; i < golden_count(trace, "rows"); i++)
        check_row(&f, golden_get(trace, "rows/%d", i), golden_count(trace, "start/0"),
                  uses_numpy(name));
    f.env->destroy(f.group);
}

/* -- What they share --------------------------------------------------------------------------- */

static void reset(struct fixture *f, int64_t env, uint64_t seed)
{
    ck_assert_int_eq(f->env->reset(f->group, env, seed, f->obs[env], message), 0);
}

/* Each env of a group plays as it would alone, and a saved state continues equally in another group
 * and as another env. */
TEST(test_group, .runs = count_traces())
{
    const char *name = golden_text(get_trace(_i), "name");
    struct fixture f = make(name, ENVS), other = make(name, ENVS), alone = make(name, 1);
    char state[64];
    for (int i = 0; i < ENVS; i++) {
        reset(&f, i, (uint64_t)i);
        reset(&other, i, 9);
    }
    reset(&alone, 0, 1);
    for (int t = 0; t < 9; t++) {
        union number action[ENVS], moved[ENVS];
        for (int i = 0; i < ENVS; i++)
            action[i] = moved[i] = to_number(&f.spec, (t + i) % 2);
        moved[2] = action[1];
        if (t == 5) {
            ck_assert_int_eq(f.env->save(f.group, 1, state, message), 0);
            ck_assert_int_eq(f.env->load(other.group, 2, state, message), 0);
        }
        step(&f, action);
        step(&alone, &action[1]);
        step(&other, moved);
        ck_assert_mem_eq(f.obs[1], alone.obs[0], sizeof(float) * (size_t)f.spec.shape[0]);
        ck_assert_float_eq(f.reward[1], alone.reward[0]);
        if (t >= 5)
            ck_assert_mem_eq(f.obs[1], other.obs[2], sizeof(float) * (size_t)f.spec.shape[0]);
    }
    f.env->destroy(alone.group);
    f.env->destroy(other.group);
    f.env->destroy(f.group);
}

TEST(test_states_are_checked, .runs = count_traces())
{
    struct fixture f = make(golden_text(get_trace(_i), "name"), 1);
    const int64_t states = f.env->state_bytes(f.group) / 8 - 1;
    double state[5] = {0};
    ck_assert_int_eq(f.env->save(f.group, 0, state, message), 0);
    ck_assert_int_eq(f.env->load(f.group, 0, state, message), 0);
    state[states - 1] = NAN;
    ck_assert_int_eq(f.env->load(f.group, 0, state, message), -1);
    ck_assert_ptr_nonnull(strstr(message, "a state of"));
    state[states - 1] = 0;
    memcpy(&state[states], &(int64_t){1000}, sizeof(int64_t));
    ck_assert_int_eq(f.env->load(f.group, 0, state, message), -1);
    ck_assert_str_eq(message, "a state of 1000 steps");
    f.env->destroy(f.group);
}

static int try_option(const char *name, const char *option, const char *value,
                      struct hd_env_spec *spec_p)
{
    const struct hd_env_option options[] = {{option, value}};
    const struct hd_env_settings settings = {
        .envs = 1, .env_id = "", .options = options, .n_options = 1};
    const struct hd_env *env;
    void *group;
    ck_assert_int_eq(hd_env_find(name, &env, message), 0);
    const int status = env->create(&settings, spec_p, &group, message);
    if (status == 0)
        env->destroy(group);
    return status;
}

TEST(test_options)
{
    struct hd_env_spec spec;
    ck_assert_int_eq(try_option("cartpole", "velocities", "true", &spec), 0);
    ck_assert_int_eq(spec.shape[0], 4);
    ck_assert_int_eq(try_option("cartpole", "velocities", "false", &spec), 0);
    ck_assert_int_eq(spec.shape[0], 2);
    ck_assert_int_eq(try_option("cartpole", "velocities", "no", &spec), -1);
    check_names(message, "env.options.velocities|true or false|'no'");
    ck_assert_int_eq(try_option("acrobot", "velocities", "false", &spec), -1);
    ck_assert_ptr_nonnull(strstr(message, "'velocities'"));
}

/* CartPole-v1 ends an episode after 500 steps. */
TEST(test_versions_of_cartpole)
{
    static const struct {
        const char *env_id;
        int64_t steps;
    } versions[] = {{"", 200}, {"CartPole-v0", 200}, {"CartPole-v1", 500}};
    const union number action = {.choice = 0};
    double state[5] = {0};
    for (int i = 0; i < 3; i++) {
        const struct hd_env_settings settings = {.envs = 1, .env_id = versions[i].env_id};
        struct fixture f = make("cartpole", 1);
        f.env->destroy(f.group);
        ck_assert_int_eq(f.env->create(&settings, &f.spec, &f.group, message), 0);
        for (int before = 2; before > 0; before--) {
            memcpy(&state[4], &(int64_t){versions[i].steps - before}, sizeof(int64_t));
            ck_assert_int_eq(f.env->load(f.group, 0, state, message), 0);
            step(&f, &action);
            ck_assert_int_eq(f.done[0], before == 1);
        }
        f.env->destroy(f.group);
    }
    const struct hd_env_settings unknown = {.envs = 1, .env_id = "CartPole-v2"};
    struct fixture f = make("cartpole", 1);
    f.env->destroy(f.group);
    ck_assert_int_eq(f.env->create(&unknown, &f.spec, &f.group, message), -1);
    ck_assert_ptr_nonnull(strstr(message, "CartPole-v1, not 'CartPole-v2'"));
}

TEST(test_hidden_velocities)
{
    const struct hd_env_option options[] = {{"velocities", "false"}};
    const struct hd_env_settings settings = {
        .envs = 1, .env_id = "", .options = options, .n_options = 1};
    struct fixture all = make("cartpole", 1), hidden = make("cartpole", 1);
    hidden.env->destroy(hidden.group);
    ck_assert_int_eq(hidden.env->create(&settings, &hidden.spec, &hidden.group, message), 0);
    reset(&all, 0, 3);
    reset(&hidden, 0, 3);
    for (int t = 0; t < 9; t++) {
        const union number action = {.choice = t % 2};
        ck_assert_float_eq(hidden.obs[0][0], all.obs[0][0]);
        ck_assert_float_eq(hidden.obs[0][1], all.obs[0][2]);
        step(&all, &action);
        step(&hidden, &action);
    }
    all.env->destroy(all.group);
    all.env->destroy(hidden.group);
}

/* The box of an env's actions is the one that it clips to. */
TEST(test_boxes)
{
    struct fixture f = make("pendulum", 1), car = make("mountain_car_continuous", 1);
    double beyond[5], bound[5];
    ck_assert_int_eq(f.spec.actions.kind, HD_ENV_BOX);
    ck_assert_float_eq(f.spec.actions.low[0], -2);
    ck_assert_float_eq(f.spec.actions.high[0], 2);
    ck_assert_float_eq(car.spec.actions.low[0], -1);
    ck_assert_float_eq(car.spec.actions.high[0], 1);
    for (int sign = -1; sign <= 1; sign += 2) {
        reset(&f, 0, 1);
        step(&f, &(union number){.real = 2.0f * (float)sign});
        get_state(&f, bound);
        reset(&f, 0, 1);
        step(&f, &(union number){.real = 7.0f * (float)sign});
        get_state(&f, beyond);
        ck_assert_mem_eq(bound, beyond, 2 * sizeof *bound);
    }
    f.env->destroy(f.group);
    f.env->destroy(car.group);
}

/* A picture is white but for what moves and what does not; it changes with the state alone. */
TEST(test_render, .runs = count_traces())
{
    struct fixture f = make(golden_text(get_trace(_i), "name"), 2);
    const size_t bytes = (size_t)(f.spec.render_height * f.spec.render_width * 3);
    uint8_t *first = malloc(bytes), *second = malloc(bytes);
    size_t painted = 0;
    reset(&f, 0, 1);
    reset(&f, 1, 1);
    ck_assert_uint_gt(bytes, 0);
    ck_assert_int_eq(f.env->render(f.group, 0, first, message), 0);
    ck_assert_int_eq(f.env->render(f.group, 1, second, message), 0);
    ck_assert_mem_eq(first, second, bytes);
    for (size_t i = 0; i < bytes; i++)
        painted += first[i] != 255;
    ck_assert_uint_gt(painted, bytes / 200);
    ck_assert_uint_lt(painted, bytes / 4);
    for (int t = 0; t < 30; t++)
        step(&f, (const union number[2]){to_number(&f.spec, 0), to_number(&f.spec, 1)});
    f.env->render(f.group, 0, first, message);
    f.env->render(f.group, 1, second, message);
    ck_assert_mem_ne(first, second, bytes);
    free(first);
    free(second);
    f.env->destroy(f.group);
}
