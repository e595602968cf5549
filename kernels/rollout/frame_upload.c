/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/rollout/frame_upload.h"

#include <string.h>

void *hd_frame_upload_next(const struct hd_frame_upload *upload, int64_t env, bool begins)
{
    upload->age[env] = begins ? 0 : upload->age[env] + (upload->age[env] + 1 < upload->stack);
    return upload->host_frames + hd_frame_upload_find_frame(upload, env, upload->shown[env]++);
}

void hd_frame_upload_add_obs(const struct hd_frame_upload *upload, int64_t env, const char *obs)
{
    for (int64_t i = 0; i < upload->stack; i++)
        memcpy(hd_frame_upload_next(upload, env, i == 0), obs + i * upload->frame_bytes,
               (size_t)upload->frame_bytes);
}
