/* SPDX-License-Identifier: Apache-2.0 */
/* This file is compiled with contraction, on which `scale` relies. */
#include "kernels/common/vector.h"
#include "kernels/net/frames.h"

/* Strides of the result, in elements. */
struct strides {
    int64_t row, y, x, group, channel; /* `channel` from one channel to the next, `group` from 16
                                          channels to the next 16 */
};

static struct strides strides_of(const struct hd_frames *f)
{
    int64_t channels = f->channels * f->block * f->block;
    int64_t height = f->height / f->block, width = f->width / f->block, plane = height * width;
    switch (f->layout) {
    case HD_NHWC:
        return (struct strides){channels * plane, width * channels, channels, 16, 1};
    case HD_NCHW16:
        return (struct strides){hd_layout_count_stored(HD_NCHW16, channels) * plane, width * 16, 16,
                                plane * 16, 1};
    default:
        return (struct strides){channels * plane, width, 1, 16 * plane, plane};
    }
}

/* -- Bytes ------------------------------------------------------------------------------------- */

/* Returns x / 255 correctly rounded: a product with the rounded reciprocal, then one step of
 * refinement, which gives the exact quotient's rounding with fused operations (Markstein 1990). */
HD_ALWAYS hd_vec scale(hd_vec x)
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

/* Computes hd_obs_normalise. */
HD_ALWAYS hd_vec normalise(hd_vec x, hd_vec factor, hd_vec shift, float limit)
{
    hd_vec y;
#ifdef __AVX512F__
    /* The instructions return the second operand if one is NaN. */
    const __m512 upper = _mm512_set1_ps(limit), lower = _mm512_set1_ps(-limit);
    y = (hd_vec)_mm512_min_ps(
        upper, _mm512_max_ps(lower, _mm512_fmadd_ps((__m512)x, (__m512)factor, (__m512)shift)));
#else
    for (int i = 0; i < HD_VEC; i++) {
        const float z = fmaf(x[i], factor[i], shift[i]);
        y[i] = z > limit ? limit : z < -limit ? -limit : z;
    }
#endif
    return y;
}

typedef uint32_t words4 __attribute__((vector_size(16), aligned(1)));

enum { SIDE = 4, GROUP = 4 };

/* Rearranges four neighbouring 4 x 4 patches, of which each vector holds a line, to one patch in
 * each vector. */
HD_ALWAYS void split_patches(words4 line[GROUP])
{
    const words4 low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
    const words4 a = HD_SHUFFLE(line[0], line[2], low);
    const words4 b = HD_SHUFFLE(line[1], line[3], low);
    const words4 c = HD_SHUFFLE(line[0], line[2], high);
    const words4 d = HD_SHUFFLE(line[1], line[3], high);
    line[0] = HD_SHUFFLE(a, b, low);
    line[1] = HD_SHUFFLE(a, b, high);
    line[2] = HD_SHUFFLE(c, d, low);
    line[3] = HD_SHUFFLE(c, d, high);
}

