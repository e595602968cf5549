/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/act/exploration.h"

#include <math.h>

double hd_epsilon_compute(const struct hd_epsilon *epsilon, double env_step)
{
    double range = epsilon->start - epsilon->end, done = env_step / epsilon->decay;
    if (!epsilon->linear)
        return range * exp(-done) + epsilon->end;
    return done >= 1 ? epsilon->end : range * (1 - done) + epsilon->end;
}
