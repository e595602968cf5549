/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions by kernels/conv/. The first one of a net takes the observation folded by its stride
 * (kernels/net/frames.h), with a kernel that zeros fill up to whole folds. */
#include "kernels/conv/conv.h"

#include "kernels/net/impl/impl.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <stdatomic.h>
#include <string.h>

struct conv_impl {
    struct hd_impl base;
    struct hd_conv *conv;
    int64_t kernel, filled; /* pixels along a side of the kernel, and with the zeros */
    int32_t *gaps;          /* [n_gaps]: weights that are always zero */
    int64_t n_gaps;
    atomic_bool told; /* that it is slow */
};

static const struct conv_impl *as_conv(const struct hd_impl *impl)
{
    return (const struct conv_impl *)impl;
}

/* -- Making one -------------------------------------------------------------------------------- */

static struct hd_form make_form(int64_t channels, int64_t plane, enum hd_layout layout, bool bf16)
{
    struct hd_form form = {.channels = channels, .plane = plane, .layout = layout, .bf16 = bf16};
    form.ld = hd_form_count(&form);
    return form;
}

/* Folds the observation by the stride if its sides allow. */
static void choose_frames(struct hd_conv_fields *f, struct conv_impl *impl)
{
    struct hd_frames *frames = &impl->base.frames;
    const int64_t stride = f->stride;
    const bool folds =
        stride > 1 && f->padding == 0 && f->in_height % stride == 0 && f->in_width % stride == 0;
    *frames = (struct hd_frames){.channels = f->in_channels,
                                 .height = f->in_height,
                                 .width = f->in_width,
                                 .block = folds ? stride : 1,
                                 .layout = HD_NHWC,
                                 .bf16 = f->bf16};
    if (!folds)
        return;
    frames->layout = f->bf16 ? HD_NHWC : HD_NCHW16;
    impl->filled = (f->kernel + stride - 1) / stride * stride;
    f->in_channels *= stride * stride;
    f->in_height /= stride;
    f->in_width /= stride;
    f->kernel = impl->filled / stride;
    f->stride = 1;
}

/* Blocks of channels are for vectors of 16 floats, and for channels that fill them: in them a
 * kernel of 3 pixels is filtered minimally. */
static enum hd_layout choose_layout(const struct hd_impl_fields *fields,
                                    const struct hd_conv_fields *f, const struct conv_impl *impl)
{
    if (fields->obs)
        return impl->base.frames.layout;
    return !f->bf16 && f->in_channels % HD_LAYOUT_LANES == 0 ? HD_NCHW16 : HD_NHWC;
}

/* Convolutions of a bf16 net are computed in f32 where there is nothing else: a net that a GPU
 * learns also acts on CPUs. */
static bool takes_bf16(const struct hd_impl_fields *fields)
{
    static atomic_bool told;
    if (!fields->bf16 || hd_conv_supports_bf16())
        return fields->bf16;
    if (!atomic_exchange(&told, true))
        hd_log(HD_LOG_WARN, "this processor has no bf16 convolutions (they need AVX-512): CPUs "
                            "compute those of this run in f32");
    return false;
}

static int make_conv(const struct hd_impl_fields *fields, struct conv_impl *impl)
{
    const struct hd_layer *layer = fields->layer;
    struct hd_conv_fields f = {.in_channels = layer->in.size[0],
                               .in_height = layer->in.size[1],
                               .in_width = layer->in.size[2],
                               .out_channels = layer->out.size[0],
                               .kernel = layer->fields[HD_CONV_KERNEL],
                               .stride = layer->fields[HD_CONV_STRIDE],
                               .padding = layer->fields[HD_CONV_PADDING],
                               .relu = fields->relu,
                               .bf16 = takes_bf16(fields)};
    int64_t height, width;
    impl->kernel = impl->filled = f.kernel;
    if (fields->obs)
        choose_frames(&f, impl);
    f.input = choose_layout(fields, &f, impl);
    HD_TRY(hd_conv_create_fast(&f, &impl->conv));
    if (fields->obs)
        impl->base.frames.layout = f.input;
    impl->base.in = make_form(f.in_channels, f.in_height * f.in_width, f.input, f.bf16);
    const enum hd_layout output = hd_conv_get_output(impl->conv, &height, &width);
    impl->base.out = make_form(f.out_channels, height * width, output, f.bf16);
    impl->base.weights = hd_conv_count_weights(impl->conv);
    impl->base.biases = f.out_channels;
    impl->base.shadow = hd_conv_count_shadow(impl->conv);
    return HD_OK;
}

