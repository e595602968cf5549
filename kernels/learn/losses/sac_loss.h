/* SPDX-License-Identifier: Apache-2.0 */
/* The formulas of soft actor-critic with two critics (Haarnoja et al. 2018, "Soft Actor-Critic
 * Algorithms and Applications", equations 3, 5 and 7; the smaller critic after Fujimoto et al.
 * 2018). An action is dims numbers in [-1, 1], tanh of normal numbers whose means and logarithms of
 * deviations a policy yields (kernels/act/gaussian.h). Rows are independent of each other, and sums
 * are added in the order of rows. Thread safe. */
#pragma once

#include "kernels/act/gaussian.h"
#include "runtime/base/rng.h"

/* Rows of observations and actions that a policy draws, as a critic takes them. */
struct hd_sac_draw {
    int64_t rows, obs, dims; /* numbers of an observation, and of an action */
    const float *obs_rows;   /* [rows][obs] */
    const float *out;        /* [rows][2 dims] of the policy: means, then logarithms */
    const struct hd_rng *rng;
    uint32_t first; /* number d of row r is drawn by item first + r dims + d */
};

/* Writes joined[rows][obs + dims], each observation and its action, the actions' log_prob[rows],
 * and, if not NULL, drawn[rows][dims]. */
void hd_sac_draw_actions(const struct hd_sac_draw *draw, float *joined, float *log_prob,
                         struct hd_squashed *drawn);

struct hd_sac_targets {
    int64_t rows, nstep;
    float gamma, alpha;       /* discount; temperature */
    const float *reward;      /* [nstep][ld_reward] */
    int64_t ld_reward;        /* >= rows */
    const float *done;        /* [rows]: 1 if the next observation is terminal, else 0 */
    const float *value_gamma; /* [rows]: factor of the next value; NULL: gamma^nstep */
    const float *q1, *q2;     /* [rows]: target critics' values of next observations and actions */
    const float *log_prob;    /* [rows]: of these actions */
};

/* Computes y[rows] = sum_j gamma^j reward_j + gamma^nstep (1 - done) (min(q1, q2) - alpha
 * log_prob). */
void hd_sac_compute_targets(const struct hd_sac_targets *targets, float *y);

/* Sums for logs. */
struct hd_sac_critic_sums {
    double loss, q, target;
};

/* Computes dq[rows], the derivative of the SUM over rows of (q - y)^2, and the sums. */
void hd_sac_critic_compute(int64_t rows, const float *q, const float *y, float *dq,
                           struct hd_sac_critic_sums *sums_p);

/* Writes which critic is the smaller one: dq1[rows] is 1 where q1 <= q2, else 0, and dq2 the other
 * way round. */
void hd_sac_choose_critic(int64_t rows, const float *q1, const float *q2, float *dq1, float *dq2);

struct hd_sac_loss {
    int64_t rows, obs, dims;
    float alpha;
    const struct hd_squashed *drawn;    /* [rows][dims] */
    const float *log_prob, *q1, *q2;    /* [rows] */
    const float *by_input1, *by_input2; /* [rows][ld_by_input]: derivatives of the smaller critic by
                                           its input; 0 in the other one's */
    int64_t ld_by_input;                /* >= obs + dims */
};

struct hd_sac_sums {
    double loss, log_prob;
    float alpha; /* the temperature, no sum */
};

/* Computes dout[rows][2 dims], the derivative of the SUM over rows of alpha log_prob - min(q1, q2)
 * for fixed noise, and the sums. */
void hd_sac_loss_compute(const struct hd_sac_loss *loss, float *dout, struct hd_sac_sums *sums_p);

/* -- On a GPU ---------------------------------------------------------------------------------- */

/* These do the same there, each in one launch. Structs are in host memory and read before the call
 * returns; they and the other pointers point to device memory or memory that the GPU addresses too.
 * The temperature is exp(*log_alpha) in place of `alpha`. Actions agree with the CPU's but for the
 * last bits of C functions, and sums are added in another fixed order. Return HD_OK or
 * HD_ERR_DEVICE (logged). */
int hd_sac_draw_actions_cuda(const struct hd_sac_draw *draw, float *joined, float *log_prob,
                             struct hd_squashed *drawn, void *stream);
int hd_sac_compute_targets_cuda(const struct hd_sac_targets *targets, const float *log_alpha,
                                float *y, void *stream);
int hd_sac_choose_critic_cuda(int64_t rows, const float *q1, const float *q2, float *dq1,
                              float *dq2, void *stream);

/* These compute with the rows before *used, at most `rows`; later rows get a derivative of zeros.
 * They return HD_OK or HD_ERR_DEVICE (logged). */
int hd_sac_critic_compute_cuda(int64_t rows, const int64_t *used, const float *q, const float *y,
                               float *dq, struct hd_sac_critic_sums *sums_p, void *stream);
int hd_sac_loss_compute_cuda(const struct hd_sac_loss *loss, const int64_t *used,
                             const float *log_alpha, float *dout, struct hd_sac_sums *sums_p,
                             void *stream);

/* Rows of observations and the actions taken, as a critic takes them. */
struct hd_sac_join {
    int64_t rows, obs, dims;
    const float *obs_rows, *action; /* [rows][obs], [rows][dims] */
    const int64_t *used;            /* the number of rows that count */
};

/* Writes joined[rows][obs + dims] and copies *used. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_sac_join_cuda(const struct hd_sac_join *join, float *joined, int64_t *used_p, void *stream);
