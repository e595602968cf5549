/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutional nets: forward and backward. */
#include "kernels/activation.h"
#include "kernels/net_conv_internal.h"
#include "runtime/base/status.h"

#include <string.h>

static const struct hd_conv_net *of(const struct hd_net *net)
{
    return (const struct hd_conv_net *)net;
}

/* Rows of dense layers are filled up, so that bf16 products find whole blocks. */
static int64_t row_ld(int64_t n)
{
    return (n + HD_PACK_IN - 1) / HD_PACK_IN * HD_PACK_IN;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static size_t element(const struct hd_conv_net *net)
{
    return net->base.bf16 ? sizeof(hd_bf16) : sizeof(float);
}

/* Cuts memory into pieces, or only counts (at NULL). */
struct cut {
    char *at;
    int64_t used;
};

static void *piece(struct cut *cut, int64_t elements, size_t size)
{
    void *start = cut->at ? cut->at + cut->used : NULL;
    cut->used += hd_padded(elements * (int64_t)size);
    return start;
}

/* -- Forward ------------------------------------------------------------------------------------
 */

/* Work memory of a forward pass of `rows` rows. Activations are bf16 in bf16 nets, all but those of
 * the heads. */
struct activations {
    void *input, *conv[HD_CONVS];
    hd_bf16 *features; /* [rows][row_ld(mid.in)]: filled up, where bf16 needs that; else NULL */
    float *mid;        /* [rows][row_ld(mid.out)] */
    hd_bf16 *mid_bf16; /* the same; NULL in float nets */
    float *hidden;     /* [rows][row_ld(hidden.out)], after the ReLU */
    void *scratch;
};

static bool fills_up(const struct hd_conv_net *net)
{
    return net->base.bf16 && net->mid.in % HD_PACK_IN != 0;
}

static int64_t lay_out_activations(const struct hd_conv_net *net, int64_t rows, void *work,
                                   struct activations *a)
{
    struct cut cut = {.at = work};
    const size_t size = element(net);
    int64_t scratch = 0;
    a->input = piece(&cut, rows * hd_conv_input_elements(net->conv[0]), size);
    for (int i = 0; i < HD_CONVS; i++) {
        a->conv[i] = piece(&cut, rows * hd_conv_output_elements(net->conv[i]), size);
        scratch = most(scratch, hd_conv_scratch(net->conv[i], HD_CONV_FORWARD, rows));
    }
    a->features =
        fills_up(net) ? piece(&cut, rows * row_ld(net->mid.in), sizeof *a->features) : NULL;
    a->mid = piece(&cut, rows * row_ld(net->mid.out), sizeof *a->mid);
    a->mid_bf16 =
        net->base.bf16 ? piece(&cut, rows * row_ld(net->mid.out), sizeof *a->mid_bf16) : NULL;
    a->hidden = piece(&cut, rows * row_ld(net->hidden.out), sizeof *a->hidden);
    a->scratch = piece(&cut, scratch, 1);
    return cut.used;
}

int64_t hd_conv_net_forward_bytes(const struct hd_net *net, int64_t batch)
{
    struct activations unused;
    return batch > 0 ? lay_out_activations(of(net), batch, NULL, &unused) : 0;
}

static int run_convs(const struct hd_conv_net *net, const void *params, int64_t rows,
                     const struct activations *a)
{
    const hd_bf16 *images = hd_conv_net_images(net, (void *)params);
    const void *x = a->input;
    for (int i = 0; i < HD_CONVS; i++) {
        const struct hd_place *place = &net->conv_place[i];
        const float *floats = params;
        const void *weights = net->base.bf16 ? (const void *)(images + place->image)
                                             : (const void *)(floats + place->weight);
        HD_TRY(hd_conv_forward(net->conv[i], rows, x, weights, floats + place->bias, a->conv[i],
                               a->scratch));
        x = a->conv[i];
    }
    return HD_OK;
}

/* Rows of bf16 features with whole blocks. */
static const hd_bf16 *whole_features(const struct hd_conv_net *net, int64_t rows,
                                     const struct activations *a, int64_t *ld_p)
{
    const hd_bf16 *features = a->conv[HD_CONVS - 1];
    *ld_p = net->mid.in;
    if (!a->features)
        return features;
    *ld_p = row_ld(net->mid.in);
    memset(a->features, 0, (size_t)(rows * *ld_p) * sizeof *a->features);
    for (int64_t r = 0; r < rows; r++)
        memcpy(a->features + r * *ld_p, features + r * net->mid.in,
               (size_t)net->mid.in * sizeof *features);
    return a->features;
}

/* Columns that no output has, up to the next whole block, become zero. */
static void clear_columns(int64_t rows, int64_t from, int64_t ld, float *y)
{
    for (int64_t r = 0; r < rows && from < ld; r++)
        memset(y + r * ld + from, 0, (size_t)(ld - from) * sizeof *y);
}

static void run_dense(const struct hd_conv_net *net, const void *params, int64_t rows,
                      const struct activations *a)
{
    const float *floats = params;
    const float *mid_bias = floats + net->mid_place.bias;
    const float *hidden_bias = floats + net->hidden_place.bias;
    const int64_t ld_mid = row_ld(net->mid.out), ld_hidden = row_ld(net->hidden.out);
    if (net->base.bf16) {
        const hd_bf16 *images = hd_conv_net_images(net, (void *)params);
        int64_t ld;
        const hd_bf16 *features = whole_features(net, rows, a, &ld);
        hd_packed_forward_bf16(&net->mid, rows, images + net->mid_place.image, mid_bias, features,
                               ld, a->mid, ld_mid);
        clear_columns(rows, hd_packed_outputs(&net->mid), ld_mid, a->mid);
        hd_bf16_round(a->mid, rows * ld_mid, a->mid_bf16);
        hd_packed_forward_bf16(&net->hidden, rows, images + net->hidden_place.image, hidden_bias,
                               a->mid_bf16, ld_mid, a->hidden, ld_hidden);
    } else {
        hd_packed_forward(&net->mid, rows, floats + net->mid_place.weight, mid_bias,
                          a->conv[HD_CONVS - 1], net->mid.in, a->mid, ld_mid);
        hd_packed_forward(&net->hidden, rows, floats + net->hidden_place.weight, hidden_bias,
                          a->mid, ld_mid, a->hidden, ld_hidden);
    }
    clear_columns(rows, hd_packed_outputs(&net->hidden), ld_hidden, a->hidden);
    hd_relu_forward(rows * ld_hidden, a->hidden);
}

static void read_input(const struct hd_conv_net *net, const struct hd_rows *rows, const void *obs,
                       int64_t n, void *input)
{
    if (rows->floats)
        hd_frames_from_floats(&net->frames, rows->norm, n, obs, input);
    else
        hd_frames_from_bytes(&net->frames, rows->norm, n, obs, input);
}

int hd_conv_net_forward(const struct hd_net *base, const void *params, const struct hd_rows *rows,
                        void *work, float *q)
{
    const struct hd_conv_net *net = of(base);
    const int64_t n = rows->n_first + rows->n_second;
    struct activations a;
    lay_out_activations(net, n, work, &a);
    char *after_first = (char *)a.input + rows->n_first * hd_conv_input_elements(net->conv[0]) *
                                              (int64_t)element(net);
    read_input(net, rows, rows->first, rows->n_first, a.input);
    if (rows->n_second > 0)
        read_input(net, rows, rows->second, rows->n_second, after_first);
    HD_TRY(run_convs(net, params, n, &a));
    run_dense(net, params, n, &a);
    hd_heads_forward(net, params, n, a.hidden, row_ld(net->hidden.out), q);
    return HD_OK;
}

int hd_conv_net_prepare(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    const struct hd_conv_net *net = of(base);
    for (int i = 0; i < HD_CONVS; i++) {
        if (batch > 0)
            HD_TRY(hd_conv_prepare(net->conv[i], HD_CONV_FORWARD, batch));
        if (backward_batch > 0)
            HD_TRY(hd_conv_prepare(net->conv[i], HD_CONV_WEIGHTS, backward_batch));
        if (backward_batch > 0 && i > 0)
            HD_TRY(hd_conv_prepare(net->conv[i], HD_CONV_DATA, backward_batch));
    }
    return HD_OK;
}

/* -- Backward: heads, mid in its stages, then the convolutions from the last to the first ---------
 */

enum { HEAD_STAGES = 1 };

int hd_conv_net_stages(const struct hd_net *net)
{
    return HEAD_STAGES + of(net)->mid_stages + HD_CONVS;
}

/* The convolution that a stage is about, or -1. */
static int conv_of_stage(const struct hd_conv_net *net, int stage)
{
    int after = stage - HEAD_STAGES - net->mid_stages;
    return after < 0 ? -1 : HD_CONVS - 1 - after;
}

/* Blocks of mid's inputs that a stage is about. */
static void mid_blocks(const struct hd_conv_net *net, int stage, int64_t *first_p, int64_t *last_p)
{
    const int64_t blocks = hd_packed_in_blocks(&net->mid);
    int64_t i = stage - HEAD_STAGES;
    *first_p = i * net->mid_stage_blocks;
    *last_p = (i + 1) * net->mid_stage_blocks < blocks ? (i + 1) * net->mid_stage_blocks : blocks;
}

static int64_t stage_start(const struct hd_conv_net *net, int stage)
{
    int conv = conv_of_stage(net, stage);
    int64_t first, last;
    if (stage == 0)
        return net->output_place.weight;
    if (stage == hd_conv_net_stages(&net->base))
        return net->base.elements;
    if (conv >= 0)
        return net->conv_place[conv].weight;
    if (stage == HEAD_STAGES)
        return net->mid_place.bias;
    mid_blocks(net, stage, &first, &last);
    return net->mid_place.weight + first * hd_packed_out_blocks(&net->mid) * HD_PACK_BLOCK;
}

void hd_conv_net_stage_range(const struct hd_net *base, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = stage_start(of(base), stage);
    *hi_p = stage_start(of(base), stage + 1);
}

/* Scratch of a backward pass: gradients by the activations of the same name. */
struct gradients {
    float *hidden;
    hd_bf16 *hidden_bf16;
    void *mid;
    void *conv[HD_CONVS];
    void *scratch;
};

static int64_t lay_out_gradients(const struct hd_conv_net *net, int64_t rows, void *memory,
                                 struct gradients *g)
{
    struct cut cut = {.at = memory};
    const size_t size = element(net);
    int64_t scratch =
        most(hd_packed_scratch(&net->mid, rows), hd_packed_scratch(&net->hidden, rows));
    const int64_t hidden = rows * row_ld(net->hidden.out);
    g->hidden = piece(&cut, hidden, sizeof *g->hidden);
    g->hidden_bf16 = net->base.bf16 ? piece(&cut, hidden, sizeof *g->hidden_bf16) : NULL;
    g->mid = piece(&cut, rows * row_ld(net->mid.out), size);
    for (int i = 0; i < HD_CONVS; i++) {
        g->conv[i] = piece(&cut, rows * hd_conv_output_elements(net->conv[i]), size);
        scratch = most(scratch, hd_conv_scratch(net->conv[i], HD_CONV_WEIGHTS, rows));
        if (i > 0)
            scratch = most(scratch, hd_conv_scratch(net->conv[i], HD_CONV_DATA, rows));
    }
    g->scratch = piece(&cut, scratch, 1);
    return cut.used;
}

int64_t hd_conv_net_backward_bytes(const struct hd_net *net, int64_t batch)
{
    struct gradients unused;
    return lay_out_gradients(of(net), batch, NULL, &unused);
}

/* dbias[o] = sum over rows of dy[row][o], in order of the rows. */
static void add_rows(int64_t rows, int64_t n, const float *dy, const hd_bf16 *dy_bf16, int64_t ld,
                     float *dbias)
{
    memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < n; o++)
            dbias[o] += dy_bf16 ? hd_bf16_to(dy_bf16[r * ld + o]) : dy[r * ld + o];
}