static void conv_destroy(struct hd_impl *base)
{
    struct conv_impl *impl = (struct conv_impl *)base;
    hd_conv_destroy(impl->conv);
    hd_free(impl->gaps);
}

/* -- Weights ----------------------------------------------------------------------------------- */

/* Copies between kernels and those that zeros fill up. */
static void copy_kernels(const struct conv_impl *impl, float *kernels, float *filled, bool fill)
{
    const struct hd_shape *in = &impl->base.layer->in, *out = &impl->base.layer->out;
    const int64_t k = impl->kernel, n = impl->filled;
    for (int64_t i = 0; i < out->size[0] * in->size[0]; i++)
        for (int64_t y = 0; y < k; y++)
            for (int64_t x = 0; x < k; x++) {
                float *a = kernels + (i * k + y) * k + x, *b = filled + (i * n + y) * n + x;
                *(fill ? b : a) = *(fill ? a : b);
            }
}

/* Converts filled kernels from or to the weights; `folded` has room for them. */
static int copy_filled(const struct conv_impl *impl, float *filled, float *folded, float *weights,
                       bool import)
{
    const struct hd_frames *frames = &impl->base.frames;
    const int64_t out = impl->base.layer->out.size[0];
    const bool folds = frames->block > 1;
    float *ours = folds ? folded : filled;
    if (import && folds)
        hd_frames_copy_weights(frames, out, impl->filled, filled, folded, true);
    if (import)
        return hd_conv_import(impl->conv, ours, weights);
    HD_TRY(hd_conv_export(impl->conv, weights, ours));
    if (folds)
        hd_frames_copy_weights(frames, out, impl->filled, filled, folded, false);
    return HD_OK;
}

static int copy_weights(const struct conv_impl *impl, float *row_major, float *weights, bool import)
{
    const struct hd_shape *in = &impl->base.layer->in, *out = &impl->base.layer->out;
    const int64_t n = out->size[0] * in->size[0] * impl->filled * impl->filled;
    float *filled = hd_alloc(n, sizeof *filled), *folded = hd_alloc(n, sizeof *folded);
    int status = filled && folded ? HD_OK : HD_ERR_NOMEM;
    if (status == HD_OK && import)
        copy_kernels(impl, row_major, filled, true);
    if (status == HD_OK)
        status = copy_filled(impl, filled, folded, weights, import);
    if (status == HD_OK && !import)
        copy_kernels(impl, row_major, filled, false);
    hd_free(filled);
    hd_free(folded);
    return status;
}

static int conv_copy(const struct hd_impl *base, bool joined, int t, float *row_major, float *flat,
                     bool import)
{
    (void)joined;
    if (t == 0)
        return copy_weights(as_conv(base), row_major, flat, import);
    memcpy(import ? flat : row_major, import ? row_major : flat,
           (size_t)base->biases * sizeof *flat);
    return HD_OK;
}

/* Lists the weights that remain zero when all of PyTorch's are one. */
static int find_gaps(struct conv_impl *impl, float *row_major, float *weights)
{
    const struct hd_layer *layer = impl->base.layer;
    const int64_t kernels = layer->out.size[0] * layer->in.size[0] * impl->kernel * impl->kernel;
    for (int64_t i = 0; i < kernels; i++)
        row_major[i] = 1;
    HD_TRY(copy_weights(impl, row_major, weights, true));
    for (int64_t i = 0; i < impl->base.weights; i++)
        if (weights[i] == 0)
            impl->gaps[impl->n_gaps++] = (int32_t)i;
    return HD_OK;
}

static int make_gaps(struct conv_impl *impl)
{
    const int64_t n = impl->base.weights; /* at least as many as PyTorch's */
    if (impl->filled == impl->kernel)
        return HD_OK;
    float *row_major = hd_alloc(n, sizeof *row_major), *weights = hd_alloc(n, sizeof *weights);
    impl->gaps = hd_alloc(n, sizeof *impl->gaps);
    int status = HD_ERR_NOMEM;
    if (row_major && weights && impl->gaps)
        status = find_gaps(impl, row_major, weights);
    hd_free(row_major);
    hd_free(weights);
    return status;
}

