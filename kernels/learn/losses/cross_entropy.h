/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of given actions, the loss of behaviour cloning. Thread safe. */
#pragma once

#include <stdint.h>

struct hd_cross_entropy {
    int64_t batch, actions;
    const float *logit;    /* [batch][actions] */
    const int32_t *action; /* [batch], in [0, actions) */
    const float *weight;   /* [batch]: weight of each row in the weighted sums, 0 or more */
};

/* Sums over the batch, in order. Weighted sums are for logs, which divide them by `weight`. */
struct hd_cross_entropy_sums {
    double loss; /* sum of -log softmax(logit)[action], each row with weight 1 */
    double weight, weighted_loss;
    double weighted_hits; /* rows whose largest logit, the first on ties, is the action's */
};

/* Computes dlogit[batch][actions], the derivative of the SUM of -log softmax(logit)[action] over
 * the batch, without the weights, and the sums. */
void hd_cross_entropy_compute(const struct hd_cross_entropy *loss, float *dlogit,
                              struct hd_cross_entropy_sums *sums_p);

/* Computes the loss of the rows before *used on a GPU (NULL: of all `batch` rows); later rows get a
 * derivative of zeros. The sums are added in another fixed order. One launch. `loss`, in host
 * memory with pointers to device memory, is read before the call returns; *sums_p is device or
 * shared memory. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_cross_entropy_compute_cuda(const struct hd_cross_entropy *loss, const int64_t *used,
                                  float *dlogit, struct hd_cross_entropy_sums *sums_p,
                                  void *stream);
