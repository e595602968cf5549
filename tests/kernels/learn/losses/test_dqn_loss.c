/* SPDX-License-Identifier: Apache-2.0 */
/* The double-DQN loss: the numbers of docs/di-engine.md 9.4, differences, ties. */
#include "kernels/common/argmax.h"
#include "kernels/learn/losses/dqn_loss.h"
#include "runtime/base/rng.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/device.h"

#include <string.h>

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

static void check_three_steps(const float *dq, const struct hd_dqn_sums *sums)
{
    CHECK_CLOSE(sums->loss / 2, 3.8394306, 1.0, 1e-6, "loss");
    CHECK_CLOSE(dq[2] / 2, 2.5919805, 1.0, 1e-6, "dL/dq(0,2)");
    CHECK_CLOSE(dq[3] / 2, -0.98005009, 1.0, 1e-6, "dL/dq(1,0)");
    ck_assert(dq[0] == 0 && dq[1] == 0 && dq[4] == 0 && dq[5] == 0);
    CHECK_CLOSE(sums->q, 6.25, 1.0, 1e-6, "sum of q");
    CHECK_CLOSE(sums->target_q, 0.7, 1.0, 1e-6, "sum of target q");
}

TEST(three_steps_are_the_spec_s)
{
    struct hd_dqn_loss loss = example(3);
    struct hd_dqn_sums sums;
    float dq[6], td2[2];
    hd_dqn_loss_compute(&loss, dq, td2, &sums);
    check_three_steps(dq, &sums);
    CHECK_CLOSE(td2[0], 6.7183628, 1.0, 2e-6, "td2");
    CHECK_CLOSE(td2[1], 0.96049815, 1.0, 1e-6, "td2");
}

TEST(one_step_is_the_spec_s)
{
    struct hd_dqn_loss loss = example(1);
    struct hd_dqn_sums sums;
    float dq[6];
    hd_dqn_loss_compute(&loss, dq, NULL, &sums);
    CHECK_CLOSE(sums.loss / 2, 1.4242719, 1.0, 1e-6, "loss");
}

TEST(the_derivative_is_a_difference)
{
    for (int i = 0; i < 6; i++) {
        float moved[6], dq[6];
        struct hd_dqn_sums up, down;
        struct hd_dqn_loss loss = example(3);
        hd_dqn_loss_compute(&loss, dq, NULL, &up);
        float wanted = dq[i];
        for (int j = 0; j < 6; j++)
            moved[j] = q[j];
        loss.q = moved;
        moved[i] = q[i] + 0.0078125f;
        hd_dqn_loss_compute(&loss, dq, NULL, &up);
        moved[i] = q[i] - 0.0078125f;
        hd_dqn_loss_compute(&loss, dq, NULL, &down);
        CHECK_CLOSE((up.loss - down.loss) / 0.015625, wanted, 1.0, 1e-4, "dq");
    }
}

/* Importance scales the loss and the derivative of its row, but not the row's squared error. */
TEST(importance_weighs_rows)
{
    static const float importance[] = {.25f, .5f};
    struct hd_dqn_loss loss = example(3);
    struct hd_dqn_sums sums;
    float dq[6], weighed[6], td2[2];
    hd_dqn_loss_compute(&loss, dq, NULL, &sums);
    loss.importance = importance;
    hd_dqn_loss_compute(&loss, weighed, td2, &sums);
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(weighed[i], importance[i / 3] * dq[i]);
    CHECK_CLOSE(td2[0], 6.7183628, 1.0, 2e-6, "td2");
    CHECK_CLOSE(sums.loss, .25 * 6.7183628 + .5 * 0.96049815, 1.0, 1e-6, "loss");
}

TEST(argmax_takes_the_lowest_of_equals)
{
    const float ties[] = {1, 3, 3, 2}, nan[] = {1, NAN, 5}, one[] = {-4};
    ck_assert_int_eq(hd_argmax(ties, 4), 1);
    ck_assert_int_eq(hd_argmax(nan, 3), 1);
    ck_assert_int_eq(hd_argmax(one, 1), 0);
}

#if HD_CUDA

