/* SPDX-License-Identifier: Apache-2.0 */
/* The Atari wrappers over a console that follows a script: which actions they press, when they
 * reset, what they show. */
#include "kernels/envs/atari/atari.h"
#include "tests/kernels/common/check_close.h"

#include <string.h>

enum {
    SIDE = HD_WARP_SIZE,
    LOG = 512,
    NEVER = 1 << 30,
    FIRE = 1,
    UP = 2,
    RESET = -2,
    NOOP = HD_ATARI_NOOP
};

/* Frame t of a game shows gray shade[t % 8], has the reward `reward` and ends the game at `end`; a
 * life is lost at each frame of `loss`. */
struct script {
    int reward, end, lives;
    int loss[3];
    uint8_t shade[8];
    /* The calls so far. */
    int frame, resets, over_acts, logged;
    int log[LOG]; /* actions, or RESET */
    uint8_t screen[SIDE * SIDE];
};

static void note(struct script *s, int what)
{
    if (s->logged < LOG)
        s->log[s->logged] = what;
    s->logged++;
}

static void script_reset(void *console)
{
    struct script *s = console;
    note(s, RESET);
    s->frame = 0;
    s->resets++;
    memset(s->screen, s->shade[0], sizeof s->screen);
}

static bool script_over(const void *console)
{
    const struct script *s = console;
    return s->frame >= s->end;
}

static int script_act(void *console, int action)
{
    struct script *s = console;
    note(s, action);
    if (script_over(s)) {
        s->over_acts++;
        return 0;
    }
    s->frame++;
    memset(s->screen, s->shade[s->frame % 8], sizeof s->screen);
    return s->reward;
}

static int script_lives(const void *console)
{
    const struct script *s = console;
    int lives = s->lives;
    for (int i = 0; i < 3; i++)
        lives -= s->loss[i] > 0 && s->frame >= s->loss[i];
    return lives;
}

static const uint8_t *script_screen(const void *console)
{
    return ((const struct script *)console)->screen;
}

static const struct hd_atari_console console = {script_reset, script_act, script_over, script_lives,
                                                script_screen};

struct fixture {
    struct script script;
    struct hd_atari_rules rules;
    struct hd_atari atari;
    uint8_t last[SIDE * SIDE], frame[HD_ATARI_FRAME];
};

/* Makes a console whose palette index i is gray i, without no-ops, FIRE and other rules. */
static struct fixture *make(void)
{
    struct fixture *f = test_alloc(1, sizeof *f);
    uint32_t rgb[256];
    for (uint32_t i = 0; i < 256; i++)
        rgb[i] = 0x010101 * i;
    memset(f, 0, sizeof *f);
    f->script.end = NEVER;
    f->rules = (struct hd_atari_rules){.console = &console, .fire = -1, .background = -1};
    hd_warp_init(&f->rules.warp, SIDE, SIDE);
    hd_warp_palette_init(&f->rules.palette, rgb);
    hd_atari_init(&f->atari, &f->rules, &f->script, f->last);
    return f;
}

static void check_shade(const struct fixture *f, int shade)
{
    for (int i = 0; i < HD_ATARI_FRAME; i++)
        ck_assert_int_eq(f->frame[i], shade);
}

static void check_log(struct fixture *f, int n, const int *wanted)
{
    ck_assert_int_eq(f->script.logged, n);
    for (int i = 0; i < n; i++)
        ck_assert_msg(f->script.log[i] == wanted[i], "action %d is %d, not %d", i, f->script.log[i],
                      wanted[i]);
    f->script.logged = 0;
}
#define CHECK_LOG(f, ...)                                                                          \
    check_log(f, sizeof(int[]){__VA_ARGS__} / sizeof(int), (const int[]){__VA_ARGS__})

/* Four frames an action, rewards summed, the maximum of the last two shown. */
TEST(test_skip)
{
    struct fixture *f = make();
    f->script.reward = 3;
    memcpy(f->script.shade, (uint8_t[8]){9, 200, 0, 50, 40, 30, 20, 60}, 8);
    hd_atari_reset(&f->atari, 0, f->frame);
    check_shade(f, 9);
    struct hd_atari_end end = hd_atari_step(&f->atari, UP, f->frame);
    check_shade(f, 50);
    ck_assert_float_eq(end.reward, 12);
    ck_assert(!end.done && !end.truncated);
    CHECK_LOG(f, RESET, UP, UP, UP, UP);
    end = hd_atari_step(&f->atari, 0, f->frame);
    check_shade(f, 60);
    CHECK_LOG(f, 0, 0, 0, 0);
}

