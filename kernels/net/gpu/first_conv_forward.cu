/* SPDX-License-Identifier: Apache-2.0 */
/* The forward args of the first convolution: C[pixel][channel] = A[pixel][k] B[k][channel], where A
 * is read from lines of an image in shared memory, with k = (channel, y, x) of a window. A thread
 * block computes a band of a sample's output. */
#include "kernels/net/gpu/first_conv_internal.cuh"

enum {
    THREADS = 128,
    WARPS = THREADS / 32,
    READS = 8, /* of four bytes that a thread waits for together */
    TILE = 16, /* pixels of a tile */
    TILES = HD_FIRST_PIXELS / (WARPS * TILE),
    STEPS = HD_FIRST_WINDOW / 16, /* of two lines of a window, whose products are added at once */
};

struct args {
    struct hd_gpu_obs obs;
    struct hd_gpu_window w;
    struct hd_first_bands bands;
    bool aligned;
    int32_t out;
    const hd_bf16 *weight, *bias;
    hd_bf16 *y;
    struct hd_gpu_kept_obs kept;
};

/* A band of a sample's output. */
struct band {
    int64_t row;
    int32_t first, rows, pixels; /* rows and pixels of output */
    int32_t across, plane;       /* groups of four pixels in a line and in the lines of a channel */
};

static inline __device__ struct band find_band(const struct args &args)
{
    struct band band;
    band.row = blockIdx.x / (uint32_t)args.bands.n;
    band.first = (int32_t)(blockIdx.x % (uint32_t)args.bands.n) * args.bands.rows;
    band.rows = min(args.bands.rows, args.w.out_height - band.first);
    band.pixels = band.rows * args.w.out_width;
    band.across = args.w.width / HD_FIRST_STRIDE;
    band.plane = (HD_FIRST_STRIDE * (band.rows - 1) + HD_FIRST_KERNEL) * band.across;
    return band;
}

/* -- Shared memory ----------------------------------------------------------------------------- */

static inline __device__ void keep(const struct args &args, int64_t row, int64_t j, uint32_t bytes)
{
    *(uint32_t *)(args.kept.bytes + row * args.obs.elements + j) = bytes;
    if (row > 0 || !args.obs.scale)
        return;
    float *norm = args.kept.norm + HD_FIRST_NORM + j;
    for (int e = 0; e < HD_FIRST_STRIDE; e++) {
        norm[e] = args.obs.scale[j + e];
        norm[args.obs.elements + e] = args.obs.shift[j + e];
    }
}

static inline __device__ const uint8_t *find_row(const struct args &args, int64_t row)
{
    const struct hd_gpu_obs &obs = args.obs;
    return row < obs.n_first ? (const uint8_t *)obs.first + row * obs.elements
                             : (const uint8_t *)obs.second + (row - obs.n_first) * obs.elements;
}

/* Fills image[channel][line][x / 4] with the lines of a band. Those that no earlier band has are
 * also kept. A thread reads READS times before it goes on, so that it waits for memory once. */
