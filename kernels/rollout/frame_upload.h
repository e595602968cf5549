/* SPDX-License-Identifier: Apache-2.0 */
/* Present observations of envs that a CPU steps, put together on a GPU: of each frame that an env
 * showed the bytes travel once, if the GPU needs it at all. Thread safe on different memory. */
#ifndef HD_KERNELS_ROLLOUT_FRAME_UPLOAD_H
#define HD_KERNELS_ROLLOUT_FRAME_UPLOAD_H

#include "runtime/base/inline.h"

#include <stdbool.h>
#include <stdint.h>

/* A group of envs. Either side has the last F frames of an env, frame i in place i % F. Shared
 * memory is the host's, which the GPU addresses. */
struct hd_frame_upload {
    int64_t envs, frames, stack, frame_bytes; /* E, F >= stack; frames of an observation */
    char *host_frames;                        /* [E][F][frame_bytes], shared memory */
    int64_t *shown;                           /* [E]: frames shown so far, shared memory */
    int64_t *age;      /* [E]: of the present observation, frames of its episode before the last
                          one, at most stack - 1; shared memory */
    int64_t *here;     /* [E]: of the frames shown, those that the GPU knows; shared memory */
    char *frames_here; /* [E][F][frame_bytes], device memory */
};

/* Where frame i of an env lies among all. */
HD_INLINE int64_t hd_frame_upload_find_frame(const struct hd_frame_upload *upload, int64_t env,
                                             int64_t i)
{
    return (env * upload->frames + (uint32_t)i % (uint32_t)upload->frames) * upload->frame_bytes;
}

/* Where frame k, 0 … stack - 1, of an env's present observation lies: the last frame shown is the
 * newest; where the episode is younger than that, its first frame stands in. */
HD_INLINE int64_t hd_frame_upload_find_obs(const struct hd_frame_upload *upload, int64_t env,
                                           int64_t shown, int64_t age, int64_t k)
{
    const int64_t frame = shown - upload->stack + k, first = shown - 1 - age;
    return hd_frame_upload_find_frame(upload, env, frame > first ? frame : first);
}

/* On the host: room for the next frame of an env, with which an episode begins or goes on. */
void *hd_frame_upload_next(const struct hd_frame_upload *upload, int64_t env, bool begins);

/* On the host: the env, which has shown nothing yet, shows the frames of obs[stack][frame_bytes].
 */
void hd_frame_upload_add_obs(const struct hd_frame_upload *upload, int64_t env, const char *obs);

/* Copies the frames that the GPU does not know and whose place is not another's by now; then,
 * unless obs is NULL, puts the present observations obs[E][stack][frame_bytes] together, device
 * memory. One launch; `upload` is read before the call returns, what it points to when the kernel
 * runs. */
int hd_frame_upload_run_cuda(const struct hd_frame_upload *upload, char *obs, void *stream);

#endif
