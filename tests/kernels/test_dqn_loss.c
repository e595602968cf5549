/* SPDX-License-Identifier: Apache-2.0 */
/* The double-DQN loss: numbers of spec 9.4, differences, ties. */
#include "kernels/dqn_loss.h"
#include "tests/kernels/check_close.h"

static const float q[] = {1, 2, 3, .5f, -.5f, .25f};
static const float online[] = {.1f, .9f, .2f, 0, 1, 5};
static const float target[] = {.2f, .4f, .1f, 1, 0, -1};
static const int32_t action[] = {2, 0};
static const float reward[] = {1, 0, 0, 1, -1, .5f};
static const float done[] = {0, 1};
static const float value_gamma[] = {.970299f, .99f};

static struct hd_dqn_loss example(int64_t nstep)
{
    return (struct hd_dqn_loss){.batch = 2,
                                .actions = 3,
                                .nstep = nstep,
                                .gamma = nstep == 1 ? .97f : .99f,
                                .q = q,
                                .online_next = online,
                                .target_next = target,
                                .action = action,
                                .reward = reward,
                                .ld_reward = 2,
                                .done = done,
                                .value_gamma = nstep == 1 ? NULL : value_gamma};
}

START_TEST(three_steps_are_the_spec_s)
{
    struct hd_dqn_loss loss = example(3);
    struct hd_dqn_sums sums;
    float dq[6], td2[2];
    hd_dqn_loss(&loss, dq, td2, &sums);
    CHECK_CLOSE(sums.loss / 2, 3.8394306, 1.0, 1e-6, "loss");
    CHECK_CLOSE(td2[0], 6.7183628, 1.0, 2e-6, "td2");
    CHECK_CLOSE(td2[1], 0.96049815, 1.0, 1e-6, "td2");
    CHECK_CLOSE(dq[2] / 2, 2.5919805, 1.0, 1e-6, "dL/dq(0,2)");
    CHECK_CLOSE(dq[3] / 2, -0.98005009, 1.0, 1e-6, "dL/dq(1,0)");
    ck_assert(dq[0] == 0 && dq[1] == 0 && dq[4] == 0 && dq[5] == 0);
    CHECK_CLOSE(sums.q, 6.25, 1.0, 1e-6, "sum of q");
    CHECK_CLOSE(sums.target_q, 0.7, 1.0, 1e-6, "sum of target q");
}
END_TEST

START_TEST(one_step_is_the_spec_s)
{
    struct hd_dqn_loss loss = example(1);
    struct hd_dqn_sums sums;
    float dq[6];
    hd_dqn_loss(&loss, dq, NULL, &sums);
    CHECK_CLOSE(sums.loss / 2, 1.4242719, 1.0, 1e-6, "loss");
}
END_TEST

START_TEST(the_derivative_is_a_difference)
{
    for (int i = 0; i < 6; i++) {
        float moved[6], dq[6];
        struct hd_dqn_sums up, down;
        struct hd_dqn_loss loss = example(3);
        hd_dqn_loss(&loss, dq, NULL, &up);
        float wanted = dq[i];
        for (int j = 0; j < 6; j++)
            moved[j] = q[j];
        loss.q = moved;
        moved[i] = q[i] + 0.0078125f;
        hd_dqn_loss(&loss, dq, NULL, &up);
        moved[i] = q[i] - 0.0078125f;
        hd_dqn_loss(&loss, dq, NULL, &down);
        CHECK_CLOSE((up.loss - down.loss) / 0.015625, wanted, 1.0, 1e-4, "dq");
    }
}
END_TEST

START_TEST(argmax_takes_the_lowest_of_equals)
{
    const float ties[] = {1, 3, 3, 2}, nan[] = {1, NAN, 5}, one[] = {-4};
    ck_assert_int_eq(hd_argmax(ties, 4), 1);
    ck_assert_int_eq(hd_argmax(nan, 3), 1);
    ck_assert_int_eq(hd_argmax(one, 1), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("dqn_loss");
    tcase_add_test(tests, three_steps_are_the_spec_s);
    tcase_add_test(tests, one_step_is_the_spec_s);
    tcase_add_test(tests, the_derivative_is_a_difference);
    tcase_add_test(tests, argmax_takes_the_lowest_of_equals);
    return run_suite("dqn_loss", tests);
}
