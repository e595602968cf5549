/* SPDX-License-Identifier: Apache-2.0 */
/* The Atari plug-in, if scripts/atari has built it: DI-engine's wrappers to the byte, saved states,
 * groups, names and options. */
#include "kernels/envs/atari/atari.h"
#include "kernels/envs/find/find.h"
#include "tests/golden/golden.h"
#include "tests/kernels/common/check_close.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENVS = 3, STACK = 4, FRAME = HD_ATARI_FRAME };

static const struct hd_env *env;
static char message[HD_ENV_MESSAGE];

struct fixture {
    void *group;
    struct hd_env_spec spec;
    uint8_t obs[ENVS][FRAME];
    float reward[ENVS];
    bool done[ENVS], truncated[ENVS];
    struct hd_env_outcome outcome;
};

static int create(struct fixture *f, struct hd_env_settings settings)
{
    memset(f, 0, sizeof *f);
    f->outcome = (struct hd_env_outcome){f->obs, f->reward, f->done, f->truncated};
    message[0] = '\0';
    return env->create(&settings, &f->spec, &f->group, message);
}

static struct fixture *make(const char *env_id, int64_t envs)
{
    struct fixture *f = test_alloc(1, sizeof *f);
    struct hd_env_settings settings = {.envs = envs, .env_id = env_id};
    ck_assert_msg(create(f, settings) == 0, "%s", message);
    return f;
}

static void reset(struct fixture *f, int64_t i, uint64_t seed)
{
    ck_assert_msg(env->reset(f->group, i, seed, f->obs[i], message) == 0, "%s", message);
}

static void step(struct fixture *f, const int32_t *action)
{
    ck_assert_msg(env->step(f->group, action, &f->outcome, message) == 0, "%s", message);
}

static uint8_t *save(struct fixture *f, int64_t i)
{
    uint8_t *state = test_alloc(env->state_bytes(f->group), 1);
    memset(state, 0xA5, (size_t)env->state_bytes(f->group));
    ck_assert_msg(env->save(f->group, i, state, message) == 0, "%s", message);
    return state;
}

/* -- Golden traces ----------------------------------------------------------------------------- */

struct stack {
    uint8_t frame[STACK][FRAME];
};

static uint32_t push(struct stack *stack, const uint8_t *frame, int times)
{
    for (int i = 0; i < times; i++) {
        memmove(stack->frame[0], stack->frame[1], (STACK - 1) * FRAME);
        memcpy(stack->frame[STACK - 1], frame, FRAME);
    }
    return golden_crc32(stack->frame[0], sizeof stack->frame);
}

static uint64_t seed_for(int noops)
{
    uint64_t seed = 0;
    while (hd_atari_draw_noops(seed) != noops)
        seed++;
    return seed;
}

/* Returns a recorded CRC-32. */
static uint32_t to_crc(const char *hex)
{
    return (uint32_t)strtoul(hex, NULL, 16);
}

static void check_reset(struct fixture *f, struct golden trace, int r, int t, struct stack *stack)
{
    reset(f, 0, seed_for(1 + (7 * r + (int)golden_number(trace, "key")) % 30));
    ck_assert_int_eq((int)golden_number(trace, "resets/%d/0", r), t);
    ck_assert_uint_eq(push(stack, f->obs[0], STACK), to_crc(golden_text(trace, "resets/%d/1", r)));
}

/* Returns the plug-in of this build, beside the folder of the test. */
static const char *get_plugin(void)
{
    static char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash ? slash : path, 64, "/../plugins/heddle_env_atari.so");
    return path;
}

static const char *find_missing_plugin(void)
{
    return access(get_plugin(), F_OK) == 0 ? NULL
                                           : "there is no Atari plug-in (scripts/atari builds it)";
}

static void find_plugin(void)
{
    ck_assert_msg(hd_env_find(get_plugin(), &env, message) == 0, "%s", message);
}

PREREQUISITE(find_missing_plugin)
FIXTURE(find_plugin, NULL)

/* An event, where step t has one, is [t, reward, done]. */
static void check_outcome(const struct fixture *f, struct golden trace, int t, int *events)
{
    double event[3] = {t, 0, 0};
    char key[32];
    snprintf(key, sizeof key, "events/%d", *events);
    if (*events < golden_count(trace, "events") && golden_number(trace, "%s/0", key) == t) {
        golden_read(trace, key, 3, event);
        ++*events;
    }
    ck_assert_float_eq(f->reward[0], (float)event[1]);
    ck_assert_int_eq(f->done[0], (int)event[2]);
    ck_assert(!f->truncated[0]);
}

