/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/copy.cuh"

extern "C" {
#include "kernels/rollout/frame_upload.h"
}

/* There is a thread block for each env, because a barrier within the block suffices to know that
 * the env's frames have been copied. */
template <typename word>
static __global__ void upload_env(const struct hd_frame_upload upload, char *obs)
{
    const int64_t env = blockIdx.x, bytes = upload.frame_bytes, shown = upload.shown[env];
    const int64_t age = upload.age[env], here = upload.here[env], kept = shown - upload.frames;
    for (int64_t i = (here > kept ? here : kept) + threadIdx.y; i < shown; i += blockDim.y) {
        const int64_t at = hd_frame_upload_find_frame(&upload, env, i);
        hd_copy_words<word>(upload.host_frames + at, upload.frames_here + at, bytes);
    }
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        upload.here[env] = shown;
    for (int64_t k = threadIdx.y; obs && k < upload.stack; k += blockDim.y) {
        const int64_t at = hd_frame_upload_find_obs(&upload, env, shown, age, k);
        hd_copy_words<word>(upload.frames_here + at, obs + (env * upload.stack + k) * bytes, bytes);
    }
}

extern "C" int hd_frame_upload_run_cuda(const struct hd_frame_upload *upload, char *obs,
                                        void *stream)
{
    const uint64_t bits = (uint64_t)upload->frame_bytes | hd_cuda_get_bits(upload->host_frames) |
                          hd_cuda_get_bits(upload->frames_here) | hd_cuda_get_bits(obs);
    return HD_LAUNCH_COPY(upload_env, bits, upload->frame_bytes, upload->stack,
                          (unsigned)upload->envs, stream, *upload, obs);
}
