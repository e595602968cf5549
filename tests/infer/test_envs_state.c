/* SPDX-License-Identifier: Apache-2.0 */
/* States of environments through the public header: what loads a saved one goes on with the same
 * bits, through later episodes as well, and other bytes are refused. Limits of steps. */
#include "infer/infer.h"
#include "tests/harness/check.h"

#include <stdlib.h>
#include <string.h>

enum { ENVS = 3, STEPS = 60, OBS_BYTES = ENVS * 4 * 84 * 84 };

static char message[HEDDLE_MESSAGE];
static const uint64_t seeds[ENVS] = {11, 22, 33};

/* What all environments show after a step. */
struct shown {
    char obs[OBS_BYTES];
    float reward[ENVS];
    bool terminated[ENVS], truncated[ENVS];
};

struct state {
    char *bytes;
    int64_t n;
};

static struct heddle_envs *make(const struct heddle_envs_settings *settings)
{
    struct heddle_envs *envs;
    ck_assert_msg(heddle_envs_create(settings, &envs, message) == HEDDLE_OK, "%s", message);
    return envs;
}

static void reset(struct heddle_envs *envs, struct shown *shown)
{
    memset(shown, 0, sizeof *shown);
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, shown->obs, message), HEDDLE_OK);
}

/* Every environment takes the action 1, or 1/2 in a box of one number. */
static void step(struct heddle_envs *envs, struct shown *shown)
{
    static const int64_t choices[ENVS] = {1, 1, 1};
    static const float reals[ENVS] = {0.5f, 0.5f, 0.5f};
    struct heddle_envs_spec spec;
    heddle_envs_describe(envs, &spec);
    const void *action = spec.actions.kind == HEDDLE_BOX ? (const void *)reals : choices;
    memset(shown, 0, sizeof *shown);
    ck_assert_msg(heddle_envs_step(envs, action, shown->obs, shown->reward, shown->terminated,
                                   shown->truncated, message) == HEDDLE_OK,
                  "%s", message);
}

static struct state save(const struct heddle_envs *envs)
{
    const int64_t n = heddle_envs_get_state_bytes(envs);
    struct state state = {malloc((size_t)n), n};
    ck_assert_ptr_nonnull(state.bytes);
    memset(state.bytes, 0xA5, (size_t)n);
    ck_assert_int_eq(heddle_envs_save(envs, state.bytes, message), HEDDLE_OK);
    return state;
}

static int load(struct heddle_envs *envs, const struct state *state)
{
    return heddle_envs_load(envs, state->bytes, state->n, message);
}

/* Saves after `before` steps, loads into new environments, and compares the steps that follow. */
static void check_continuation(const struct heddle_envs_settings *settings, int before)
{
    static struct shown one, other;
    struct heddle_envs *envs = make(settings), *copy = make(settings);
    reset(envs, &one);
    for (int i = 0; i < before; i++)
        step(envs, &one);
    struct state state = save(envs);
    ck_assert_int_eq(load(copy, &state), HEDDLE_OK);
    const struct state again = save(copy);
    ck_assert_int_eq(again.n, state.n);
    ck_assert_int_eq(memcmp(again.bytes, state.bytes, (size_t)state.n), 0);
    for (int i = 0; i < STEPS; i++) {
        step(envs, &one);
        step(copy, &other);
        ck_assert_msg(memcmp(&one, &other, sizeof one) == 0, "%s: step %d differs", settings->type,
                      i);
    }
    ck_assert_int_eq(load(envs, &state), HEDDLE_OK); /* back in time */
    step(envs, &other);
    ck_assert_int_ne(memcmp(&one, &other, sizeof one), 0);
    free(state.bytes);
    free(again.bytes);
    heddle_envs_destroy(envs);
    heddle_envs_destroy(copy);
}

TEST(test_a_loaded_state_goes_on_with_the_same_bits)
{
    static const char *const types[] = {"cartpole", "acrobot", "mountain_car",
                                        "mountain_car_continuous", "pendulum"};
    for (int i = 0; i < 5; i++)
        check_continuation(&(struct heddle_envs_settings){.type = types[i], .envs = ENVS}, 15);
    check_continuation(
        &(struct heddle_envs_settings){.type = "pixel_pong", .envs = ENVS, .frame_stack = 4}, 5);
}

TEST(test_frames_and_the_ends_of_episodes_are_of_the_state)
{
    const struct heddle_envs_settings settings = {
        .type = "blink", .envs = ENVS, .frame_stack = 3, .allow_plugins = true};
    for (int before = 0; before < 20; before++) /* episodes of at most 7 steps end all the time */
        check_continuation(&settings, before);
}

