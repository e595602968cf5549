/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layers on rows, whose weights are blocks (kernels/dense/packed_linear.h); two layers that
 * read the same rows may be one product. Rows of an image may have any layout: the weights have the
 * order of its elements. */
#include "kernels/common/shadow.h"
#include "kernels/dense/packed_linear.h"
#include "kernels/net/impl/impl.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <string.h>

struct packed_impl {
    struct hd_impl base;
    struct hd_packed p;
    bool bf16;
    int32_t *feature; /* [p.in]: PyTorch's index of each input, or -1: padding; NULL: its own */
};

static const struct packed_impl *as_packed(const struct hd_impl *impl)
{
    return (const struct packed_impl *)impl;
}

static int64_t round_up(int64_t n)
{
    return (n + HD_PACK_IN - 1) / HD_PACK_IN * HD_PACK_IN;
}

/* -- Making one -------------------------------------------------------------------------------- */

static void packed_destroy(struct hd_impl *base)
{
    hd_free(((struct packed_impl *)base)->feature);
}

static int map_features(struct packed_impl *impl)
{
    const struct hd_form *in = &impl->base.in;
    impl->feature = hd_alloc(impl->p.in, sizeof *impl->feature);
    if (!impl->feature)
        return HD_ERR_NOMEM;
    for (int64_t i = 0; i < impl->p.in; i++)
        impl->feature[i] = -1;
    for (int64_t c = 0; c < in->channels; c++)
        for (int64_t p = 0; p < in->plane; p++)
            impl->feature[hd_form_find(in, c, p)] = (int32_t)(c * in->plane + p);
    return HD_OK;
}

/* bf16 products read whole blocks. */
static struct hd_form choose_input(const struct hd_impl_fields *fields)
{
    struct hd_form in = fields->in;
    if (in.columns)
        in.layout = HD_NCHW;
    if (in.columns || fields->bf16)
        in.ld = fields->bf16 ? round_up(hd_form_count(&in)) : hd_form_count(&in);
    in.columns = false;
    in.bf16 = fields->bf16;
    return in;
}

static void make_sizes(const struct hd_impl_fields *fields, struct packed_impl *impl)
{
    struct hd_impl *base = &impl->base;
    base->in = choose_input(fields);
    impl->bf16 = fields->bf16;
    impl->p = (struct hd_packed){hd_form_count(&base->in), fields->layer->out.size[0]};
    if (fields->joined)
        impl->p.out += fields->joined->out.size[0];
    base->out = (struct hd_form){
        .channels = impl->p.out, .plane = 1, .layout = HD_NCHW, .ld = round_up(impl->p.out)};
    base->weights = hd_packed_count_weights(&impl->p);
    base->biases = hd_packed_count_outputs(&impl->p);
    base->shadow = fields->bf16 ? base->weights : 0;
    base->blocks = hd_packed_count_in_blocks(&impl->p);
}

/* -- Weights ----------------------------------------------------------------------------------- */

static int packed_copy(const struct hd_impl *base, bool joined, int t, float *row_major,
                       float *flat, bool import)
{
    const struct packed_impl *impl = as_packed(base);
    const struct hd_layer *layer = joined ? base->joined : base->layer;
    const int64_t first = joined ? base->layer->out.size[0] : 0;
    const int64_t out = layer->out.size[0], in = layer->in.size[0];
    if (t == 1) {
        memcpy(import ? flat + first : row_major, import ? row_major : flat + first,
               (size_t)out * sizeof *flat);
        return HD_OK;
    }
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < impl->p.in; i++) {
            const int64_t feature = impl->feature ? impl->feature[i] : i;
            if (feature < 0)
                continue;
            float *a = row_major + o * in + feature;
            float *b = flat + hd_packed_get_index(&impl->p, first + o, i);
            *(import ? b : a) = *(import ? a : b);
        }
    return HD_OK;
}