/* A backward pass at one of its stages. */
struct backward {
    const struct hd_conv_net *net;
    const void *params;
    int64_t rows;
    struct activations a;
    struct gradients g;
    float *grad;
};

static void heads_stage(const struct backward *b, const float *dq)
{
    const struct hd_conv_net *net = b->net;
    const struct hd_packed *hidden = &net->hidden;
    const struct hd_place *place = &net->hidden_place;
    const int64_t rows = b->rows, ld = row_ld(hidden->out), ld_mid = row_ld(net->mid.out);
    const int64_t blocks = hd_packed_in_blocks(hidden);
    float *dw = b->grad + place->weight;
    memset(b->g.mid, 0, (size_t)(rows * ld_mid) * element(net));
    hd_heads_backward(net, b->params, rows, b->a.hidden, ld, dq, b->grad, b->g.hidden);
    if (net->base.bf16) {
        const hd_bf16 *image = hd_conv_net_images(net, (void *)b->params) + place->image;
        hd_bf16_round(b->g.hidden, rows * ld, b->g.hidden_bf16);
        hd_packed_backward_weights_bf16(hidden, rows, b->g.hidden_bf16, ld, b->a.mid_bf16, ld_mid,
                                        0, blocks, dw, b->g.scratch);
        hd_packed_backward_data_bf16(hidden, rows, image, b->g.hidden_bf16, ld, 0, blocks, NULL,
                                     b->g.mid, ld_mid, b->g.scratch);
    } else {
        const float *weights = (const float *)b->params + place->weight;
        hd_packed_backward_weights(hidden, rows, b->g.hidden, ld, b->a.mid, ld_mid, 0, blocks, dw,
                                   b->g.scratch);
        hd_packed_backward_data(hidden, rows, weights, b->g.hidden, ld, 0, blocks, NULL, b->g.mid,
                                ld_mid, b->g.scratch);
    }
    add_rows(rows, hd_packed_outputs(hidden), b->g.hidden, b->g.hidden_bf16, ld,
             b->grad + place->bias);
}

