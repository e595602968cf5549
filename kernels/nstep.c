/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/nstep.h"

#include <math.h>
#include <string.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void hd_nstep(const struct hd_chunk *chunk, double gamma, enum hd_nstep_tail tail,
              const struct hd_transition_shape *shape, struct hd_transitions rows, int64_t first,
              int64_t count)
{
    const int64_t n = shape->nstep, obs_size = shape->obs_size;
    const size_t obs_bytes = (size_t)obs_size * sizeof(float);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = first + i, left = chunk->length - i;
        int64_t rewards = least(n, left);
        bool at_end = left <= n;
        memcpy(rows.obs + row * obs_size, chunk->obs + i * obs_size, obs_bytes);
        memcpy(rows.next_obs + row * obs_size, chunk->obs + (i + rewards) * obs_size, obs_bytes);
        for (int64_t j = 0; j < n; j++)
            rows.reward[j * shape->rows + row] = j < rewards ? chunk->reward[i + j] : 0;
        rows.done[row] = at_end && chunk->done;
        rows.action[row] = chunk->action[i];
        if (shape->has_value_gamma) {
            int64_t power = at_end && tail == HD_NSTEP_PARITY ? rewards - 1 : rewards;
            rows.value_gamma[row] = (float)pow(gamma, (double)power);
        }
    }
}
