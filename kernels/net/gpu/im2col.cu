/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of observations and of activations, which convolutions multiply. A thread makes HD_VECTOR
 * elements of a row; neighbouring threads make neighbouring elements. */
#include "kernels/net/gpu/vector_internal.cuh"

extern "C" {
#include "kernels/net/obs_norm.h"
}

/* -- Observations ------------------------------------------------------------------------------ */

template <class T> static inline __device__ float to_float(T x)
{
    return hd_to_float(x);
}

static inline __device__ float to_float(uint8_t x)
{
    return (float)x / 255.0f;
}

static inline __device__ float number(float x)
{
    return x;
}

static inline __device__ float number(hd_bf16 x)
{
    return hd_bf16_to_float(x);
}

static inline __device__ float number(uint8_t x)
{
    return (float)x;
}

/* Returns element j of an observation as it enters the net. */
template <class From>
static inline __device__ float entering(const struct hd_gpu_obs &obs, From x, int64_t j)
{
    if (!obs.scale)
        return to_float(x);
    const struct hd_obs_norm norm = {obs.scale, obs.shift, obs.limit};
    return hd_obs_normalise(&norm, j, number(x));
}

template <class From>
static inline __device__ const From *row_of(const struct hd_gpu_obs &obs, int64_t row)
{
    return row < obs.n_first ? (const From *)obs.first + row * obs.elements
                             : (const From *)obs.second + (row - obs.n_first) * obs.elements;
}

template <class From, class To>
static __global__ void take_obs(const struct hd_gpu_obs obs, int64_t n, int64_t ld, To *to)
{
    HD_AWAIT_INPUTS();
    const int64_t i = HD_ELEMENT;
    if (i >= n)
        return;
    const int64_t row = i / ld, j = i % ld;
    to[i] =
        hd_from_float<To>(j < obs.elements ? entering(obs, row_of<From>(obs, row)[j], j) : 0.0f);
}

/* Reads four elements of an image at a time if they are aligned, else one by one. */
template <class From> struct alignas(4 * sizeof(From)) four {
    From e[4];
};

template <class From>
static inline __device__ void read_line(const From *from, bool aligned, From line[HD_VECTOR])
{
    if (aligned)
        for (int i = 0; i < HD_VECTOR / 4; i++)
            *(four<From> *)(line + 4 * i) = *(const four<From> *)(from + 4 * i);
    else
        for (int i = 0; i < HD_VECTOR; i++)
            line[i] = from[i];
}

/* Reads HD_VECTOR elements of a window from its element d on, zeros where there is no pixel. */
template <class From, class To>
static inline __device__ hd_vector<To> read_window(const struct hd_gpu_obs &obs,
                                                   const struct hd_gpu_window &w, const From *image,
                                                   int32_t y, int32_t x, int32_t d)
{
    hd_vector<To> out;
    int32_t kx = d % w.kernel, line = d / w.kernel, ky = line % w.kernel, c = line / w.kernel;
#pragma unroll
    for (int e = 0; e < HD_VECTOR; e++) {
        const bool inside =
            c < w.channels && y + ky >= 0 && y + ky < w.height && x + kx >= 0 && x + kx < w.width;
        const int64_t at = ((int64_t)c * w.height + y + ky) * w.width + x + kx;
        out.e[e] = hd_from_float<To>(inside ? entering(obs, image[at], at) : 0.0f);
        if (++kx < w.kernel)
            continue;
        kx = 0;
        if (++ky < w.kernel)
            continue;
        ky = 0;
        c++;
    }
    return out;
}

/* Reads a row of a window whose kernel is HD_VECTOR, and which is inside of its image. */
template <class From, class To>
static inline __device__ hd_vector<To> read_row(const struct hd_gpu_obs &obs, const From *image,
                                                int64_t at, bool aligned)
{
    alignas(16) From read[HD_VECTOR];
    hd_vector<To> out;
    read_line(image + at, aligned, read);
#pragma unroll
    for (int kx = 0; kx < HD_VECTOR; kx++)
        out.e[kx] = hd_from_float<To>(entering(obs, read[kx], at + kx));
    return out;
}

/* Each thread makes a vector of a window, which is one of its rows if ROWS. */
template <class From, class To, bool ROWS>
static __global__ void obs_columns(const struct hd_gpu_obs obs, const struct hd_gpu_window w,
                                   int64_t from_row, uint32_t n, uint32_t vectors, bool aligned,
                                   To *columns)
{
    HD_AWAIT_INPUTS();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const uint32_t pixel = i / vectors, v = i % vectors;
    const uint32_t x = pixel % (uint32_t)w.out_width, up = pixel / (uint32_t)w.out_width;
    const uint32_t y = up % (uint32_t)w.out_height, row = up / (uint32_t)w.out_height;
    const From *image = row_of<From>(obs, from_row + row);
    if (ROWS) {
        const uint32_t channel = v / HD_VECTOR, ky = v % HD_VECTOR;
        const int64_t at = ((int64_t)channel * w.height + y * (uint32_t)w.stride + ky) * w.width +
                           (int64_t)x * w.stride;
        hd_store(columns + (int64_t)i * HD_VECTOR, read_row<From, To>(obs, image, at, aligned));
    } else {
        hd_store(columns + (int64_t)i * HD_VECTOR,
                 read_window<From, To>(obs, w, image, (int32_t)y * w.stride - w.padding,
                                       (int32_t)x * w.stride - w.padding,
                                       (int32_t)(v * HD_VECTOR)));
    }
}

