/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/common/copy.cuh"

extern "C" {
#include "kernels/rollout/frame_upload.h"
}

struct uploads {
    struct hd_frame_upload of[HD_FRAME_UPLOADS];
};

/* There is a thread block for each env, because a barrier within the block suffices to know that
 * the env's frames have been copied. */
template <typename word>
static __global__ void upload_env(const struct uploads uploads, char *all_obs)
{
    HD_AWAIT_INPUTS();
    const int64_t envs = uploads.of[0].envs, env = blockIdx.x % envs;
    const struct hd_frame_upload &upload = uploads.of[blockIdx.x / envs];
    char *obs = all_obs;
    if (obs)
        obs += (blockIdx.x - env) * upload.stack * upload.frame_bytes;
    const int64_t bytes = upload.frame_bytes, shown = upload.shown[env];
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

extern "C" int hd_frame_upload_run_cuda(const struct hd_frame_upload *uploads, int64_t n, char *obs,
                                        void *stream)
{
    struct uploads all = {};
    uint64_t bits = (uint64_t)uploads->frame_bytes | hd_cuda_get_bits(obs);
    for (int64_t i = 0; i < n; i++) {
        all.of[i] = uploads[i];
        bits |= hd_cuda_get_bits(uploads[i].host_frames) | hd_cuda_get_bits(uploads[i].frames_here);
    }
    return HD_LAUNCH_COPY(upload_env, bits, uploads->frame_bytes, uploads->stack,
                          (unsigned)(n * uploads->envs), stream, all, obs);
}