/* Calls hd_dqn_loss_compute_cuda on copies of what the loss points to. */
static void on_device(const struct hd_dqn_loss *loss, const int64_t *used, float *dq, float *td2,
                      struct hd_dqn_sums *sums_p)
{
    const int64_t rows = loss->batch * sizeof(float), matrix = rows * loss->actions;
    struct hd_dqn_loss there = *loss;
    struct hd_dqn_sums *sums = device_shared(sizeof *sums);
    float *dq_there = device_make(NULL, matrix), *td2_there = td2 ? device_make(td2, rows) : NULL;
    there.q = device_make(loss->q, matrix);
    there.online_next = device_make(loss->online_next, matrix);
    there.target_next = device_make(loss->target_next, matrix);
    there.action = device_make(loss->action, rows);
    there.reward = device_make(loss->reward, loss->nstep * loss->ld_reward * sizeof(float));
    there.done = device_make(loss->done, rows);
    if (loss->value_gamma)
        there.value_gamma = device_make(loss->value_gamma, rows);
    if (loss->importance)
        there.importance = device_make(loss->importance, rows);
    ck_assert_int_eq(hd_dqn_loss_compute_cuda(&there, used ? device_make(used, sizeof *used) : NULL,
                                              dq_there, td2_there, sums, device_stream()),
                     HD_OK);
    device_get(dq, dq_there, matrix);
    if (td2)
        device_get(td2, td2_there, rows);
    *sums_p = *sums;
}

TEST(cuda_losses_are_the_spec_s, .cuda = true)
{
    struct hd_dqn_loss loss = example(3);
    struct hd_dqn_sums sums;
    float dq[6];
    on_device(&loss, NULL, dq, NULL, &sums);
    check_three_steps(dq, &sums);
    loss = example(1);
    on_device(&loss, NULL, dq, NULL, &sums);
    CHECK_CLOSE(sums.loss / 2, 1.4242719, 1.0, 1e-6, "loss");
}

enum { ROWS = 1300, ACTIONS = 6, STEPS = 3 };

/* Values are few, so that there are ties; some are NaN. */
struct many {
    float q[ROWS * ACTIONS], online[ROWS * ACTIONS], target[ROWS * ACTIONS];
    float reward[STEPS * (ROWS + 5)], done[ROWS], value_gamma[ROWS], importance[ROWS];
    int32_t action[ROWS];
};

static struct hd_dqn_loss make_many(struct many *m, int64_t rows)
{
    const struct hd_rng rng = hd_rng_make(1, 2, 3, 4, 5);
    uint32_t item = 0;
    for (int i = 0; i < ROWS * ACTIONS; i++) {
        m->q[i] = (float)hd_rng_draw_uniform(&rng, item++) - .5f;
        m->online[i] = (float)hd_rng_draw_below(&rng, item++, 7);
        m->online[i] = m->online[i] == 6 ? NAN : m->online[i];
        m->target[i] = (float)hd_rng_draw_uniform(&rng, item++) - .5f;
    }
    for (int i = 0; i < STEPS * (ROWS + 5); i++)
        m->reward[i] = (float)hd_rng_draw_uniform(&rng, item++);
    for (int b = 0; b < ROWS; b++) {
        m->done[b] = (float)hd_rng_draw_below(&rng, item++, 2);
        m->value_gamma[b] = (float)hd_rng_draw_uniform(&rng, item++);
        m->action[b] = (int32_t)hd_rng_draw_below(&rng, item++, ACTIONS);
        m->importance[b] = (float)hd_rng_draw_uniform(&rng, item++);
    }
    return (struct hd_dqn_loss){rows,      ACTIONS,        STEPS,        .99f,      m->q,
                                m->online, m->target,      m->action,    m->reward, ROWS + 5,
                                m->done,   m->value_gamma, m->importance};
}

/* The derivative and the squared errors have the CPU's bits, sums agree as far as doubles added in
 * another order do, and rows that are not used get zeros. */
TEST(cuda_rows_are_the_cpu_s, .cuda = true)
{
    static const int64_t uses[] = {0, 1, 511, 512, 513, ROWS, ROWS + 7};
    static struct many many;
    static float found[ROWS * ACTIONS], wanted[ROWS * ACTIONS], found_td2[ROWS], wanted_td2[ROWS];
    const struct hd_dqn_loss all = make_many(&many, ROWS);
    for (int k = 0; k < 7; k++) {
        struct hd_dqn_loss loss = all;
        struct hd_dqn_sums sums, is;
        memset(wanted, 0, sizeof wanted);
        memset(wanted_td2, 0, sizeof wanted_td2);
        memset(found_td2, 0, sizeof found_td2);
        loss.batch = uses[k] < ROWS ? uses[k] : ROWS;
        hd_dqn_loss_compute(&loss, wanted, wanted_td2, &is);
        on_device(&all, &uses[k], found, found_td2, &sums);
        ck_assert(memcmp(found, wanted, sizeof wanted) == 0);
        ck_assert(memcmp(found_td2, wanted_td2, sizeof wanted_td2) == 0);
        CHECK_CLOSE(sums.loss, is.loss, 1 + is.loss, 1e-12, "loss");
        CHECK_CLOSE(sums.q, is.q, 1 + fabs(is.q), 1e-12, "sum of q");
        CHECK_CLOSE(sums.target_q, is.target_q, 1 + fabs(is.target_q), 1e-12, "sum of target q");
    }
}

#endif
