/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of layers computed literally from PyTorch's definitions, in double, all rows of a batch at
 * once. Derivatives follow from it by differences. One thread at a time. */
#pragma once

#include "kernels/net/net.h"
#include "tests/kernels/common/check_close.h"

#include <math.h>
#include <string.h>

enum { NAIVE_MAX = 1 << 17, NAIVE_VALUES = 32 };

struct naive_list {
    const struct hd_layer *layers;
    const double *params;  /* in order of the tensors */
    const double *running; /* of batch norms; NULL: by the batch's own statistics */
    int64_t rows;
};

/* The shape of a sample, and all rows of it. */
struct naive_value {
    struct hd_shape shape;
    double x[NAIVE_MAX];
};

/* The values of one forward pass, which the next one overwrites. */
static struct naive_value *naive_values[NAIVE_VALUES];
static int naive_made;

static inline struct naive_value *naive_make(struct hd_shape shape, int64_t rows)
{
    ck_assert_int_le(rows * hd_shape_count(&shape), NAIVE_MAX);
    ck_assert_int_lt(naive_made, NAIVE_VALUES);
    struct naive_value **value = &naive_values[naive_made++];
    if (!*value)
        *value = hd_alloc(1, sizeof **value);
    ck_assert_ptr_nonnull(*value);
    (*value)->shape = shape;
    return *value;
}

static inline int64_t naive_side(int64_t side, const int64_t *fields, int64_t stride)
{
    return (side + 2 * fields[3] - fields[1]) / stride + 1;
}

/* Returns pixel (y, x) of a plane, or `outside`. */
static inline double naive_pixel(const double *plane, const struct hd_shape *shape, int64_t y,
                                 int64_t x, double outside)
{
    const bool inside = y >= 0 && y < shape->size[1] && x >= 0 && x < shape->size[2];
    return inside ? plane[y * shape->size[2] + x] : outside;
}

static inline struct naive_value *naive_conv(const struct naive_list *net, const int64_t *fields,
                                             const struct naive_value *in, const double *w)
{
    const int64_t k = fields[1], stride = fields[2], channels = in->shape.size[0];
    const struct hd_shape shape = {3,
                                   {fields[0], naive_side(in->shape.size[1], fields, stride),
                                    naive_side(in->shape.size[2], fields, stride)}};
    struct naive_value *out = naive_make(shape, net->rows);
    const double *bias = w + shape.size[0] * channels * k * k;
    const int64_t plane = hd_shape_count_plane(&in->shape);
    double *to = out->x;
    for (int64_t r = 0; r < net->rows; r++)
        for (int64_t o = 0; o < shape.size[0]; o++)
            for (int64_t y = 0; y < shape.size[1]; y++)
                for (int64_t x = 0; x < shape.size[2]; x++) {
                    double sum = bias[o];
                    const double *weight = w + o * channels * k * k;
                    for (int64_t c = 0; c < channels; c++)
                        for (int64_t v = 0; v < k; v++)
                            for (int64_t u = 0; u < k; u++)
                                sum +=
                                    *weight++ * naive_pixel(in->x + (r * channels + c) * plane,
                                                            &in->shape, y * stride + v - fields[3],
                                                            x * stride + u - fields[3], 0);
                    *to++ = sum;
                }
    return out;
}

static inline struct naive_value *naive_pool(const struct naive_list *net, const int64_t *fields,
                                             const struct naive_value *in)
{
    const int64_t k = fields[0], stride = fields[1] > 0 ? fields[1] : k;
    const int64_t as_conv[] = {0, k, stride, fields[2]}, channels = in->shape.size[0];
    const struct hd_shape shape = {3,
                                   {channels, naive_side(in->shape.size[1], as_conv, stride),
                                    naive_side(in->shape.size[2], as_conv, stride)}};
    struct naive_value *out = naive_make(shape, net->rows);
    double *to = out->x;
    for (int64_t c = 0; c < net->rows * channels; c++)
        for (int64_t y = 0; y < shape.size[1]; y++)
            for (int64_t x = 0; x < shape.size[2]; x++) {
                *to = -INFINITY;
                for (int64_t i = 0; i < k * k; i++)
                    *to = fmax(*to, naive_pixel(in->x + c * hd_shape_count_plane(&in->shape),
                                                &in->shape, y * stride + i / k - fields[2],
                                                x * stride + i % k - fields[2], -INFINITY));
                to++;
            }
    return out;
}

