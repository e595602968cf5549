/* SPDX-License-Identifier: Apache-2.0 */
/* Environments through the public header: episodes one after another, seeds, frames, pictures,
 * plug-ins and wrong arguments. */
#include "infer/infer.h"
#include "tests/harness/check.h"

#include <math.h>
#include <string.h>

enum { ENVS = 3, NUMBERS = 4 };

static char message[HEDDLE_MESSAGE];
static const uint64_t seeds[ENVS] = {11, 22, 33};

static struct heddle_envs *make(const struct heddle_envs_settings *settings)
{
    struct heddle_envs *envs;
    const int status = heddle_envs_create(settings, &envs, message);
    ck_assert_msg(status == HEDDLE_OK, "%s", message);
    return envs;
}

static struct heddle_envs *make_cartpole(int64_t n)
{
    return make(&(struct heddle_envs_settings){.type = "cartpole", .envs = n});
}

/* One step of n CartPoles that are always pushed to the right. */
struct shown {
    float obs[ENVS][NUMBERS], reward[ENVS];
    bool terminated[ENVS], truncated[ENVS];
};

static struct shown push(struct heddle_envs *envs)
{
    static const int64_t right[ENVS] = {1, 1, 1};
    struct shown shown;
    ck_assert_int_eq(heddle_envs_step(envs, right, shown.obs, shown.reward, shown.terminated,
                                      shown.truncated, message),
                     HEDDLE_OK);
    return shown;
}

TEST(test_environments_are_described)
{
    struct heddle_envs *envs = make_cartpole(ENVS);
    struct heddle_envs_spec spec;
    heddle_envs_describe(envs, &spec);
    ck_assert_int_eq(spec.envs, ENVS);
    ck_assert_int_eq(spec.obs.element, HEDDLE_F32);
    ck_assert_int_eq(spec.obs.shape[0], NUMBERS);
    ck_assert_int_eq(spec.actions.n[0], 2);
    ck_assert(spec.render_height > 0 && spec.render_width > 0);
    heddle_envs_destroy(envs);
    envs = make(&(struct heddle_envs_settings){.type = "pendulum", .envs = 1});
    heddle_envs_describe(envs, &spec);
    ck_assert_int_eq(spec.actions.kind, HEDDLE_BOX);
    ck_assert(spec.actions.low[0] == -2 && spec.actions.high[0] == 2);
    heddle_envs_destroy(envs);
}

TEST(test_the_step_after_the_last_begins_the_next_episode)
{
    struct heddle_envs *envs = make_cartpole(ENVS), *other = make_cartpole(ENVS);
    float obs[ENVS][NUMBERS], next[ENVS][NUMBERS];
    ck_assert_int_eq(heddle_envs_reset(other, NULL, seeds, obs, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_reset(other, NULL, NULL, next, message), HEDDLE_OK);
    for (int e = 0; e < ENVS; e++)
        ck_assert_int_ne(memcmp(obs[e], next[e], sizeof next[e]), 0);
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, obs, message), HEDDLE_OK);
    bool ended[ENVS] = {false}, begun[ENVS] = {false};
    for (int i = 0; i < 30; i++) {
        const struct shown shown = push(envs);
        for (int e = 0; e < ENVS; e++) {
            const bool resets = ended[e];
            if (resets && !begun[e])
                ck_assert_int_eq(memcmp(shown.obs[e], next[e], sizeof next[e]), 0);
            begun[e] |= resets;
            ck_assert(shown.reward[e] == (resets ? 0 : 1));
            ck_assert(!(resets && shown.terminated[e]) && !shown.truncated[e]);
            ended[e] = shown.terminated[e];
        }
    }
    ck_assert(begun[0] && begun[1] && begun[2]);
    heddle_envs_destroy(envs);
    heddle_envs_destroy(other);
}

