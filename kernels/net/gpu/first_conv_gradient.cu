/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of the first convolution's weights: C[k][channel] = A[k][pixel] B[pixel][channel],
 * with k = (channel, y, x) of a window, A from lines of an image and B from delta, both in shared
 * memory. The matrices are multiplied by pairs of neighbours along the summed index. Such a pair
 * are the pixels of two rows of output that lie one above the other, and what both see at the same
 * place of their windows. A thread block adds a range of bands in registers; the sums of the blocks
 * are then added in order. */
#include "kernels/net/gpu/first_conv_internal.cuh"

enum {
    THREADS = 256,
    BLOCKS = 256, /* of a launch, about: two for each multiprocessor of large GPUs */
    TILES = 2,    /* of 16 k, two lines of a window, that a warp computes: half of a channel */
    STEP = 8,     /* pairs that are added at once */
    DOWN = 2 * HD_FIRST_STRIDE, /* lines from a pair of rows to the next */
    SUMMED = 32,                /* weights whose partial sums a thread block adds */
};

struct args {
    struct hd_gpu_window w;
    struct hd_gpu_kept_obs kept;
    const hd_bf16 *delta;
    float *partials;             /* [splits][out][k] */
    struct hd_first_bands bands; /* of pairs of rows */
    int64_t items;               /* bands of all samples */
    int32_t out;
};

/* A band of a sample. */
struct band {
    int64_t row;
    int32_t first, rows; /* pairs of rows of output */
};

static inline __device__ struct band find_band(const struct args &args, int64_t item)
{
    struct band band;
    band.row = item / args.bands.n;
    band.first = (int32_t)(item % args.bands.n) * args.bands.rows;
    band.rows = min(args.bands.rows, (args.w.out_height + 1) / 2 - band.first);
    return band;
}

/* -- Shared memory ----------------------------------------------------------------------------- */

/* Each thread brings some of a band's lines and vectors of delta, first to registers while the
 * block still multiplies the band before. */
enum {
    BROUGHT = 2 * HD_FIRST_STRIDE,                      /* pairs that a thread makes at a time */
    TIMES = HD_FIRST_IMAGE_PAIRS / (BROUGHT * THREADS), /* that it does so */
    READS = 3,                                          /* lines that it needs */
};

struct brought {
    uint32_t bytes[TIMES][READS];
    hd_vector<hd_bf16> upper, lower;
};

/* A thread makes pairs of four pixels of two lines of a channel: with the line HD_FIRST_STRIDE
 * below. */
struct place {
    int32_t channel, down, x; /* down: the first line, from the band's first one on */
    bool there;
};

static inline __device__ struct place find_place(const struct args &args, const struct band &band,
                                                 int32_t channels, int time)
{
    const int32_t i = (int32_t)threadIdx.x + time * THREADS, across = args.w.width / 4;
    const int32_t line = i / across, of_channel = band.rows * HD_FIRST_STRIDE;
    struct place place;
    place.channel = line / of_channel;
    place.down = line % of_channel / HD_FIRST_STRIDE * DOWN + line % HD_FIRST_STRIDE;
    place.x = i % across * 4;
    place.there = place.channel < channels;
    return place;
}

/* Returns the element of an observation with which a line of a place begins. Where a pair of rows
 * has no second row, its lines end beyond the last window; delta is zero there, and the last line
 * that is kept does. */
static inline __device__ int64_t find_element(const struct args &args, const struct band &band,
                                              int32_t first_channel, const struct place &place,
                                              int read)
{
    const int32_t last = HD_FIRST_STRIDE * (args.w.out_height - 1) + HD_FIRST_KERNEL - 1;
    const int32_t y = min(band.first * DOWN + place.down + read * HD_FIRST_STRIDE, last);
    return ((int64_t)(first_channel + place.channel) * args.w.height + y) * args.w.width + place.x;
}

