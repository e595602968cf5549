/* SPDX-License-Identifier: Apache-2.0 */
/* The summed index is the pixel, for a pair of images at a time, so that each number is rearranged
 * once, whatever the size of the kernel: pixels of both images in turns. The inputs that a row of
 * the kernel meets are adjacent; they are the columns of a block of the result, whose rows are
 * outputs. */
#include "kernels/common/amx.h"
#include "kernels/common/pairs.h"
#include "kernels/conv/conv_pairs_internal.h"
#include "runtime/base/alloc.h"

#ifdef HD_PAIRS

enum {
    PAIR = 2,
    BLOCK = HD_VEC * HD_VEC, /* weights of a block of outputs by one of inputs */
    OUTPUTS = 8,
    VECTORS = 2,
    CACHE_BYTES = 512 << 10 /* for the rearranged images */
};

/* The sizes of a pass, in elements of one image or of a pair. */
struct sizes {
    struct hd_conv_fields f;
    int64_t height, width; /* of the output */
    int64_t in_blocks, out_blocks;
    int64_t padded_height, padded_width; /* of the input with its padding */
    int64_t in_image, padded_image, out_image;
    int64_t pairs; /* that are processed together */
};

static int64_t count_pairs(int64_t images)
{
    return (images + PAIR - 1) / PAIR;
}

static struct sizes sizes_of(const struct hd_conv_fields *f, int64_t images)
{
    struct sizes s = {.f = *f,
                      .height = hd_conv_count_outputs(f, f->in_height),
                      .width = hd_conv_count_outputs(f, f->in_width),
                      .in_blocks = f->in_channels / HD_VEC,
                      .out_blocks = f->out_channels / HD_VEC,
                      .padded_height = f->in_height + 2 * f->padding,
                      .padded_width = f->in_width + 2 * f->padding,
                      .in_image = f->in_height * f->in_width * f->in_channels};
    s.padded_image = s.padded_height * s.padded_width * f->in_channels;
    s.out_image = s.height * s.width * f->out_channels;
    const int64_t fit = CACHE_BYTES / (PAIR * 2 * (s.padded_image + s.out_image));
    s.pairs = hd_min(fit > 1 ? fit : 1, count_pairs(images));
    return s;
}

static hd_bf16 *put_zeros(hd_bf16 *to, int64_t n)
{
    memset(to, 0, (size_t)n * sizeof *to);
    return to + n;
}

/* Rearranges a pair of images of the input, and pads them: [y][x][channel][2]. */
static void pair_inputs(const struct sizes *s, const hd_bf16 *first, const hd_bf16 *second,
                        hd_bf16 *to)
{
    const int64_t line = s->f.in_width * s->f.in_channels,
                  side = PAIR * s->f.padding * s->f.in_channels,
                  border = PAIR * s->f.padding * s->padded_width * s->f.in_channels;
    to = put_zeros(to, border);
    for (int64_t at = 0; at < s->in_image;) {
        to = put_zeros(to, side);
        for (const int64_t end = at + line; at < end; at += HD_VEC, to += PAIR * HD_VEC)
            hd_pairs_store(to, first + at, second ? second + at : NULL);
        to = put_zeros(to, side);
    }
    put_zeros(to, border);
}

/* Rearranges one block of outputs of a pair of images, [y][x][16][2], and adds them to dbias. */
static void pair_outputs(const struct sizes *s, const hd_bf16 *first, const hd_bf16 *second,
                         hd_bf16 *to, float *dbias)
{
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3F80);
    __m512 sum = _mm512_loadu_ps(dbias);
    for (int64_t at = 0; at < s->out_image; at += s->f.out_channels, to += PAIR * HD_VEC) {
        const __m512i pairs = hd_pairs_make(first + at, second ? second + at : NULL);
        _mm512_storeu_si512(to, pairs);
        sum = _mm512_dpbf16_ps(sum, (__m512bh)pairs, ones);
    }
    _mm512_storeu_ps(dbias, sum);
}

/* OUTPUTS outputs by up to VECTORS blocks of inputs, summed over several pairs of images. */
struct block {
    const struct sizes *sizes;
    int64_t pairs;
    const hd_bf16 *x, *dy; /* rearranged, from the first pixel on */
    bool start;            /* true: the sums begin with 0 */
    float *dw[VECTORS];    /* [OUTPUTS][16] each */
};

HD_ALWAYS void add_block(const struct block *p, int vectors)
{
    const struct sizes *s = p->sizes;
    const int64_t step = s->f.stride * s->f.in_channels * PAIR, row = step * s->padded_width;
    hd_reg sum[OUTPUTS][VECTORS] = {{{0}}};
    for (int o = 0; o < OUTPUTS && !p->start; o++)
        for (int v = 0; v < vectors; v++)
            sum[o][v] = hd_reg_load(p->dw[v] + o * HD_VEC);
    const hd_bf16 *dy = p->dy;
    for (int64_t n = 0; n < p->pairs; n++)
        for (int64_t y = 0; y < s->height; y++) {
            const hd_bf16 *x = p->x + n * PAIR * s->padded_image + y * row;
            for (int64_t i = 0; i < s->width; i++, x += step, dy += PAIR * HD_VEC)
                HD_PAIRS_ADD(sum, dy, PAIR, x, PAIR * HD_VEC, OUTPUTS, vectors);
        }
    for (int o = 0; o < OUTPUTS; o++)
        for (int v = 0; v < vectors; v++)
            hd_reg_store(p->dw[v] + o * HD_VEC, sum[o][v]);
}

