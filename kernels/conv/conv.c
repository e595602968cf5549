/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses for each pass which implementation computes it. */
#include "kernels/conv/conv.h"

#include "kernels/common/activation.h"
#include "kernels/common/amx.h"
#include "kernels/common/shadow.h"
#include "kernels/conv/conv_amx_internal.h"
#include "kernels/conv/conv_onednn_internal.h"
#include "kernels/conv/conv_pairs_internal.h"
#include "kernels/conv/winograd_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

struct hd_conv {
    struct hd_conv_fields fields;
    int64_t out_height, out_width;
    enum hd_layout output;
    struct hd_onednn_conv *onednn;
    struct hd_shadow *shadow;
    int64_t shadow_elements;
    const struct hd_conv_own *own[HD_CONV_PASSES]; /* NULL: oneDNN computes the pass */
};

/* -- Making one -------------------------------------------------------------------------------- */

/* Our own passes know one layout of the weights. */
static void choose(struct hd_conv *conv)
{
    const struct hd_conv_fields *f = &conv->fields;
    if (!hd_onednn_conv_is_blocked(conv->onednn))
        return;
    if (conv->output == HD_NHWC && hd_conv_amx_supports(f)) {
        conv->own[HD_CONV_WEIGHTS] = &hd_conv_amx_weights;
        conv->own[HD_CONV_DATA] = &hd_conv_amx_data;
        if (hd_conv_amx_supports_forward(f))
            conv->own[HD_CONV_FORWARD] = &hd_conv_amx_forward;
    } else if (conv->output == HD_NHWC && hd_conv_pairs_supports(f)) {
        conv->own[HD_CONV_WEIGHTS] = &hd_conv_pairs_weights;
    }
    if (conv->output == HD_NCHW16 && hd_winograd_supports(f))
        for (int pass = 0; pass < HD_CONV_PASSES; pass++)
            conv->own[pass] = &hd_winograd[pass];
}

static int make_shadow(struct hd_conv *conv)
{
    const bool by_amx = conv->own[HD_CONV_FORWARD] == &hd_conv_amx_forward;
    if (!conv->fields.bf16)
        return HD_OK;
    conv->shadow_elements = by_amx ? hd_conv_amx_count_shadow(&conv->fields)
                                   : hd_onednn_conv_count_shadow(conv->onednn);
    int32_t *place = hd_alloc(hd_conv_count_weights(conv), sizeof *place);
    int status = place ? HD_OK : HD_ERR_NOMEM;
    if (place && by_amx)
        hd_conv_amx_map_shadow(&conv->fields, place);
    else if (place)
        status = hd_onednn_conv_map_shadow(conv->onednn, place);
    if (status == HD_OK)
        status = hd_shadow_create(place, hd_conv_count_weights(conv), &conv->shadow);
    hd_free(place);
    return status;
}

static int build(struct hd_conv *conv)
{
    HD_TRY(hd_onednn_conv_create(&conv->fields, &conv->output, &conv->onednn));
    choose(conv);
    return make_shadow(conv);
}

int hd_conv_create(const struct hd_conv_fields *fields, struct hd_conv **conv_p)
{
    struct hd_conv *conv = hd_alloc(1, sizeof *conv);
    if (!conv)
        return HD_ERR_NOMEM;
    conv->fields = *fields;
    conv->out_height = hd_conv_count_outputs(fields, fields->in_height);
    conv->out_width = hd_conv_count_outputs(fields, fields->in_width);
    int status = build(conv);
    if (status != HD_OK) {
        hd_conv_destroy(conv);
        return status;
    }
    *conv_p = conv;
    return HD_OK;
}

bool hd_conv_supports_bf16(void)
{
    return hd_onednn_conv_supports_bf16();
}

int hd_conv_create_fast(struct hd_conv_fields *fields, struct hd_conv **conv_p)
{
    enum { SOME_ROWS = 32 };
    HD_TRY(hd_conv_create(fields, conv_p));
    if (fields->input != HD_NCHW16 ||
        strncmp(hd_conv_get_name(*conv_p, HD_CONV_FORWARD, SOME_ROWS), "ref", 3) != 0)
        return HD_OK;
    hd_conv_destroy(*conv_p);
    *conv_p = NULL;
    fields->input = HD_NHWC;
    return hd_conv_create(fields, conv_p);
}

void hd_conv_destroy(struct hd_conv *conv)
{
    if (!conv)
        return;
    hd_shadow_destroy(conv->shadow);
    hd_onednn_conv_destroy(conv->onednn);
    hd_free(conv);
}

/* -- Layouts ----------------------------------------------------------------------------------- */

enum hd_layout hd_conv_get_output(const struct hd_conv *conv, int64_t *height_p, int64_t *width_p)
{
    *height_p = conv->out_height;
    *width_p = conv->out_width;
    return conv->output;
}

static int64_t row_elements(enum hd_layout layout, int64_t channels, int64_t height, int64_t width)
{
    return hd_layout_count_stored(layout, channels) * height * width;
}

int64_t hd_conv_count_input_elements(const struct hd_conv *conv)
{
    const struct hd_conv_fields *f = &conv->fields;
    return row_elements(f->input, f->in_channels, f->in_height, f->in_width);
}

int64_t hd_conv_count_output_elements(const struct hd_conv *conv)
{
    return row_elements(conv->output, conv->fields.out_channels, conv->out_height, conv->out_width);
}

int64_t hd_conv_count_weights(const struct hd_conv *conv)
{
    return hd_onednn_conv_count_weights(conv->onednn);
}

int64_t hd_conv_count_shadow(const struct hd_conv *conv)
{
    return conv->shadow_elements;
}