static inline struct naive_value *naive_dense(const struct naive_list *net, int64_t outputs,
                                              const struct naive_value *in, const double *w)
{
    const int64_t n = in->shape.size[0];
    struct naive_value *out = naive_make((struct hd_shape){1, {outputs}}, net->rows);
    for (int64_t r = 0; r < net->rows; r++)
        for (int64_t o = 0; o < outputs; o++) {
            double sum = w[outputs * n + o];
            for (int64_t i = 0; i < n; i++)
                sum += w[o * n + i] * in->x[r * n + i];
            out->x[r * outputs + o] = sum;
        }
    return out;
}

static inline struct naive_value *naive_embed(const struct naive_list *net, int64_t width,
                                              const struct naive_value *in, const double *w)
{
    const int64_t n = in->shape.size[0];
    struct naive_value *out = naive_make((struct hd_shape){2, {n, width}}, net->rows);
    for (int64_t i = 0; i < net->rows * n; i++)
        memcpy(out->x + i * width, w + (int64_t)in->x[i] * width, (size_t)width * sizeof *w);
    return out;
}

static inline struct naive_value *naive_layer_norm(const struct naive_list *net,
                                                   const struct naive_value *in, const double *w)
{
    const int64_t n = hd_shape_count(&in->shape);
    struct naive_value *out = naive_make(in->shape, net->rows);
    for (int64_t r = 0; r < net->rows; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += in->x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(in->x[r * n + i] - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++)
            out->x[r * n + i] = (in->x[r * n + i] - mean) / sqrt(variance + 1e-5) * w[i] + w[n + i];
    }
    return out;
}

static inline struct naive_value *naive_group_norm(const struct naive_list *net, int64_t groups,
                                                   const struct naive_value *in, const double *w)
{
    const int64_t channels = in->shape.size[0], plane = hd_shape_count_plane(&in->shape);
    const int64_t n = channels / groups * plane;
    struct naive_value *out = naive_make(in->shape, net->rows);
    for (int64_t r = 0; r < net->rows * groups; r++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++)
            mean += in->x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            variance += pow(in->x[r * n + i] - mean, 2) / (double)n;
        for (int64_t i = 0; i < n; i++) {
            const int64_t c = (r % groups * n + i) / plane;
            out->x[r * n + i] =
                (in->x[r * n + i] - mean) / sqrt(variance + 1e-5) * w[c] + w[channels + c];
        }
    }
    return out;
}

static inline struct naive_value *naive_batch_norm(struct naive_list *net,
                                                   const struct naive_value *in, const double *w)
{
    const int64_t channels = in->shape.size[0], plane = hd_shape_count_plane(&in->shape);
    const double n = (double)(net->rows * plane);
    struct naive_value *out = naive_make(in->shape, net->rows);
    for (int64_t c = 0; c < channels; c++) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < net->rows * plane; i++)
            mean += in->x[(i / plane * channels + c) * plane + i % plane] / n;
        for (int64_t i = 0; i < net->rows * plane; i++)
            variance += pow(in->x[(i / plane * channels + c) * plane + i % plane] - mean, 2) / n;
        if (net->running) {
            mean = net->running[c];
            variance = net->running[channels + c];
        }
        for (int64_t i = 0; i < net->rows * plane; i++) {
            const int64_t at = (i / plane * channels + c) * plane + i % plane;
            out->x[at] = (in->x[at] - mean) / sqrt(variance + 1e-5) * w[c] + w[channels + c];
        }
    }
    net->running += net->running ? 2 * channels : 0;
    return out;
}

static inline struct naive_value *naive_map(const struct naive_list *net,
                                            const struct hd_layer_type *type,
                                            const struct naive_value *in)
{
    struct naive_value *out = naive_make(in->shape, net->rows);
    for (int64_t i = 0; i < net->rows * hd_shape_count(&in->shape); i++) {
        const double x = in->x[i];
        out->x[i] = type == &hd_layer_relu   ? fmax(0, x)
                    : type == &hd_layer_tanh ? tanh(x)
                                             : x * (1 + erf(x / sqrt(2))) / 2;
    }
    return out;
}

static inline struct naive_value *naive_flatten(const struct naive_list *net,
                                                const struct naive_value *in)
{
    struct naive_value *out =
        naive_make((struct hd_shape){1, {hd_shape_count(&in->shape)}}, net->rows);
    memcpy(out->x, in->x, (size_t)(net->rows * hd_shape_count(&in->shape)) * sizeof *in->x);
    return out;
}

static inline struct naive_value *naive_log_std(const struct naive_list *net,
                                                const struct naive_value *in, const double *w)
{
    const int64_t n = in->shape.size[0];
    struct naive_value *out = naive_make((struct hd_shape){1, {2 * n}}, net->rows);
    for (int64_t i = 0; i < net->rows * n; i++) {
        out->x[i / n * 2 * n + i % n] = in->x[i];
        out->x[i / n * 2 * n + n + i % n] = w[i % n];
    }
    return out;
}

