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

HD_INLINE void put(const struct hd_frames *f, hd_vec value, void *to, int64_t at)
{
    if (f->bf16)
        hd_vec_store_bf16((hd_bf16 *)to + at, value);
    else
        hd_vec_store((float *)to + at, value);
}

typedef uint32_t words4 __attribute__((vector_size(16), aligned(1)));

/* Four 4 x 4 patches that lie side by side, a line of each in every vector, become one in each. */
HD_INLINE void split_patches(words4 line[4])
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

/* Fold 4: the 16 bytes of a 4 x 4 patch are 16 neighbouring channels. */
static void patches_of_line(const struct hd_frames *f, const struct strides *s, const uint8_t *line,
                            void *to, int64_t base)
{
    enum { SIDE = 4, GROUP = 4 };
    const int64_t patches = f->width / SIDE;
    for (int64_t x = 0; x < patches; x += GROUP) {
        const int64_t n = patches - x < GROUP ? patches - x : GROUP;
        words4 group[GROUP] = {{0}};
        for (int i = 0; i < SIDE; i++)
            if (n == GROUP)
                group[i] = *(const words4 *)(line + i * f->width + SIDE * x);
            else
                memcpy(&group[i], line + i * f->width + SIDE * x, (size_t)(SIDE * n));
        split_patches(group);
        for (int64_t i = 0; i < n; i++)
            put(f, scale(hd_vec_from_bytes((const uint8_t *)&group[i])), to, base + (x + i) * s->x);
    }
}

static void patches_of_row(const struct hd_frames *f, const struct strides *s, const uint8_t *obs,
                           void *to, int64_t base)
{
    for (int64_t c = 0; c < f->channels; c++)
        for (int64_t y = 0; y < f->height / 4; y++)
            patches_of_line(f, s, obs + (c * f->height + 4 * y) * f->width, to,
                            base + c * s->group + y * s->y);
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
    clear_padding(f, &s, rows, to);
    for (int64_t r = 0; r < rows; r++)
        if (!norm && f->fold == 4 && s.channel == 1)
            patches_of_row(f, &s, obs + r * size, to, r * s.row);
        else
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