/* Returns a vector of delta, or zeros where there is none. */
static inline __device__ hd_vector<hd_bf16> load_vector(const struct args &args, int64_t row,
                                                        int32_t y, int32_t x, int32_t channel)
{
    const int64_t pixel = (row * args.w.out_height + y) * args.w.out_width + x;
    if (y < args.w.out_height && channel < args.out)
        return hd_load(args.delta + pixel * args.out + channel);
    return hd_vector<hd_bf16>{};
}

static inline __device__ int64_t count_elements(const struct args &args)
{
    return (int64_t)args.w.channels * args.w.height * args.w.width;
}

/* Brings lines of channels [c, end) and the running thread's vector of pairs of pixels of delta, of
 * 8 N channels from n on. Where there are no more pairs it is zeros. */
template <int N>
static inline __device__ void bring(const struct args &args, const struct band &band, int32_t n,
                                    int32_t c, int32_t end, struct brought &brought)
{
    const uint8_t *from = args.kept.bytes + band.row * count_elements(args);
    const int32_t pair = (int32_t)threadIdx.x / N, channel = n + (int32_t)threadIdx.x % N * 8;
    const int32_t down = pair / args.w.out_width, x = pair % args.w.out_width;
    const int32_t y = down < band.rows ? 2 * (band.first + down) : args.w.out_height;
#pragma unroll
    for (int time = 0; time < TIMES; time++) {
        const struct place place = find_place(args, band, end - c, time);
#pragma unroll
        for (int r = 0; r < READS; r++)
            if (place.there)
                brought.bytes[time][r] =
                    hd_first_read<true>(from + find_element(args, band, c, place, r));
    }
    brought.upper = load_vector(args, band.row, y, x, channel);
    brought.lower = load_vector(args, band.row, y + 1, x, channel);
}

static inline __device__ uint4 pack_pairs(const float low[4], const float high[4])
{
    return make_uint4(hd_pack(low[0], high[0]), hd_pack(low[1], high[1]), hd_pack(low[2], high[2]),
                      hd_pack(low[3], high[3]));
}

/* Stores the brought lines as image[channel][line of a pair of rows][x], in pairs. */
static inline __device__ void store_image(const struct args &args, const struct band &band,
                                          int32_t c, int32_t end, const struct brought &brought,
                                          uint32_t *image)
{
    const float *scale = args.kept.norm + HD_FIRST_NORM;
    const float limit = args.kept.norm[0];
    const struct hd_obs_norm norm = {limit > 0 ? scale : NULL, scale + count_elements(args), limit};
#pragma unroll
    for (int time = 0; time < TIMES; time++) {
        const struct place place = find_place(args, band, end - c, time);
        uint32_t *to =
            image + (place.channel * args.bands.rows * DOWN + place.down) * args.w.width + place.x;
        float x[READS][4];
        if (!place.there)
            continue;
#pragma unroll
        for (int r = 0; r < READS; r++)
            hd_first_enter(norm, brought.bytes[time][r], find_element(args, band, c, place, r),
                           x[r]);
        *(uint4 *)to = pack_pairs(x[0], x[1]);
        *(uint4 *)(to + HD_FIRST_STRIDE * args.w.width) = pack_pairs(x[1], x[2]);
    }
}

/* Stores the brought vector in delta[pair of pixels][channel], and where in a channel of the image
 * each pair's windows begin; pairs of zeros meet the first window. */
