/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of convolutional nets: heads, `mid` in its stages, then the convolutions from
 * the last to the first. */
#include "kernels/net/net_conv_internal.h"
#include "runtime/base/status.h"

#include <string.h>

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* -- Stages ------------------------------------------------------------------------------------ */

enum { HEAD_STAGES = 1, CONV_STAGES = HD_CONVS - HD_FRONT + 1 };

int hd_conv_net_count_stages(const struct hd_net *net)
{
    return HEAD_STAGES + as_conv(net)->mid_stages + CONV_STAGES;
}

/* Returns the convolution that a stage begins with, or -1; the front is one stage. */
static int conv_of_stage(const struct hd_conv_net *net, int stage)
{
    int after = stage - HEAD_STAGES - net->mid_stages;
    return after < 0 ? -1 : HD_CONVS - 1 - after;
}

/* Finds the blocks of inputs of `mid` that a stage computes. */
static void mid_blocks(const struct hd_conv_net *net, int stage, int64_t *first_p, int64_t *last_p)
{
    const int64_t blocks = hd_packed_count_in_blocks(&net->mid);
    int64_t i = stage - HEAD_STAGES;
    *first_p = i * net->mid_stage_blocks;
    *last_p = (i + 1) * net->mid_stage_blocks < blocks ? (i + 1) * net->mid_stage_blocks : blocks;
}

static int64_t stage_start(const struct hd_conv_net *net, int stage)
{
    int conv = conv_of_stage(net, stage);
    int64_t first, last;
    if (stage == 0)
        return net->output_offsets.weight;
    if (stage == hd_conv_net_count_stages(&net->base))
        return net->base.elements;
    if (conv >= 0)
        return net->conv_offsets[conv].weight;
    if (stage == HEAD_STAGES)
        return net->mid_offsets.bias;
    mid_blocks(net, stage, &first, &last);
    return net->mid_offsets.weight + first * hd_packed_count_out_blocks(&net->mid) * HD_PACK_BLOCK;
}

