/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/show.h"

#include <string.h>

void *hd_frame_upload_next(const struct hd_frame_upload *show, int64_t env, bool begins)
{
    show->age[env] = begins ? 0 : show->age[env] + (show->age[env] + 1 < show->stack);
    return show->host_frames + hd_frame_upload_find_frame(show, env, show->shown[env]++);
}

void hd_frame_upload_add_obs(const struct hd_frame_upload *show, int64_t env, const char *obs)
{
    for (int64_t i = 0; i < show->stack; i++)
        memcpy(hd_frame_upload_next(show, env, i == 0), obs + i * show->frame_bytes,
               (size_t)show->frame_bytes);
}
