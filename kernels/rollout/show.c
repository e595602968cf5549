/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/show.h"

#include <string.h>

void *hd_show_next(const struct hd_show *show, int64_t env, bool begins)
{
    show->age[env] = begins ? 0 : show->age[env] + (show->age[env] + 1 < show->stack);
    return show->host_frames + hd_show_at(show, env, show->shown[env]++);
}

void hd_show_obs(const struct hd_show *show, int64_t env, const char *obs)
{
    for (int64_t i = 0; i < show->stack; i++)
        memcpy(hd_show_next(show, env, i == 0), obs + i * show->frame_bytes,
               (size_t)show->frame_bytes);
}
