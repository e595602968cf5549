/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters, observations and derivatives for the passes of lists, also as the naive net takes
 * them. One thread at a time. */
#pragma once

#include "runtime/base/status.h"
#include "tests/kernels/common/guarded.h"
#include "tests/kernels/net/golden_net.h"
#include "tests/kernels/net/list/list_nets.h"
#include "tests/kernels/net/list/naive_list.h"

#include <string.h>

enum { CHECKED = 250 /* parameters of a list whose derivative is checked */ };

static inline struct hd_net *make_in(const struct list_case *list, enum hd_precision precision)
{
    struct hd_net_fields fields = list_fields(list);
    struct hd_net *net;
    fields.precision = precision;
    ck_assert_int_eq(hd_net_create(&fields, &net), HD_OK);
    return net;
}

static inline struct hd_net *make(const struct list_case *list)
{
    return make_in(list, HD_F32);
}

/* Checks the distance of vectors relative to the length of the second. */
static inline void check_distance(int64_t n, const float *x, const float *wanted, double most,
                                  const char *what)
{
    double distance = 0, length = 0;
    for (int64_t i = 0; i < n; i++) {
        distance += pow((double)x[i] - wanted[i], 2);
        length += pow(wanted[i], 2);
    }
    ck_assert_msg(sqrt(distance) <= most * sqrt(length), "%s: %g", what, sqrt(distance / length));
}

/* Parameters that start as the net says, and then differ a little, so that norms do something. */
static inline void *make_params(const struct hd_net *net)
{
    struct hd_rng rng = hd_rng_make(3, 0, 0, 0, 0);
    float *params = guarded(hd_net_get_params_bytes(net));
    ck_assert_int_eq(hd_net_init(net, &rng, params), HD_OK);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        float *row_major = test_alloc(tensor->count, sizeof *row_major);
        ck_assert_int_eq(hd_net_export_tensor(net, params, t, row_major), HD_OK);
        for (int64_t j = 0; j < tensor->count; j++)
            row_major[j] += (float)(0.3 * fill(1, (uint64_t)(tensor->offset + j)) - 0.15);
        ck_assert_int_eq(hd_net_import_tensor(net, row_major, t, params), HD_OK);
    }
    hd_net_refresh(net, params, 0, hd_net_count_params(net));
    return params;
}

/* Returns number i of the observations as the first layer gets it. */
static inline double get_number(const struct list_case *list, int64_t i)
{
    const double x = fill(2, (uint64_t)i);
    if (list->layers[0].type == &hd_layer_embedding)
        return floor(6 * x);
    return list->u8 ? (float)(floor(256 * x) / 255) : (float)(3 * x - 1);
}

/* Returns where number j of an input lies in an observation. */
static inline int64_t find_number(const struct list_case *list, const struct hd_net_input *input,
                                  int64_t j)
{
    const int64_t each = hd_shape_count(&input->shape) / list->frames, k = j / each;
    return k * list->frame_bytes + input->offset + (j - k * each) * (input->u8 ? 1 : 4);
}

/* Makes observations of several inputs, with ones in all other bits. */
static inline void *make_inputs(const struct list_case *list, const struct hd_net *net,
                                int64_t first, int64_t rows)
{
    const int64_t bytes = hd_net_get_obs_bytes(net);
    uint8_t *obs = memset(guarded(rows * bytes), 0xFF, (size_t)(rows * bytes));
    for (int64_t r = 0; r < rows; r++)
        for (int i = 0; i < list->n_inputs; i++)
            for (int64_t j = 0; j < hd_shape_count(&list->inputs[i].shape); j++) {
                uint8_t *to = obs + r * bytes + find_number(list, &list->inputs[i], j);
                const double x = fill(2 + i, (uint64_t)((first + r) * 1000 + j));
                if (list->inputs[i].u8)
                    *to = (uint8_t)(256 * x);
                else
                    *(float *)to = (float)(3 * x - 1);
            }
    return obs;
}

/* Returns the numbers of such observations, input by input. */
static inline double *naive_inputs(const struct list_case *list, const struct hd_net *net,
                                   int64_t rows)
{
    const uint8_t *obs = make_inputs(list, net, 0, rows);
    double *all = test_alloc(rows * hd_net_count_obs(net), sizeof *all), *to = all;
    for (int64_t r = 0; r < rows; r++, obs += hd_net_get_obs_bytes(net))
        for (int i = 0; i < list->n_inputs; i++)
            for (int64_t j = 0; j < hd_shape_count(&list->inputs[i].shape); j++) {
                const uint8_t *from = obs + find_number(list, &list->inputs[i], j);
                *to++ = list->inputs[i].u8 ? (float)*from / 255.0f : *(const float *)from;
            }
    return all;
}