/* The sequences of rows of the next passes, and where their next layer with a state has its part of
 * it; `next` may be NULL. */
static struct {
    int64_t steps;
    const double *state; /* NULL: zeros */
    const float *begins;
    double *next;
    int64_t ld, at;
} naive_sequences;

static inline double naive_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Computes gate number `gate` of unit i: by the inputs (part 0) or by the state h (part 1). */
static inline double naive_gate(int part, int64_t gates, int64_t hidden, int64_t inputs,
                                const double *w, int64_t gate, int64_t i, const double *x)
{
    const double *bias = w + gates * hidden * (inputs + hidden) + part * gates * hidden;
    const int64_t n = part == 0 ? inputs : hidden, row = gate * hidden + i;
    const double *weight = w + part * gates * hidden * inputs + row * n;
    double sum = bias[row];
    for (int64_t j = 0; j < n; j++)
        sum += weight[j] * x[j];
    return sum;
}

/* Computes one step of a sequence: h[hidden], in an LSTM then c[hidden]. */
static inline void naive_cell(bool lstm, int64_t hidden, int64_t inputs, const double *w,
                              const double *x, double *state)
{
    const int64_t gates = lstm ? 4 : 3;
    double before[64], a[4], b[4];
    memcpy(before, state, (size_t)hidden * sizeof *before);
    for (int64_t i = 0; i < hidden; i++) {
        for (int64_t g = 0; g < gates; g++) {
            a[g] = naive_gate(0, gates, hidden, inputs, w, g, i, x);
            b[g] = naive_gate(1, gates, hidden, inputs, w, g, i, before);
        }
        if (lstm) {
            double *c = &state[hidden + i];
            *c = naive_sigmoid(a[1] + b[1]) * *c + naive_sigmoid(a[0] + b[0]) * tanh(a[2] + b[2]);
            state[i] = naive_sigmoid(a[3] + b[3]) * tanh(*c);
        } else {
            const double z = naive_sigmoid(a[1] + b[1]);
            const double n = tanh(a[2] + naive_sigmoid(a[0] + b[0]) * b[2]);
            state[i] = (1 - z) * n + z * before[i];
        }
    }
}

static inline struct naive_value *naive_recurrent(const struct naive_list *net, bool lstm,
                                                  int64_t hidden, const struct naive_value *in,
                                                  const double *w)
{
    struct naive_value *out = naive_make((struct hd_shape){1, {hidden}}, net->rows);
    const int64_t n = (lstm ? 2 : 1) * hidden, inputs = in->shape.size[0], at = naive_sequences.at;
    const int64_t steps = naive_sequences.steps > 0 ? naive_sequences.steps : 1;
    for (int64_t q = 0; q < net->rows / steps; q++) {
        const int64_t place = q * naive_sequences.ld + at;
        double state[128] = {0};
        if (naive_sequences.state)
            memcpy(state, naive_sequences.state + place, (size_t)n * sizeof *state);
        for (int64_t row = q * steps; row < (q + 1) * steps; row++) {
            if (naive_sequences.begins && naive_sequences.begins[row] != 0)
                memset(state, 0, sizeof state);
            naive_cell(lstm, hidden, inputs, w, in->x + row * inputs, state);
            memcpy(out->x + row * hidden, state, (size_t)hidden * sizeof *state);
        }
        if (naive_sequences.next)
            memcpy(naive_sequences.next + place, state, (size_t)n * sizeof *state);
    }
    naive_sequences.at += n;
    return out;
}

/* Takes n parameters. */
static inline const double *naive_take(struct naive_list *net, int64_t n)
{
    const double *at = net->params;
    net->params += n;
    return at;
}

static inline struct naive_value *naive_run(struct naive_list *net, int64_t n,
                                            struct naive_value *in);