void hd_conv_net_get_stage_range(const struct hd_net *base, int stage, int64_t *lo_p, int64_t *hi_p)
{
    *lo_p = stage_start(as_conv(base), stage);
    *hi_p = stage_start(as_conv(base), stage + 1);
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* The gradients of the activations of the same names; conv[0] holds one part only. Dense layers and
 * convolutions after the front use `scratch` one after another; the passes of the front have their
 * own scratch side by side. */
struct gradients {
    float *hidden;
    hd_bf16 *hidden_bf16;
    void *mid;
    void *conv[HD_CONVS];
    void *scratch, *of_front[HD_FRONT][HD_CONV_PASSES];
};

static void lay_out_front(const struct hd_conv_net *net, int64_t part, struct hd_bump *bump,
                          struct gradients *g)
{
    for (int i = 0; i < HD_FRONT; i++)
        for (int pass = HD_CONV_WEIGHTS; pass <= (i > 0 ? HD_CONV_DATA : HD_CONV_WEIGHTS); pass++)
            g->of_front[i][pass] = hd_bump_take(
                bump, hd_conv_get_scratch_bytes(net->conv[i], (enum hd_conv_pass)pass, part), 1);
}

/* Returns the bytes until `bump` is one cache line beyond `like` within a page. The processor takes
 * a load for one of recently stored data when the low bits of both addresses are equal. */
enum { PAGE = 4096, LINE = 64 };

static int64_t until_beside(const struct hd_bump *bump, const void *like)
{
    const uintptr_t at = (uintptr_t)bump->at + (uintptr_t)bump->used;
    return bump->at ? (int64_t)(((uintptr_t)like + LINE - at) % PAGE) : PAGE;
}

/* `a` is the memory of the forward pass; it may be NULL if `memory` is. */
static int64_t lay_out_gradients(const struct hd_conv_net *net, int64_t rows, void *memory,
                                 const struct hd_activations *a, struct gradients *g)
{
    struct hd_bump bump = {.at = memory};
    const size_t size = hd_conv_net_get_element_bytes(net);
    const int64_t hidden = rows * hd_conv_net_get_row_ld(net->hidden.out);
    const int64_t part = hd_conv_net_clip_part(net->backward_part, rows);
    int64_t scratch = max(hd_packed_get_scratch_bytes(&net->mid, rows),
                          hd_packed_get_scratch_bytes(&net->hidden, rows));
    g->hidden = hd_bump_take(&bump, hidden, sizeof *g->hidden);
    g->hidden_bf16 = net->base.bf16 ? hd_bump_take(&bump, hidden, sizeof *g->hidden_bf16) : NULL;
    g->mid = hd_bump_take(&bump, rows * hd_conv_net_get_row_ld(net->mid.out), size);
    bump.used += until_beside(&bump, a ? a->conv[HD_CONVS - 1] : NULL);
    for (int i = HD_CONVS - 1; i >= 0; i--)
        g->conv[i] = hd_bump_take(
            &bump, (i == 0 ? part : rows) * hd_conv_count_output_elements(net->conv[i]), size);
    for (int i = HD_FRONT; i < HD_CONVS; i++) {
        scratch = max(scratch, hd_conv_get_scratch_bytes(net->conv[i], HD_CONV_WEIGHTS, rows));
        scratch = max(scratch, hd_conv_get_scratch_bytes(net->conv[i], HD_CONV_DATA, rows));
    }
    g->scratch = hd_bump_take(&bump, scratch, 1);
    lay_out_front(net, part, &bump, g);
    return bump.used;
}

int64_t hd_conv_net_get_backward_bytes(const struct hd_net *net, int64_t batch)
{
    struct gradients unused;
    return lay_out_gradients(as_conv(net), batch, NULL, NULL, &unused);
}

/* -- Dense layers ------------------------------------------------------------------------------ */

/* Computes dbias[o] = sum over rows of dy[row][o], in the order of the rows. */
static void add_rows(int64_t rows, int64_t n, const float *dy, const hd_bf16 *dy_bf16, int64_t ld,
                     float *dbias)
{
    memset(dbias, 0, (size_t)n * sizeof *dbias);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < n; o++)
            dbias[o] += dy_bf16 ? hd_bf16_to_float(dy_bf16[r * ld + o]) : dy[r * ld + o];
}

/* The arguments of one stage. */
struct backward {
    const struct hd_conv_net *net;
    const void *params;
    int64_t rows;
    struct hd_activations a;
    struct gradients g;
    float *grad;
};

static void heads_stage(const struct backward *b, const float *dq)
{
    const struct hd_conv_net *net = b->net;
    const struct hd_packed *hidden = &net->hidden;
    const struct hd_layer_offsets *offsets = &net->hidden_offsets;
    const int64_t rows = b->rows, ld = hd_conv_net_get_row_ld(hidden->out),
                  ld_mid = hd_conv_net_get_row_ld(net->mid.out);
    const int64_t blocks = hd_packed_count_in_blocks(hidden);
    float *dw = b->grad + offsets->weight;
    memset(b->g.mid, 0, (size_t)(rows * ld_mid) * hd_conv_net_get_element_bytes(net));
    hd_heads_backward(net, b->params, rows, b->a.hidden, ld, dq, b->grad, b->g.hidden);
    if (net->base.bf16) {
        const hd_bf16 *shadow = hd_conv_net_find_shadows(net, (void *)b->params) + offsets->shadow;
        hd_bf16_round(b->g.hidden, rows * ld, b->g.hidden_bf16);
        hd_packed_backward_weights_bf16(hidden, rows, b->g.hidden_bf16, ld, b->a.mid_bf16, ld_mid,
                                        0, blocks, dw, b->g.scratch);
        hd_packed_backward_data_bf16(hidden, rows, shadow, b->g.hidden_bf16, ld, 0, blocks, NULL,
                                     b->g.mid, ld_mid, b->g.scratch);
    } else {
        const float *weights = (const float *)b->params + offsets->weight;
        hd_packed_backward_weights(hidden, rows, b->g.hidden, ld, b->a.mid, ld_mid, 0, blocks, dw,
                                   b->g.scratch);
        hd_packed_backward_data(hidden, rows, weights, b->g.hidden, ld, 0, blocks, NULL, b->g.mid,
                                ld_mid, b->g.scratch);
    }
    add_rows(rows, hd_packed_count_outputs(hidden), b->g.hidden, b->g.hidden_bf16, ld,
             b->grad + offsets->bias);
}