static void mid_stage(const struct backward *b, int stage)
{
    const struct hd_conv_net *net = b->net;
    const struct hd_packed *mid = &net->mid;
    const struct hd_place *place = &net->mid_place;
    const int64_t rows = b->rows, ld = row_ld(mid->out);
    int64_t first, last;
    mid_blocks(net, stage, &first, &last);
    float *dw = b->grad + place->weight;
    const void *features = b->a.conv[HD_CONVS - 1];
    void *dx = b->g.conv[HD_CONVS - 1];
    if (stage == HEAD_STAGES)
        add_rows(rows, hd_packed_outputs(mid), b->g.mid, net->base.bf16 ? b->g.mid : NULL, ld,
                 b->grad + place->bias);
    if (net->base.bf16) {
        const hd_bf16 *image = hd_conv_net_images(net, (void *)b->params) + place->image;
        const hd_bf16 *x = b->a.features ? b->a.features : features;
        hd_packed_backward_weights_bf16(mid, rows, b->g.mid, ld, x,
                                        b->a.features ? row_ld(mid->in) : mid->in, first, last, dw,
                                        b->g.scratch);
        hd_packed_backward_data_bf16(mid, rows, image, b->g.mid, ld, first, last, features, dx,
                                     mid->in, b->g.scratch);
    } else {
        const float *weights = (const float *)b->params + place->weight;
        hd_packed_backward_weights(mid, rows, b->g.mid, ld, features, mid->in, first, last, dw,
                                   b->g.scratch);
        hd_packed_backward_data(mid, rows, weights, b->g.mid, ld, first, last, features, dx,
                                mid->in, b->g.scratch);
    }
}

