/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles on a GPU the present observations of envs that a CPU steps. Each frame is uploaded at
 * most once, and only if the GPU needs it. Thread safe on different memory. */
#pragma once

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

/* Some envs. Host and device each hold the last F frames of an env, frame i in slot i % F. Shared
 * memory is host memory that the GPU addresses. */
struct hd_frame_upload {
    int64_t envs, frames, stack, frame_bytes; /* E, F >= stack; frames of an observation */
    char *host_frames;                        /* [E][F][frame_bytes], shared memory */
    int64_t *shown;                           /* [E]: frames shown so far, shared memory */
    int64_t *age;      /* [E]: frames of the present episode before the last one, at most stack - 1;
                          shared memory */
    int64_t *here;     /* [E]: how many of the frames shown are uploaded; shared memory */
    char *frames_here; /* [E][F][frame_bytes], device memory */
};

/* Returns the offset of frame i of an env among all frames. */
HD_INLINE int64_t hd_frame_upload_find_frame(const struct hd_frame_upload *upload, int64_t env,
                                             int64_t i)
{
    return (env * upload->frames + (uint32_t)i % (uint32_t)upload->frames) * upload->frame_bytes;
}

/* Returns the offset of frame k, 0 … stack - 1, of an env's present observation. The last frame
 * shown is the newest; if the episode is younger than the observation, its first frame is
 * repeated. */
HD_INLINE int64_t hd_frame_upload_find_obs(const struct hd_frame_upload *upload, int64_t env,
                                           int64_t shown, int64_t age, int64_t k)
{
    const int64_t frame = shown - upload->stack + k, first = shown - 1 - age;
    return hd_frame_upload_find_frame(upload, env, frame > first ? frame : first);
}

/* Returns host memory for the next frame of an env, which begins an episode if `begins`. */
void *hd_frame_upload_next(const struct hd_frame_upload *upload, int64_t env, bool begins);

/* Adds the frames of obs[stack][frame_bytes] on the host, for an env that has shown nothing yet. */
void hd_frame_upload_add_obs(const struct hd_frame_upload *upload, int64_t env, const char *obs);

enum { HD_FRAME_UPLOADS = 16 }; /* that one launch does */

/* For n uploads, at most HD_FRAME_UPLOADS, that differ in what they point to alone: uploads the
 * frames that the GPU lacks, unless their slots are overwritten already. Then, unless `obs` is
 * NULL, assembles the present observations obs[n][E][stack][frame_bytes] in device memory. One
 * launch; `uploads` is read before the call returns, what it points to is read when the kernel
 * runs. Returns HD_OK or HD_ERR_DEVICE (logged). */
int hd_frame_upload_run_cuda(const struct hd_frame_upload *uploads, int64_t n, char *obs,
                             void *stream);