TEST(test_an_environment_does_not_depend_on_the_others)
{
    struct heddle_envs *envs = make_cartpole(ENVS), *one = make_cartpole(1);
    float obs[ENVS][NUMBERS], alone[NUMBERS];
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, obs, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_reset(one, NULL, seeds + 2, alone, message), HEDDLE_OK);
    ck_assert_int_eq(memcmp(alone, obs[2], sizeof alone), 0);
    for (int i = 0; i < 40; i++) {
        const struct shown among = push(envs), single = push(one);
        ck_assert_int_eq(memcmp(single.obs[0], among.obs[2], sizeof alone), 0);
        ck_assert(single.reward[0] == among.reward[2]);
        ck_assert(single.terminated[0] == among.terminated[2]);
    }
    heddle_envs_destroy(envs);
    heddle_envs_destroy(one);
}

TEST(test_a_mask_resets_some)
{
    static const bool mask[ENVS] = {false, true, false};
    struct heddle_envs *envs = make_cartpole(ENVS);
    float first[ENVS][NUMBERS], obs[ENVS][NUMBERS];
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, first, message), HEDDLE_OK);
    const struct shown shown = push(envs);
    ck_assert_int_eq(heddle_envs_reset(envs, mask, seeds, obs, message), HEDDLE_OK);
    ck_assert_int_eq(memcmp(obs[0], shown.obs[0], sizeof obs[0]), 0);
    ck_assert_int_eq(memcmp(obs[1], first[1], sizeof obs[1]), 0);
    ck_assert_int_eq(memcmp(obs[2], shown.obs[2], sizeof obs[2]), 0);
    heddle_envs_destroy(envs);
}

TEST(test_frames_are_stacked_and_shown)
{
    enum { SIDE = 84, FRAME = SIDE * SIDE, STACK = 4 };
    static uint8_t obs[STACK][FRAME], after[STACK][FRAME], rgb[FRAME][3];
    const struct heddle_envs_settings settings = {
        .type = "pixel_pong", .envs = 1, .frame_stack = STACK};
    struct heddle_envs *envs = make(&settings);
    struct heddle_envs_spec spec;
    float reward;
    bool terminated, truncated;
    const int64_t action = 2;
    heddle_envs_describe(envs, &spec);
    ck_assert_int_eq(spec.obs.element, HEDDLE_U8);
    ck_assert_int_eq(spec.obs.dims, 3);
    ck_assert(spec.obs.shape[0] == STACK && spec.obs.shape[1] == SIDE && spec.obs.shape[2] == SIDE);
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, obs, message), HEDDLE_OK);
    for (int i = 1; i < STACK; i++)
        ck_assert_int_eq(memcmp(obs[0], obs[i], FRAME), 0);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(
            heddle_envs_step(envs, &action, obs, &reward, &terminated, &truncated, message), 0);
    ck_assert_int_eq(
        heddle_envs_step(envs, &action, after, &reward, &terminated, &truncated, message), 0);
    ck_assert_int_eq(memcmp(after, obs + 1, (STACK - 1) * FRAME), 0);
    ck_assert_int_ne(memcmp(after[STACK - 1], obs[STACK - 1], FRAME), 0);
    ck_assert(spec.render_height == SIDE && spec.render_width == SIDE);
    ck_assert_int_eq(heddle_envs_render(envs, 0, rgb[0], message), HEDDLE_OK);
    for (int i = 0; i < FRAME; i++)
        for (int c = 0; c < 3; c++)
            ck_assert_int_eq(rgb[i][c], after[STACK - 1][i]);
    heddle_envs_destroy(envs);
}

