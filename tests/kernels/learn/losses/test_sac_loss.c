/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of soft actor-critic: against references in double, and the policy's derivative by
 * differences of the loss with critics that are quadratic in the action. */
#include "kernels/common/normal.h"
#include "kernels/learn/losses/sac_loss.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"

#include <math.h>

enum { ROWS = 13, OBS = 3, DIMS = 2, INPUTS = OBS + DIMS };

static const struct hd_rng rng = {.key = {7, 11}, .shard = 2, .iteration = 5};

static float number(uint64_t stream, int64_t i)
{
    return (float)(2 * fill(stream, (uint64_t)i) - 1);
}

static float *make_numbers(uint64_t stream, int64_t n)
{
    float *numbers = guarded(n * (int64_t)sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = number(stream, i);
    return numbers;
}

/* Returns number d of row r, drawn by the outputs, and adds its log probability. */
static double naive_action(const double *out, int64_t r, int64_t d, uint32_t first, double *log_p)
{
    const double std = exp(out[DIMS + d]);
    const double noise = hd_normal_draw(&rng, first + (uint32_t)(r * DIMS + d));
    const double x = out[d] + std * noise, y = tanh(x);
    *log_p += -noise * noise / 2 - log(std * sqrt(2 * M_PI)) - log(1 - y * y);
    return y;
}

TEST(actions_join_their_observations, .runs = 2)
{
    const float *obs = make_numbers(1, ROWS * OBS), *out = make_numbers(2, ROWS * 2 * DIMS);
    float *joined = guarded(ROWS * INPUTS * 4), *log_prob = guarded(ROWS * 4);
    struct hd_squashed *drawn = guarded(ROWS * DIMS * (int64_t)sizeof *drawn);
    const struct hd_sac_draw draw = {ROWS, OBS, DIMS, obs, out, &rng, 40};
    hd_sac_draw_actions(&draw, joined, log_prob, _i == 0 ? drawn : NULL);
    for (int64_t r = 0; r < ROWS; r++) {
        double row[2 * DIMS], log_p = 0;
        for (int64_t j = 0; j < 2 * DIMS; j++)
            row[j] = out[r * 2 * DIMS + j];
        for (int64_t j = 0; j < OBS; j++)
            ck_assert(joined[r * INPUTS + j] == obs[r * OBS + j]);
        for (int64_t d = 0; d < DIMS; d++) {
            const double wanted = naive_action(row, r, d, 40, &log_p);
            CHECK_CLOSE(joined[r * INPUTS + OBS + d], wanted, 1.0, 1e-6, "action");
            ck_assert(_i || drawn[r * DIMS + d].action == joined[r * INPUTS + OBS + d]);
        }
        CHECK_CLOSE(log_prob[r], log_p, fabs(log_p) + 1, 3e-6, "log_prob");
    }
    check_guard(joined, ROWS * INPUTS * 4);
    check_guard(log_prob, ROWS * 4);
    check_guard(drawn, ROWS * DIMS * (int64_t)sizeof *drawn);
}

/* Rewards of one step and of three, with factors of their own for the next value or without. */
TEST(targets, .runs = 3)
{
    enum { NSTEP = 3, LD = ROWS + 4 };
    const int64_t nstep = _i == 0 ? 1 : NSTEP;
    float done[ROWS], *y = guarded(ROWS * 4);
    for (int64_t r = 0; r < ROWS; r++)
        done[r] = r % 3 == 0;
    const struct hd_sac_targets t = {.rows = ROWS,
                                     .nstep = nstep,
                                     .gamma = 0.9f,
                                     .alpha = 0.3f,
                                     .reward = make_numbers(3, NSTEP * LD),
                                     .ld_reward = LD,
                                     .done = done,
                                     .value_gamma = _i == 2 ? make_numbers(4, ROWS) : NULL,
                                     .q1 = make_numbers(5, ROWS),
                                     .q2 = make_numbers(6, ROWS),
                                     .log_prob = make_numbers(7, ROWS)};
    hd_sac_compute_targets(&t, y);
    for (int64_t r = 0; r < ROWS; r++) {
        double wanted = 0;
        for (int64_t j = 0; j < nstep; j++)
            wanted += pow((double)t.gamma, (double)j) * (double)t.reward[j * LD + r];
        if (r % 3 != 0)
            wanted +=
                (t.value_gamma ? (double)t.value_gamma[r] : pow((double)t.gamma, (double)nstep)) *
                (fmin((double)t.q1[r], (double)t.q2[r]) - (double)t.alpha * (double)t.log_prob[r]);
        CHECK_CLOSE(y[r], wanted, 1.0, 1e-6, "target");
    }
    check_guard(y, ROWS * 4);
}

TEST(critic)
{
    const float *q = make_numbers(8, ROWS), *y = make_numbers(9, ROWS);
    float *dq = guarded(ROWS * 4);
    double loss = 0, sum = 0, target = 0;
    struct hd_sac_critic_sums sums;
    hd_sac_critic_compute(ROWS, q, y, dq, &sums);
    for (int64_t r = 0; r < ROWS; r++) {
        const double error = (double)q[r] - (double)y[r];
        CHECK_CLOSE(dq[r], 2 * error, 1.0, 1e-6, "dq");
        loss += error * error;
        sum += (double)q[r];
        target += (double)y[r];
    }
    CHECK_CLOSE(sums.loss, loss, 1.0, 1e-5, "loss");
    CHECK_CLOSE(sums.q, sum, 1.0, 1e-6, "q");
    CHECK_CLOSE(sums.target, target, 1.0, 1e-6, "target");
    check_guard(dq, ROWS * 4);
}

TEST(the_smaller_critic_is_chosen)
{
    const float q1[] = {1, 2, 3}, q2[] = {2, 1, 3};
    float dq1[3], dq2[3];
    hd_sac_choose_critic(3, q1, q2, dq1, dq2);
    ck_assert(dq1[0] == 1 && dq1[1] == 0 && dq1[2] == 1);
    ck_assert(dq2[0] == 0 && dq2[1] == 1 && dq2[2] == 0);
}

/* Critic i values an action by the sum of - (a_d - c_id)^2. */
static double value(int i, const double *action)
{
    double q = 0;
    for (int64_t d = 0; d < DIMS; d++)
        q -= pow(action[d] - (double)number(20 + (uint64_t)i, d), 2);
    return q;
}

static double naive_loss(double alpha, const double *out)
{
    double loss = 0;
    for (int64_t r = 0; r < ROWS; r++) {
        double action[DIMS], log_p = 0;
        for (int64_t d = 0; d < DIMS; d++)
            action[d] = naive_action(out + r * 2 * DIMS, r, d, 0, &log_p);
        loss += alpha * log_p - fmin(value(0, action), value(1, action));
    }
    return loss;
}

TEST(policy)
{
    static float joined[ROWS * INPUTS], log_prob[ROWS], q[2][ROWS], dq[2][ROWS];
    static float by[2][ROWS * INPUTS];
    static struct hd_squashed drawn[ROWS * DIMS];
    const float *obs = make_numbers(1, ROWS * OBS), *out = make_numbers(10, ROWS * 2 * DIMS);
    double doubles[ROWS * 2 * DIMS];
    float *dout = guarded(ROWS * 2 * DIMS * 4);
    struct hd_sac_sums sums;
    const struct hd_sac_draw draw = {ROWS, OBS, DIMS, obs, out, &rng, 0};
    hd_sac_draw_actions(&draw, joined, log_prob, drawn);
    for (int64_t r = 0; r < ROWS; r++)
        for (int i = 0; i < 2; i++) {
            double action[DIMS];
            for (int64_t d = 0; d < DIMS; d++)
                action[d] = (double)joined[r * INPUTS + OBS + d];
            q[i][r] = (float)value(i, action);
        }
    hd_sac_choose_critic(ROWS, q[0], q[1], dq[0], dq[1]);
    for (int64_t r = 0; r < ROWS; r++)
        for (int i = 0; i < 2; i++)
            for (int64_t d = 0; d < DIMS; d++)
                by[i][r * INPUTS + OBS + d] =
                    -2 * dq[i][r] * (joined[r * INPUTS + OBS + d] - number(20 + (uint64_t)i, d));
    const struct hd_sac_loss loss = {ROWS,     OBS,  DIMS, 0.4f,  drawn,
                                     log_prob, q[0], q[1], by[0], by[1]};
    hd_sac_loss_compute(&loss, dout, &sums);
    for (int64_t j = 0; j < ROWS * 2 * DIMS; j++)
        doubles[j] = (double)out[j];
    for (int64_t j = 0; j < ROWS * 2 * DIMS; j++) {
        const double step = 1e-6, before = doubles[j];
        doubles[j] = before + step;
        const double above = naive_loss((double)0.4f, doubles);
        doubles[j] = before - step;
        const double below = naive_loss((double)0.4f, doubles);
        doubles[j] = before;
        CHECK_CLOSE(dout[j], (above - below) / (2 * step), 1.0, 1e-5, "dout");
    }
    CHECK_CLOSE(sums.loss, naive_loss((double)0.4f, doubles), ROWS, 1e-6, "loss");
    check_guard(dout, ROWS * 2 * DIMS * 4);
}