void hd_conv_refresh_shadow(const struct hd_conv *conv, const float *weights, int64_t lo,
                            int64_t hi, hd_bf16 *shadow)
{
    if (conv->shadow)
        hd_shadow_refresh(conv->shadow, weights, lo, hi, shadow);
}

int hd_conv_import(const struct hd_conv *conv, const float *row_major, float *weights)
{
    return hd_onednn_conv_import(conv->onednn, row_major, weights);
}

int hd_conv_export(const struct hd_conv *conv, const float *weights, float *row_major)
{
    return hd_onednn_conv_export(conv->onednn, weights, row_major);
}

/* -- Passes ------------------------------------------------------------------------------------ */

int hd_conv_prepare(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch)
{
    return conv->own[pass] ? HD_OK : hd_onednn_conv_prepare(conv->onednn, pass, batch);
}

/* Returns the memory of the gradient of the weights of a part before it is added; after it come the
 * gradient of the bias and oneDNN's scratch. */
static float *part_of_weights(const struct hd_conv_run *run, float **bias_p, char **rest_p)
{
    float *part = run->scratch;
    const int64_t weights = hd_align_up(hd_conv_count_weights(run->conv) * (int64_t)sizeof *part);
    const int64_t bias = hd_align_up(run->conv->fields.out_channels * (int64_t)sizeof *part);
    *bias_p = (float *)((char *)run->scratch + weights);
    *rest_p = (char *)run->scratch + weights + bias;
    return part;
}

int64_t hd_conv_get_scratch_bytes(struct hd_conv *conv, enum hd_conv_pass pass, int64_t max_batch)
{
    static char origin[64] __attribute__((aligned(64)));
    const struct hd_conv_run run = {.conv = conv, .scratch = origin};
    float *bias;
    char *rest = origin;
    const struct hd_conv_own *own = conv->own[pass];
    if (own)
        return own->get_scratch_bytes
                   ? hd_align_up(own->get_scratch_bytes(&conv->fields, max_batch))
                   : 0;
    if (pass == HD_CONV_WEIGHTS)
        part_of_weights(&run, &bias, &rest);
    return rest - origin + hd_onednn_conv_get_scratch_bytes(conv->onednn, pass, max_batch);
}

const char *hd_conv_get_name(struct hd_conv *conv, enum hd_conv_pass pass, int64_t batch)
{
    return conv->own[pass] ? conv->own[pass]->name
                           : hd_onednn_conv_get_name(conv->onednn, pass, batch);
}

int hd_conv_begin(struct hd_conv_run *run)
{
    const struct hd_conv_own *own = run->conv->own[run->pass];
    run->begun = false;
    if (own && own->begin)
        own->begin(&run->conv->fields, run);
    return HD_OK;
}

int hd_conv_end(struct hd_conv_run *run)
{
    const struct hd_conv_own *own = run->conv->own[run->pass];
    if (own && own->end)
        own->end(&run->conv->fields, run);
    return HD_OK;
}

int hd_conv_forward(struct hd_conv_run *run, int64_t batch, const void *x, void *y)
{
    const struct hd_conv *conv = run->conv;
    const struct hd_conv_own *own = conv->own[HD_CONV_FORWARD];
    void *const arguments[] = {(void *)x, (void *)run->weights, (void *)run->bias, y};
    if (!own)
        return hd_onednn_conv_run(conv->onednn, HD_CONV_FORWARD, batch, arguments, run->scratch);
    own->forward(&conv->fields, run, batch, x, y);
    return HD_OK;
}

static void add(int64_t n, const float *restrict part, float *restrict sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += part[i];
}

/* oneDNN overwrites the gradient, so it writes to scratch and the result is added. */
static int add_onednn_weights(struct hd_conv_run *run, int64_t batch, const void *x, const void *dy)
{
    const struct hd_conv *conv = run->conv;
    char *rest;
    float *bias, *part = part_of_weights(run, &bias, &rest);
    void *const arguments[] = {(void *)x, (void *)dy, run->begun ? part : run->dweights,
                               run->begun ? bias : run->dbias};
    HD_TRY(hd_onednn_conv_run(conv->onednn, HD_CONV_WEIGHTS, batch, arguments, rest));
    if (run->begun) {
        add(hd_conv_count_weights(conv), part, run->dweights);
        add(conv->fields.out_channels, bias, run->dbias);
    }
    return HD_OK;
}

int hd_conv_backward_weights(struct hd_conv_run *run, int64_t batch, const void *x, const void *dy)
{
    const struct hd_conv_own *own = run->conv->own[HD_CONV_WEIGHTS];
    int status = HD_OK;
    if (own)
        own->backward_weights(&run->conv->fields, run, batch, x, dy);
    else
        status = add_onednn_weights(run, batch, x, dy);
    run->begun = true;
    return status;
}

int hd_conv_backward_data(struct hd_conv_run *run, int64_t batch, const void *dy, const void *y,
                          void *dx)
{
    const struct hd_conv *conv = run->conv;
    const struct hd_conv_own *own = conv->own[HD_CONV_DATA];
    void *const arguments[] = {(void *)dy, (void *)run->weights, dx};
    const int64_t n = batch * hd_conv_count_input_elements(conv);
    if (own) {
        own->backward_data(&conv->fields, run, batch, dy, y, dx);
        return HD_OK;
    }
    HD_TRY(hd_onednn_conv_run(conv->onednn, HD_CONV_DATA, batch, arguments, run->scratch));
    if (y && conv->fields.bf16)
        hd_relu_backward_bf16(n, y, dx);
    else if (y)
        hd_relu_backward(n, y, dx);
    return HD_OK;
}

void hd_conv_describe_library(char *text, size_t bytes)
{
    hd_onednn_describe(text, bytes);
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s", hd_amx_is_ready() ? " amx" : "");
}
