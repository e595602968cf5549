/* SPDX-License-Identifier: Apache-2.0 */
/* Pixel Pong: every byte that it shows against whole screens sent through the full pipeline, the
 * rules of the game, the scores of good and bad players, and what its future may depend on. */
#include "kernels/envs/find/find.h"
#include "runtime/base/hash.h"
#include "runtime/base/rng.h"
#include "tests/kernels/envs/pong_fixture.h"

#include <stdlib.h>
#include <string.h>

enum { SCREEN = 210 * 160 * 3, ENVS = 3 };

/* -- Players ----------------------------------------------------------------------------------- */

static int32_t play_random(const struct fixture *f, int64_t t)
{
    (void)f;
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    return (int32_t)hd_rng_draw_below(&rng, (uint32_t)t, 6);
}

static int32_t play_still(const struct fixture *f, int64_t t)
{
    (void)f, (void)t;
    return NOOP;
}

/* Keeps the paddle's middle within reach of the ball's, as the screen shows them. */
static int32_t play_follow(const struct fixture *f, int64_t t)
{
    (void)t;
    const struct hd_pong_scene *now = &hd_pixel_pong_get_scenes(f->group, 0)[1];
    int below = now->ball_y + HD_PONG_BALL / 2 - (now->paddle[1] + HD_PONG_PADDLE_HEIGHT / 2);
    return below < -4 ? UP : below > 4 ? DOWN : NOOP;
}

/* Follows the ball most of the time, which gives misses, edges and long exchanges. */
static int32_t play_mixed(const struct fixture *f, int64_t t)
{
    return t % 37 < 9 ? play_random(f, t) : play_follow(f, t);
}

typedef int32_t player(const struct fixture *f, int64_t t);

/* Plays a game and returns its return; *steps_p are its steps. */
static double play(struct fixture *f, player *choose, uint64_t seed, int64_t *steps_p)
{
    double sum = 0;
    int64_t t = 0;
    reset(f, 0, seed);
    do {
        int32_t action = choose(f, t++);
        step(f, &action);
        ck_assert(f->reward[0] == 0 || f->reward[0] == 1 || f->reward[0] == -1);
        sum += (double)f->reward[0];
    } while (!f->done[0]);
    ck_assert(!f->truncated[0]);
    *steps_p = t;
    return sum;
}

/* -- Pixels ------------------------------------------------------------------------------------ */

/* Computes docs/di-engine.md 7.1 and 7.2 from whole screens. */
static void full_pipeline(const struct hd_warp *warp, const struct hd_pong_scene scenes[2],
                          uint8_t *out)
{
    static uint8_t screens[2][SCREEN];
    for (int i = 0; i < 2; i++)
        hd_pong_draw_screen(&scenes[i], screens[i]);
    for (int i = 0; i < SCREEN; i++)
        screens[0][i] = screens[0][i] > screens[1][i] ? screens[0][i] : screens[1][i];
    hd_warp_resize_rgb(warp, screens[0], out);
}

TEST(test_frames_of_games, .runs = 4)
{
    static player *const players[] = {play_random, play_follow, play_mixed, play_still};
    struct fixture f = make(1, NULL);
    struct hd_warp warp;
    uint8_t expected[FRAME];
    hd_warp_init(&warp, HD_PONG_HEIGHT, HD_PONG_WIDTH);
    reset(&f, 0, (uint64_t)_i);
    for (int64_t t = 0; t < 2000; t++) {
        const struct hd_pong_scene *scenes = hd_pixel_pong_get_scenes(f.group, 0);
        full_pipeline(&warp, scenes, expected);
        ck_assert_mem_eq(f.obs[0], expected, FRAME);
        int32_t action = players[_i](&f, t);
        step(&f, &action);
        if (f.done[0])
            reset(&f, 0, (uint64_t)t);
    }
    drop(&f);
}