/* A window that ends early shows the last two frames that it played, or the only one. */
TEST(test_end_inside)
{
    for (int last = 1; last <= 4; last++) {
        struct fixture *f = make();
        f->script.reward = -5;
        f->script.end = 4 + last;
        memcpy(f->script.shade, (uint8_t[8]){80, 1, 2, 3, 90, 70, 60, 50}, 8);
        hd_atari_reset(&f->atari, 0, f->frame);
        ck_assert(!hd_atari_step(&f->atari, UP, f->frame).done);
        struct hd_atari_end end = hd_atari_step(&f->atari, UP, f->frame);
        ck_assert(end.done && !end.truncated);
        ck_assert_float_eq(end.reward, (float)(-5 * last));
        check_shade(f, (int[]){70, 70, 60, 80}[last - 1]);
        hd_atari_reset(&f->atari, 0, f->frame);
        check_shade(f, 80);
        ck_assert_int_eq(f->script.resets, 2);
    }
}

/* Every count from 1 to 30 is drawn, about equally often. */
TEST(test_noops_by_seed)
{
    int seen[HD_ATARI_NOOPS + 1] = {0};
    for (uint64_t seed = 0; seed < 30000; seed++) {
        int noops = hd_atari_draw_noops(seed);
        ck_assert_int_ge(noops, 1);
        ck_assert_int_le(noops, HD_ATARI_NOOPS);
        seen[noops]++;
    }
    for (int i = 1; i <= HD_ATARI_NOOPS; i++)
        ck_assert_msg(seen[i] > 850 && seen[i] < 1150, "%d no-ops %d times", i, seen[i]);
    struct fixture *f = make();
    f->rules.noops = -1;
    for (uint64_t seed = 5; seed < 50; seed++) {
        f->script.logged = 0;
        hd_atari_reset(&f->atari, seed, f->frame);
        ck_assert_int_eq(f->script.logged, 1 + hd_atari_draw_noops(seed));
        ck_assert_int_eq(f->script.log[0], RESET);
        for (int i = 1; i < f->script.logged; i++)
            ck_assert_int_eq(f->script.log[i], NOOP);
    }
}

/* If a game ends during the no-ops, it starts again and the rest of them follow. */
TEST(test_noops_to_the_end)
{
    struct fixture *f = make();
    f->rules.noops = 5;
    f->script.end = 3;
    hd_atari_reset(&f->atari, 0, f->frame);
    CHECK_LOG(f, RESET, NOOP, NOOP, NOOP, RESET, NOOP, NOOP);
}

TEST(test_fire)
{
    struct fixture *f = make();
    f->rules.noops = 2;
    f->rules.fire = FIRE;
    f->script.reward = 7;
    memcpy(f->script.shade, (uint8_t[8]){0, 0, 0, 0, 0, 11, 10, 0}, 8);
    hd_atari_reset(&f->atari, 0, f->frame);
    CHECK_LOG(f, RESET, NOOP, NOOP, FIRE, FIRE, FIRE, FIRE);
    check_shade(f, 11);
}

/* Training: a lost life ends the episode, but the game goes on by a no-op step; the last life is
 * the game's end. */
TEST(test_life)
{
    struct fixture *f = make();
    f->rules.episodic_life = true;
    f->rules.fire = FIRE;
    f->rules.noops = 1;
    f->script.lives = 3;
    memcpy(f->script.loss, (int[3]){7, 15, 20}, sizeof f->script.loss);
    f->script.end = 20;
    hd_atari_reset(&f->atari, 0, f->frame);
    CHECK_LOG(f, RESET, NOOP, FIRE, FIRE, FIRE, FIRE); /* 5 frames */
    struct hd_atari_end end = hd_atari_step(&f->atari, UP, f->frame);
    ck_assert(end.done && !end.truncated); /* frame 9 */
    f->script.logged = 0;
    hd_atari_reset(&f->atari, 0, f->frame); /* loses a life at frame 15 while FIRE is pressed */
    CHECK_LOG(f, NOOP, NOOP, NOOP, NOOP, FIRE, FIRE, FIRE, FIRE);
    end = hd_atari_step(&f->atari, UP, f->frame); /* ends at 20, without lives */
    ck_assert(end.done && !end.truncated);
    ck_assert_int_eq(f->script.frame, 20);
    f->script.logged = 0;
    hd_atari_reset(&f->atari, 0, f->frame);
    CHECK_LOG(f, RESET, NOOP, FIRE, FIRE, FIRE, FIRE);
}

