/* SPDX-License-Identifier: Apache-2.0 */
/* Tests how the launcher passes signals on: once each, with time for a checkpoint, and with no
 * process left behind. Ranks are shell scripts. */
#include "tests/runtime/launch/launch_fixture.h"

/* The ranks note every signal that they get; the second process of each checks the group. */
#define LISTENER                                                                                   \
    "trap 'echo INT >>got.$RANK; exit 130' INT; trap 'echo TERM >>got.$RANK; exit 75' TERM;"       \
    "trap 'echo HUP >>got.$RANK; exit 75' HUP;"                                                    \
    "sleep 300 & echo $! >pid.child$RANK; echo $$ >pid.$RANK; touch up.$RANK; wait"

/* Starts ranks whose script touches up.$RANK. */
static pid_t start_and_await(const char *script)
{
    pid_t pid = start(script);
    await_file("up.0");
    await_file("up.1");
    return pid;
}

static void assert_got(const char *text)
{
    char got[64];
    for (int r = 0; r < 2; r++) {
        read_file(r == 0 ? "got.0" : "got.1", got, sizeof got);
        ck_assert_str_eq(got, text);
    }
}

static pid_t start_listeners(void)
{
    return start_and_await(LISTENER);
}

static void interrupt_listeners(void)
{
    pid_t pid = start_listeners();
    kill(pid, SIGINT);
    ASSERT_CODE(finish(pid), 130);
    assert_got("INT\n");
    ck_assert_int_eq(count("error"), 0);
    assert_nobody_left(4);
}

TEST(interrupt_is_passed_on_once)
{
    interrupt_listeners();
}

TEST(interrupt_of_a_background_job)
{
    signal(SIGINT, SIG_IGN);
    interrupt_listeners();
}

TEST(termination_is_passed_on_once)
{
    pid_t pid = start_listeners();
    kill(pid, SIGTERM);
    ASSERT_CODE(finish(pid), 75);
    assert_got("TERM\n");
    assert_nobody_left(4);
}

TEST(hang_up_is_passed_on_once)
{
    pid_t pid = start_listeners();
    kill(pid, SIGHUP);
    ASSERT_CODE(finish(pid), 75);
    assert_got("HUP\n");
    assert_nobody_left(4);
}

/* They do not catch the signal yet. */
TEST(termination_of_ranks_that_start)
{
    pid_t pid = start_and_await("touch up.$RANK; exec sleep 300");
    kill(pid, SIGTERM);
    ASSERT_CODE(finish(pid), 75);
}

/* As somebody sends it to one of them, in the moment before it catches any. */
TEST(termination_of_a_rank_that_starts, .runs = 3)
{
    static const int numbers[] = {SIGTERM, SIGHUP, SIGINT};
    char number[32];
    pid_t pid =
        start_and_await("echo $$ >pid.$RANK; trap 'exit 75' TERM; touch up.$RANK;"
                        "[ $RANK = 0 ] || { trap - TERM; exec sleep 300; }; sleep 300 & wait");
    read_file("pid.1", number, sizeof number);
    kill(atoi(number), numbers[_i]);
    ASSERT_CODE(finish(pid), numbers[_i] == SIGINT ? 130 : 75);
    ck_assert_int_eq(count("error"), 0);
    assert_nobody_left(2);
}

/* Sends a signal so often, with pauses, and returns how long it took until all had ended. */
static int64_t press(pid_t pid, int number, int times, int pause_ms)
{
    int64_t start_ns = hd_clock_get_ns();
    for (int i = 0; i < times; i++) {
        kill(pid, number);
        usleep((unsigned)pause_ms * 1000);
    }
    ASSERT_CODE(finish(pid), number == SIGINT ? 130 : 75);
    assert_nobody_left(2);
    return hd_clock_get_ns() - start_ns;
}

/* Ranks that do what they are asked to do only when Ctrl-C was passed on so often. */
static pid_t start_stubborn(const char *pressed)
{
    char script[256];
    options.sigterm_grace_s = 30;
    snprintf(script, sizeof script,
             "n=0; trap 'n=$((n+1)); [ $n = %s ] && exit 130' INT; trap 'sleep 1; exit 75' TERM;"
             "echo $$ >pid.$RANK; touch up.$RANK; while :; do sleep 0.05; done",
             pressed);
    return start_and_await(script);
}

TEST(another_interrupt_is_passed_on)
{
    ck_assert_int_lt(press(start_stubborn("2"), SIGINT, 2, 400), PATIENCE * 1500000000LL);
    ck_assert_int_eq(count("killing"), 0);
}

TEST(the_third_interrupt_kills)
{
    ck_assert_int_lt(press(start_stubborn("never"), SIGINT, 3, 400), PATIENCE * 1800000000LL);
    ASSERT_SAYS("killing 2 ranks that did not stop");
}

TEST(the_same_interrupt_counts_once)
{
    ck_assert_int_gt(press(start_stubborn("1"), SIGINT, 3, 20), 0);
    ck_assert_int_eq(count("killing"), 0);
}

/* As by `timeout`, which signals its child and then the group of both. */
TEST(another_termination_changes_nothing)
{
    press(start_stubborn("never"), SIGTERM, 3, 100);
    ck_assert_int_eq(count("killing"), 0);
}

TEST(ranks_die_with_the_launcher)
{
    pid_t pid = start_and_await("echo $$ >pid.$RANK; touch up.$RANK; exec sleep 300");
    kill(pid, SIGKILL);
    ck_assert_int_eq(ranks_wait(pid), 256 + SIGKILL);
    assert_nobody_left(2);
}

TEST(what_a_rank_started_ends_with_it)
{
    ASSERT_CODE(launch("sleep 300 & echo $! >pid.$RANK; exit 0"), 0);
    assert_nobody_left(2);
}

/* A rank that is asked to stop is given time for a checkpoint. */
TEST(grace)
{
    options.sigterm_grace_s = 5;
    pid_t pid = start_and_await(
        "trap 'sleep 2; exit 75' TERM; touch up.$RANK; while :; do sleep 0.05; done");
    kill(pid, SIGTERM);
    ASSERT_CODE(finish(pid), 75);
    ck_assert_int_eq(count("killing"), 0);
}

TEST(a_signal_ends_the_pause_before_a_restart)
{
    options.max_restarts = 5;
    pid_t pid =
        start("touch up.$RANK; [ -e again.$RANK ] && exec sleep 300; touch again.$RANK; exit 9");
    await_file("again.1");
    usleep(400000);
    kill(pid, SIGTERM);
    ASSERT_CODE(finish(pid), 75);
    ASSERT_SAYS("restart 1 of 5");
}

TEST(no_restart_after_a_signal)
{
    options.max_restarts = 5;
    pid_t pid = start_and_await("touch up.$RANK; exec sleep 300");
    kill(pid, SIGINT);
    ASSERT_CODE(finish(pid), 130);
    ck_assert_int_eq(count("restart"), 0);
}