/* Scenes that games seldom reach: balls over paddles and in corners, jumps, every position. */
TEST(test_frames_of_scenes)
{
    static struct hd_pong_painter painter;
    const struct hd_rng rng = hd_rng_make(7, 7, 0, 0, 0);
    const int lowest = HD_PONG_BOTTOM - HD_PONG_PADDLE_HEIGHT;
    uint8_t expected[FRAME], out[FRAME];
    hd_pong_painter_init(&painter, -1);
    uint32_t item = 0;
    for (int t = 0; t < 4000; t++) {
        struct hd_pong_scene scenes[2];
        int jump = t % 10 == 0 ? 157 : 9;
        for (int i = 0; i < 2; i++) {
            int x = i == 0 ? t % 157 : scenes[0].ball_x - jump / 2;
            int y = t % 3 == 0   ? 34
                    : t % 3 == 1 ? 186
                                 : 34 + (int)hd_rng_draw_below(&rng, item++, 153);
            x += i == 0 ? 0 : (int)hd_rng_draw_below(&rng, item++, jump);
            scenes[i] = (struct hd_pong_scene){
                .ball_x = x < 0     ? 0
                          : x > 156 ? 156
                                    : x,
                .ball_y = y + (int)hd_rng_draw_below(&rng, item++, 5),
            };
            for (int side = 0; side < 2; side++) {
                int top =
                    i == 0 ? 34 + (int)hd_rng_draw_below(&rng, item++, 145)
                           : scenes[0].paddle[side] + (int)hd_rng_draw_below(&rng, item++, 7) - 3;
                scenes[i].paddle[side] = top < 34 ? 34 : top > lowest ? lowest : top;
            }
        }
        full_pipeline(&painter.warp, scenes, expected);
        hd_pong_paint(&painter, scenes, out);
        ck_assert_mem_eq(out, expected, FRAME);
    }
}

/* Ball and paddles stand out after the resize, and all of the field is one gray. */
TEST(test_contrast)
{
    struct fixture f = make(1, NULL);
    reset(&f, 0, 3);
    const struct hd_pong_scene *scene = hd_pixel_pong_get_scenes(f.group, 0);
    const int y = scene->ball_y * 84 / 210, x = scene->ball_x * 84 / 160;
    int field = 0, ball = 0, paddle = 0;
    for (int r = 15; r < 76; r++)
        for (int c = 0; c < 84; c++) {
            uint8_t gray = f.obs[0][r * 84 + c];
            field += gray == 87;
            ball += gray > 140 && r >= y && r <= y + 3 && c >= x && c <= x + 3;
            paddle += gray > 120 && c >= 72 && c <= 76;
        }
    ck_assert_int_gt(field, 61 * 84 - 100);
    ck_assert_int_ge(ball, 3);
    ck_assert_int_ge(paddle, 12);
    drop(&f);
}

TEST(test_background)
{
    struct fixture unmasked = make(1, "-1"), f = make(1, "87");
    reset(&unmasked, 0, 5);
    reset(&f, 0, 5);
    int zeros = 0;
    for (int64_t t = 0; t < 500; t++) {
        uint8_t expected[FRAME];
        for (int i = 0; i < FRAME; i++) {
            expected[i] = unmasked.obs[0][i] == 87 ? 0 : unmasked.obs[0][i];
            zeros += expected[i] == 0;
        }
        ck_assert_mem_eq(f.obs[0], expected, FRAME);
        int32_t action = play_mixed(&unmasked, t);
        step(&unmasked, &action);
        step(&f, &action);
    }
    ck_assert_int_gt(zeros, 500 * FRAME / 2);
    drop(&unmasked);
    drop(&f);
}

/* -- Rules ------------------------------------------------------------------------------------- */

TEST(test_actions)
{
    static const int32_t actions[] = {0, 1, 2, 3, 4, 5}, moves[] = {0, 0, -10, 10, -10, 10};
    struct fixture f = make(1, NULL);
    for (int i = 0; i < 6; i++) {
        reset(&f, 0, 9);
        int from = hd_pixel_pong_get_scenes(f.group, 0)[1].paddle[1];
        step(&f, &actions[i]);
        ck_assert_int_eq(hd_pixel_pong_get_scenes(f.group, 0)[1].paddle[1], from + moves[i]);
    }
    for (int i = 2; i < 4; i++) {
        for (int t = 0; t < 40; t++)
            step(&f, &actions[i]);
        ck_assert_int_eq(hd_pixel_pong_get_scenes(f.group, 0)[1].paddle[1], i == 2 ? 34 : 178);
    }
    drop(&f);
}