template <int N>
static inline __device__ void store_delta(const struct args &args, const struct band &band,
                                          const struct brought &brought,
                                          uint32_t (*delta)[8 * N + 8], int32_t *at)
{
    const int32_t pair = (int32_t)threadIdx.x / N, channel = (int32_t)threadIdx.x % N * 8;
    const int32_t down = pair / args.w.out_width, x = pair % args.w.out_width;
    uint32_t both[HD_VECTOR];
    if (pair >= HD_FIRST_PAIRS)
        return;
#pragma unroll
    for (int e = 0; e < HD_VECTOR; e++)
        both[e] = (uint32_t)brought.lower.e[e] << 16 | brought.upper.e[e];
    uint4 *to = (uint4 *)(delta[pair] + channel);
    to[0] = make_uint4(both[0], both[1], both[2], both[3]);
    to[1] = make_uint4(both[4], both[5], both[6], both[7]);
    if (channel == 0)
        at[pair] = down < band.rows ? down * DOWN * args.w.width + HD_FIRST_STRIDE * x : 0;
}

/* -- A warp's tiles ---------------------------------------------------------------------------- */

/* Returns the line of windows with which the running warp's tile begins. */
static inline __device__ int32_t find_line(int tile)
{
    return ((int32_t)threadIdx.x / 32 / HD_FIRST_CHANNELS * TILES + tile) * 2;
}

/* Adds the products of a band's pairs; `image` is that of the warp's channel. */
template <int N>
static inline __device__ void multiply(const struct args &args, const struct band &band,
                                       const uint32_t *image, const uint32_t (*delta)[8 * N + 8],
                                       const int32_t *at, float (&sums)[TILES][N][4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int32_t first = 0; first < band.rows * args.w.out_width; first += STEP) {
        const uint32_t *left = image + at[first + t] + g, *right = image + at[first + t + 4] + g;
        uint2 b[N];
#pragma unroll
        for (int j = 0; j < N; j++)
            b[j] = make_uint2(delta[first + t][8 * j + g], delta[first + t + 4][8 * j + g]);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            const int32_t line = find_line(i) * args.w.width, next = line + args.w.width;
            const uint32_t a[4] = {left[line], left[next], right[line], right[next]};
            hd_multiply_tiles<N>(sums[i], a, b);
        }
    }
}

/* Stores the sums of channel c of observations and of outputs from n on. */
template <int N>
static inline __device__ void store_tiles(const struct args &args, int32_t n, int32_t c,
                                          const float (&sums)[TILES][N][4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32, depth = args.w.channels * HD_FIRST_WINDOW;
    float *to = args.partials + (int64_t)blockIdx.x * args.out * depth + c * HD_FIRST_WINDOW;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int j = 0; j < N; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int32_t output = n + 8 * j + lane % 4 * 2 + e % 2;
                const int32_t k = (find_line(i) + e / 2) * HD_FIRST_KERNEL + lane / 4;
                if (output < args.out)
                    to[(int64_t)output * depth + k] = sums[i][j][e];
            }
}

/* Blocks: splits of the items x groups of 8 N outputs x groups of HD_FIRST_CHANNELS channels. */
template <int N>
static __global__ void __launch_bounds__(THREADS)
    add_products(const __grid_constant__ struct args args)
{
    HD_AWAIT_INPUTS();
    alignas(16) __shared__ uint32_t image[HD_FIRST_IMAGE_PAIRS];
    alignas(16) __shared__ uint32_t delta[HD_FIRST_PAIRS][8 * N + 8];
    __shared__ int32_t at[HD_FIRST_PAIRS];
    const int32_t n = (int32_t)blockIdx.y * 8 * N, first = (int32_t)blockIdx.z * HD_FIRST_CHANNELS;
    const int32_t end = min(first + HD_FIRST_CHANNELS, args.w.channels);
    const int32_t mine = (int32_t)threadIdx.x / 32 % HD_FIRST_CHANNELS;
    const int64_t last = (blockIdx.x + 1) * args.items / gridDim.x;
    float sums[TILES][N][4] = {};
    int64_t item = blockIdx.x * args.items / gridDim.x;
    struct band band = find_band(args, item);
    struct brought brought;
    bring<N>(args, band, n, first, end, brought);
    while (item < last) {
        const struct band multiplied = band;
        __syncthreads();
        store_image(args, band, first, end, brought, image);
        store_delta<N>(args, band, brought, delta, at);
        __syncthreads();
        if (++item < last) {
            band = find_band(args, item);
            bring<N>(args, band, n, first, end, brought);
        }
        if (first + mine < end)
            multiply<N>(args, multiplied, image + mine * args.bands.rows * DOWN * args.w.width,
                        delta, at, sums);
    }
    if (first + mine < end)
        store_tiles<N>(args, n, first + mine, sums);
}

