/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/form.h"

#include "kernels/dense/linear.h"

#include <string.h>

struct hd_form hd_form_make_rows(const struct hd_shape *shape)
{
    return (struct hd_form){.channels = shape->size[0],
                            .plane = hd_shape_count_plane(shape),
                            .layout = HD_NCHW,
                            .ld = hd_shape_count(shape)};
}

int64_t hd_form_count(const struct hd_form *form)
{
    return hd_layout_count_stored(form->layout, form->channels) * form->plane;
}

int64_t hd_form_count_lanes(const struct hd_form *form)
{
    return form->layout == HD_NCHW16 ? HD_LAYOUT_LANES
           : form->layout == HD_NHWC ? form->channels
                                     : 1;
}

int64_t hd_form_get_bytes(const struct hd_form *form, int64_t samples)
{
    const int64_t elements =
        form->columns ? hd_form_count(form) * hd_linear_get_ld(samples) : form->ld * samples;
    return elements * hd_form_get_element_bytes(form);
}

bool hd_form_is_in_order(const struct hd_form *form)
{
    return form->layout == HD_NCHW || form->plane == 1 ||
           (form->layout == HD_NHWC && form->channels == 1);
}

/* Where there is one block of channels, it is all of them. */
static bool has_same_order(const struct hd_form *a, const struct hd_form *b)
{
    const bool block =
        a->channels == HD_LAYOUT_LANES && a->layout != HD_NCHW && b->layout != HD_NCHW;
    return a->layout == b->layout || block || (hd_form_is_in_order(a) && hd_form_is_in_order(b));
}

bool hd_form_is_equal(const struct hd_form *a, const struct hd_form *b)
{
    return a->columns == b->columns && a->bf16 == b->bf16 && has_same_order(a, b) &&
           (a->columns || a->ld == b->ld);
}

/* Pixel p of a channel of sample s is at s * sample + first + p * step. */
struct line {
    int64_t sample, first, step;
};

static struct line find_line(const struct hd_form *form, int64_t samples, int64_t channel)
{
    const int64_t ld = hd_linear_get_ld(samples);
    if (form->columns)
        return (struct line){1, channel * form->plane * ld, ld};
    const int64_t lanes = hd_form_count_lanes(form);
    return (struct line){form->ld, channel / lanes * lanes * form->plane + channel % lanes, lanes};
}

int64_t hd_form_find(const struct hd_form *form, int64_t channel, int64_t pixel)
{
    const struct line line = find_line(form, 0, channel);
    return line.first + pixel * line.step;
}

/* -- Converting -------------------------------------------------------------------------------- */

#define COPY(from_type, to_type, function)                                                         \
    do {                                                                                           \
        const from_type *from_p = (const from_type *)x + from.first;                               \
        to_type *to_p = (to_type *)y + to.first;                                                   \
        for (int64_t s = 0; s < samples; s++)                                                      \
            for (int64_t p = 0; p < plane; p++)                                                    \
                to_p[s * to.sample + p * to.step] =                                                \
                    function(from_p[s * from.sample + p * from.step]);                             \
    } while (0)

static void copy_line(struct line from, bool from_bf16, struct line to, bool to_bf16,
                      int64_t samples, int64_t plane, const void *x, void *y)
{
    if (from_bf16 && to_bf16)
        COPY(hd_bf16, hd_bf16, );
    else if (from_bf16)
        COPY(hd_bf16, float, hd_bf16_to_float);
    else if (to_bf16)
        COPY(float, hd_bf16, hd_bf16_from_float);
    else
        COPY(float, float, );
}

static void copy_row(const struct hd_form *from, const struct hd_form *to, const void *x, void *y)
{
    const int64_t n = hd_form_count(from);
    if (from->bf16 == to->bf16)
        memcpy(y, x, (size_t)(n * hd_form_get_element_bytes(to)));
    else if (to->bf16)
        hd_bf16_round(x, n, y);
    else
        for (int64_t i = 0; i < n; i++)
            ((float *)y)[i] = hd_bf16_to_float(((const hd_bf16 *)x)[i]);
}

static void copy_rows(const struct hd_form *from, const struct hd_form *to, int64_t samples,
                      const void *x, void *y)
{
    const int64_t n = hd_form_count(to), size = hd_form_get_element_bytes(to);
    for (int64_t s = 0; s < samples; s++) {
        char *row = (char *)y + s * to->ld * size;
        copy_row(from, to, (const char *)x + s * from->ld * hd_form_get_element_bytes(from), row);
        memset(row + n * size, 0, (size_t)((to->ld - n) * size));
    }
}

/* Converts channel by channel. */
static void copy_lines(const struct hd_form *from, const struct hd_form *to, int64_t samples,
                       const void *x, void *y)
{
    if (to->columns || to->ld > to->channels * to->plane)
        memset(y, 0, (size_t)hd_form_get_bytes(to, samples));
    for (int64_t c = 0; c < from->channels; c++)
        copy_line(find_line(from, samples, c), from->bf16, find_line(to, samples, c), to->bf16,
                  samples, from->plane, x, y);
}

void hd_form_convert(const struct hd_form *from, const struct hd_form *to, int64_t samples,
                     const void *x, void *y)
{
    const int64_t n = from->channels * from->plane, ld = hd_linear_get_ld(samples);
    const bool ordered = hd_form_is_in_order(from) && hd_form_is_in_order(to);
    if (!from->columns && !to->columns && has_same_order(from, to))
        copy_rows(from, to, samples, x, y);
    else if (ordered && to->columns && !from->bf16)
        hd_transpose(samples, n, x, from->ld, y, ld);
    else if (ordered && from->columns && !to->bf16 && to->ld == n)
        hd_transpose(n, samples, x, ld, y, n);
    else
        copy_lines(from, to, samples, x, y);
}
