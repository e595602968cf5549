/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass of convolutional nets. */
#include "kernels/common/activation.h"
#include "kernels/net/net_conv_internal.h"
#include "runtime/base/status.h"

#include <string.h>

static bool fills_up(const struct hd_conv_net *net)
{
    return net->base.bf16 && net->mid.in % HD_PACK_IN != 0;
}

int64_t hd_activations_lay_out(const struct hd_conv_net *net, int64_t rows, void *work,
                               struct hd_activations *a)
{
    struct hd_bump bump = {.at = work};
    const size_t size = hd_conv_net_get_element_bytes(net);
    a->input = hd_bump_take(&bump, rows * hd_conv_count_input_elements(net->conv[0]), size);
    for (int i = 0; i < HD_CONVS; i++)
        a->conv[i] = hd_bump_take(&bump, rows * hd_conv_count_output_elements(net->conv[i]), size);
    a->features = fills_up(net) ? hd_bump_take(&bump, rows * hd_conv_net_get_row_ld(net->mid.in),
                                               sizeof *a->features)
                                : NULL;
    a->mid = hd_bump_take(&bump, rows * hd_conv_net_get_row_ld(net->mid.out), sizeof *a->mid);
    a->mid_bf16 = net->base.bf16 ? hd_bump_take(&bump, rows * hd_conv_net_get_row_ld(net->mid.out),
                                                sizeof *a->mid_bf16)
                                 : NULL;
    a->hidden =
        hd_bump_take(&bump, rows * hd_conv_net_get_row_ld(net->hidden.out), sizeof *a->hidden);
    for (int i = 0; i < HD_CONVS; i++) {
        const int64_t part = i < HD_FRONT ? hd_conv_net_clip_part(net->forward_part, rows) : rows;
        a->scratch[i] =
            hd_bump_take(&bump, hd_conv_get_scratch_bytes(net->conv[i], HD_CONV_FORWARD, part), 1);
    }
    return bump.used;
}

int64_t hd_conv_net_get_forward_bytes(const struct hd_net *net, int64_t batch)
{
    struct hd_activations unused;
    return batch > 0 ? hd_activations_lay_out(as_conv(net), batch, NULL, &unused) : 0;
}

static int begin(const struct hd_conv_net *net, const void *params, int i, int64_t max_batch,
                 const struct hd_activations *a, struct hd_conv_run *run)
{
    const hd_bf16 *shadows = hd_conv_net_find_shadows(net, (void *)params);
    const struct hd_layer_offsets *offsets = &net->conv_offsets[i];
    const float *floats = params;
    *run = (struct hd_conv_run){.conv = net->conv[i],
                                .pass = HD_CONV_FORWARD,
                                .max_batch = max_batch,
                                .weights = floats + offsets->weight,
                                .bias = floats + offsets->bias,
                                .scratch = a->scratch[i]};
    if (net->base.bf16)
        run->weights = shadows + offsets->shadow;
    return hd_conv_begin(run);
}

/* Converts observations [first, first + n) of all. */
static void read_input(const struct hd_conv_net *net, const struct hd_net_rows *rows, int64_t first,
                       int64_t n, void *input)
{
    const int64_t row =
        hd_conv_count_input_elements(net->conv[0]) * (int64_t)hd_conv_net_get_element_bytes(net);
    const int64_t obs = net->base.obs * (int64_t)(rows->floats ? sizeof(float) : 1);
    while (n > 0) {
        const bool in_first = first < rows->n_first;
        const int64_t left = rows->n_first - first, some = in_first && left < n ? left : n;
        const char *from = in_first ? (const char *)rows->first + first * obs
                                    : (const char *)rows->second - left * obs;
        if (rows->floats)
            hd_frames_convert_floats(&net->frames, rows->norm, some, (const float *)from, input);
        else
            hd_frames_convert_bytes(&net->frames, rows->norm, some, (const uint8_t *)from, input);
        input = (char *)input + some * row;
        first += some;
        n -= some;
    }
}

static void *row_of(const struct hd_conv_net *net, void *rows, int64_t elements, int64_t row)
{
    return (char *)rows + row * elements * (int64_t)hd_conv_net_get_element_bytes(net);
}

/* Returns the memory that the next part, of `n` rows from `first` on, will write: its input is
 * prefetched while the first convolution runs, that one's output while the second does. */
static struct hd_conv_prefetch written_next(const struct hd_conv_net *net,
                                            const struct hd_activations *a, int i, int64_t first,
                                            int64_t n)
{
    const int64_t elements = i == 0 ? hd_conv_count_input_elements(net->conv[0])
                                    : hd_conv_count_output_elements(net->conv[0]);
    void *at = row_of(net, i == 0 ? a->input : a->conv[0], elements, first);
    return (struct hd_conv_prefetch){at, n * elements * (int64_t)hd_conv_net_get_element_bytes(net),
                                     true};
}