static int conv_stage(const struct backward *b, int i)
{
    const struct hd_conv_net *net = b->net;
    const struct hd_place *place = &net->conv_place[i];
    const void *x = i > 0 ? b->a.conv[i - 1] : b->a.input;
    HD_TRY(hd_conv_backward_weights(net->conv[i], b->rows, x, b->g.conv[i], b->grad + place->weight,
                                    b->grad + place->bias, b->g.scratch));
    if (i == 0)
        return HD_OK;
    return hd_conv_backward_data(net->conv[i], b->rows, (const float *)b->params + place->weight,
                                 b->g.conv[i], x, b->g.conv[i - 1], b->g.scratch);
}

/* Zeros the gaps between a stage's tensors. */
static void clear_gaps(const struct hd_conv_net *net, int stage, float *grad)
{
    const struct hd_place *places[] = {&net->output_place,  &net->hidden_place,
                                       &net->mid_place,     &net->conv_place[0],
                                       &net->conv_place[1], &net->conv_place[2]};
    int64_t lo, hi;
    hd_conv_net_stage_range(&net->base, stage, &lo, &hi);
    for (int i = 0; i < (int)(sizeof places / sizeof *places); i++) {
        const int64_t ends[] = {places[i]->weight_end, places[i]->bias_end};
        for (int j = 0; j < 2; j++)
            for (int64_t at = ends[j]; at >= lo && at < hi && at % HD_PACK_BLOCK != 0; at++)
                grad[at] = 0;
    }
}

int hd_conv_net_backward(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int stage, float *grad)
{
    const struct hd_conv_net *net = of(base);
    struct backward b = {.net = net, .params = params, .rows = batch, .grad = grad};
    int conv = conv_of_stage(net, stage);
    lay_out_activations(net, forward_batch, (void *)work, &b.a);
    lay_out_gradients(net, batch, scratch, &b.g);
    clear_gaps(net, stage, grad);
    if (conv >= 0)
        return conv_stage(&b, conv);
    if (stage < HEAD_STAGES)
        heads_stage(&b, dq);
    else
        mid_stage(&b, stage);
    return HD_OK;
}
