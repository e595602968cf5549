/* SPDX-License-Identifier: Apache-2.0 */
/* This file is compiled with contraction: see `scale`. */
#include "kernels/frames.h"
#include "kernels/vector_internal.h"

/* Strides of the result, in elements. */
struct strides {
    int64_t row, y, x, group, channel; /* channel % 16 lies `channel` apart, channel / 16 `group` */
};

static struct strides strides_of(const struct hd_frames *f)
{
    int64_t channels = f->channels * f->fold * f->fold;
    int64_t height = f->height / f->fold, width = f->width / f->fold, plane = height * width;
    switch (f->layout) {
    case HD_NHWC:
        return (struct strides){channels * plane, width * channels, channels, 16, 1};
    case HD_NCHW16:
        return (struct strides){(channels + 15) / 16 * 16 * plane, width * 16, 16, plane * 16, 1};
    default:
        return (struct strides){channels * plane, width, 1, 16 * plane, plane};
    }
}

/* -- Bytes ---------------------------------------------------------------------------------------
 */

/* x / 255 rounded correctly: a product with the rounded reciprocal, then one step of refinement,
 * which gives the quotient itself with fused operations (Markstein 1990). */
HD_INLINE hd_vec scale(hd_vec x)
{
#ifdef __FMA__
    const float reciprocal = 1.0f / 255.0f;
    const hd_vec quotient = x * reciprocal;
    const hd_vec left = x - quotient * 255.0f;
    return quotient + left * reciprocal;
#else
    return x / 255.0f;
#endif
}

/* x as hd_obs_normal has it. */
HD_INLINE hd_vec normalise(hd_vec x, hd_vec factor, hd_vec shift, float limit)
{
    hd_vec y;
#ifdef __AVX512F__
    /* Of two operands the second is taken when one is no number. */
    const __m512 most = _mm512_set1_ps(limit), least = _mm512_set1_ps(-limit);
    y = (hd_vec)_mm512_min_ps(
        most, _mm512_max_ps(least, _mm512_fmadd_ps((__m512)x, (__m512)factor, (__m512)shift)));
#else
    for (int i = 0; i < HD_VEC; i++) {
        const float z = fmaf(x[i], factor[i], shift[i]);
        y[i] = z > limit ? limit : z < -limit ? -limit : z;
    }
#endif
    return y;
}

HD_INLINE void put(const struct hd_frames *f, hd_vec value, void *to, int64_t at)
{
    if (f->bf16)
        hd_vec_store_bf16((hd_bf16 *)to + at, value);
    else
        hd_vec_store((float *)to + at, value);
}

typedef uint32_t words4 __attribute__((vector_size(16), aligned(1)));

enum { SIDE = 4, GROUP = 4 };

/* Four 4 x 4 patches that lie side by side, a line of each in every vector, become one in each. */
HD_INLINE void split_patches(words4 line[GROUP])
{
    const words4 low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
    const words4 a = __builtin_shuffle(line[0], line[2], low);
    const words4 b = __builtin_shuffle(line[1], line[3], low);
    const words4 c = __builtin_shuffle(line[0], line[2], high);
    const words4 d = __builtin_shuffle(line[1], line[3], high);
    line[0] = __builtin_shuffle(a, b, low);
    line[1] = __builtin_shuffle(a, b, high);
    line[2] = __builtin_shuffle(c, d, low);
    line[3] = __builtin_shuffle(c, d, high);
}

/* The same of floats: a line of four patches in every vector becomes a patch in each. */
HD_INLINE void split_vectors(hd_vec line[GROUP])
{
    const hd_vec_mask low = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
    const hd_vec_mask high = {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31};
    const hd_vec_mask even = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
    const hd_vec_mask odd = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
    const hd_vec a = __builtin_shuffle(line[0], line[1], low);
    const hd_vec b = __builtin_shuffle(line[2], line[3], low);
    const hd_vec c = __builtin_shuffle(line[0], line[1], high);
    const hd_vec d = __builtin_shuffle(line[2], line[3], high);
    line[0] = __builtin_shuffle(a, b, even);
    line[1] = __builtin_shuffle(a, b, odd);
    line[2] = __builtin_shuffle(c, d, even);
    line[3] = __builtin_shuffle(c, d, odd);
}

/* Fold 4: the 16 bytes of a 4 x 4 patch are 16 neighbouring channels. Line y of patches of channel
 * c of observations [0, n) becomes to[base + observation * s->row + …]. */
static void divide_line(const struct hd_frames *f, const struct strides *s, int64_t n,
                        const uint8_t *line, void *to, int64_t base)
{
    const int64_t size = f->channels * f->height * f->width, patches = f->width / SIDE;
    for (int64_t r = 0; r < n; r++, line += size, base += s->row)
        for (int64_t at = 0; at < patches; at += GROUP) {
            const int64_t x = at < patches - GROUP ? at : patches - GROUP;
            words4 group[GROUP];
            for (int i = 0; i < SIDE; i++)
                group[i] = *(const words4 *)(line + i * f->width + SIDE * x);
            split_patches(group);
            for (int i = 0; i < GROUP; i++)
                put(f, scale(hd_vec_from_bytes((const uint8_t *)&group[i])), to,
                    base + (x + i) * s->x);
        }
}

