/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/conv/conv_onednn_internal.h"
#include "kernels/conv/onednn_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_BATCH = 32 };

/* -- A convolution ----------------------------------------------------------------------------- */

/* A pass over `batch` observations: the convolution, and, where it wants weights in another layout
 * than ours, their conversion before or after it. */
struct pass {
    struct pass *next;
    enum hd_conv_pass kind;
    int64_t batch;
    struct hd_dnnl_op op, reorder;
    int64_t scratchpad, reordered, reorder_scratchpad; /* bytes, padded */
};

struct hd_onednn_conv {
    struct hd_conv_fields fields;
    enum hd_layout output;
    hd_dnnl_md row_major, weights, shadow, bias; /* shadow is NULL if there is none */
    pthread_mutex_t lock;                        /* guards the making of passes */
    _Atomic(struct pass *) passes;
};

static dnnl_data_type_t activation_type(const struct hd_onednn_conv *conv)
{
    return conv->fields.bf16 ? dnnl_bf16 : dnnl_f32;
}

static hd_dnnl_md rows_md(const struct hd_onednn_conv *conv, bool output, int64_t batch,
                          dnnl_format_tag_t tag)
{
    const struct hd_conv_fields *f = &conv->fields;
    const dnnl_dim_t input_shape[] = {batch, f->in_channels, f->in_height, f->in_width};
    const dnnl_dim_t output_shape[] = {batch, f->out_channels,
                                       hd_conv_count_outputs(f, f->in_height),
                                       hd_conv_count_outputs(f, f->in_width)};
    return hd_dnnl_md_create(4, output ? output_shape : input_shape, activation_type(conv), tag);
}

static const dnnl_format_tag_t tags[] = {
    [HD_NCHW] = dnnl_nchw, [HD_NHWC] = dnnl_nhwc, [HD_NCHW16] = dnnl_nChw16c};

static hd_dnnl_md weights_md(const struct hd_onednn_conv *conv, dnnl_data_type_t type,
                             dnnl_format_tag_t tag)
{
    const struct hd_conv_fields *f = &conv->fields;
    const dnnl_dim_t shape[] = {f->out_channels, f->in_channels, f->kernel, f->kernel};
    return hd_dnnl_md_create(4, shape, type, tag);
}

/* Returns a description with the given weights (NULL: oneDNN may choose) and tag of the output. */
static dnnl_primitive_desc_t describe(const struct hd_onednn_conv *conv, enum hd_dnnl_kind kind,
                                      int64_t batch, hd_dnnl_const_md weights,
                                      dnnl_format_tag_t output, hd_dnnl_pd hint)
{
    hd_dnnl_md src = rows_md(conv, false, batch, tags[conv->fields.input]);
    hd_dnnl_md dst = rows_md(conv, true, batch, output);
    hd_dnnl_md any =
        weights_md(conv, kind == HD_DNNL_BACKWARD_WEIGHTS ? dnnl_f32 : activation_type(conv),
                   dnnl_format_tag_any);
    dnnl_primitive_attr_t attr = hd_dnnl_get_attr(kind == HD_DNNL_FORWARD && conv->fields.relu);
    dnnl_primitive_desc_t pd = NULL;
    if (src && dst && any && attr) {
        const struct hd_dnnl_conv described = {.kind = kind,
                                               .src = src,
                                               .weights = weights ? weights : any,
                                               .bias = conv->bias,
                                               .dst = dst,
                                               .stride = conv->fields.stride,
                                               .padding = conv->fields.padding,
                                               .hint = hint};
        pd = hd_dnnl_conv_create(hd_dnnl_get_engine(), &described, attr);
    }
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    hd_dnnl_md_free(any);
    hd_dnnl_md_free(dst);
    hd_dnnl_md_free(src);
    return pd;
}

static bool is_reference(hd_dnnl_pd pd)
{
    const char *name = "";
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "ref", 3) == 0 || strncmp(name, "gemm:ref", 8) == 0;
}