template <bool ALIGNED>
static inline __device__ void load_image(const struct args &args, const struct band &band,
                                         uint2 *image)
{
    const struct hd_obs_norm norm = {args.obs.scale, args.obs.shift, args.obs.limit};
    const int32_t seen = band.first == 0 ? 0 : (HD_FIRST_KERNEL - HD_FIRST_STRIDE) * band.across;
    for (int32_t c = 0; c < args.w.channels; c++, image += band.plane) {
        const int64_t start =
            ((int64_t)c * args.w.height + HD_FIRST_STRIDE * band.first) * args.w.width;
        const uint8_t *from = find_row(args, band.row) + start;
        for (int32_t i = (int32_t)threadIdx.x; i < band.plane; i += READS * THREADS) {
            uint32_t bytes[READS];
#pragma unroll
            for (int r = 0; r < READS; r++)
                bytes[r] = hd_first_read<ALIGNED>(from + HD_FIRST_STRIDE *
                                                             min(i + r * THREADS, band.plane - 1));
#pragma unroll
            for (int r = 0; r < READS; r++) {
                const int32_t at = i + r * THREADS;
                const int64_t j = start + HD_FIRST_STRIDE * at;
                float x[HD_FIRST_STRIDE];
                if (at >= band.plane)
                    continue;
                hd_first_enter(norm, bytes[r], j, x);
                image[at] = make_uint2(hd_pack(x[0], x[1]), hd_pack(x[2], x[3]));
                if (at >= seen)
                    keep(args, band.row, j, bytes[r]);
            }
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        args.kept.norm[0] = args.obs.scale ? args.obs.limit : 0.0f;
}

/* Fills factors[step][tile][lane] with the weights of channels from c on and of 8 N outputs from n
 * on. Outputs are dealt to tiles so that a lane computes neighbours: those from 2 N (lane % 4)
 * on. */
template <int N>
static inline __device__ void load_factors(const struct args &args, int32_t n, int32_t c,
                                           int32_t end, uint2 (*factors)[N][32])
{
    const int32_t fours = (end - c) * HD_FIRST_WINDOW / 4;
    for (int32_t i = (int32_t)threadIdx.x; i < 8 * N * fours; i += THREADS) {
        const int32_t output = i / fours, four = i % fours, of_lane = output % (2 * N);
        const int32_t lane = (2 * (output / (2 * N)) + of_lane % 2) * 4 + four % 4;
        const hd_bf16 *from = args.weight +
                              (int64_t)(n + output) * args.w.channels * HD_FIRST_WINDOW +
                              c * HD_FIRST_WINDOW + 4 * four;
        factors[four / 4][of_lane / 2][lane] =
            n + output < args.out ? *(const uint2 *)from : make_uint2(0, 0);
    }
}

/* -- A warp's tiles ---------------------------------------------------------------------------- */

/* Returns the first pixel of the running warp's tile. */
static inline __device__ int32_t find_tile(int tile)
{
    return ((int32_t)threadIdx.x / 32 + WARPS * tile) * TILE;
}

/* Finds where the windows of this lane's two pixels of each tile begin in a channel's lines. The
 * last tile may have pixels that are not there; it computes the last one instead. */
static inline __device__ void find_windows(const struct args &args, const struct band &band,
                                           int32_t at[TILES][2])
{
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int32_t pixel =
                min(find_tile(i) + (int32_t)threadIdx.x % 32 / 4 + 8 * h, band.pixels - 1);
            const int32_t y = pixel / args.w.out_width, x = pixel % args.w.out_width;
            at[i][h] = y * HD_FIRST_STRIDE * band.across + x;
        }
}

/* Adds the products of a channel. A lane's pairs are neighbours in a line: those of a step are
 * summed in an order in which a lane has four pixels of a line. */
template <int N>
static inline __device__ void multiply(const struct band &band, const uint2 *plane,
                                       const int32_t at[TILES][2], const uint2 (*factors)[N][32],
                                       float (&sums)[TILES][N][4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32, t = lane % 4;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int32_t four = (2 * step + t / 2) * band.across + t % 2;
        uint2 b[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            b[j] = factors[step][j][lane];
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            if (find_tile(i) >= band.pixels)
                continue;
            const uint2 upper = plane[at[i][0] + four], lower = plane[at[i][1] + four];
            const uint32_t a[4] = {upper.x, lower.x, upper.y, lower.y};
            hd_multiply_tiles<N>(sums[i], a, b);
        }
    }
}

static inline __device__ float finish(float sum, hd_bf16 bias)
{
    const float x = sum + hd_bf16_to_float(bias);
    return x < 0.0f ? 0.0f : x;
}

static inline __device__ void store(hd_bf16 *to, const uint32_t (&pairs)[4])
{
    HD_STORE_16((uint4 *)to, make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
}

static inline __device__ void store(hd_bf16 *to, const uint32_t (&pairs)[2])
{
    *(uint2 *)to = make_uint2(pairs[0], pairs[1]);
}

/* Stores the outputs from n on. */
template <int N>
static inline __device__ void store_tiles(const struct args &args, const struct band &band,
                                          int32_t n, const float (&sums)[TILES][N][4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32, channel = n + 2 * N * (lane % 4);
    const int64_t first = (band.row * args.w.out_height + band.first) * args.w.out_width;
    if (channel >= args.out)
        return;
#pragma unroll
    for (int i = 0; i < 2 * TILES; i++) {
        const int32_t pixel = find_tile(i / 2) + lane / 4 + 8 * (i % 2);
        uint32_t pairs[N];
        if (pixel >= band.pixels)
            continue;
#pragma unroll
        for (int j = 0; j < N; j++)
            pairs[j] =
                hd_pack(finish(sums[i / 2][j][2 * (i % 2)], args.bias[channel + 2 * j]),
                        finish(sums[i / 2][j][2 * (i % 2) + 1], args.bias[channel + 2 * j + 1]));
        store(args.y + (first + pixel) * args.out + channel, pairs);
    }
}

/* Four blocks of two tiles fit, and 128 registers of a thread: with 96, for five, ptxas spills some
 * on sm_100. */
template <int N>
static __global__ void __launch_bounds__(THREADS, N == 2 ? 4 : 0)
    convolve(const __grid_constant__ struct args args)
{
    HD_AWAIT_INPUTS();
    __shared__ uint2 image[HD_FIRST_FOURS], factors[HD_FIRST_CHANNELS * STEPS][N][32];
    const struct band band = find_band(args);
    int32_t at[TILES][2];
    if (args.aligned)
        load_image<true>(args, band, image);
    else
        load_image<false>(args, band, image);
    find_windows(args, band, at);
    for (int32_t n = 0; n < args.out; n += 8 * N) {
        float sums[TILES][N][4] = {};
        for (int32_t first = 0; first < args.w.channels; first += HD_FIRST_CHANNELS) {
            const int32_t end = min(first + HD_FIRST_CHANNELS, args.w.channels);
            __syncthreads();
            load_factors<N>(args, n, first, end, factors);
            __syncthreads();
            for (int32_t c = first; c < end; c++)
                multiply<N>(band, image + c * band.plane, at, factors + (c - first) * STEPS, sums);
        }
        store_tiles<N>(args, band, n, sums);
    }
}

/* -- Launch ------------------------------------------------------------------------------------ */

extern "C" bool hd_gpu_first_conv_supports(const struct hd_gpu_window *w)
{
    return w->kernel == HD_FIRST_KERNEL && w->stride == HD_FIRST_STRIDE &&
           w->width % HD_FIRST_STRIDE == 0 && hd_first_count_rows(w) > 0 &&
           hd_first_count_row_pairs(w) > 0;
}

extern "C" int64_t hd_gpu_first_conv_count_norm(const struct hd_gpu_window *w)
{
    return HD_FIRST_NORM + 2 * (int64_t)w->channels * w->height * w->width;
}

extern "C" int hd_gpu_first_conv_forward(const struct hd_gpu_first_conv *conv,
                                         const struct hd_gpu_obs *obs, const void *weight,
                                         const void *bias, void *y,
                                         const struct hd_gpu_kept_obs *kept, void *stream)
{
    const struct hd_gpu_window *w = &conv->window;
    const uintptr_t both = (uintptr_t)obs->first | (uintptr_t)obs->second;
    const struct args args = {.obs = *obs,
                              .w = *w,
                              .bands = hd_first_cut(w->out_height, hd_first_count_rows(w)),
                              .aligned = both % HD_FIRST_STRIDE == 0,
                              .out = (int32_t)conv->out,
                              .weight = (const hd_bf16 *)weight,
                              .bias = (const hd_bf16 *)bias,
                              .y = (hd_bf16 *)y,
                              .kept = *kept};
    unsigned blocks;
    HD_TRY(hd_first_count_blocks(conv->rows * args.bands.n, &blocks));
    return hd_first_dispatch_tiles(conv->out, [&](auto tiles) {
        return HD_LAUNCH(convolve<tiles()>, blocks, THREADS, stream, args);
    });
}
