/* SPDX-License-Identifier: Apache-2.0 */
/* torch.nn.GroupNorm (Wu and He 2018): the channels of an image are normalised in groups, with a
 * weight and a bias for each channel. Sums over pixels are doubles, one for each channel, so that
 * vectors go over channels; those of a group are added in the order of its channels. */
#include "kernels/net/layers/form.h"
#include "kernels/net/layers/layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EPSILON 1e-5

static bool group_norm_infer(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    const int64_t groups = layer->fields[HD_GROUP_NORM_GROUPS];
    snprintf(message, HD_LAYER_MESSAGE,
             "takes [channels, height, width] of a multiple of %lld channels", (long long)groups);
    layer->out = layer->in;
    return layer->in.dims == 3 && layer->in.size[0] % groups == 0;
}

static int group_norm_list_tensors(const struct hd_layer *layer,
                                   struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    tensors[0] = hd_layer_make_tensor(1, layer->in.size, HD_TENSOR_ONES, 0);
    tensors[1] = hd_layer_make_tensor(1, layer->in.size, HD_TENSOR_ZEROS, 0);
    return 2;
}

/* Arrays of numbers for each channel. */
struct channels {
    double *sums, *products;
    float *mean, *inverse; /* inverse: 1 / sqrt(variance + epsilon) */
    float *a, *b;
};

static int64_t lay_out(int64_t n, double *memory, struct channels *c)
{
    c->sums = memory;
    c->products = c->sums + n;
    c->mean = (float *)(c->products + n);
    c->inverse = c->mean + n;
    c->a = c->inverse + n;
    c->b = c->a + n;
    return (c->b + n) - (float *)memory;
}

static int64_t group_norm_count_scratch(const struct hd_layer *layer, int64_t rows)
{
    static double origin[1]; /* only its address counts */
    struct channels unused;
    (void)rows;
    return lay_out(layer->in.size[0], origin, &unused);
}

/* A pixel has `lanes` channels side by side, those of a block; images are [block][pixel][lane]. */
struct image {
    int64_t channels, plane, lanes;
};

static struct image make_image(const struct hd_form *form)
{
    return (struct image){form->channels, form->plane, hd_form_count_lanes(form)};
}

static int64_t count_lanes(const struct image *image, int64_t first)
{
    const int64_t left = image->channels - first;
    return left < image->lanes ? left : image->lanes;
}

/* Computes sums of x and of x y for each channel. */
static void add_up(const struct image *image, const float *x, const float *y, struct channels *c)
{
    memset(c->sums, 0, (size_t)image->channels * sizeof *c->sums);
    memset(c->products, 0, (size_t)image->channels * sizeof *c->products);
    for (int64_t first = 0; first < image->channels; first += image->lanes) {
        const int64_t lanes = count_lanes(image, first);
        double *restrict sums = c->sums + first, *restrict products = c->products + first;
        for (int64_t p = 0; p < image->plane; p++) {
            const float *restrict at_x =
                x + (first / image->lanes * image->plane + p) * image->lanes;
            const float *restrict at_y = y + (at_x - x);
            for (int64_t i = 0; i < lanes; i++) {
                sums[i] += at_x[i];
                products[i] += (double)at_x[i] * at_y[i];
            }
        }
    }
}

/* Adds a group's sums, weighted by `weight` if that is not NULL, and divides them by its
 * elements. */
static void average_groups(const struct hd_layer_run *run, const float *weight, struct channels *c)
{
    const int64_t groups = run->layer->fields[HD_GROUP_NORM_GROUPS];
    const int64_t n = run->layer->in.size[0] / groups;
    const double elements = (double)(n * hd_shape_count_plane(&run->layer->in));
    for (int64_t g = 0; g < groups; g++) {
        double sum = 0, product = 0;
        for (int64_t i = g * n; i < (g + 1) * n; i++) {
            sum += weight ? weight[i] * c->sums[i] : c->sums[i];
            product += weight ? weight[i] * c->products[i] : c->products[i];
        }
        for (int64_t i = g * n; i < (g + 1) * n; i++) {
            c->sums[i] = sum / elements;
            c->products[i] = product / elements;
        }
    }
}