/* Describes the pass in our layout of the weights, unless only another layout is computed well. */
static dnnl_primitive_desc_t describe_best(const struct hd_onednn_conv *conv,
                                           enum hd_dnnl_kind kind, int64_t batch,
                                           hd_dnnl_const_md ours, hd_dnnl_pd hint)
{
    dnnl_format_tag_t output = tags[conv->output];
    dnnl_primitive_desc_t pd = ours ? describe(conv, kind, batch, ours, output, hint) : NULL;
    if (pd && !is_reference(pd))
        return pd;
    dnnl_primitive_desc_t free_choice = describe(conv, kind, batch, NULL, output, hint);
    if (!free_choice || (pd && is_reference(free_choice))) {
        if (free_choice)
            dnnl_primitive_desc_destroy(free_choice);
        return pd;
    }
    if (pd)
        dnnl_primitive_desc_destroy(pd);
    return free_choice;
}

/* -- Passes ------------------------------------------------------------------------------------ */

static const struct {
    enum hd_dnnl_kind kind;
    int weights; /* index of the weights among the arguments */
    int args[5];
} passes[HD_CONV_PASSES] = {
    [HD_CONV_FORWARD] = {HD_DNNL_FORWARD,
                         1,
                         {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, 0}},
    [HD_CONV_WEIGHTS] = {HD_DNNL_BACKWARD_WEIGHTS,
                         2,
                         {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
                          DNNL_ARG_DIFF_BIAS, 0}},
    [HD_CONV_DATA] = {HD_DNNL_BACKWARD_DATA,
                      1,
                      {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC, 0}},
};

/* Returns the weights as the caller holds them: gradients, and the weights that backward data
 * reads, are floats. */
static hd_dnnl_const_md held_weights(const struct hd_onednn_conv *conv, enum hd_conv_pass kind)
{
    return kind == HD_CONV_FORWARD && conv->shadow ? conv->shadow : conv->weights;
}

static void pass_release(struct pass *pass)
{
    hd_dnnl_op_release(&pass->op);
    hd_dnnl_op_release(&pass->reorder);
    hd_free(pass);
}

static int describe_pass(const struct hd_onednn_conv *conv, enum hd_conv_pass kind, int64_t batch,
                         dnnl_primitive_desc_t *pd_p)
{
    hd_dnnl_const_md held = held_weights(conv, kind);
    dnnl_primitive_desc_t hint = NULL;
    if (kind != HD_CONV_FORWARD) {
        hint = describe(conv, HD_DNNL_FORWARD, batch, NULL, tags[conv->output], NULL);
        if (!hint)
            return hd_dnnl_report_refusal("convolution");
    }
    /* Backward data computes with bf16 weights if the machine has them, converted from the floats
     * each time. */
    if (kind == HD_CONV_DATA)
        held = NULL;
    *pd_p = describe_best(conv, passes[kind].kind, batch, held, hint);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return *pd_p ? HD_OK : hd_dnnl_report_refusal("convolution");
}

static int build_pass(const struct hd_onednn_conv *conv, struct pass *pass)
{
    dnnl_primitive_desc_t pd;
    HD_TRY(describe_pass(conv, pass->kind, pass->batch, &pd));
    HD_TRY(hd_dnnl_op_create(pd, passes[pass->kind].args, &pass->op));
    hd_dnnl_const_md held = held_weights(conv, pass->kind);
    hd_dnnl_const_md wanted = pass->op.md[passes[pass->kind].weights];
    pass->scratchpad = hd_align_up(hd_dnnl_md_get_bytes(pass->op.md[pass->op.n - 1]));
    if (dnnl_memory_desc_equal(held, wanted))
        return HD_OK;
    bool after = pass->kind == HD_CONV_WEIGHTS;
    HD_TRY(hd_dnnl_reorder(after ? wanted : held, after ? held : wanted, &pass->reorder));
    pass->reordered = hd_align_up(hd_dnnl_md_get_bytes(wanted));
    pass->reorder_scratchpad = hd_align_up(hd_dnnl_md_get_bytes(pass->reorder.md[2]));
    return HD_OK;
}