/* Adds to all outputs for up to VECTORS blocks of inputs, from number `at` of row y of the kernel
 * on. */
static void add_inputs(const struct sizes *s, int64_t pairs, int64_t y, int64_t at,
                       const hd_bf16 *inputs, const hd_bf16 *outputs, bool start, float *dweights)
{
    const struct hd_conv_fields *f = &s->f;
    const int64_t area = f->kernel * f->kernel;
    const int vectors = (int)hd_min((f->kernel * f->in_channels - at) / HD_VEC, VECTORS);
    struct block part = {.sizes = s,
                         .pairs = pairs,
                         .x = inputs + (y * s->padded_width * f->in_channels + at) * PAIR,
                         .start = start};
    for (int64_t o = 0; o < f->out_channels; o += OUTPUTS) {
        const int64_t block = o / HD_VEC, in_block = o % HD_VEC;
        for (int v = 0; v < vectors; v++) {
            const int64_t x = (at + v * HD_VEC) / f->in_channels,
                          channel = (at + v * HD_VEC) % f->in_channels;
            const int64_t place = (block * s->in_blocks + channel / HD_VEC) * area;
            part.dw[v] = dweights + (place + y * f->kernel + x) * BLOCK + in_block * HD_VEC;
        }
        part.dy = outputs + (block * pairs * s->height * s->width * HD_VEC + in_block) * PAIR;
        if (vectors == VECTORS)
            add_block(&part, VECTORS);
        else
            add_block(&part, 1);
    }
}

/* Adds the gradient of images that are processed together. */
static void add_images(const struct sizes *s, const struct hd_conv_run *run, int64_t images,
                       const hd_bf16 *x, const hd_bf16 *dy, bool start)
{
    const int64_t pairs = count_pairs(images), pixels = s->height * s->width;
    hd_bf16 *inputs = run->scratch, *outputs = inputs + pairs * PAIR * s->padded_image;
    for (int64_t n = 0; n < pairs; n++) {
        const hd_bf16 *first_x = x + PAIR * n * s->in_image, *first = dy + PAIR * n * s->out_image;
        const bool two = PAIR * n + 1 < images;
        pair_inputs(s, first_x, two ? first_x + s->in_image : NULL,
                    inputs + n * PAIR * s->padded_image);
        for (int64_t b = 0; b < s->out_blocks; b++)
            pair_outputs(s, first + b * HD_VEC, two ? first + s->out_image + b * HD_VEC : NULL,
                         outputs + (b * pairs + n) * pixels * PAIR * HD_VEC,
                         run->dbias + b * HD_VEC);
    }
    for (int64_t y = 0; y < s->f.kernel; y++)
        for (int64_t at = 0; at < s->f.kernel * s->f.in_channels; at += VECTORS * HD_VEC)
            add_inputs(s, pairs, y, at, inputs, outputs, start, run->dweights);
}

static int64_t get_scratch_bytes(const struct hd_conv_fields *f, int64_t max_batch)
{
    const struct sizes s = sizes_of(f, max_batch);
    return hd_align_up(s.pairs * PAIR * (s.padded_image + s.out_image) * (int64_t)sizeof(hd_bf16));
}

static void backward_weights(const struct hd_conv_fields *f, const struct hd_conv_run *run,
                             int64_t batch, const void *x, const void *dy)
{
    const struct sizes s = sizes_of(f, batch);
    if (!run->begun)
        memset(run->dbias, 0, (size_t)f->out_channels * sizeof *run->dbias);
    for (int64_t n = 0; n < batch; n += PAIR * s.pairs)
        add_images(&s, run, hd_min(batch - n, PAIR * s.pairs), (const hd_bf16 *)x + n * s.in_image,
                   (const hd_bf16 *)dy + n * s.out_image, !run->begun && n == 0);
}

/* Until here blocks were [output][input]. */
static void end(const struct hd_conv_fields *f, const struct hd_conv_run *run)
{
    const int64_t n = f->out_channels * f->in_channels * f->kernel * f->kernel;
    for (int64_t at = 0; at < n; at += BLOCK) {
        hd_vec row[HD_VEC];
        for (int i = 0; i < HD_VEC; i++)
            row[i] = hd_vec_load(run->dweights + at + i * HD_VEC);
        hd_vec_transpose(row);
        for (int i = 0; i < HD_VEC; i++)
            hd_vec_store(run->dweights + at + i * HD_VEC, row[i]);
    }
}

const struct hd_conv_own hd_conv_pairs_weights = {.name = "heddle avx512_bf16",
                                                  .get_scratch_bytes = get_scratch_bytes,
                                                  .backward_weights = backward_weights,
                                                  .end = end};

#else

const struct hd_conv_own hd_conv_pairs_weights = {0};

#endif

bool hd_conv_pairs_supports(const struct hd_conv_fields *f)
{
    return hd_conv_pairs_weights.name && !hd_amx_is_ready() && f->bf16 && f->input == HD_NHWC &&
           f->in_channels % HD_VEC == 0 && f->out_channels % HD_VEC == 0;
}