TEST(test_pictures_are_of_one_environment)
{
    struct heddle_envs *envs = make_cartpole(ENVS);
    struct heddle_envs_spec spec;
    static uint8_t first[1 << 20], second[1 << 20];
    float obs[ENVS][NUMBERS];
    heddle_envs_describe(envs, &spec);
    const size_t bytes = (size_t)(spec.render_height * spec.render_width) * 3;
    ck_assert(bytes <= sizeof first);
    ck_assert_int_eq(heddle_envs_render(envs, 0, first, message), HEDDLE_ERR_INPUT);
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, obs, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_render(envs, 0, first, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_render(envs, 1, second, message), HEDDLE_OK);
    ck_assert_int_ne(memcmp(first, second, bytes), 0);
    ck_assert_int_eq(heddle_envs_render(envs, ENVS, first, message), HEDDLE_ERR_INPUT);
    heddle_envs_destroy(envs);
}

/* -- Mistakes ---------------------------------------------------------------------------------- */

static void refuse(const struct heddle_envs_settings *settings, const char *said)
{
    struct heddle_envs *untouched = NULL;
    ck_assert_int_eq(heddle_envs_create(settings, &untouched, message), HEDDLE_ERR_INPUT);
    ck_assert_ptr_null(untouched);
    ck_assert_msg(strstr(message, said), "'%s' is not in '%s'", said, message);
}

TEST(test_wrong_settings_are_refused)
{
    const struct heddle_option unknown = {"gravity", "9.8"};
    refuse(&(struct heddle_envs_settings){.type = NULL, .envs = 1}, "need a type (cartpole");
    refuse(&(struct heddle_envs_settings){.type = "cartpole", .envs = 0}, "found 0");
    refuse(&(struct heddle_envs_settings){.type = "cartpole", .envs = 1, .frame_stack = 65},
           "1 to 64");
    refuse(&(struct heddle_envs_settings){.type = "cartpole", .envs = 1, .env_id = "CartPole-v9"},
           "must be CartPole-v0 or CartPole-v1");
    refuse(
        &(struct heddle_envs_settings){
            .type = "pixel_pong", .envs = 2, .options = &unknown, .n_options = 1},
        "environment pixel_pong: unknown option 'gravity'");
}

TEST(test_plugins_have_to_be_allowed)
{
    struct heddle_envs_settings settings = {.type = "blink", .envs = 2};
    refuse(&settings, "allowed");
    settings.allow_plugins = true;
    heddle_envs_destroy(make(&settings));
    settings.type = "no_such_env";
    refuse(&settings, "heddle_env_no_such_env.so");
}

TEST(test_wrong_steps_are_refused)
{
    struct heddle_envs *envs = make_cartpole(ENVS);
    const int64_t action[ENVS] = {1, 0, 2};
    struct shown shown;
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, NULL, shown.obs, message), HEDDLE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(message, "needs a seed"));
    ck_assert_int_eq(heddle_envs_step(envs, action, shown.obs, shown.reward, shown.terminated,
                                      shown.truncated, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(message, "reset first"));
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, shown.obs, message), HEDDLE_OK);
    ck_assert_int_eq(heddle_envs_step(envs, action, shown.obs, shown.reward, shown.terminated,
                                      shown.truncated, message),
                     HEDDLE_ERR_INPUT);
    ck_assert_str_eq(message, "action 2 is 2, expected 0 to 1");
    push(envs);
    heddle_envs_destroy(envs);
    heddle_envs_destroy(NULL);
}

TEST(test_real_actions_are_finite)
{
    struct heddle_envs *envs = make(&(struct heddle_envs_settings){.type = "pendulum", .envs = 1});
    float obs[3], reward, action = NAN;
    bool terminated, truncated;
    ck_assert_int_eq(heddle_envs_reset(envs, NULL, seeds, obs, message), HEDDLE_OK);
    ck_assert_int_eq(
        heddle_envs_step(envs, &action, obs, &reward, &terminated, &truncated, message),
        HEDDLE_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(message, "finite number"));
    action = 100; /* clipped by the environment */
    for (int i = 0; i < 200; i++)
        ck_assert_int_eq(
            heddle_envs_step(envs, &action, obs, &reward, &terminated, &truncated, message), 0);
    ck_assert(truncated && !terminated);
    heddle_envs_destroy(envs);
}