static struct pass *find(struct hd_onednn_conv *conv, enum hd_conv_pass kind, int64_t batch)
{
    struct pass *pass = atomic_load_explicit(&conv->passes, memory_order_acquire);
    while (pass && (pass->kind != kind || pass->batch != batch))
        pass = pass->next;
    return pass;
}

/* The caller holds the lock. */
static int add_pass(struct hd_onednn_conv *conv, enum hd_conv_pass kind, int64_t batch)
{
    if (find(conv, kind, batch))
        return HD_OK;
    struct pass *pass = hd_alloc(1, sizeof *pass);
    if (!pass)
        return HD_ERR_NOMEM;
    pass->kind = kind;
    pass->batch = batch;
    int status = build_pass(conv, pass);
    if (status != HD_OK) {
        pass_release(pass);
        return status;
    }
    pass->next = atomic_load_explicit(&conv->passes, memory_order_relaxed);
    atomic_store_explicit(&conv->passes, pass, memory_order_release);
    return HD_OK;
}

int hd_onednn_conv_prepare(struct hd_onednn_conv *conv, enum hd_conv_pass kind, int64_t batch)
{
    HD_TRY(hd_dnnl_enter());
    if (find(conv, kind, batch))
        return HD_OK;
    pthread_mutex_lock(&conv->lock);
    int status = add_pass(conv, kind, batch);
    pthread_mutex_unlock(&conv->lock);
    return status;
}

/* Products of matrices need more scratch for one observation than for several. */
int64_t hd_onednn_conv_get_scratch_bytes(struct hd_onednn_conv *conv, enum hd_conv_pass kind,
                                         int64_t max_batch)
{
    static const char products[] = "x64:gemm";
    if (hd_onednn_conv_prepare(conv, kind, max_batch) != HD_OK)
        return 0;
    const struct pass *pass = find(conv, kind, max_batch);
    const int64_t bytes = pass->scratchpad + pass->reordered + pass->reorder_scratchpad;
    if (max_batch == 1 || strncmp(pass->op.name, products, sizeof products - 1) != 0)
        return bytes;
    const int64_t of_one = hd_onednn_conv_get_scratch_bytes(conv, kind, 1);
    return of_one > bytes ? of_one : bytes;
}

const char *hd_onednn_conv_get_name(struct hd_onednn_conv *conv, enum hd_conv_pass kind,
                                    int64_t batch)
{
    return hd_onednn_conv_prepare(conv, kind, batch) == HD_OK ? find(conv, kind, batch)->op.name
                                                              : "none";
}

int hd_onednn_conv_run(struct hd_onednn_conv *conv, enum hd_conv_pass kind, int64_t batch,
                       void *const *arguments, char *scratch)
{
    void *handles[HD_DNNL_ARGS] = {0};
    HD_TRY(hd_onednn_conv_prepare(conv, kind, batch));
    const struct pass *pass = find(conv, kind, batch);
    for (int i = 0; i < pass->op.n - 1; i++)
        handles[i] = arguments[i];
    int at = passes[kind].weights;
    void *held = handles[at], *reordered = scratch + pass->scratchpad;
    char *reorder_scratchpad = scratch + pass->scratchpad + pass->reordered;
    handles[pass->op.n - 1] = scratch;
    if (!pass->reorder.primitive)
        return hd_dnnl_op_run(&pass->op, handles);
    handles[at] = reordered;
    if (kind == HD_CONV_WEIGHTS) {
        HD_TRY(hd_dnnl_op_run(&pass->op, handles));
        return hd_dnnl_op_run(&pass->reorder, (void *[]){reordered, held, reorder_scratchpad});
    }
    HD_TRY(hd_dnnl_op_run(&pass->reorder, (void *[]){held, reordered, reorder_scratchpad}));
    return hd_dnnl_op_run(&pass->op, handles);
}

