/* SPDX-License-Identifier: Apache-2.0 */
/* Present observations of envs that a CPU steps, put together on a GPU: of each frame that an env
 * showed the bytes travel once. */
#ifndef HD_KERNELS_SHOW_H
#define HD_KERNELS_SHOW_H

#include <stdint.h>

/* A group of envs; arrays as in a leaf of the type `trajectories`. */
struct hd_show {
    int64_t envs, frames, stack, frame_bytes; /* E, F; frames of an observation */
    const char *host_frames;                  /* [E][F][frame_bytes], shared memory */
    const int64_t *shown;                     /* [E]: frames shown so far, shared memory */
    const int64_t *age; /* [E]: of the present observation, frames of its episode before the last
                           one; shared memory */
    char *frames_here;  /* [E][F][frame_bytes], device memory */
    int64_t *here;      /* [E]: frames that are there already; device memory */
};

/* Copies frames here[e] … shown[e] - 1 of each env, or all where `fresh`, and counts them; then,
 * unless obs is NULL, puts obs[E][stack][frame_bytes] together, device memory, oldest frames first;
 * where an episode is younger than that, its first frame stands in. One launch; `show` is read
 * before the call returns, what it points to when the kernel runs. */
int hd_show_cuda(const struct hd_show *show, int fresh, char *obs, void *stream);

#endif
