/* SPDX-License-Identifier: Apache-2.0 */
/* V-trace (Espeholt et al. 2018, equation 1 and section 4.2): targets of values and advantages of a
 * policy, from samples that another one drew. Thread safe. */
#pragma once

#include "kernels/learn/gae.h"

struct hd_vtrace {
    struct hd_gae samples;  /* lambda is the factor of the traces c, 1 in the paper's equation */
    const float *log_ratio; /* [n]: logarithm of the action's probability under the policy, less
                               that under the one which drew it */
    float rho_max, c_max;   /* largest importance-sampling weights: rho, of a sample's error, and c,
                               of those after it */
};

/* Computes, from the last sample to the first, correction[n], by which a sample's target is above
 * its value: v - V = rho error + gamma lambda c (v' - V'), and advantage[n] = rho (r + gamma v' -
 * V), where v' and V' are those of the sample after it; where `end` is 1 both are the value that
 * bootstraps. `correction` may be log_ratio.
 * With equal policies and limits of at least 1 the corrections are the bits of hd_gae_compute. */
void hd_vtrace_compute(const struct hd_vtrace *vtrace, float *correction, float *advantage);