/* -- Layouts ----------------------------------------------------------------------------------- */

static int reorder(hd_dnnl_const_md from_md, const void *from, hd_dnnl_const_md to_md, void *to)
{
    struct hd_dnnl_op op;
    HD_TRY(hd_dnnl_enter());
    HD_TRY(hd_dnnl_reorder(from_md, to_md, &op));
    void *scratch = hd_alloc(hd_dnnl_md_get_bytes(op.md[2]), 1);
    int status = HD_ERR_NOMEM;
    if (scratch)
        status = hd_dnnl_op_run(&op, (void *[]){(void *)from, to, scratch});
    hd_free(scratch);
    hd_dnnl_op_release(&op);
    return status;
}

int hd_onednn_conv_import(const struct hd_onednn_conv *conv, const float *row_major, float *weights)
{
    return reorder(conv->row_major, row_major, conv->weights, weights);
}

int hd_onednn_conv_export(const struct hd_onednn_conv *conv, const float *weights, float *row_major)
{
    return reorder(conv->weights, weights, conv->row_major, row_major);
}

bool hd_onednn_conv_supports_bf16(void)
{
    const unsigned needed = dnnl_cpu_isa_avx512_core;
    hd_dnnl_limit_isa();
    return ((unsigned)dnnl_get_effective_cpu_isa() & needed) == needed;
}

static const enum hd_layout known[] = {HD_NCHW16, HD_NHWC, HD_NCHW};
enum { N_KNOWN = sizeof known / sizeof *known };