TEST(test_environments_that_were_not_reset_have_a_state)
{
    static struct shown shown;
    const struct heddle_envs_settings settings = {.type = "cartpole", .envs = ENVS};
    struct heddle_envs *envs = make(&settings), *copy = make(&settings);
    struct state state = save(envs);
    reset(copy, &shown);
    ck_assert_int_eq(load(copy, &state), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_reset(copy, NULL, NULL, shown.obs, message), HEDDLE_ERR_INPUT);
    free(state.bytes);
    heddle_envs_destroy(envs);
    heddle_envs_destroy(copy);
}

/* Loads a changed state, which is refused, and after which the environments have to be reset. */
static void refuse(const struct heddle_envs_settings *settings, const struct state *state,
                   const char *said, bool resets)
{
    static struct shown shown;
    static const int64_t action[ENVS];
    struct heddle_envs *envs = make(settings);
    reset(envs, &shown);
    ck_assert_int_eq(load(envs, state), HEDDLE_ERR_FORMAT);
    ck_assert_msg(strstr(message, said), "'%s' is not in '%s'", said, message);
    const int status = heddle_envs_step(envs, action, shown.obs, shown.reward, shown.terminated,
                                        shown.truncated, message);
    ck_assert_int_eq(status, resets ? HEDDLE_ERR_INPUT : HEDDLE_OK);
    heddle_envs_destroy(envs);
}

TEST(test_other_bytes_are_refused)
{
    enum { HEADER = 40, EPISODE = 32, NUMBERS = 16 };
    static struct shown shown;
    const struct heddle_envs_settings settings = {.type = "cartpole", .envs = ENVS};
    struct heddle_envs *envs = make(&settings);
    reset(envs, &shown);
    struct state state = save(envs);
    const char *not_ours = "not a saved state of";
    state.n--;
    refuse(&settings, &state, not_ours, false);
    state.n = 0;
    refuse(&settings, &state, not_ours, false);
    state.n = heddle_envs_get_state_bytes(envs);
    refuse(&(struct heddle_envs_settings){.type = "cartpole", .envs = ENVS, .frame_stack = 2},
           &state, not_ours, false);
    refuse(&(struct heddle_envs_settings){.type = "acrobot", .envs = ENVS}, &state, not_ours,
           false);
    state.bytes[0] ^= 1;
    refuse(&settings, &state, not_ours, false);
    state.bytes[0] ^= 1;
    state.bytes[HEADER + 3 * 8] = 8; /* flags that there are not */
    refuse(&settings, &state, "number 0, load: what is not a saved state", true);
    state.bytes[HEADER + 3 * 8] = 3;
    memset(state.bytes + HEADER + EPISODE + NUMBERS, 0xFF, 8); /* the position is not a number */
    refuse(&settings, &state, "environment cartpole, number 0, load", true);
    free(state.bytes);
    heddle_envs_destroy(envs);
}

TEST(test_a_plugin_that_cannot_save_says_so)
{
    static struct shown shown;
    const struct heddle_option option = {"fail_save", "true"};
    struct heddle_envs *envs = make(&(struct heddle_envs_settings){
        .type = "blink", .envs = ENVS, .options = &option, .n_options = 1, .allow_plugins = true});
    reset(envs, &shown);
    char *bytes = malloc((size_t)heddle_envs_get_state_bytes(envs));
    ck_assert_int_eq(heddle_envs_save(envs, bytes, message), HEDDLE_ERR_TASK);
    ck_assert_str_eq(message, "environment blink, number 0, save: the lamp cannot be moved");
    step(envs, &shown);
    free(bytes);
    heddle_envs_destroy(envs);
}

TEST(test_a_limit_of_steps_truncates_episodes)
{
    enum { LIMIT = 5 };
    static struct shown shown;
    struct heddle_envs *envs =
        make(&(struct heddle_envs_settings){.type = "cartpole", .envs = ENVS});
    ck_assert_int_eq(heddle_envs_limit_steps(envs, -1, message), HEDDLE_ERR_INPUT);
    ck_assert_int_eq(heddle_envs_limit_steps(envs, LIMIT, message), HEDDLE_OK);
    reset(envs, &shown);
    for (int i = 1; i < 4 * (LIMIT + 1); i++) {
        step(envs, &shown);
        for (int e = 0; e < ENVS; e++) {
            ck_assert_int_eq(shown.truncated[e], i % (LIMIT + 1) == LIMIT);
            ck_assert(shown.reward[e] == (i % (LIMIT + 1) == 0 ? 0 : 1));
        }
    }
    heddle_envs_destroy(envs);
}

TEST(test_types_that_are_built_in_are_named)
{
    struct heddle_envs *builtin =
        make(&(struct heddle_envs_settings){.type = "pendulum", .envs = 1});
    struct heddle_envs *plugin =
        make(&(struct heddle_envs_settings){.type = "blink", .envs = 1, .allow_plugins = true});
    ck_assert_str_eq(heddle_envs_get_builtin_type(builtin), "pendulum");
    ck_assert_ptr_null(heddle_envs_get_builtin_type(plugin));
    heddle_envs_destroy(builtin);
    heddle_envs_destroy(plugin);
}
