/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/learn/losses/ppo_loss_internal.h"

void hd_standardise(float *adv, int64_t n)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; i++)
        sum += adv[i];
    const double mean = n > 0 ? sum / (double)n : 0;
    for (int64_t i = 0; i < n; i++)
        squares += (adv[i] - mean) * (adv[i] - mean);
    const double std = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    for (int64_t i = 0; i < n; i++)
        adv[i] = (float)((adv[i] - mean) / (std + 1e-8));
}

void hd_ppo_loss_compute(const struct hd_ppo_loss *loss, float *dout, struct hd_ppo_sums *sums_p)
{
    const struct hd_ppo_loss now = hd_ppo_read_scheduled(loss);
    struct hd_ppo_sums sums = hd_ppo_init_sums();
    for (int64_t b = 0; b < now.batch; b++)
        hd_ppo_add_row(&now, b, dout + b * (now.logits + 1), &sums);
    sums.entropy_weight = now.entropy_weight;
    *sums_p = sums;
}
