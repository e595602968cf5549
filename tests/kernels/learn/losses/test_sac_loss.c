/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of soft actor-critic: against references in double, and the policy's derivative by
 * differences of the loss with critics that are quadratic in the action. */
#include "kernels/common/normal.h"
#include "kernels/learn/losses/sac_loss.h"
#include "runtime/base/status.h"
#include "tests/kernels/common/check_close.h"
#include "tests/kernels/common/device.h"
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
    const struct hd_sac_loss loss = {ROWS, OBS,  DIMS,  0.4f,  drawn, log_prob,
                                     q[0], q[1], by[0], by[1], INPUTS};
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

#if HD_CUDA

enum { MANY = 1300, PADDED = 8 };

static void check_near(int64_t n, const float *found, const float *wanted, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        CHECK_CLOSE(found[i], wanted[i], 1 + fabs(wanted[i]), 2e-6, what);
}

TEST(cuda_actions_and_targets_are_the_cpu_s, .cuda = true)
{
    static float joined[MANY * INPUTS], log_prob[MANY], y[MANY], found[MANY * INPUTS];
    static struct hd_squashed drawn[MANY * DIMS], found_drawn[MANY * DIMS];
    const int64_t row = MANY * 4, input = row * INPUTS, all = MANY * DIMS * sizeof *drawn;
    const float *obs = make_numbers(1, MANY * OBS), *out = make_numbers(2, MANY * 2 * DIMS);
    const float *q1 = make_numbers(5, MANY), *q2 = make_numbers(6, MANY), log_alpha = -1.5f;
    const struct hd_sac_draw draw = {MANY, OBS, DIMS, obs, out, &rng, 40};
    struct hd_sac_draw draw_there = draw;
    float *joined_there = device_make(NULL, input), *log_prob_there = device_make(NULL, row);
    float *y_there = device_make(NULL, row);
    struct hd_squashed *drawn_there = device_make(NULL, all);
    hd_sac_draw_actions(&draw, joined, log_prob, drawn);
    draw_there.obs_rows = device_make(obs, row * OBS);
    draw_there.out = device_make(out, row * 2 * DIMS);
    draw_there.rng = device_make(&rng, sizeof rng);
    ck_assert_int_eq(hd_sac_draw_actions_cuda(&draw_there, joined_there, log_prob_there,
                                              drawn_there, device_stream()),
                     HD_OK);
    device_get(found, joined_there, input);
    check_near(MANY * INPUTS, found, joined, "joined");
    device_get(found, log_prob_there, row);
    check_near(MANY, found, log_prob, "log_prob");
    device_get(found_drawn, drawn_there, all);
    check_near(all / 4, &found_drawn->action, &drawn->action, "drawn");
    struct hd_sac_targets t = {.rows = MANY,
                               .nstep = 2,
                               .gamma = 0.9f,
                               .alpha = expf(log_alpha),
                               .reward = make_numbers(3, 2 * MANY),
                               .ld_reward = MANY,
                               .done = make_numbers(4, MANY),
                               .q1 = q1,
                               .q2 = q2,
                               .log_prob = log_prob};
    hd_sac_compute_targets(&t, y);
    t.reward = device_make(t.reward, 2 * row);
    t.done = device_make(t.done, row);
    t.q1 = device_make(q1, row);
    t.q2 = device_make(q2, row);
    t.log_prob = log_prob_there;
    ck_assert_int_eq(
        hd_sac_compute_targets_cuda(&t, device_make(&log_alpha, 4), y_there, device_stream()),
        HD_OK);
    device_get(found, y_there, row);
    check_near(MANY, found, y, "targets");
}

TEST(cuda_joins_observations_and_actions, .cuda = true)
{
    static float found[MANY * INPUTS];
    const float *obs = make_numbers(1, MANY * OBS), *action = make_numbers(2, MANY * DIMS);
    const int64_t used = 77;
    const struct hd_sac_join join = {MANY,
                                     OBS,
                                     DIMS,
                                     device_make(obs, MANY * OBS * 4),
                                     device_make(action, MANY * DIMS * 4),
                                     device_make(&used, sizeof used)};
    int64_t *used_there = device_make(NULL, sizeof used), found_used;
    float *there = device_make(NULL, sizeof found);
    ck_assert_int_eq(hd_sac_join_cuda(&join, there, used_there, device_stream()), HD_OK);
    device_get(found, there, sizeof found);
    device_get(&found_used, used_there, sizeof used);
    ck_assert(found_used == used);
    for (int64_t r = 0; r < MANY; r++) {
        ck_assert(memcmp(found + r * INPUTS, obs + r * OBS, OBS * 4) == 0);
        ck_assert(memcmp(found + r * INPUTS + OBS, action + r * DIMS, DIMS * 4) == 0);
    }
}

