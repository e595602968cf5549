/* SPDX-License-Identifier: Apache-2.0 */
/* The envs of classic control against Gymnasium's: starts, steps from equal states, time limits;
 * and what they share: groups, saved states, settings, pictures. */
#include "kernels/envs/classic/classic.h"
#include "kernels/envs/find.h"
#include "tests/golden/classic_traces.h"
#include "tests/harness/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENVS = 3, N_TRACES = sizeof classic_traces / sizeof classic_traces[0] };

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
static void load(struct fixture *f, const struct classic_trace *trace, const double *state,
                 int64_t age)
{
    double saved[5] = {0};
    const int64_t states = f->env->state_bytes(f->group) / 8 - 1;
    ck_assert_int_ge(states, trace->states);
    for (int i = 0; i < states; i++)
        saved[i] = i < trace->states ? state[i] : age > 0;
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
static bool uses_numpy(const struct classic_trace *trace)
{
    return strncmp(trace->name, "mountain_car", 12) != 0;
}

TEST(test_starts, .runs = N_TRACES)
{
    const struct classic_trace *trace = &classic_traces[_i];
    struct fixture f = make(trace->name, 1);
    double state[5];
    for (int i = 0; i < 2; i++) {
        f.env->reset(f.group, 0, CLASSIC_SEED + (uint64_t)i, f.obs[0], message);
        get_state(&f, state);
        ck_assert_mem_eq(state, trace->start[i], (size_t)trace->states * sizeof *state);
    }
    f.env->destroy(f.group);
}

TEST(test_steps, .runs = N_TRACES)
{
    const struct classic_trace *trace = &classic_traces[_i];
    struct fixture f = make(trace->name, 1);
    double state[5];
    ck_assert_int_eq(f.spec.shape[0], trace->shown);
    for (const struct classic_row *row = trace->rows; row < trace->rows + trace->n_rows; row++) {
        const union number action = to_number(&f.spec, row->action);
        load(&f, trace, row->before, row->age);
        step(&f, &action);
        get_state(&f, state);
        for (int i = 0; i < trace->states; i++)
            ck_assert_double_le(fabs(state[i] - row->after[i]),
                                uses_numpy(trace) ? unit(row->before[i], row->after[i]) : 0);
        for (int i = 0; i < trace->shown; i++)
            ck_assert_double_le(fabs((double)(f.obs[0][i] - row->obs[i])),
                                unit_of_float(row->obs[i]));
        ck_assert_double_le(fabs((double)(f.reward[0] - row->reward)), unit_of_float(row->reward));
        ck_assert_int_eq(f.done[0], row->terminated || row->truncated);
        ck_assert_int_eq(f.truncated[0], row->truncated);
    }
    f.env->destroy(f.group);
}

/* -- What they share --------------------------------------------------------------------------- */

static void reset(struct fixture *f, int64_t env, uint64_t seed)
{
    ck_assert_int_eq(f->env->reset(f->group, env, seed, f->obs[env], message), 0);
}

/* Each env of a group plays as it would alone, and a saved state continues equally in another group
 * and as another env. */
TEST(test_group, .runs = N_TRACES)
{
    const char *name = classic_traces[_i].name;
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

TEST(test_states_are_checked, .runs = N_TRACES)
{
    struct fixture f = make(classic_traces[_i].name, 1);
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
    ck_assert_str_eq(message, "env.options.velocities must be true or false, not 'no'");
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
TEST(test_render, .runs = N_TRACES)
{
    struct fixture f = make(classic_traces[_i].name, 2);
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
