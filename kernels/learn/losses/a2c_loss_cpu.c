/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/losses/a2c_loss.h"
#include "kernels/learn/losses/softmax.h"

/* Writes row b's derivative by its outputs to d[actions + 1] and adds its numbers to the sums. */
static void add_row(const struct hd_a2c_loss *loss, int64_t b, float *d, struct hd_a2c_sums *sums)
{
    const int64_t n = loss->actions, a = loss->action[b];
    const float *out = loss->out + b * (n + 1);
    const float entropy = hd_softmax_compute_log_probs(out, n, d), log_p = d[a];
    const float adv = loss->advantage[b], error = out[n] - loss->target[b];
    for (int64_t j = 0; j < n; j++) {
        const float log_j = d[j], p = expf(log_j);
        d[j] = adv * (p - (float)(j == a)) + loss->entropy_weight * p * (log_j + entropy);
    }
    d[n] = 2 * loss->value_weight * error;
    sums->policy -= log_p * adv;
    sums->value += error * error;
    sums->entropy += entropy;
    sums->adv += adv;
    sums->v += out[n];
}

void hd_a2c_loss_compute(const struct hd_a2c_loss *loss, float *dout, struct hd_a2c_sums *sums_p)
{
    *sums_p = (struct hd_a2c_sums){0};
    for (int64_t b = 0; b < loss->batch; b++)
        add_row(loss, b, dout + b * (loss->actions + 1), sums_p);
}