static void packed_refresh(const struct hd_impl *base, const float *weights, int64_t lo, int64_t hi,
                           hd_bf16 *shadow)
{
    (void)base;
    hd_shadow_refresh(NULL, weights, lo, hi, shadow);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* The scratch of bf16 begins with the rounded derivatives by the outputs. */
static int64_t get_rounded_bytes(const struct packed_impl *impl, int64_t rows)
{
    return impl->bf16 ? hd_align_up(rows * impl->base.out.ld * (int64_t)sizeof(hd_bf16)) : 0;
}

static int64_t packed_get_scratch_bytes(const struct hd_impl *base, enum hd_conv_pass pass,
                                        int64_t max_rows)
{
    const struct packed_impl *impl = as_packed(base);
    if (pass == HD_CONV_FORWARD)
        return 0;
    return get_rounded_bytes(impl, max_rows) +
           hd_align_up(hd_packed_get_scratch_bytes(&impl->p, max_rows));
}

/* Zeroes the columns from the last output up to the end of a row, and rectifies. */
static void finish(const struct packed_impl *impl, int64_t rows, float *y)
{
    const int64_t ld = impl->base.out.ld, from = hd_packed_count_outputs(&impl->p);
    for (int64_t r = 0; r < rows && from < ld; r++)
        memset(y + r * ld + from, 0, (size_t)(ld - from) * sizeof *y);
    if (impl->base.relu)
        hd_layer_relu.activate(rows * ld, y);
}

static int packed_forward(struct hd_impl_run *run, int64_t rows, const void *x, void *y)
{
    const struct packed_impl *impl = as_packed(run->impl);
    const int64_t ldx = impl->base.in.ld, ldy = impl->base.out.ld;
    if (impl->bf16)
        hd_packed_forward_bf16(&impl->p, rows, run->shadow, run->bias, x, ldx, y, ldy);
    else
        hd_packed_forward(&impl->p, rows, run->weights, run->bias, x, ldx, y, ldy);
    finish(impl, rows, y);
    return HD_OK;
}

static hd_bf16 *round_dy(const struct hd_impl_run *run, int64_t rows, const float *dy)
{
    hd_bf16 *rounded = run->scratch;
    hd_bf16_round(dy, rows * run->impl->out.ld, rounded);
    return rounded;
}

static void *find_rest(const struct hd_impl_run *run)
{
    return (char *)run->scratch + get_rounded_bytes(as_packed(run->impl), run->max_rows);
}

/* Computes dbias[o], the sum of dy[row][o] in the order of the rows. */
static void add_rows(const struct packed_impl *impl, int64_t rows, const float *dy,
                     const hd_bf16 *rounded, float *dbias)
{
    const int64_t n = impl->base.biases, ld = impl->base.out.ld;
    memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < n; o++)
            dbias[o] += rounded ? hd_bf16_to_float(rounded[r * ld + o]) : dy[r * ld + o];
}

/* The bias's gradient comes with the first block. */
static int packed_backward_weights(struct hd_impl_run *run, int64_t rows, const void *x,
                                   const void *dy)
{
    const struct packed_impl *impl = as_packed(run->impl);
    const int64_t ldx = impl->base.in.ld, ldy = impl->base.out.ld;
    const hd_bf16 *rounded = impl->bf16 ? round_dy(run, rows, dy) : NULL;
    if (impl->bf16)
        hd_packed_backward_weights_bf16(&impl->p, rows, rounded, ldy, x, ldx, run->first, run->last,
                                        run->dweights, find_rest(run));
    else
        hd_packed_backward_weights(&impl->p, rows, dy, ldy, x, ldx, run->first, run->last,
                                   run->dweights, find_rest(run));
    if (run->first == 0)
        add_rows(impl, rows, dy, rounded, run->dbias);
    return HD_OK;
}

static int packed_backward_data(struct hd_impl_run *run, int64_t rows, const void *x, bool mask,
                                const void *dy, void *dx)
{
    const struct packed_impl *impl = as_packed(run->impl);
    const int64_t ldx = impl->base.in.ld, ldy = impl->base.out.ld;
    if (impl->bf16)
        hd_packed_backward_data_bf16(&impl->p, rows, run->shadow, round_dy(run, rows, dy), ldy,
                                     run->first, run->last, mask ? x : NULL, dx, ldx,
                                     find_rest(run));
    else
        hd_packed_backward_data(&impl->p, rows, run->weights, dy, ldy, run->first, run->last,
                                mask ? x : NULL, dx, ldx, find_rest(run));
    return HD_OK;
}

static const struct hd_impl_type packed_type = {
    .name = "packed",
    .destroy = packed_destroy,
    .copy = packed_copy,
    .refresh = packed_refresh,
    .get_scratch_bytes = packed_get_scratch_bytes,
    .forward = packed_forward,
    .backward_weights = packed_backward_weights,
    .backward_data = packed_backward_data,
};

int hd_impl_create_packed(const struct hd_impl_fields *fields, struct hd_impl **impl_p)
{
    struct packed_impl *impl = hd_alloc(1, sizeof *impl);
    if (!impl)
        return HD_ERR_NOMEM;
    impl->base = (struct hd_impl){.type = &packed_type,
                                  .layer = fields->layer,
                                  .joined = fields->joined,
                                  .relu = fields->relu};
    make_sizes(fields, impl);
    if (!hd_form_is_in_order(&impl->base.in) && map_features(impl) != HD_OK) {
        hd_impl_destroy(&impl->base);
        return HD_ERR_NOMEM;
    }
    *impl_p = &impl->base;
    return HD_OK;
}