/* Calls launch(From()) with the type of observations. */
template <class Launch> static int by_obs_type(enum hd_gpu_obs_type type, Launch launch)
{
    switch (type) {
    case HD_GPU_BYTES:
        return launch(uint8_t());
    case HD_GPU_FLOATS:
        return launch(float());
    default:
        return launch(hd_bf16());
    }
}

extern "C" int hd_gpu_take_obs(const struct hd_gpu_obs *obs, int64_t rows, int64_t ld, bool bf16,
                               void *to, void *stream)
{
    const int64_t n = rows * ld;
    return by_obs_type(obs->type, [&](auto from) {
        return hd_dispatch_type(bf16, [&](auto type) {
            return HD_LAUNCH((take_obs<decltype(from), decltype(type)>), hd_cuda_count_blocks(n),
                             HD_THREADS, stream, *obs, n, ld, (decltype(type) *)to);
        });
    });
}

/* Checks that the threads of a launch can be counted in 32 bits, because dividing larger numbers is
 * slow. */
static int count_threads(int64_t threads)
{
    return threads <= INT32_MAX - HD_THREADS
               ? HD_OK
               : hd_fail(HD_ERR_UNSUPPORTED, "images too large for a GPU's convolution");
}

static bool is_aligned(const struct hd_gpu_obs *obs, const struct hd_gpu_window *w, size_t size)
{
    const uintptr_t both = (uintptr_t)obs->first | (uintptr_t)obs->second;
    return both % (4 * size) == 0 && w->width % 4 == 0 && w->stride % 4 == 0;
}

extern "C" int hd_gpu_im2col_obs(const struct hd_gpu_obs *obs, int64_t from_row,
                                 const struct hd_gpu_window *window, int64_t rows, bool bf16,
                                 void *columns, void *stream)
{
    const struct hd_gpu_window w = *window;
    const int64_t vectors = hd_gpu_count_obs_depth(&w) / HD_VECTOR;
    const int64_t n = rows * w.out_height * w.out_width * vectors;
    const bool by_rows = w.kernel == HD_VECTOR && w.padding == 0;
    HD_TRY(count_threads(n));
    return by_obs_type(obs->type, [&](auto from) {
        const bool aligned = is_aligned(obs, &w, sizeof from);
        return hd_dispatch_type(bf16, [&](auto type) {
            using From = decltype(from);
            using To = decltype(type);
            return HD_LAUNCH((by_rows ? obs_columns<From, To, true> : obs_columns<From, To, false>),
                             hd_cuda_count_blocks(n), HD_THREADS, stream, *obs, w, from_row,
                             (uint32_t)n, (uint32_t)vectors, aligned, (To *)columns);
        });
    });
}

/* -- Activations ------------------------------------------------------------------------------- */

template <class T, bool RELU>
static __global__ void act_columns(const T *x, const struct hd_gpu_window w, uint32_t n, T *columns)
{
    HD_AWAIT_INPUTS();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const uint32_t vectors = (uint32_t)w.channels / HD_VECTOR, kernel = (uint32_t)w.kernel;
    const uint32_t c = i % vectors, at = i / vectors, kx = at % kernel, over = at / kernel;
    const uint32_t ky = over % kernel, pixel = over / kernel;
    const uint32_t ox = pixel % (uint32_t)w.out_width, up = pixel / (uint32_t)w.out_width;
    const uint32_t oy = up % (uint32_t)w.out_height, row = up / (uint32_t)w.out_height;
    const int32_t y = (int32_t)(oy * (uint32_t)w.stride + ky) - w.padding;
    const int32_t px = (int32_t)(ox * (uint32_t)w.stride + kx) - w.padding;
    const int64_t in = ((int64_t)row * w.height + y) * w.width + px;
    hd_vector<T> out = {};
    if (y >= 0 && y < w.height && px >= 0 && px < w.width)
        out = hd_load(x + in * w.channels + c * HD_VECTOR);
#pragma unroll
    for (int e = 0; e < HD_VECTOR; e++)
        out.e[e] = RELU && hd_to_float(out.e[e]) <= 0.0f ? T(0) : out.e[e];
    hd_store(columns + (int64_t)i * HD_VECTOR, out);
}

extern "C" int hd_gpu_im2col(const void *x, const struct hd_gpu_window *window, int64_t rows,
                             bool relu, bool bf16, void *columns, void *stream)
{
    const struct hd_gpu_window w = *window;
    const int64_t n =
        rows * w.out_height * w.out_width * w.kernel * w.kernel * (w.channels / HD_VECTOR);
    HD_TRY(count_threads(n));
    return hd_dispatch_type(bf16, [&](auto type) {
        using T = decltype(type);
        return HD_LAUNCH((relu ? act_columns<T, true> : act_columns<T, false>),
                         hd_cuda_count_blocks(n), HD_THREADS, stream, (const T *)x, w, (uint32_t)n,
                         (T *)columns);
    });
}