/* Rearranges floats likewise: from a line of four patches in every vector to a patch in each. */
HD_ALWAYS void split_vectors(hd_vec line[GROUP])
{
    const hd_vec_mask low = {0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23};
    const hd_vec_mask high = {8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31};
    const hd_vec_mask even = {0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
    const hd_vec_mask odd = {4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
    const hd_vec a = HD_SHUFFLE(line[0], line[1], low);
    const hd_vec b = HD_SHUFFLE(line[2], line[3], low);
    const hd_vec c = HD_SHUFFLE(line[0], line[1], high);
    const hd_vec d = HD_SHUFFLE(line[2], line[3], high);
    line[0] = HD_SHUFFLE(a, b, even);
    line[1] = HD_SHUFFLE(a, b, odd);
    line[2] = HD_SHUFFLE(c, d, even);
    line[3] = HD_SHUFFLE(c, d, odd);
}

/* Stores a patch of one frame, or of two successive frames whose 32 channels are adjacent. */
HD_ALWAYS void store_patch(const hd_vec *value, int frames, bool bf16, void *to, int64_t at)
{
#ifdef __AVX512BF16__
    if (bf16 && frames == 2) {
        _mm512_storeu_si512((hd_bf16 *)to + at,
                            (__m512i)_mm512_cvtne2ps_pbh((__m512)value[GROUP], (__m512)value[0]));
        return;
    }
#endif
    for (int k = 0; k < frames; k++)
        if (bf16)
            hd_vec_store_bf16((hd_bf16 *)to + at + k * HD_VEC, value[k * GROUP]);
        else
            hd_vec_store((float *)to + at + k * HD_VEC, value[k * GROUP]);
}

/* The arguments of a fold by 4, in which the 16 bytes of a 4 x 4 patch become 16 adjacent
 * channels. */
struct patch_args {
    const struct hd_frames *f;
    const struct strides *s;
    const struct hd_obs_norm *norm; /* or NULL */
    int64_t rows;
    const uint8_t *obs;
    void *to;
};

/* Loads the pixels from (line, 4 x) on of frame c as patches. */
HD_ALWAYS void load_group(const struct patch_args *j, const uint8_t *frame, int64_t x,
                          words4 group[GROUP])
{
    for (int i = 0; i < SIDE; i++)
        group[i] = *(const words4 *)(frame + i * j->f->width + SIDE * x);
    split_patches(group);
}

/* Loads the scale or shift of these pixels. */
HD_ALWAYS void load_vectors(const struct patch_args *j, const float *frame, int64_t x,
                            hd_vec group[GROUP])
{
    for (int i = 0; i < SIDE; i++)
        group[i] = hd_vec_load(frame + i * j->f->width + SIDE * x);
    split_vectors(group);
}

/* Converts line y of patches of `frames` frames from c on, for all rows; scale and shift are read
 * once. */
HD_ALWAYS void patches_of_line(const struct patch_args *j, int64_t y, int64_t c, int frames,
                               bool bf16, bool norm)
{
    enum { STACKS = 2 };
    const struct hd_frames *f = j->f;
    const int64_t plane = f->height * f->width, patches = f->width / SIDE;
    const int64_t first = c * plane + SIDE * y * f->width;
    for (int64_t at = 0; at < patches; at += GROUP) {
        const int64_t x = at < patches - GROUP ? at : patches - GROUP;
        hd_vec factor[STACKS * GROUP], shift[STACKS * GROUP];
        for (int k = 0; k < frames && norm; k++) {
            load_vectors(j, j->norm->scale + first + k * plane, x, factor + k * GROUP);
            load_vectors(j, j->norm->shift + first + k * plane, x, shift + k * GROUP);
        }
        for (int64_t r = 0; r < j->rows; r++) {
            const uint8_t *frame = j->obs + r * f->channels * plane + first;
            hd_vec value[STACKS * GROUP];
            for (int k = 0; k < frames; k++) {
                words4 group[GROUP];
                load_group(j, frame + k * plane, x, group);
                for (int i = 0; i < GROUP; i++) {
                    const hd_vec bytes = hd_vec_load_bytes((const uint8_t *)&group[i]);
                    const int v = k * GROUP + i;
                    value[v] =
                        norm ? normalise(bytes, factor[v], shift[v], j->norm->limit) : scale(bytes);
                }
            }
            const int64_t to = r * j->s->row + c * j->s->group + y * j->s->y + x * j->s->x;
            for (int i = 0; i < GROUP; i++)
                store_patch(value + i, frames, bf16, j->to, to + i * j->s->x);
        }
    }
}

HD_ALWAYS void lines_of(const struct patch_args *j, int64_t y, int64_t c, int frames)
{
    if (j->f->bf16 && j->norm)
        patches_of_line(j, y, c, frames, true, true);
    else if (j->f->bf16)
        patches_of_line(j, y, c, frames, true, false);
    else if (j->norm)
        patches_of_line(j, y, c, frames, false, true);
    else
        patches_of_line(j, y, c, frames, false, false);
}

/* Goes line by line through all frames, so that adjacent parts of the result are written soon after
 * one another. */
static void patches_of_rows(const struct patch_args *j)
{
    const bool pairs = j->f->bf16 && j->s->group == HD_VEC;
    for (int64_t y = 0; y < j->f->height / SIDE; y++)
        for (int64_t c = 0; c < j->f->channels; c++)
            if (pairs && j->f->channels - c > 1)
                lines_of(j, y, c++, 2);
            else
                lines_of(j, y, c, 1);
}

/* -- Any fold, element by element -------------------------------------------------------------- */

static int64_t place(const struct hd_frames *f, const struct strides *s, int64_t c, int64_t y,
                     int64_t x)
{
    int64_t channel = (c * f->block + y % f->block) * f->block + x % f->block;
    return channel / 16 * s->group + channel % 16 * s->channel + y / f->block * s->y +
           x / f->block * s->x;
}

static void put_one(const struct hd_frames *f, float value, void *to, int64_t at)
{
    if (f->bf16)
        ((hd_bf16 *)to)[at] = hd_bf16_from_float(value);
    else
        ((float *)to)[at] = value;
}

/* Returns element i of the bytes, or of the floats if `bytes` is NULL, normalised. */
static float element(const struct hd_obs_norm *norm, const uint8_t *bytes, const float *floats,
                     int64_t i)
{
    if (norm)
        return hd_obs_normalise(norm, i, bytes ? (float)bytes[i] : floats[i]);
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

/* -- In the order of the observation ----------------------------------------------------------- */

static bool keeps_order(const struct hd_frames *f)
{
    return f->layout == HD_NCHW && f->block == 1 && !f->bf16;
}

/* Converts the n elements of a row. */
static void ordered_row(const struct hd_obs_norm *norm, int64_t n, const uint8_t *bytes,
                        const float *floats, float *to)
{
    int64_t i = 0;
    for (; i + HD_VEC <= n; i += HD_VEC) {
        hd_vec x = bytes ? hd_vec_load_bytes(bytes + i) : hd_vec_load(floats + i);
        if (norm)
            x = normalise(x, hd_vec_load(norm->scale + i), hd_vec_load(norm->shift + i),
                          norm->limit);
        else if (bytes)
            x = scale(x);
        hd_vec_store(to + i, x);
    }
    for (; i < n; i++)
        to[i] = element(norm, bytes, floats, i);
}

static void convert_row(const struct hd_frames *f, const struct strides *s,
                        const struct hd_obs_norm *norm, const uint8_t *bytes, const float *floats,
                        void *to, int64_t base)
{
    if (keeps_order(f))
        ordered_row(norm, s->row, bytes, floats, (float *)to + base);
    else
        elements_of_row(f, s, norm, bytes, floats, to, base);
}

/* Zeroes the padding channels of the layout. */
static void clear_padding(const struct hd_frames *f, const struct strides *s, int64_t rows,
                          void *to)
{
    int64_t channels = f->channels * f->block * f->block;
    if (f->layout == HD_NCHW16 && channels % 16 != 0)
        memset(to, 0, (size_t)(rows * s->row) * (f->bf16 ? sizeof(hd_bf16) : sizeof(float)));
}

void hd_frames_convert_bytes(const struct hd_frames *f, const struct hd_obs_norm *norm,
                             int64_t rows, const uint8_t *obs, void *to)
{
    const struct strides s = strides_of(f);
    const int64_t size = f->channels * f->height * f->width;
    enum { ROWS = 4 }; /* rows at a time: few enough for the caches */
    clear_padding(f, &s, rows, to);
    if (f->block == SIDE && s.channel == 1 && f->width >= SIDE * GROUP) {
        const int64_t row_bytes = s.row * (int64_t)(f->bf16 ? sizeof(hd_bf16) : sizeof(float));
        for (int64_t r = 0; r < rows; r += ROWS) {
            const struct patch_args j = {.f = f,
                                         .s = &s,
                                         .norm = norm,
                                         .rows = rows - r < ROWS ? rows - r : ROWS,
                                         .obs = obs + r * size,
                                         .to = (char *)to + r * row_bytes};
            patches_of_rows(&j);
        }
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        convert_row(f, &s, norm, obs + r * size, NULL, to, r * s.row);
}

void hd_frames_convert_floats(const struct hd_frames *f, const struct hd_obs_norm *norm,
                              int64_t rows, const float *obs, void *to)
{
    const struct strides s = strides_of(f);
    const int64_t size = f->channels * f->height * f->width;
    clear_padding(f, &s, rows, to);
    for (int64_t r = 0; r < rows; r++)
        convert_row(f, &s, norm, NULL, obs + r * size, to, r * s.row);
}

void hd_frames_restore(const struct hd_frames *f, int64_t rows, const void *from, float *obs)
{
    const struct strides s = strides_of(f);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < f->channels; c++)
            for (int64_t y = 0; y < f->height; y++)
                for (int64_t x = 0; x < f->width; x++) {
                    const int64_t at = r * s.row + place(f, &s, c, y, x);
                    *obs++ = f->bf16 ? hd_bf16_to_float(((const hd_bf16 *)from)[at])
                                     : ((const float *)from)[at];
                }
}

/* -- Weights ----------------------------------------------------------------------------------- */

static int64_t find_folded(const struct hd_frames *f, int64_t kernel, int64_t c, int64_t y,
                           int64_t x)
{
    int64_t side = kernel / f->block;
    int64_t channel = (c * f->block + y % f->block) * f->block + x % f->block;
    return (channel * side + y / f->block) * side + x / f->block;
}

void hd_frames_copy_weights(const struct hd_frames *f, int64_t out, int64_t kernel,
                            float *row_major, float *folded, bool fold)
{
    const int64_t size = f->channels * kernel * kernel;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < size; i++) {
            const int64_t c = i / (kernel * kernel), y = i / kernel % kernel, x = i % kernel;
            float *a = row_major + o * size + i;
            float *b = folded + o * size + find_folded(f, kernel, c, y, x);
            *(fold ? b : a) = *(fold ? a : b);
        }
}