/* Derivatives of rows that are not used are zeros. */
TEST(cuda_critics_are_the_cpu_s, .runs = 3, .cuda = true)
{
    static const int64_t uses[] = {0, 513, MANY + 7};
    static float dq[MANY], found[MANY];
    const int64_t used = uses[_i], rows = used < MANY ? used : MANY, bytes = MANY * 4;
    const float *q = make_numbers(8, MANY), *y = make_numbers(9, MANY);
    float *there = device_make(NULL, bytes);
    struct hd_sac_critic_sums sums, *sums_there = device_shared(sizeof sums);
    memset(dq, 0, sizeof dq);
    hd_sac_critic_compute(rows, q, y, dq, &sums);
    ck_assert_int_eq(hd_sac_critic_compute_cuda(MANY, device_make(&used, sizeof used),
                                                device_make(q, bytes), device_make(y, bytes), there,
                                                sums_there, device_stream()),
                     HD_OK);
    device_get(found, there, bytes);
    ck_assert(memcmp(found, dq, sizeof dq) == 0);
    CHECK_CLOSE(sums_there->loss, sums.loss, 1 + sums.loss, 1e-12, "loss");
    CHECK_CLOSE(sums_there->q, sums.q, 1 + fabs(sums.q), 1e-12, "q");
    CHECK_CLOSE(sums_there->target, sums.target, 1 + fabs(sums.target), 1e-12, "target");
}

TEST(cuda_policies_are_the_cpu_s, .runs = 3, .cuda = true)
{
    static const int64_t uses[] = {0, 513, MANY + 7};
    static float dq[2][MANY], dout[MANY * 2 * DIMS], found[MANY * 2 * DIMS];
    const int64_t used = uses[_i], row = MANY * 4, all = MANY * DIMS * sizeof(struct hd_squashed);
    const float *q[] = {make_numbers(5, MANY), make_numbers(6, MANY)}, log_alpha = -0.7f;
    const float *by[] = {make_numbers(11, MANY * PADDED), make_numbers(12, MANY * PADDED)};
    struct hd_sac_loss loss = {.rows = used < MANY ? used : MANY,
                               .obs = OBS,
                               .dims = DIMS,
                               .alpha = expf(log_alpha),
                               .drawn = (const void *)make_numbers(13, all / 4),
                               .log_prob = make_numbers(14, MANY),
                               .q1 = q[0],
                               .q2 = q[1],
                               .by_input1 = by[0],
                               .by_input2 = by[1],
                               .ld_by_input = PADDED};
    struct hd_sac_sums sums, *sums_there = device_shared(sizeof sums);
    float *there = device_make(NULL, sizeof dout),
          *dq_there[] = {device_make(NULL, row), device_make(NULL, row)};
    memset(dout, 0, sizeof dout);
    hd_sac_loss_compute(&loss, dout, &sums);
    hd_sac_choose_critic(MANY, q[0], q[1], dq[0], dq[1]);
    loss.rows = MANY;
    loss.drawn = device_make(loss.drawn, all);
    loss.log_prob = device_make(loss.log_prob, row);
    loss.q1 = device_make(q[0], row);
    loss.q2 = device_make(q[1], row);
    loss.by_input1 = device_make(by[0], row * PADDED);
    loss.by_input2 = device_make(by[1], row * PADDED);
    ck_assert_int_eq(hd_sac_choose_critic_cuda(MANY, loss.q1, loss.q2, dq_there[0], dq_there[1],
                                               device_stream()),
                     HD_OK);
    ck_assert_int_eq(hd_sac_loss_compute_cuda(&loss, device_make(&used, sizeof used),
                                              device_make(&log_alpha, 4), there, sums_there,
                                              device_stream()),
                     HD_OK);
    for (int i = 0; i < 2; i++) {
        device_get(found, dq_there[i], row);
        ck_assert(memcmp(found, dq[i], (size_t)row) == 0);
    }
    device_get(found, there, sizeof dout);
    check_near(MANY * 2 * DIMS, found, dout, "dout");
    CHECK_CLOSE(sums_there->loss, sums.loss, 1 + fabs(sums.loss), 1e-5, "loss");
    CHECK_CLOSE(sums_there->log_prob, sums.log_prob, 1 + fabs(sums.log_prob), 1e-12, "log_prob");
    CHECK_CLOSE(sums_there->alpha, loss.alpha, 1.0, 1e-6, "alpha");
}

#endif