/* Computes the next layer of the list. */
static inline struct naive_value *naive_layer(struct naive_list *net, struct naive_value *in)
{
    const struct hd_layer *layer = net->layers++;
    const int64_t *fields = layer->fields, n = hd_shape_count(&in->shape), c = in->shape.size[0];
    if (layer->type == &hd_layer_dense)
        return naive_dense(net, fields[0], in, naive_take(net, (c + 1) * fields[0]));
    if (layer->type == &hd_layer_conv)
        return naive_conv(net, fields, in,
                          naive_take(net, (c * fields[1] * fields[1] + 1) * fields[0]));
    if (layer->type->states > 0) {
        const int64_t gates = layer->type == &hd_layer_lstm ? 4 : 3;
        return naive_recurrent(net, gates == 4, fields[0], in,
                               naive_take(net, gates * fields[0] * (c + fields[0] + 2)));
    }
    if (layer->type == &hd_layer_max_pool)
        return naive_pool(net, fields, in);
    if (layer->type == &hd_layer_embedding)
        return naive_embed(net, fields[1], in, naive_take(net, fields[0] * fields[1]));
    if (layer->type == &hd_layer_layer_norm)
        return naive_layer_norm(net, in, naive_take(net, 2 * n));
    if (layer->type == &hd_layer_group_norm)
        return naive_group_norm(net, fields[0], in, naive_take(net, 2 * c));
    if (layer->type == &hd_layer_batch_norm)
        return naive_batch_norm(net, in, naive_take(net, 2 * c));
    if (layer->type == &hd_layer_log_std)
        return naive_log_std(net, in, naive_take(net, c));
    if (layer->type == &hd_layer_flatten)
        return naive_flatten(net, in);
    if (layer->type != &hd_layer_residual)
        return naive_map(net, layer->type, in);
    struct naive_value *inside = naive_run(net, layer->body, in);
    struct naive_value *out = naive_make(in->shape, net->rows);
    for (int64_t i = 0; i < net->rows * n; i++)
        out->x[i] = in->x[i] + inside->x[i];
    return out;
}

/* Computes the next n layers, those inside of others included. */
static inline struct naive_value *naive_run(struct naive_list *net, int64_t n,
                                            struct naive_value *in)
{
    const struct hd_layer *end = net->layers + n;
    while (net->layers < end)
        in = naive_layer(net, in);
    return in;
}

/* Takes n numbers of each row of obs[rows][ld]. */
static inline struct naive_value *naive_take_obs(struct hd_shape shape, const double *obs,
                                                 int64_t ld, int64_t rows)
{
    const int64_t n = hd_shape_count(&shape);
    struct naive_value *value = naive_make(shape, rows);
    for (int64_t r = 0; r < rows; r++)
        memcpy(value->x + r * n, obs + r * ld, (size_t)n * sizeof *obs);
    return value;
}

/* Computes the layers of all inputs, whose numbers follow one another in a row, and joins what they
 * make. */
static inline struct naive_value *naive_join(struct naive_list *net,
                                             const struct hd_net_fields *fields, const double *obs)
{
    const struct naive_value *made[HD_NET_INPUTS];
    int64_t numbers = 0, width = 0, at = 0;
    for (int i = 0; i < fields->n_inputs; i++)
        numbers += hd_shape_count(&fields->inputs[i].shape);
    for (int i = 0; i < fields->n_inputs; i++) {
        struct naive_value *in =
            naive_take_obs(fields->inputs[i].shape, obs + at, numbers, net->rows);
        at += hd_shape_count(&fields->inputs[i].shape);
        made[i] = naive_run(net, fields->inputs[i].layers - 1, in);
        width += made[i]->shape.size[0];
        net->layers++;
    }
    struct naive_value *joined = naive_make((struct hd_shape){1, {width}}, net->rows);
    for (int64_t r = 0, to = 0; r < net->rows; r++)
        for (int i = 0; i < fields->n_inputs; i++)
            for (int64_t j = 0, n = made[i]->shape.size[0]; j < n; j++)
                joined->x[to++] = made[i]->x[r * n + j];
    return joined;
}

/* Computes q[rows][outputs] of obs[rows][elements] (numbers as the first layer gets them). */
static inline void naive_forward(const struct hd_net_fields *fields, const double *params,
                                 const double *running, const double *obs, int64_t rows, double *q)
{
    struct naive_list net = {fields->layers, params, running, rows};
    naive_made = 0;
    naive_sequences.at = 0;
    struct hd_shape shape = {.dims = fields->obs_dims};
    memcpy(shape.size, fields->obs_shape, (size_t)shape.dims * sizeof *shape.size);
    struct naive_value *actions = NULL, *value = NULL;
    struct naive_value *in = fields->n_inputs > 0
                                 ? naive_join(&net, fields, obs)
                                 : naive_take_obs(shape, obs, hd_shape_count(&shape), rows);
    struct naive_value *trunk = naive_run(&net, fields->trunk - (net.layers - fields->layers), in);
    for (int i = 0; i < fields->n_streams; i++)
        *(fields->streams[i].output == HD_OUTPUT_VALUE ? &value : &actions) =
            naive_run(&net, fields->streams[i].layers, trunk);
    const bool dueling = fields->heads == HD_HEADS_DUELING;
    const int64_t n = fields->actions, outputs = n + (value && !dueling);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0;
        for (int64_t i = 0; i < n; i++)
            mean += actions->x[r * n + i] / (double)n;
        for (int64_t i = 0; i < n; i++)
            q[r * outputs + i] = actions->x[r * n + i] + (dueling ? value->x[r] - mean : 0);
        if (outputs > n)
            q[r * outputs + n] = value->x[r];
    }
}