/* Evaluation: the same game is one episode. */
TEST(test_whole_games)
{
    struct fixture *f = make();
    f->script.lives = 3;
    memcpy(f->script.loss, (int[3]){2, 6, 12}, sizeof f->script.loss);
    f->script.end = 12;
    hd_atari_reset(&f->atari, 0, f->frame);
    ck_assert(!hd_atari_step(&f->atari, UP, f->frame).done);
    ck_assert(!hd_atari_step(&f->atari, UP, f->frame).done);
    ck_assert(hd_atari_step(&f->atari, UP, f->frame).done);
    hd_atari_step(&f->atari, UP, f->frame);
    ck_assert_int_eq(f->script.over_acts, 1);
    hd_atari_reset(&f->atari, 0, f->frame);
    ck_assert_int_eq(f->script.resets, 2);
}

/* If FIRE at a reset ends the game, the next step ends at once without a reward. */
TEST(test_end_at_fire)
{
    struct fixture *f = make();
    f->rules.fire = FIRE;
    f->rules.episodic_life = true;
    f->script.reward = 1;
    f->script.end = 2;
    hd_atari_reset(&f->atari, 0, f->frame);
    struct hd_atari_end end = hd_atari_step(&f->atari, UP, f->frame);
    ck_assert(end.done && !end.truncated);
    ck_assert_float_eq(end.reward, 0);
    hd_atari_reset(&f->atari, 0, f->frame);
    ck_assert_int_eq(f->script.resets, 2);
}

TEST(test_clip)
{
    static const int rewards[] = {100, 1, 0, -1, -25};
    for (int i = 0; i < 5; i++) {
        struct fixture *f = make();
        f->rules.clip_reward = true;
        f->script.reward = rewards[i];
        hd_atari_reset(&f->atari, 0, f->frame);
        float wanted = (float)((rewards[i] > 0) - (rewards[i] < 0));
        ck_assert_float_eq(hd_atari_step(&f->atari, UP, f->frame).reward, wanted);
    }
}

/* Frames of no-ops and FIRE count; the limit ends an episode and the game, and is distinguished
 * from the game's own end. */
TEST(test_frame_limit)
{
    for (int early = 0; early < 2; early++) {
        struct fixture *f = make();
        f->rules.noops = 10;
        f->rules.fire = FIRE;
        f->rules.episodic_life = true;
        f->script.end = early ? HD_ATARI_FRAME_LIMIT : NEVER;
        hd_atari_reset(&f->atari, 0, f->frame);
        ck_assert_int_eq(f->atari.state.frames, 14);
        struct hd_atari_end end = {.done = false};
        int steps = 0;
        while (!end.done && steps < HD_ATARI_FRAME_LIMIT) {
            end = hd_atari_step(&f->atari, UP, f->frame);
            steps++;
        }
        ck_assert_int_eq(steps, (HD_ATARI_FRAME_LIMIT - 14 + 3) / 4);
        ck_assert_int_eq(f->script.frame, HD_ATARI_FRAME_LIMIT);
        ck_assert_int_eq(end.truncated, !early);
        hd_atari_reset(&f->atari, 0, f->frame);
        ck_assert_int_eq(f->script.resets, 2);
    }
}

TEST(test_background)
{
    struct fixture *f = make();
    f->rules.background = 87;
    memcpy(f->script.shade, (uint8_t[8]){87, 0, 0, 80, 87, 0, 86, 88}, 8);
    hd_atari_reset(&f->atari, 0, f->frame);
    check_shade(f, 0);
    hd_atari_step(&f->atari, UP, f->frame); /* the maximum of 80 and 87 */
    check_shade(f, 0);
    hd_atari_step(&f->atari, UP, f->frame); /* of 88 and 87 */
    check_shade(f, 88);
}