static void conv_refresh(const struct hd_impl *base, const float *weights, int64_t lo, int64_t hi,
                         hd_bf16 *shadow)
{
    hd_conv_refresh_shadow(as_conv(base)->conv, weights, lo, hi, shadow);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* Warns of reference code, once. */
static void tell_if_slow(const struct hd_impl *base, enum hd_conv_pass pass, int64_t rows)
{
    static const char *const passes[] = {"forward pass", "gradient of the weights",
                                         "gradient of the input"};
    struct conv_impl *impl = (struct conv_impl *)base;
    const char *name = hd_conv_get_name(impl->conv, pass, rows);
    if (strncmp(name, "ref", 3) != 0 || atomic_exchange(&impl->told, true))
        return;
    hd_log(HD_LOG_WARN,
           "%s: oneDNN has no fast code for the %s of this convolution on this processor (%s); "
           "channels in multiples of 16 may help",
           base->layer->module, passes[pass], name);
}

static int conv_prepare(const struct hd_impl *base, enum hd_conv_pass pass, int64_t rows)
{
    HD_TRY(hd_conv_prepare(as_conv(base)->conv, pass, rows));
    tell_if_slow(base, pass, rows);
    return HD_OK;
}

static int64_t conv_get_scratch_bytes(const struct hd_impl *base, enum hd_conv_pass pass,
                                      int64_t max_rows)
{
    return hd_conv_get_scratch_bytes(as_conv(base)->conv, pass, max_rows);
}

static const char *conv_get_name(const struct hd_impl *base, enum hd_conv_pass pass, int64_t rows)
{
    return hd_conv_get_name(as_conv(base)->conv, pass, rows);
}

static struct hd_conv_run make_run(const struct hd_impl_run *run)
{
    const bool shadow = run->pass == HD_CONV_FORWARD && run->impl->shadow > 0;
    return (struct hd_conv_run){.conv = as_conv(run->impl)->conv,
                                .pass = run->pass,
                                .max_batch = run->max_rows,
                                .weights = shadow ? (const void *)run->shadow : run->weights,
                                .bias = run->bias,
                                .dweights = run->dweights,
                                .dbias = run->dbias,
                                .scratch = run->scratch,
                                .prefetch = run->prefetch,
                                .begun = run->begun};
}

static int conv_begin(struct hd_impl_run *run)
{
    struct hd_conv_run conv = make_run(run);
    run->begun = false;
    return hd_conv_begin(&conv);
}

static int conv_end(struct hd_impl_run *run)
{
    const struct conv_impl *impl = as_conv(run->impl);
    struct hd_conv_run conv = make_run(run);
    HD_TRY(hd_conv_end(&conv));
    for (int64_t i = 0; i < impl->n_gaps && run->pass == HD_CONV_WEIGHTS; i++)
        run->dweights[impl->gaps[i]] = 0;
    return HD_OK;
}

static int conv_forward(struct hd_impl_run *run, int64_t rows, const void *x, void *y)
{
    struct hd_conv_run conv = make_run(run);
    return hd_conv_forward(&conv, rows, x, y);
}

static int conv_backward_weights(struct hd_impl_run *run, int64_t rows, const void *x,
                                 const void *dy)
{
    struct hd_conv_run conv = make_run(run);
    HD_TRY(hd_conv_backward_weights(&conv, rows, x, dy));
    run->begun = conv.begun;
    return HD_OK;
}

static int conv_backward_data(struct hd_impl_run *run, int64_t rows, const void *x, bool mask,
                              const void *dy, void *dx)
{
    struct hd_conv_run conv = make_run(run);
    return hd_conv_backward_data(&conv, rows, dy, mask ? x : NULL, dx);
}

static const struct hd_impl_type conv_type = {
    .name = "conv",
    .destroy = conv_destroy,
    .copy = conv_copy,
    .refresh = conv_refresh,
    .prepare = conv_prepare,
    .get_scratch_bytes = conv_get_scratch_bytes,
    .get_name = conv_get_name,
    .begin = conv_begin,
    .end = conv_end,
    .forward = conv_forward,
    .backward_weights = conv_backward_weights,
    .backward_data = conv_backward_data,
};

int hd_impl_create_conv(const struct hd_impl_fields *fields, struct hd_impl **impl_p)
{
    struct conv_impl *impl = hd_alloc(1, sizeof *impl);
    if (!impl)
        return HD_ERR_NOMEM;
    impl->base = (struct hd_impl){
        .type = &conv_type, .layer = fields->layer, .relu = fields->relu, .blocks = 1};
    int status = make_conv(fields, impl);
    if (status == HD_OK)
        status = make_gaps(impl);
    if (status != HD_OK) {
        hd_impl_destroy(&impl->base);
        return status;
    }
    *impl_p = &impl->base;
    return HD_OK;
}