TEST(test_traces, .runs = golden_count(golden_open("atari_traces"), "traces"))
{
    const struct golden trace = golden_get(golden_open("atari_traces"), "traces/%d", _i);
    const int key = (int)golden_number(trace, "key"),
              actions = (int)golden_number(trace, "actions"), steps = golden_count(trace, "crc");
    struct fixture *f = test_alloc(1, sizeof *f);
    struct stack *stack = test_alloc(1, sizeof *stack);
    struct hd_env_settings settings = {.envs = 1,
                                       .evaluator = golden_number(trace, "evaluator") == 1,
                                       .env_id = golden_text(trace, "env_id")};
    ck_assert_msg(create(f, settings) == 0, "%s", message);
    ck_assert_int_eq(f->spec.element, HD_ENV_U8);
    ck_assert_int_eq(f->spec.dims, 2);
    ck_assert_int_eq(f->spec.shape[0] * f->spec.shape[1], FRAME);
    ck_assert_int_eq(f->spec.actions.n[0], actions);
    int resets = 0, events = 0;
    check_reset(f, trace, resets++, 0, stack);
    for (int t = 0; t < steps; t++) {
        int32_t action = (int32_t)(fill((uint64_t)key, (uint64_t)t) * actions);
        step(f, &action);
        ck_assert_msg(push(stack, f->obs[0], 1) == to_crc(golden_text(trace, "crc/%d", t)),
                      "frame %d differs", t);
        check_outcome(f, trace, t, &events);
        if (f->done[0])
            check_reset(f, trace, resets++, t + 1, stack);
    }
    ck_assert_int_eq(events, golden_count(trace, "events"));
    ck_assert_int_eq(resets, golden_count(trace, "resets"));
    env->destroy(f->group);
}

/* -- States ------------------------------------------------------------------------------------ */

/* Some of these games have states that need more than ALE's own serialisation. */
static const char *const games[] = {"Breakout",      "Seaquest", "MsPacman", "ChopperCommand",
                                    "MiniatureGolf", "Pitfall2", "Hangman",  "VideoCube",
                                    "SpaceInvaders", "AirRaid"};
enum { N_GAMES = sizeof games / sizeof games[0] };

static int32_t some_action(const struct fixture *f, int t)
{
    return (int32_t)(fill(77, (uint64_t)t) * (double)f->spec.actions.n[0]);
}

static void play_on(struct fixture *f, int from, int to)
{
    for (int t = from; t < to; t++) {
        step(f, &(int32_t){some_action(f, t)});
        if (f->done[0])
            reset(f, 0, (uint64_t)t);
    }
}

/* A state continues in another group, which played something else before, as it does where it was
 * saved; saving it again gives the same bytes. */
TEST(test_save_load, .runs = N_GAMES)
{
    char env_id[64];
    snprintf(env_id, sizeof env_id, "%sNoFrameskip-v4", games[_i]);
    struct fixture *a = make(env_id, 1), *b = make(env_id, 1);
    size_t bytes = (size_t)env->state_bytes(a->group);
    reset(a, 0, 1);
    reset(b, 0, 2);
    play_on(a, 0, 150);
    play_on(b, 500, 530);
    uint8_t *saved = save(a, 0);
    ck_assert_int_eq(env->load(b->group, 0, saved, message), 0);
    ck_assert_mem_eq(save(b, 0), saved, bytes);
    for (int t = 150; t < 300; t++) {
        play_on(a, t, t + 1);
        play_on(b, t, t + 1);
        ck_assert_msg(memcmp(a->obs[0], b->obs[0], FRAME) == 0, "frame %d differs", t);
        ck_assert_float_eq(a->reward[0], b->reward[0]);
        ck_assert_int_eq(a->done[0], b->done[0]);
    }
    uint8_t *end = save(a, 0);
    ck_assert_mem_eq(save(b, 0), end, bytes);
    ck_assert_mem_ne(end, saved, bytes);
    env->destroy(a->group);
    env->destroy(b->group);
}