/* Returns rows [first, first + rows) of the observations, in the net's type. */
static inline void *make_obs(const struct list_case *list, const struct hd_net *net, int64_t first,
                             int64_t rows)
{
    const int64_t n = rows * hd_net_count_obs(net);
    if (list->n_inputs > 0)
        return make_inputs(list, net, first, rows);
    char *obs = guarded(rows * hd_net_get_obs_bytes(net));
    for (int64_t i = 0; i < n; i++) {
        const double x = get_number(list, first * hd_net_count_obs(net) + i);
        if (list->u8)
            ((uint8_t *)obs)[i] = (uint8_t)lrint(255 * x);
        else
            ((float *)obs)[i] = (float)x;
    }
    return obs;
}

static inline double *naive_obs(const struct list_case *list, const struct hd_net *net,
                                int64_t rows)
{
    if (list->n_inputs > 0)
        return naive_inputs(list, net, rows);
    double *obs = test_alloc(rows * hd_net_count_obs(net), sizeof *obs);
    for (int64_t i = 0; i < rows * hd_net_count_obs(net); i++)
        obs[i] = get_number(list, i);
    return obs;
}

/* Converts a params instance or gradient to the order of the tensors. */
static inline float *by_tensors(const struct hd_net *net, const float *flat)
{
    float *all = test_alloc(hd_net_count_params(net), sizeof *all);
    for (int t = 0; t < hd_net_count_tensors(net); t++)
        ck_assert_int_eq(
            hd_net_export_tensor(net, flat, t, all + hd_net_get_tensor(net, t)->offset), HD_OK);
    return all;
}

static inline double *naive_params(const struct hd_net *net, const float *params)
{
    const float *all = by_tensors(net, params);
    double *doubles = test_alloc(hd_net_count_params(net), sizeof *doubles);
    for (int64_t j = 0; j < hd_net_count_params(net); j++)
        doubles[j] = all[j];
    return doubles;
}

/* Checks numbers against wanted ones, relative to the largest. */
static inline void check_q(int64_t n, const float *q, const double *wanted, double tolerance,
                           const char *what)
{
    double scale = 0;
    for (int64_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(wanted[i]));
    for (int64_t i = 0; i < n; i++)
        CHECK_CLOSE(q[i], wanted[i], scale, tolerance, what);
}

/* Checks a gradient in the order of the tensors against differences of sum dq q, relative to the
 * largest one of its tensor, or to 0.05: that by a bias before a batch norm is 0, a sum of larger
 * numbers. */
static inline void check_differences(const struct list_case *list, const struct hd_net *net,
                                     double *params, const double *obs, int64_t rows,
                                     const float *dq, const float *grad)
{
    const struct hd_net_fields fields = list_fields(list);
    const int64_t n = rows * hd_net_count_outputs(net), all = hd_net_count_params(net);
    const double step = 1e-6;
    double *q = test_alloc(n, sizeof *q);
    for (int t = 0; t < hd_net_count_tensors(net); t++) {
        const struct hd_tensor *tensor = hd_net_get_tensor(net, t);
        double scale = 0.05;
        for (int64_t j = 0; j < tensor->count; j++)
            scale = fmax(scale, fabs(grad[tensor->offset + j]));
        for (int64_t j = 0; j < tensor->count; j += 1 + all / CHECKED) {
            double *at = &params[tensor->offset + j], sum[2] = {0};
            const double before = *at;
            for (int side = 0; side < 2; side++) {
                *at = before + (side == 0 ? -step : step);
                naive_forward(&fields, params, NULL, obs, rows, q);
                for (int64_t i = 0; i < n; i++)
                    sum[side] += dq[i] * q[i];
            }
            *at = before;
            CHECK_CLOSE(grad[tensor->offset + j], (sum[1] - sum[0]) / (2 * step), scale, 2e-5,
                        tensor->name);
        }
    }
}

static inline float *make_dq(int64_t first, int64_t n)
{
    float *dq = test_alloc(n, sizeof *dq);
    for (int64_t i = 0; i < n; i++)
        dq[i] = (float)(fill(4, (uint64_t)(first + i)) - 0.5);
    return dq;
}