static void mid_stage(const struct backward *b, int stage)
{
    const struct hd_conv_net *net = b->net;
    const struct hd_packed *mid = &net->mid;
    const struct hd_layer_offsets *offsets = &net->mid_offsets;
    const int64_t rows = b->rows, ld = hd_conv_net_get_row_ld(mid->out);
    int64_t first, last;
    mid_blocks(net, stage, &first, &last);
    float *dw = b->grad + offsets->weight;
    const void *features = b->a.conv[HD_CONVS - 1];
    void *dx = b->g.conv[HD_CONVS - 1];
    if (stage == HEAD_STAGES)
        add_rows(rows, hd_packed_count_outputs(mid), b->g.mid, net->base.bf16 ? b->g.mid : NULL, ld,
                 b->grad + offsets->bias);
    if (net->base.bf16) {
        const hd_bf16 *shadow = hd_conv_net_find_shadows(net, (void *)b->params) + offsets->shadow;
        const hd_bf16 *x = b->a.features ? b->a.features : features;
        hd_packed_backward_weights_bf16(mid, rows, b->g.mid, ld, x,
                                        b->a.features ? hd_conv_net_get_row_ld(mid->in) : mid->in,
                                        first, last, dw, b->g.scratch);
        hd_packed_backward_data_bf16(mid, rows, shadow, b->g.mid, ld, first, last, features, dx,
                                     mid->in, b->g.scratch);
    } else {
        const float *weights = (const float *)b->params + offsets->weight;
        hd_packed_backward_weights(mid, rows, b->g.mid, ld, features, mid->in, first, last, dw,
                                   b->g.scratch);
        hd_packed_backward_data(mid, rows, weights, b->g.mid, ld, first, last, features, dx,
                                mid->in, b->g.scratch);
    }
}

/* -- Convolutions ------------------------------------------------------------------------------ */

static int begin(const struct backward *b, int i, enum hd_conv_pass pass, int64_t max_rows,
                 void *scratch, struct hd_conv_run *run)
{
    const struct hd_layer_offsets *offsets = &b->net->conv_offsets[i];
    *run = (struct hd_conv_run){.conv = b->net->conv[i],
                                .pass = pass,
                                .max_batch = max_rows,
                                .weights = (const float *)b->params + offsets->weight,
                                .dweights = b->grad + offsets->weight,
                                .dbias = b->grad + offsets->bias,
                                .scratch = scratch};
    return hd_conv_begin(run);
}

/* Computes a convolution after the front, over all rows. */
static int conv_stage(const struct backward *b, int i)
{
    struct hd_conv_run run;
    HD_TRY(begin(b, i, HD_CONV_WEIGHTS, b->rows, b->g.scratch, &run));
    HD_TRY(hd_conv_backward_weights(&run, b->rows, b->a.conv[i - 1], b->g.conv[i]));
    HD_TRY(hd_conv_end(&run));
    HD_TRY(begin(b, i, HD_CONV_DATA, b->rows, b->g.scratch, &run));
    HD_TRY(hd_conv_backward_data(&run, b->rows, b->g.conv[i], b->a.conv[i - 1], b->g.conv[i - 1]));
    return hd_conv_end(&run);
}

static void *row_of(const struct backward *b, void *rows, int64_t elements, int64_t row)
{
    return (char *)rows + row * elements * (int64_t)hd_conv_net_get_element_bytes(b->net);
}

/* Computes the second convolution's passes and the first one's over a part of the rows, so that
 * what goes from one to the other stays in the cache. */