/* The start of a game is a function of the seed, not of what was played before. */
TEST(test_reset_forgets, .runs = N_GAMES)
{
    char env_id[64];
    snprintf(env_id, sizeof env_id, "%sNoFrameskip-v4", games[_i]);
    struct hd_env_option whole = {"episodic_life", "false"};
    struct hd_env_settings settings = {
        .envs = 1, .env_id = env_id, .options = &whole, .n_options = 1};
    struct fixture *a = test_alloc(1, sizeof *a), *b = test_alloc(1, sizeof *b);
    ck_assert_int_eq(create(a, settings), 0);
    ck_assert_int_eq(create(b, settings), 0);
    reset(a, 0, 1);
    play_on(a, 0, 200);
    reset(a, 0, 9);
    reset(b, 0, 9);
    ck_assert_mem_eq(a->obs[0], b->obs[0], FRAME);
    step(a, &(int32_t){0});
    step(b, &(int32_t){0});
    ck_assert_mem_eq(a->obs[0], b->obs[0], FRAME);
    ck_assert_mem_eq(save(a, 0), save(b, 0), (size_t)env->state_bytes(a->group));
    env->destroy(a->group);
    env->destroy(b->group);
}

TEST(test_wrong_state)
{
    struct fixture *pong = make("PongNoFrameskip-v4", 1), *other = make("BoxingNoFrameskip-v4", 1);
    uint8_t *state = save(other, 0); /* of an env that was never reset */
    ck_assert_int_eq(env->load(other->group, 0, state, message), 0);
    int64_t max = env->state_bytes(pong->group);
    uint8_t *larger = test_alloc(max + env->state_bytes(other->group), 1);
    memcpy(larger, state, (size_t)env->state_bytes(other->group));
    ck_assert_int_eq(env->load(pong->group, 0, larger, message), -1);
    check_names(message, "saved state");
    reset(pong, 0, 0); /* it plays on */
    step(pong, &(int32_t){0});
    env->destroy(pong->group);
    env->destroy(other->group);
}

/* A game of each type of cartridge. */
static const char *const cartridges[] = {
    "Pong",     "Adventure", "Asterix",          "Crossbow",      "Klax",
    "Pitfall2", "Robotank",  "MontezumaRevenge", "ElevatorAction"};
enum { N_CARTRIDGES = sizeof cartridges / sizeof cartridges[0] };

static uint32_t draw(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) % n;
}

/* Puts a number near either end of a state, where anything but a picture is. */
static void damage(uint8_t *state, int64_t bytes, uint32_t *random)
{
    static const int32_t numbers[] = {-1, 1, 8, 200, 2048, 65536, INT32_MAX, INT32_MIN};
    enum { FRONT = 200, BACK = 8000 };
    const int64_t end = bytes - (int64_t)sizeof numbers[0];
    const int64_t at = draw(random, 4) == 0   ? draw(random, FRONT)
                       : draw(random, 4) == 0 ? end - draw(random, BACK)
                                              : end - draw(random, BACK / 8);
    int32_t number = numbers[draw(random, sizeof numbers / sizeof numbers[0])];
    if (draw(random, 2) == 0)
        number = (int32_t)draw(random, 1u << 24) - (1 << 23);
    memcpy(state + at, &number, sizeof number);
}

/* A state with wrong numbers is refused with a sentence, or plays on: it leads to no memory that is
 * not the game's. HD_STATES: how many to try. */
TEST(test_hostile_state, .runs = N_CARTRIDGES)
{
    char env_id[64];
    const char *text = getenv("HD_STATES");
    const int states = text ? atoi(text) : 100;
    int refused = 0, played = 0;
    snprintf(env_id, sizeof env_id, "%sNoFrameskip-v4", cartridges[_i]);
    struct fixture *f = make(env_id, 1);
    int64_t bytes = env->state_bytes(f->group);
    uint32_t random = (uint32_t)_i + 1;
    reset(f, 0, 1);
    play_on(f, 0, 100);
    uint8_t *good = save(f, 0), *bad = test_alloc(bytes, 1);
    for (int i = 0; i < states; i++) {
        memcpy(bad, good, (size_t)bytes);
        for (uint32_t n = 1 + draw(&random, 3); n > 0; n--)
            damage(bad, bytes, &random);
        message[0] = '\0';
        if (env->load(f->group, 0, bad, message) == 0) {
            play_on(f, 0, 4);
            played++;
        } else {
            ck_assert_ptr_nonnull(strstr(message, cartridges[_i]));
            refused++;
            env->destroy(f->group);
            struct hd_env_settings settings = {.envs = 1, .env_id = env_id};
            ck_assert_int_eq(create(f, settings), 0);
        }
    }
    ck_assert_msg(refused > states / 20 && played > states / 20, "%d refused, %d played", refused,
                  played);
    ck_assert_int_eq(env->load(f->group, 0, good, message), 0);
    env->destroy(f->group);
}