struct level {
    player *choose;
    double min, max; /* mean return of 20 games */
};

static const struct level levels[] = {
    {play_random, -21, -18.5}, {play_still, -21, -17}, {play_mixed, 0, 19}, {play_follow, 19, 21}};

TEST(test_levels, .runs = COUNT(levels))
{
    struct fixture f = make(1, NULL);
    double sum = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        int64_t steps;
        double score = play(&f, levels[_i].choose, seed, &steps);
        ck_assert(score >= -21 && score <= 21 && score != 0);
        ck_assert_int_lt(steps, 3000);
        sum += score;
    }
    ck_assert_double_ge(sum / 20, levels[_i].min);
    ck_assert_double_le(sum / 20, levels[_i].max);
    drop(&f);
}

/* One side has 21 points when a game ends, and only then. */
TEST(test_points)
{
    struct fixture f = make(1, NULL);
    for (uint64_t seed = 0; seed < 5; seed++) {
        int won = 0, lost = 0;
        reset(&f, 0, seed);
        for (int64_t t = 0; won < 21 && lost < 21; t++) {
            int32_t action = play_mixed(&f, t);
            ck_assert(t == 0 || !f.done[0]);
            step(&f, &action);
            won += f.reward[0] > 0;
            lost += f.reward[0] < 0;
        }
        ck_assert(f.done[0]);
        ck_assert(!f.truncated[0]);
    }
    drop(&f);
}

/* -- What the future depends on ---------------------------------------------------------------- */

/* The game itself is pinned: it is the same on every machine. */
TEST(test_golden)
{
    struct fixture f = make(1, NULL);
    uint64_t hash = 0;
    reset(&f, 0, 123);
    for (int64_t t = 0; t < 1000; t++) {
        int32_t action = play_mixed(&f, t);
        step(&f, &action);
        hash = hd_hash_mix(hash, hd_hash_bytes(f.obs[0], FRAME));
        hash = hd_hash_mix(hash, (uint64_t)(int64_t)f.reward[0]);
        if (f.done[0])
            reset(&f, 0, (uint64_t)t);
    }
    ck_assert_msg(hash == 0xdc86881a47ba63aau, "hash 0x%016llxu", (unsigned long long)hash);
    drop(&f);
}

TEST(test_seeds)
{
    struct fixture f = make(2, NULL);
    int differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        reset(&f, 0, seed);
        reset(&f, 1, seed);
        ck_assert_mem_eq(f.obs[0], f.obs[1], FRAME);
        reset(&f, 1, seed + 1);
        differ += memcmp(f.obs[0], f.obs[1], FRAME) != 0;
    }
    ck_assert_int_ge(differ, 48);
    reset(&f, 0, 1);
    reset(&f, 1, 1 | (uint64_t)1 << 32);
    ck_assert(memcmp(f.obs[0], f.obs[1], FRAME) != 0);
    drop(&f);
}

/* Each env of a group plays as it would alone, and a saved game continues equally elsewhere. */
TEST(test_group_and_save)
{
    struct fixture f = make(ENVS, NULL), other = make(ENVS, NULL), alone[ENVS];
    char message[HD_ENV_MESSAGE], state[256];
    ck_assert_int_le(env->state_bytes(f.group), (int64_t)sizeof state);
    for (int i = 0; i < ENVS; i++) {
        alone[i] = make(1, NULL);
        reset(&f, i, (uint64_t)i);
        reset(&alone[i], 0, (uint64_t)i);
    }
    for (int64_t t = 0; t < 400; t++) {
        int32_t action[ENVS], moved[ENVS];
        for (int i = 0; i < ENVS; i++)
            action[i] = play_mixed(&alone[i], t + i);
        for (int i = 0; i < ENVS; i++)
            moved[i] = action[(i + 1) % ENVS];
        for (int i = 0; i < ENVS && t % 50 == 7; i++) {
            ck_assert_int_eq(env->save(f.group, (i + 1) % ENVS, state, message), 0);
            ck_assert_int_eq(env->load(other.group, i, state, message), 0);
        }
        step(&f, action);
        if (t >= 7)
            step(&other, moved);
        for (int i = 0; i < ENVS; i++) {
            step(&alone[i], &action[i]);
            ck_assert_mem_eq(f.obs[i], alone[i].obs[0], FRAME);
            ck_assert(f.reward[i] == alone[i].reward[0]);
            if (t >= 7)
                ck_assert_mem_eq(f.obs[i], other.obs[(i + ENVS - 1) % ENVS], FRAME);
        }
    }
    for (int i = 0; i < ENVS; i++)
        drop(&alone[i]);
    drop(&other);
    drop(&f);
}