static int front_part(const struct backward *b, int64_t first, int64_t n, struct hd_conv_run *data,
                      struct hd_conv_run *second, struct hd_conv_run *first_run)
{
    struct hd_conv *const *conv = b->net->conv;
    const int64_t in = hd_conv_count_input_elements(conv[0]),
                  out = hd_conv_count_output_elements(conv[0]);
    const void *x = row_of(b, b->a.input, in, first), *y = row_of(b, b->a.conv[0], out, first);
    const void *dy = row_of(b, b->g.conv[1], hd_conv_count_output_elements(conv[1]), first);
    const int64_t left = b->rows - first - n, next = left < n ? left : n;
    second->prefetch = (struct hd_conv_prefetch){
        x, n * in * (int64_t)hd_conv_net_get_element_bytes(b->net), false};
    first_run->prefetch = (struct hd_conv_prefetch){
        row_of(b, b->a.conv[0], out, first + n),
        next * out * (int64_t)hd_conv_net_get_element_bytes(b->net), false};
    HD_TRY(hd_conv_backward_data(data, n, dy, y, b->g.conv[0]));
    HD_TRY(hd_conv_backward_weights(second, n, y, dy));
    return hd_conv_backward_weights(first_run, n, x, b->g.conv[0]);
}

static int front_stage(const struct backward *b)
{
    const int64_t part = hd_conv_net_clip_part(b->net->backward_part, b->rows);
    struct hd_conv_run data, second, first_run;
    HD_TRY(begin(b, 1, HD_CONV_DATA, part, b->g.of_front[1][HD_CONV_DATA], &data));
    HD_TRY(begin(b, 1, HD_CONV_WEIGHTS, part, b->g.of_front[1][HD_CONV_WEIGHTS], &second));
    HD_TRY(begin(b, 0, HD_CONV_WEIGHTS, part, b->g.of_front[0][HD_CONV_WEIGHTS], &first_run));
    for (int64_t first = 0; first < b->rows; first += part) {
        const int64_t n = b->rows - first < part ? b->rows - first : part;
        HD_TRY(front_part(b, first, n, &data, &second, &first_run));
    }
    HD_TRY(hd_conv_end(&data));
    HD_TRY(hd_conv_end(&second));
    return hd_conv_end(&first_run);
}

/* Zeroes the gaps between a stage's tensors. */
static void clear_gaps(const struct hd_conv_net *net, int stage, float *grad)
{
    const struct hd_layer_offsets *all_offsets[] = {&net->output_offsets,  &net->hidden_offsets,
                                                    &net->mid_offsets,     &net->conv_offsets[0],
                                                    &net->conv_offsets[1], &net->conv_offsets[2]};
    int64_t lo, hi;
    hd_conv_net_get_stage_range(&net->base, stage, &lo, &hi);
    for (int i = 0; i < (int)(sizeof all_offsets / sizeof *all_offsets); i++) {
        const int64_t ends[] = {all_offsets[i]->weight_end, all_offsets[i]->bias_end};
        for (int j = 0; j < 2; j++)
            for (int64_t at = ends[j]; at >= lo && at < hi && at % HD_PACK_BLOCK != 0; at++)
                grad[at] = 0;
    }
}

int hd_conv_net_backward(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int stage, float *grad)
{
    const struct hd_conv_net *net = as_conv(base);
    struct backward b = {.net = net, .params = params, .rows = batch, .grad = grad};
    int conv = conv_of_stage(net, stage);
    hd_activations_lay_out(net, forward_batch, (void *)work, &b.a);
    lay_out_gradients(net, batch, scratch, &b.a, &b.g);
    clear_gaps(net, stage, grad);
    if (conv >= HD_FRONT)
        return conv_stage(&b, conv);
    if (conv >= 0)
        return front_stage(&b);
    if (stage < HEAD_STAGES)
        heads_stage(&b, dq);
    else
        mid_stage(&b, stage);
    return HD_OK;
}