/* Each env of a group plays as it would alone. */
TEST(test_group)
{
    struct fixture *f = make("BreakoutNoFrameskip-v4", ENVS), *alone[ENVS];
    for (int i = 0; i < ENVS; i++) {
        alone[i] = make("BreakoutNoFrameskip-v4", 1);
        reset(f, i, (uint64_t)(3 * i));
        reset(alone[i], 0, (uint64_t)(3 * i));
        ck_assert_mem_eq(f->obs[i], alone[i]->obs[0], FRAME);
    }
    for (int t = 0; t < 120; t++) {
        int32_t action[ENVS];
        for (int i = 0; i < ENVS; i++)
            action[i] = some_action(f, ENVS * t + i);
        step(f, action);
        for (int i = 0; i < ENVS; i++) {
            step(alone[i], &action[i]);
            ck_assert_mem_eq(f->obs[i], alone[i]->obs[0], FRAME);
            ck_assert_float_eq(f->reward[i], alone[i]->reward[0]);
            ck_assert_int_eq(f->done[i], alone[i]->done[0]);
            if (f->done[i]) {
                reset(f, i, (uint64_t)t);
                reset(alone[i], 0, (uint64_t)t);
            }
        }
    }
    for (int i = 0; i < ENVS; i++)
        env->destroy(alone[i]->group);
    env->destroy(f->group);
}

/* -- Names and options ------------------------------------------------------------------------- */

TEST(test_names)
{
    static const char *const known[] = {"TicTacToe3DNoFrameskip-v4", "UpNDownNoFrameskip-v4",
                                        "QbertNoFrameskip-v4", "PrivateEyeNoFrameskip-v4"};
    static const char *const wrong[][2] = {
        {"PongNoFrameskip-v5", "<Game>NoFrameskip-v4"},
        {"", "PongNoFrameskip-v4"},
        {"NoFrameskip-v4", "<Game>NoFrameskip-v4"},
        {"MspacmanNoFrameskip-v4", "MsPacmanNoFrameskip-v4, "},
        {"SpaceInvaderNoFrameskip-v4", "SpaceInvadersNoFrameskip-v4"},
        {"CombatNoFrameskip-v4", "single player"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        env->destroy(make(known[i], 1)->group);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct fixture f;
        struct hd_env_settings settings = {.envs = 1, .env_id = wrong[i][0]};
        ck_assert_int_eq(create(&f, settings), -1);
        ck_assert_msg(strstr(message, wrong[i][1]) != NULL, "%s", message);
    }
}

TEST(test_wrong_options)
{
    static const struct {
        struct hd_env_option option;
        const char *names;
    } wrong[] = {
        {{"nops", "3"}, "env.options.nops|atari"},
        {{"noops", "many"}, "noops|0 to 1000|'many'"},
        {{"noops", "-1"}, "noops"},
        {{"background", "256"}, "background|0 to 255"},
        {{"episodic_life", "1"}, "episodic_life|true or false|'1'"},
        {{"clip_reward", ""}, "clip_reward|true or false"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct fixture f;
        struct hd_env_settings settings = {
            .envs = 1, .env_id = "PongNoFrameskip-v4", .options = &wrong[i].option, .n_options = 1};
        ck_assert_int_eq(create(&f, settings), -1);
        check_names(message, wrong[i].names);
    }
}

/* Pong's playfield is gray 87: the option makes it 0 and changes nothing else. */
TEST(test_background)
{
    struct hd_env_option options[] = {{"background", "87"}, {"noops", "7"}};
    struct hd_env_settings settings = {
        .envs = 1, .env_id = "PongNoFrameskip-v4", .options = options, .n_options = 2};
    struct fixture *f = test_alloc(1, sizeof *f), *unmasked = make("PongNoFrameskip-v4", 1);
    ck_assert_int_eq(create(f, settings), 0);
    reset(f, 0, 0);
    reset(unmasked, 0, seed_for(7));
    int shown = 0;
    for (int i = 0; i < FRAME; i++) {
        int wanted = unmasked->obs[0][i] == 87 ? 0 : unmasked->obs[0][i];
        ck_assert_int_eq(f->obs[0][i], wanted);
        shown += unmasked->obs[0][i] == 87;
    }
    ck_assert_int_gt(shown, FRAME / 2);
    env->destroy(f->group);
    env->destroy(unmasked->group);
}

TEST(test_wrong_action)
{
    struct fixture *f = make("PongNoFrameskip-v4", 1);
    reset(f, 0, 0);
    for (int32_t action = -1; action < 7; action += 7) {
        ck_assert_int_eq(env->step(f->group, &action, &f->outcome, message), -1);
        ck_assert_ptr_nonnull(strstr(message, "has no action"));
    }
    env->destroy(f->group);
}
