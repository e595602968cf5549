/* SPDX-License-Identifier: Apache-2.0 */
/* A form says how the activations of a value lie in memory, on CPUs. Thread safe on different
 * memory. */
#pragma once

#include "kernels/conv/conv_fields.h"
#include "kernels/net/layers/layer.h"

/* A sample has [channels][plane] elements; a vector's plane is 1, unless it is a flattened image.
 */
struct hd_form {
    int64_t channels, plane;
    bool columns;          /* [element][hd_linear_get_ld of the samples] floats; else rows */
    enum hd_layout layout; /* of a row; HD_NCHW: as the shape says */
    int64_t ld;            /* elements from a row to the next; behind a row's own are zeros */
    bool bf16;             /* else floats */
};

/* Returns the form of rows of floats as the shape says, without anything between them. */
struct hd_form hd_form_make_rows(const struct hd_shape *shape);

/* Returns the elements of a row, with the channels that fill its layout up. */
int64_t hd_form_count(const struct hd_form *form);

/* Returns how many channels of a pixel lie side by side in a row; after all pixels of these come
 * those of the next ones. */
int64_t hd_form_count_lanes(const struct hd_form *form);

static inline int64_t hd_form_get_element_bytes(const struct hd_form *form)
{
    return form->bf16 ? (int64_t)sizeof(hd_bf16) : (int64_t)sizeof(float);
}

/* Returns the bytes of `samples` samples. */
int64_t hd_form_get_bytes(const struct hd_form *form, int64_t samples);

/* Returns whether two forms of the same [channels][plane] are the same bytes. */
bool hd_form_is_equal(const struct hd_form *a, const struct hd_form *b);

/* Returns whether the elements of a sample have the order of its shape. */
bool hd_form_is_in_order(const struct hd_form *form);

/* Returns the place in a row of the element of a channel and pixel. */
int64_t hd_form_find(const struct hd_form *form, int64_t channel, int64_t pixel);

/* Copies samples from one form to another of the same [channels][plane]. */
void hd_form_convert(const struct hd_form *from, const struct hd_form *to, int64_t samples,
                     const void *x, void *y);