static int run_convs(const struct hd_conv_net *net, const void *params,
                     const struct hd_net_rows *rows, const struct hd_activations *a)
{
    const int64_t n = rows->n_first + rows->n_second,
                  part = hd_conv_net_clip_part(net->forward_part, n);
    struct hd_conv_run run[HD_CONVS];
    for (int i = 0; i < HD_CONVS; i++)
        HD_TRY(begin(net, params, i, i < HD_FRONT ? part : n, a, &run[i]));
    for (int64_t first = 0; first < n; first += part) {
        const int64_t some = n - first < part ? n - first : part;
        void *x = row_of(net, a->input, hd_conv_count_input_elements(net->conv[0]), first);
        read_input(net, rows, first, some, x);
        const int64_t next = n - first - some < part ? n - first - some : part;
        for (int i = 0; i < HD_FRONT; i++) {
            run[i].prefetch = written_next(net, a, i, first + some, next);
            void *y = row_of(net, a->conv[i], hd_conv_count_output_elements(net->conv[i]), first);
            HD_TRY(hd_conv_forward(&run[i], some, x, y));
            x = y;
        }
    }
    for (int i = HD_FRONT; i < HD_CONVS; i++)
        HD_TRY(hd_conv_forward(&run[i], n, a->conv[i - 1], a->conv[i]));
    for (int i = 0; i < HD_CONVS; i++)
        HD_TRY(hd_conv_end(&run[i]));
    return HD_OK;
}

/* Returns rows of bf16 features padded to whole blocks. */
static const hd_bf16 *whole_features(const struct hd_conv_net *net, int64_t rows,
                                     const struct hd_activations *a, int64_t *ld_p)
{
    const hd_bf16 *features = a->conv[HD_CONVS - 1];
    *ld_p = net->mid.in;
    if (!a->features)
        return features;
    *ld_p = hd_conv_net_get_row_ld(net->mid.in);
    memset(a->features, 0, (size_t)(rows * *ld_p) * sizeof *a->features);
    for (int64_t r = 0; r < rows; r++)
        memcpy(a->features + r * *ld_p, features + r * net->mid.in,
               (size_t)net->mid.in * sizeof *features);
    return a->features;
}

/* Zeroes the columns from the last output up to the next whole block. */
static void clear_columns(int64_t rows, int64_t from, int64_t ld, float *y)
{
    for (int64_t r = 0; r < rows && from < ld; r++)
        memset(y + r * ld + from, 0, (size_t)(ld - from) * sizeof *y);
}

static void run_dense(const struct hd_conv_net *net, const void *params, int64_t rows,
                      const struct hd_activations *a)
{
    const float *floats = params;
    const float *mid_bias = floats + net->mid_offsets.bias;
    const float *hidden_bias = floats + net->hidden_offsets.bias;
    const int64_t ld_mid = hd_conv_net_get_row_ld(net->mid.out),
                  ld_hidden = hd_conv_net_get_row_ld(net->hidden.out);
    if (net->base.bf16) {
        const hd_bf16 *shadows = hd_conv_net_find_shadows(net, (void *)params);
        int64_t ld;
        const hd_bf16 *features = whole_features(net, rows, a, &ld);
        hd_packed_forward_bf16(&net->mid, rows, shadows + net->mid_offsets.shadow, mid_bias,
                               features, ld, a->mid, ld_mid);
        clear_columns(rows, hd_packed_count_outputs(&net->mid), ld_mid, a->mid);
        hd_bf16_round(a->mid, rows * ld_mid, a->mid_bf16);
        hd_packed_forward_bf16(&net->hidden, rows, shadows + net->hidden_offsets.shadow,
                               hidden_bias, a->mid_bf16, ld_mid, a->hidden, ld_hidden);
    } else {
        hd_packed_forward(&net->mid, rows, floats + net->mid_offsets.weight, mid_bias,
                          a->conv[HD_CONVS - 1], net->mid.in, a->mid, ld_mid);
        hd_packed_forward(&net->hidden, rows, floats + net->hidden_offsets.weight, hidden_bias,
                          a->mid, ld_mid, a->hidden, ld_hidden);
    }
    clear_columns(rows, hd_packed_count_outputs(&net->hidden), ld_hidden, a->hidden);
    hd_relu_forward(rows * ld_hidden, a->hidden);
}

int hd_conv_net_forward(const struct hd_net *base, const void *params,
                        const struct hd_net_rows *rows, void *work, float *q)
{
    const struct hd_conv_net *net = as_conv(base);
    const int64_t n = rows->n_first + rows->n_second;
    struct hd_activations a;
    hd_activations_lay_out(net, n, work, &a);
    HD_TRY(run_convs(net, params, rows, &a));
    run_dense(net, params, n, &a);
    hd_heads_forward(net, params, n, a.hidden, hd_conv_net_get_row_ld(net->hidden.out), q);
    return HD_OK;
}

/* Prepares a pass over `rows` rows in parts of `part`. */
static int prepare_parts(struct hd_conv *conv, enum hd_conv_pass pass, int64_t rows, int64_t part)
{
    if (rows == 0)
        return HD_OK;
    HD_TRY(hd_conv_prepare(conv, pass, hd_conv_net_clip_part(part, rows)));
    return rows > part && rows % part > 0 ? hd_conv_prepare(conv, pass, rows % part) : HD_OK;
}

int hd_conv_net_prepare(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    const struct hd_conv_net *net = as_conv(base);
    for (int i = 0; i < HD_CONVS; i++) {
        const int64_t forward = i < HD_FRONT ? net->forward_part : batch;
        const int64_t backward = i < HD_FRONT ? net->backward_part : backward_batch;
        HD_TRY(prepare_parts(net->conv[i], HD_CONV_FORWARD, batch, forward));
        HD_TRY(prepare_parts(net->conv[i], HD_CONV_WEIGHTS, backward_batch, backward));
        if (i > 0)
            HD_TRY(prepare_parts(net->conv[i], HD_CONV_DATA, backward_batch, backward));
    }
    return HD_OK;
}