/* Finds the layout of the output that oneDNN prefers for the forward pass, if it is one of ours. */
static int find_preferred(struct hd_onednn_conv *conv)
{
    conv->output = conv->fields.bf16 ? HD_NHWC : HD_NCHW;
    dnnl_primitive_desc_t pd =
        describe(conv, HD_DNNL_FORWARD, USUAL_BATCH, NULL, dnnl_format_tag_any, NULL);
    if (!pd && conv->fields.bf16)
        return hd_fail(HD_ERR_UNSUPPORTED,
                       "oneDNN %d.%d has no bf16 convolutions for this processor",
                       DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
    if (!pd)
        return hd_dnnl_report_refusal("convolution");
    for (int i = 0; i < N_KNOWN; i++) {
        hd_dnnl_md md = rows_md(conv, true, USUAL_BATCH, tags[known[i]]);
        bool same = md && dnnl_memory_desc_equal(md, hd_dnnl_pd_get_md(pd, DNNL_ARG_DST));
        hd_dnnl_md_free(md);
        if (same) {
            conv->output = known[i];
            break;
        }
    }
    dnnl_primitive_desc_destroy(pd);
    return HD_OK;
}

/* Counts what oneDNN would compute by its reference code, hundreds of times too slowly, with this
 * layout of the output: the forward pass, the gradient of the weights, and the next convolution if
 * it gets less than a block. The gradient of the data does not count, because the first convolution
 * of a net has none. */
static int count_references(const struct hd_onednn_conv *conv, enum hd_layout output)
{
    const dnnl_format_tag_t tag = tags[output];
    dnnl_primitive_desc_t forward = describe(conv, HD_DNNL_FORWARD, USUAL_BATCH, NULL, tag, NULL);
    dnnl_primitive_desc_t weights =
        forward ? describe(conv, HD_DNNL_BACKWARD_WEIGHTS, USUAL_BATCH, NULL, tag, forward) : NULL;
    int n = output == HD_NCHW16 && conv->fields.out_channels < 16;
    n += !forward || is_reference(forward);
    n += !weights || is_reference(weights);
    if (weights)
        dnnl_primitive_desc_destroy(weights);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    return n;
}

/* Chooses the layout of the output: the one that oneDNN prefers, unless another one spares
 * reference code. */
static int choose_output(struct hd_onednn_conv *conv)
{
    HD_TRY(find_preferred(conv));
    int least = count_references(conv, conv->output);
    for (int i = 0; i < N_KNOWN && least > 0; i++) {
        const int n = count_references(conv, known[i]);
        if (n < least)
            conv->output = known[i];
        least = n < least ? n : least;
    }
    return HD_OK;
}

bool hd_onednn_conv_is_blocked(const struct hd_onednn_conv *conv)
{
    hd_dnnl_md blocks = weights_md(conv, dnnl_f32, dnnl_OIhw16i16o);
    bool same = blocks && dnnl_memory_desc_equal(blocks, conv->weights);
    hd_dnnl_md_free(blocks);
    return same;
}

/* The floats have the layout in which oneDNN writes the gradient of the weights, which is then
 * never converted. Forward reads the same floats, or a bf16 shadow in the layout that it
 * prefers. */
static int choose_weights(struct hd_onednn_conv *conv)
{
    dnnl_format_tag_t output = tags[conv->output];
    dnnl_primitive_desc_t forward =
        describe(conv, HD_DNNL_FORWARD, USUAL_BATCH, NULL, output, NULL);
    dnnl_primitive_desc_t backward =
        forward ? describe(conv, HD_DNNL_BACKWARD_WEIGHTS, USUAL_BATCH, NULL, output, forward)
                : NULL;
    if (backward)
        conv->weights = hd_dnnl_md_copy(hd_dnnl_pd_get_md(backward, DNNL_ARG_DIFF_WEIGHTS));
    if (backward && conv->fields.bf16)
        conv->shadow = hd_dnnl_md_copy(hd_dnnl_pd_get_md(forward, DNNL_ARG_WEIGHTS));
    if (backward)
        dnnl_primitive_desc_destroy(backward);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    return conv->weights && (!conv->fields.bf16 || conv->shadow)
               ? HD_OK
               : hd_dnnl_report_refusal("convolution");
}

int64_t hd_onednn_conv_count_weights(const struct hd_onednn_conv *conv)
{
    return hd_dnnl_md_get_bytes(conv->weights) / (int64_t)sizeof(float);
}

int64_t hd_onednn_conv_count_shadow(const struct hd_onednn_conv *conv)
{
    return conv->shadow ? hd_dnnl_md_get_bytes(conv->shadow) / (int64_t)sizeof(hd_bf16) : 0;
}

/* Layouts of oneDNN 3 are opaque. A tensor that holds the number of each element shows where oneDNN
 * puts it. bf16 represents integers up to 256 exactly, so numbers are converted as three digits. */
enum { DIGITS = 3, BASE = 256 };

static int place_digit(const struct hd_onednn_conv *conv, int64_t count, int64_t divisor,
                       float *row_major, hd_bf16 *shadow, int32_t *number)
{
    int64_t n = hd_onednn_conv_count_shadow(conv);
    for (int64_t i = 0; i < count; i++)
        row_major[i] = (float)((i + 1) / divisor % BASE);
    memset(shadow, 0, (size_t)n * sizeof *shadow);
    HD_TRY(reorder(conv->row_major, row_major, conv->shadow, shadow));
    for (int64_t i = 0; i < n; i++)
        number[i] += (int32_t)((int64_t)hd_bf16_to_float(shadow[i]) * divisor);
    return HD_OK;
}

/* Fills number[i] with 1 + the row-major index of float i of the weights, or 0 for padding. */
static int number_weights(const struct hd_onednn_conv *conv, int64_t count, float *row_major,
                          float *number)
{
    for (int64_t i = 0; i < count; i++)
        row_major[i] = (float)(i + 1);
    return hd_onednn_conv_import(conv, row_major, number);
}

/* Fills place[i] with the index of float i in the shadow, or -1. `number` numbers the floats,
 * shadow_number the elements of the shadow. */
static void find_places(const struct hd_onednn_conv *conv, const float *number,
                        const int32_t *shadow_number, int32_t *of_row_major, int32_t *place)
{
    for (int64_t j = 0; j < hd_onednn_conv_count_shadow(conv); j++)
        if (shadow_number[j] > 0)
            of_row_major[shadow_number[j] - 1] = (int32_t)j;
    for (int64_t i = 0; i < hd_onednn_conv_count_weights(conv); i++)
        place[i] = number[i] > 0 ? of_row_major[(int64_t)number[i] - 1] : -1;
}

int hd_onednn_conv_map_shadow(const struct hd_onednn_conv *conv, int32_t *place)
{
    const struct hd_conv_fields *f = &conv->fields;
    const int64_t count = f->out_channels * f->in_channels * f->kernel * f->kernel;
    if (count >= 1 << 24)
        return hd_fail(HD_ERR_UNSUPPORTED, "a convolution with %lld weights is too large",
                       (long long)count);
    const int64_t n = hd_onednn_conv_count_shadow(conv);
    float *row_major = hd_alloc(count, sizeof *row_major);
    float *weights = hd_alloc(hd_onednn_conv_count_weights(conv), sizeof *weights);
    hd_bf16 *shadow = hd_alloc(n, sizeof *shadow);
    int32_t *number = hd_alloc(n, sizeof *number),
            *of_row_major = hd_alloc(count, sizeof *of_row_major);
    int status = row_major && weights && shadow && number && of_row_major ? HD_OK : HD_ERR_NOMEM;
    for (int64_t digit = 0, divisor = 1; status == HD_OK && digit < DIGITS; digit++) {
        status = place_digit(conv, count, divisor, row_major, shadow, number);
        divisor *= BASE;
    }
    if (status == HD_OK)
        status = number_weights(conv, count, row_major, weights);
    if (status == HD_OK)
        find_places(conv, weights, number, of_row_major, place);
    hd_free(of_row_major);
    hd_free(number);
    hd_free(shadow);
    hd_free(weights);
    hd_free(row_major);
    return status;
}

/* -- Making one -------------------------------------------------------------------------------- */

static int choose_layouts(struct hd_onednn_conv *conv)
{
    const dnnl_dim_t out = conv->fields.out_channels;
    HD_TRY(hd_dnnl_enter());
    conv->bias = hd_dnnl_md_create(1, &out, dnnl_f32, dnnl_a);
    conv->row_major = weights_md(conv, dnnl_f32, dnnl_oihw);
    if (!conv->bias || !conv->row_major)
        return hd_dnnl_report_refusal("convolution");
    HD_TRY(choose_output(conv));
    return choose_weights(conv);
}

int hd_onednn_conv_create(const struct hd_conv_fields *fields, enum hd_layout *output_p,
                          struct hd_onednn_conv **conv_p)
{
    struct hd_onednn_conv *conv = hd_alloc(1, sizeof *conv);
    if (!conv)
        return HD_ERR_NOMEM;
    conv->fields = *fields;
    pthread_mutex_init(&conv->lock, NULL);
    int status = choose_layouts(conv);
    if (status != HD_OK) {
        hd_onednn_conv_destroy(conv);
        return status;
    }
    *output_p = conv->output;
    *conv_p = conv;
    return HD_OK;
}

void hd_onednn_conv_destroy(struct hd_onednn_conv *conv)
{
    if (!conv)
        return;
    for (struct pass *pass = atomic_load(&conv->passes), *next; pass; pass = next) {
        next = pass->next;
        pass_release(pass);
    }
    hd_dnnl_md_free(conv->shadow);
    hd_dnnl_md_free(conv->weights);
    hd_dnnl_md_free(conv->row_major);
    hd_dnnl_md_free(conv->bias);
    pthread_mutex_destroy(&conv->lock);
    hd_free(conv);
}

void hd_onednn_describe(char *text, size_t bytes)
{
    const dnnl_version_t *version = dnnl_version();
    hd_dnnl_limit_isa();
    snprintf(text, bytes, "onednn %d.%d.%d isa %#x", version->major, version->minor, version->patch,
             (unsigned)dnnl_get_effective_cpu_isa());
}
