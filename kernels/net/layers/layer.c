/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/net/layers/layer.h"

#include <stdio.h>
#include <string.h>

int hd_layer_type_count_fields(const struct hd_layer_type *type)
{
    int n = 0;
    while (n < HD_LAYER_FIELDS && type->fields[n].name)
        n++;
    return n;
}

int hd_layer_list_tensors(const struct hd_layer *layer, struct hd_tensor tensors[HD_LAYER_TENSORS])
{
    return layer && layer->type->list_tensors ? layer->type->list_tensors(layer, tensors) : 0;
}

int64_t hd_layer_count_state(const struct hd_layer *layer)
{
    return layer->type->states * layer->fields[HD_RECURRENT_HIDDEN];
}

int64_t hd_shape_count(const struct hd_shape *shape)
{
    return shape->size[0] * hd_shape_count_plane(shape);
}

int64_t hd_shape_count_plane(const struct hd_shape *shape)
{
    int64_t n = 1;
    for (int i = 1; i < shape->dims; i++)
        n *= shape->size[i];
    return n;
}

bool hd_shape_is_equal(const struct hd_shape *a, const struct hd_shape *b)
{
    return a->dims == b->dims && memcmp(a->size, b->size, (size_t)a->dims * sizeof *a->size) == 0;
}

void hd_shape_describe(const struct hd_shape *shape, char text[HD_SHAPE_TEXT])
{
    int at = 0;
    for (int i = 0; i < shape->dims; i++)
        at += snprintf(text + at, (size_t)(HD_SHAPE_TEXT - at), "%s%lld", i > 0 ? ", " : "[",
                       (long long)shape->size[i]);
    snprintf(text + at, (size_t)(HD_SHAPE_TEXT - at), "]");
}

struct hd_tensor hd_layer_make_tensor(int dims, const int64_t *shape, enum hd_tensor_init init,
                                      int64_t fan_in)
{
    struct hd_tensor tensor = {.dims = dims, .count = 1, .fan_in = fan_in, .init = init};
    for (int i = 0; i < HD_NET_DIMS; i++) {
        tensor.shape[i] = i < dims ? shape[i] : 1;
        tensor.count *= tensor.shape[i];
    }
    return tensor;
}

bool hd_layer_keep_shape(struct hd_layer *layer, char message[HD_LAYER_MESSAGE])
{
    (void)message;
    layer->out = layer->in;
    return true;
}

void hd_layer_activate(const struct hd_layer_run *run)
{
    for (int64_t line = 0; line < run->lines; line++) {
        float *to = run->to + line * run->ld;
        memcpy(to, run->x + line * run->x_ld, (size_t)run->length * sizeof *to);
        run->layer->type->activate(run->length, to);
    }
}

void hd_layer_differentiate(const struct hd_layer_run *run)
{
    for (int64_t line = 0; line < run->lines; line++) {
        float *to = run->to + line * run->ld;
        memcpy(to, run->dy + line * run->ld, (size_t)run->length * sizeof *to);
        run->layer->type->differentiate(run->length, run->y + line * run->x_ld, to);
    }
}

int64_t hd_count_windows(int64_t side, int64_t kernel, int64_t stride, int64_t padding)
{
    const int64_t padded = side + 2 * padding;
    return padded < kernel ? 0 : (padded - kernel) / stride + 1;
}
