/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/copy.cuh"

extern "C" {
#include "kernels/rollout/show.h"
}

/* A block for each env, because it alone knows when the env's frames are there. */
template <typename word>
static __global__ void show_env(const struct hd_frame_upload show, char *obs)
{
    const int64_t env = blockIdx.x, bytes = show.frame_bytes, shown = show.shown[env];
    const int64_t age = show.age[env], here = show.here[env], kept = shown - show.frames;
    for (int64_t i = (here > kept ? here : kept) + threadIdx.y; i < shown; i += blockDim.y) {
        const int64_t at = hd_frame_upload_find_frame(&show, env, i);
        hd_copy_words<word>(show.host_frames + at, show.frames_here + at, bytes);
    }
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        show.here[env] = shown;
    for (int64_t k = threadIdx.y; obs && k < show.stack; k += blockDim.y) {
        const int64_t at = hd_frame_upload_find_obs(&show, env, shown, age, k);
        hd_copy_words<word>(show.frames_here + at, obs + (env * show.stack + k) * bytes, bytes);
    }
}

extern "C" int hd_frame_upload_run_cuda(const struct hd_frame_upload *show, char *obs, void *stream)
{
    const uint64_t bits = (uint64_t)show->frame_bytes | hd_cuda_get_bits(show->host_frames) |
                          hd_cuda_get_bits(show->frames_here) | hd_cuda_get_bits(obs);
    return HD_LAUNCH_COPY(show_env, bits, show->frame_bytes, show->stack, (unsigned)show->envs,
                          stream, *show, obs);
}
