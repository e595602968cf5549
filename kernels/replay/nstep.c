/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/replay/nstep.h"

#include <math.h>
#include <string.h>

void hd_nstep_assemble(const struct hd_fragment *fragment, double gamma, enum hd_nstep_tail tail,
                       int64_t nstep, int64_t count, void *transitions)
{
    const int64_t dims = fragment->dims;
    for (int64_t i = 0; i < count; i++) {
        struct hd_transition *transition = hd_transition_get(transitions, nstep, dims, i);
        int64_t left = fragment->length - i, rewards = nstep < left ? nstep : left;
        bool at_end = left <= nstep;
        int64_t power = at_end && tail == HD_NSTEP_DI_ENGINE ? rewards - 1 : rewards;
        memset(transition, 0,
               (size_t)hd_transition_get_bytes(nstep, dims)); /* padding bytes are hashed too */
        transition->frame = fragment->frame + i;
        transition->env = fragment->env;
        transition->age = (int32_t)(fragment->age + i);
        transition->ahead = (int32_t)rewards;
        transition->done = at_end && fragment->done;
        transition->value_gamma = nstep > 1 ? (float)pow(gamma, (double)power) : 0;
        memcpy(transition->reward, fragment->reward + i, (size_t)rewards * sizeof(float));
        memcpy(hd_transition_get_action(transition, nstep), fragment->action + i * dims,
               (size_t)dims * sizeof *fragment->action);
    }
}