/* A game that is too long is cut off: the number of screens is the second word of the state. */
TEST(test_time_limit)
{
    struct fixture f = make(1, NULL);
    char message[HD_ENV_MESSAGE], state[256];
    int64_t screens = HD_PIXEL_PONG_MAX_SCREENS - 6;
    reset(&f, 0, 11);
    env->save(f.group, 0, state, message);
    memcpy(state + 8, &screens, sizeof screens);
    ck_assert_int_eq(env->load(f.group, 0, state, message), 0);
    step(&f, &(int32_t){NOOP});
    ck_assert(!f.done[0]);
    step(&f, &(int32_t){NOOP});
    ck_assert(f.done[0]);
    ck_assert(f.truncated[0]);
    drop(&f);
}

TEST(test_states_refused)
{
    struct fixture f = make(1, NULL);
    char message[HD_ENV_MESSAGE], state[256], good[256];
    const int64_t bytes = env->state_bytes(f.group);
    ck_assert_int_eq(env->save(f.group, 0, good, message), 0); /* never reset */
    ck_assert_int_eq(env->load(f.group, 0, good, message), 0);
    reset(&f, 0, 1);
    env->save(f.group, 0, good, message);
    int refused = 0;
    for (int64_t i = 16; i < bytes; i += 4) {
        memcpy(state, good, sizeof state);
        memset(state + i, 0x7F, 4);
        refused += env->load(f.group, 0, state, message) == -1;
    }
    ck_assert_int_ge(refused, 11);
    check_names(message, "saved game");
    drop(&f);
}

/* -- Settings ---------------------------------------------------------------------------------- */

static const struct {
    struct hd_env_option option;
    const char *env_id, *message;
} wrong[] = {
    {{"backgrond", "87"}, "", "unknown option 'backgrond' (there is: background)"},
    {{"background", "256"}, "", "from 0 to 255, or -1, found '256'"},
    {{"background", "-2"}, "", "found '-2'"},
    {{"background", "gray"}, "", "found 'gray'"},
    {{"background", "8.5"}, "", "found '8.5'"},
    {{"background", "87"}, "PongNoFrameskip-v4", "no env_id, found 'PongNoFrameskip-v4'"},
};

TEST(test_settings)
{
    char message[HD_ENV_MESSAGE];
    const struct hd_env *found;
    struct hd_env_spec spec;
    struct hd_env_settings settings = {.envs = 1, .env_id = ""};
    void *group;
    ck_assert_int_eq(hd_env_find("pixel_pong", &found, message), 0);
    ck_assert_ptr_eq(found, env);
    ck_assert_int_eq(env->create(&settings, &spec, &group, message), 0);
    ck_assert_int_eq(spec.element, HD_ENV_U8);
    ck_assert_int_eq(spec.dims, 2);
    ck_assert_int_eq(hd_env_get_frame_bytes(&spec), FRAME);
    ck_assert_int_eq(spec.actions.n[0], 6);
    env->destroy(group);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        settings = (struct hd_env_settings){
            .envs = 1, .env_id = wrong[i].env_id, .options = &wrong[i].option, .n_options = 1};
        ck_assert_int_eq(env->create(&settings, &spec, &group, message), -1);
        ck_assert_msg(strstr(message, wrong[i].message), "%s", message);
    }
}