static void find_moments(const struct hd_layer_run *run, const struct image *image, const float *x,
                         struct channels *c)
{
    add_up(image, x, x, c);
    average_groups(run, NULL, c);
    for (int64_t i = 0; i < image->channels; i++) {
        const double variance = c->products[i] - c->sums[i] * c->sums[i];
        c->mean[i] = (float)c->sums[i];
        c->inverse[i] = (float)(1 / sqrt((variance > 0 ? variance : 0) + EPSILON));
    }
}

/* Computes to = x a + b, or x a + b + y d, for each channel's a, b and d. */
static void combine(const struct image *image, const float *x, const float *a, const float *b,
                    const float *y, const float *d, float *to)
{
    for (int64_t first = 0; first < image->channels; first += image->lanes)
        for (int64_t p = 0; p < image->plane; p++) {
            const int64_t at = (first / image->lanes * image->plane + p) * image->lanes;
            for (int64_t i = 0; i < count_lanes(image, first); i++) {
                const float value = x[at + i] * a[first + i] + b[first + i];
                to[at + i] = y ? value + y[at + i] * d[first + i] : value;
            }
            for (int64_t i = count_lanes(image, first); i < image->lanes; i++)
                to[at + i] = 0;
        }
}

static void group_norm_forward(const struct hd_layer_run *run)
{
    const struct image image = make_image(run->form);
    struct channels c;
    lay_out(image.channels, run->scratch, &c);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * run->form->ld;
        find_moments(run, &image, x, &c);
        for (int64_t i = 0; i < image.channels; i++) {
            c.a[i] = c.inverse[i] * run->weight[i];
            c.b[i] = run->bias[i] - c.mean[i] * c.a[i];
        }
        combine(&image, x, c.a, c.b, NULL, NULL, run->to + r * run->form->ld);
    }
}

/* Makes of sums of dy and dy x those of dy and dy xhat. */
static void normalise_sums(const struct image *image, struct channels *c)
{
    for (int64_t i = 0; i < image->channels; i++)
        c->products[i] = (c->products[i] - c->mean[i] * c->sums[i]) * c->inverse[i];
}

/* dx = inverse (weight dy - mean(weight dy) - xhat mean(weight dy xhat)), means over a group. */
static void group_norm_backward_data(const struct hd_layer_run *run)
{
    const struct image image = make_image(run->form);
    struct channels c;
    lay_out(image.channels, run->scratch, &c);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * run->form->ld, *dy = run->dy + r * run->form->ld;
        find_moments(run, &image, x, &c);
        add_up(&image, dy, x, &c);
        normalise_sums(&image, &c);
        average_groups(run, run->weight, &c);
        for (int64_t i = 0; i < image.channels; i++) {
            const float slope = (float)c.products[i] * c.inverse[i];
            c.a[i] = c.inverse[i] * run->weight[i];
            c.b[i] = c.inverse[i] * (slope * c.mean[i] - (float)c.sums[i]);
            c.mean[i] = -c.inverse[i] * slope;
        }
        combine(&image, dy, c.a, c.b, x, c.mean, run->to + r * run->form->ld);
    }
}

static void group_norm_backward_weights(const struct hd_layer_run *run)
{
    const struct image image = make_image(run->form);
    struct channels c;
    lay_out(image.channels, run->scratch, &c);
    memset(run->dweight, 0, (size_t)image.channels * sizeof *run->dweight);
    memset(run->dbias, 0, (size_t)image.channels * sizeof *run->dbias);
    for (int64_t r = 0; r < run->rows; r++) {
        const float *x = run->x + r * run->form->ld, *dy = run->dy + r * run->form->ld;
        find_moments(run, &image, x, &c);
        add_up(&image, dy, x, &c);
        normalise_sums(&image, &c);
        for (int64_t i = 0; i < image.channels; i++) {
            run->dweight[i] += (float)c.products[i];
            run->dbias[i] += (float)c.sums[i];
        }
    }
}

const struct hd_layer_type hd_layer_group_norm = {
    .name = "group_norm",
    .fields = {{"groups", 1, 0}},
    .takes_layouts = true,
    .infer = group_norm_infer,
    .list_tensors = group_norm_list_tensors,
    .count_scratch = group_norm_count_scratch,
    .forward = group_norm_forward,
    .backward_data = group_norm_backward_data,
    .backward_weights = group_norm_backward_weights,
};