/* -- The sum of all blocks --------------------------------------------------------------------- */

/* A thread block adds the partial sums of SUMMED weights: each of its rows of threads every eighth,
 * and then the first row the sums of the rows. */
static __global__ void __launch_bounds__(THREADS)
    add_partials(const float *partials, int32_t splits, int64_t weights, float *gradient)
{
    HD_AWAIT_INPUTS();
    enum { ROWS = THREADS / SUMMED };
    __shared__ float part[ROWS][SUMMED];
    const int32_t column = (int32_t)threadIdx.x % SUMMED, row = (int32_t)threadIdx.x / SUMMED;
    const int64_t weight = (int64_t)blockIdx.x * SUMMED + column;
    float sum = 0;
#pragma unroll 8
    for (int32_t s = row; s < splits; s += ROWS)
        sum += partials[s * weights + weight];
    part[row][column] = sum;
    __syncthreads();
    if (row > 0)
        return;
    for (int r = 1; r < ROWS; r++)
        sum += part[r][column];
    gradient[weight] = sum;
}

/* -- Launches ---------------------------------------------------------------------------------- */

static int64_t count_weights(const struct hd_gpu_first_conv *conv)
{
    return conv->out * conv->window.channels * HD_FIRST_WINDOW;
}

static struct hd_first_bands cut(const struct hd_gpu_first_conv *conv)
{
    const struct hd_gpu_window *w = &conv->window;
    return hd_first_cut((w->out_height + 1) / 2, hd_first_count_row_pairs(w));
}

/* Returns the blocks of add_products. */
static dim3 count_blocks(const struct hd_gpu_first_conv *conv)
{
    const int64_t items = conv->rows * cut(conv).n;
    const int64_t channels = (conv->window.channels + HD_FIRST_CHANNELS - 1) / HD_FIRST_CHANNELS;
    int64_t outputs = 0;
    hd_first_dispatch_tiles(conv->out, [&](auto tiles) {
        outputs = (conv->out + 8 * tiles() - 1) / (8 * tiles());
        return HD_OK;
    });
    const int64_t wanted = max((int64_t)1, BLOCKS / (outputs * channels));
    return dim3((unsigned)min(wanted, items), (unsigned)outputs, (unsigned)channels);
}

extern "C" int64_t hd_gpu_first_conv_count_partials(const struct hd_gpu_first_conv *conv)
{
    return count_blocks(conv).x * count_weights(conv);
}

extern "C" int hd_gpu_first_conv_gradient(const struct hd_gpu_first_conv *conv,
                                          const struct hd_gpu_kept_obs *kept, const void *delta,
                                          float *partials, float *gradient, void *stream)
{
    const struct hd_first_bands bands = cut(conv);
    const struct args args = {.w = conv->window,
                              .kept = *kept,
                              .delta = (const hd_bf16 *)delta,
                              .partials = partials,
                              .bands = bands,
                              .items = conv->rows * bands.n,
                              .out = (int32_t)conv->out};
    const dim3 blocks = count_blocks(conv);
    const int64_t weights = count_weights(conv);
    HD_TRY(hd_first_dispatch_tiles(conv->out, [&](auto tiles) {
        return HD_LAUNCH(add_products<tiles()>, blocks, THREADS, stream, args);
    }));
    return HD_LAUNCH(add_partials, (unsigned)(weights / SUMMED), THREADS, stream, partials,
                     (int32_t)blocks.x, weights, gradient);
}