/* The same with line j of `norm`, which is read once for all n observations. */
static void normalise_line(const struct hd_frames *f, const struct strides *s,
                           const struct hd_obs_norm *norm, int64_t j, int64_t n,
                           const uint8_t *line, void *to, int64_t base)
{
    const int64_t size = f->channels * f->height * f->width, patches = f->width / SIDE;
    for (int64_t at = 0; at < patches; at += GROUP) {
        const int64_t x = at < patches - GROUP ? at : patches - GROUP;
        hd_vec factor[SIDE], shift[SIDE];
        for (int i = 0; i < SIDE; i++) {
            factor[i] = hd_vec_load(norm->scale + j + i * f->width + SIDE * x);
            shift[i] = hd_vec_load(norm->shift + j + i * f->width + SIDE * x);
        }
        for (int64_t r = 0; r < n; r++) {
            hd_vec group[GROUP];
            for (int i = 0; i < SIDE; i++)
                group[i] = normalise(hd_vec_from_bytes(line + r * size + i * f->width + SIDE * x),
                                     factor[i], shift[i], norm->limit);
            split_vectors(group);
            for (int i = 0; i < GROUP; i++)
                put(f, group[i], to, base + r * s->row + (x + i) * s->x);
        }
    }
}

/* Line by line of all channels, so that what lies side by side in the result is written soon after
 * one another. */
static void patches_of_rows(const struct hd_frames *f, const struct strides *s,
                            const struct hd_obs_norm *norm, int64_t n, const uint8_t *obs, void *to,
                            int64_t base)
{
    for (int64_t y = 0; y < f->height / SIDE; y++)
        for (int64_t c = 0; c < f->channels; c++) {
            const int64_t j = (c * f->height + SIDE * y) * f->width;
            const int64_t at = base + c * s->group + y * s->y;
            if (norm)
                normalise_line(f, s, norm, j, n, obs + j, to, at);
            else
                divide_line(f, s, n, obs + j, to, at);
        }
}

/* -- Any fold, element by element ----------------------------------------------------------------
 */

static int64_t place(const struct hd_frames *f, const struct strides *s, int64_t c, int64_t y,
                     int64_t x)
{
    int64_t channel = (c * f->fold + y % f->fold) * f->fold + x % f->fold;
    return channel / 16 * s->group + channel % 16 * s->channel + y / f->fold * s->y +
           x / f->fold * s->x;
}

static void put_one(const struct hd_frames *f, float value, void *to, int64_t at)
{
    if (f->bf16)
        ((hd_bf16 *)to)[at] = hd_bf16_from(value);
    else
        ((float *)to)[at] = value;
}

/* Element i of bytes, or of floats if they are NULL. */
static float element(const struct hd_obs_norm *norm, const uint8_t *bytes, const float *floats,
                     int64_t i)
{
    if (norm)
        return hd_obs_normal(norm, i, bytes ? (float)bytes[i] : floats[i]);
    return bytes ? (float)bytes[i] / 255.0f : floats[i];
}

static void elements_of_row(const struct hd_frames *f, const struct strides *s,
                            const struct hd_obs_norm *norm, const uint8_t *bytes,
                            const float *floats, void *to, int64_t base)
{
    int64_t i = 0;
    for (int64_t c = 0; c < f->channels; c++)
        for (int64_t y = 0; y < f->height; y++)
            for (int64_t x = 0; x < f->width; x++, i++)
                put_one(f, element(norm, bytes, floats, i), to, base + place(f, s, c, y, x));
}

/* What the layout has beyond the channels is zero. */
static void clear_padding(const struct hd_frames *f, const struct strides *s, int64_t rows,
                          void *to)
{
    int64_t channels = f->channels * f->fold * f->fold;
    if (f->layout == HD_NCHW16 && channels % 16 != 0)
        memset(to, 0, (size_t)(rows * s->row) * (f->bf16 ? sizeof(hd_bf16) : sizeof(float)));
}

void hd_frames_from_bytes(const struct hd_frames *f, const struct hd_obs_norm *norm, int64_t rows,
                          const uint8_t *obs, void *to)
{
    const struct strides s = strides_of(f);
    const int64_t size = f->channels * f->height * f->width;
    enum { ROWS = 4 }; /* at once: few enough for the caches */
    clear_padding(f, &s, rows, to);
    if (f->fold == SIDE && s.channel == 1 && f->width >= SIDE * GROUP) {
        for (int64_t r = 0; r < rows; r += ROWS)
            patches_of_rows(f, &s, norm, rows - r < ROWS ? rows - r : ROWS, obs + r * size, to,
                            r * s.row);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        elements_of_row(f, &s, norm, obs + r * size, NULL, to, r * s.row);
}

void hd_frames_from_floats(const struct hd_frames *f, const struct hd_obs_norm *norm, int64_t rows,
                           const float *obs, void *to)
{
    const struct strides s = strides_of(f);
    const int64_t size = f->channels * f->height * f->width;
    clear_padding(f, &s, rows, to);
    for (int64_t r = 0; r < rows; r++)
        elements_of_row(f, &s, norm, NULL, obs + r * size, to, r * s.row);
}

/* -- Weights -------------------------------------------------------------------------------------
 */

static int64_t folded_place(const struct hd_frames *f, int64_t kernel, int64_t c, int64_t y,
                            int64_t x)
{
    int64_t side = kernel / f->fold;
    int64_t channel = (c * f->fold + y % f->fold) * f->fold + x % f->fold;
    return (channel * side + y / f->fold) * side + x / f->fold;
}

void hd_frames_fold_weights(const struct hd_frames *f, int64_t out, int64_t kernel,
                            const float *plain, float *folded)
{
    const int64_t size = f->channels * kernel * kernel;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < size; i++)
            folded[o * size + folded_place(f, kernel, i / (kernel * kernel), i / kernel % kernel,
                                           i % kernel)] = plain[o * size + i];
}

void hd_frames_unfold_weights(const struct hd_frames *f, int64_t out, int64_t kernel,
                              const float *folded, float *plain)
{
    const int64_t size = f->channels * kernel * kernel;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < size; i++)
            plain[o * size + i] = folded[o * size + folded_place(f, kernel, i / (kernel * kernel),
                                                                 i / kernel % kernel, i % kernel)];
}
