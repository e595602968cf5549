/* SPDX-License-Identifier: Apache-2.0 */
/* Cross entropy of actions that somebody took: the loss of behaviour cloning. Thread safe. */
#ifndef HD_KERNELS_LEARN_CROSS_ENTROPY_H
#define HD_KERNELS_LEARN_CROSS_ENTROPY_H

#include <stdint.h>

struct hd_cross_entropy {
    int64_t batch, actions;
    const float *logit;    /* [batch][actions] */
    const int32_t *action; /* [batch], in [0, actions) */
    const float *weight;   /* [batch]: of rows in the weighted sums, 0 or more */
};

/* Sums over the batch, in order; those that are weighted are for people, who divide by `weight`. */
struct hd_cross_entropy_sums {
    double loss; /* -log softmax(logit)[action], of every row alike */
    double weight, weighted_loss;
    double weighted_hits; /* rows whose largest logit, the first on ties, is the action's */
};

/* dlogit[batch][actions]: the derivative of the SUM of -log softmax(logit)[action] over the batch,
 * whatever the weights. */
void hd_cross_entropy_compute(const struct hd_cross_entropy *loss, float *dlogit,
                              struct hd_cross_entropy_sums *sums_p);

/* The same of the rows before *used on a GPU (NULL: of all `batch` rows); rows from there on get a
 * derivative of zeros. The sums are in another fixed order. One launch; `loss`, memory of the host
 * that points to the device's, is read before the call returns; *sums_p is the device's or shared.
 */
int hd_cross_entropy_compute_cuda(const struct hd_cross_entropy *loss, const int64_t *used,
                                  float *dlogit, struct hd_cross_entropy_sums *sums_p,
                                  void *stream);

#endif
