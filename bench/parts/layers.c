/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the layers of a convolutional net one by one, and for comparison a product of matrices.
 * The products of the definition are counted, so minimal filtering may seem to exceed the peak. Or
 * measures one convolution in every layout. */
#include "bench/parts/parts.h"
#include "kernels/conv/conv.h"
#include "kernels/dense/linear.h"
#include "kernels/dense/packed_linear.h"
#include "kernels/net/layers/layer.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdio.h>
#include <string.h>

struct layer {
    bool bf16, relu;
    int64_t rows;
    struct hd_conv *conv; /* or */
    struct hd_packed packed;
    void *x, *y, *dx;
    float *w, *bias, *dw, *dbias;
    hd_bf16 *shadow;
    void *scratch;
};

static struct hd_conv_run begin(const struct layer *l, enum hd_conv_pass pass)
{
    struct hd_conv_run run = {.conv = l->conv,
                              .pass = pass,
                              .max_batch = l->rows,
                              .weights = l->w,
                              .bias = l->bias,
                              .dweights = l->dw,
                              .dbias = l->dbias,
                              .scratch = l->scratch};
    if (l->bf16 && pass == HD_CONV_FORWARD)
        run.weights = l->shadow;
    hd_conv_begin(&run);
    return run;
}

static void conv_forward(void *arg)
{
    const struct layer *l = arg;
    struct hd_conv_run run = begin(l, HD_CONV_FORWARD);
    hd_conv_forward(&run, l->rows, l->x, l->y);
    hd_conv_end(&run);
}

static void conv_weights(void *arg)
{
    const struct layer *l = arg;
    struct hd_conv_run run = begin(l, HD_CONV_WEIGHTS);
    hd_conv_backward_weights(&run, l->rows, l->x, l->y);
    hd_conv_end(&run);
}

static void conv_data(void *arg)
{
    const struct layer *l = arg;
    struct hd_conv_run run = begin(l, HD_CONV_DATA);
    hd_conv_backward_data(&run, l->rows, l->y, l->relu ? l->x : NULL, l->dx);
    hd_conv_end(&run);
}

/* Reports a speed, or a time if there is no `flop`. */
static void report(const char *layer, const char *pass, const char *by, double flop, double seconds)
{
    char name[96];
    snprintf(name, sizeof name, "%s %s %s", layer, pass, by);
    if (flop > 0)
        hd_part_report(name, 1e-9 * flop / seconds, "GFLOP/s");
    else
        hd_part_report(name, 1e3 * seconds, "ms");
}

static int allocate(struct layer *l, const struct hd_conv_fields *fields)
{
    int64_t scratch = 0;
    for (int pass = 0; pass < HD_CONV_PASSES; pass++) {
        int64_t bytes = hd_conv_get_scratch_bytes(l->conv, (enum hd_conv_pass)pass, l->rows);
        scratch = bytes > scratch ? bytes : scratch;
    }
    l->x = hd_alloc(l->rows * hd_conv_count_input_elements(l->conv), 4);
    l->dx = hd_alloc(l->rows * hd_conv_count_input_elements(l->conv), 4);
    l->y = hd_alloc(l->rows * hd_conv_count_output_elements(l->conv), 4);
    l->w = hd_alloc(hd_conv_count_weights(l->conv), 4);
    l->dw = hd_alloc(hd_conv_count_weights(l->conv), 4);
    l->shadow = hd_alloc(hd_conv_count_shadow(l->conv), sizeof *l->shadow);
    l->bias = hd_alloc(fields->out_channels, 4);
    l->dbias = hd_alloc(fields->out_channels, 4);
    l->scratch = hd_alloc(scratch, 1);
    return l->x && l->dx && l->y && l->w && l->dw && l->shadow && l->bias && l->dbias && l->scratch
               ? HD_OK
               : HD_ERR_NOMEM;
}

/* Measures all passes, but for those that oneDNN's reference code would take seconds for. */
static void measure_passes(const char *name, struct layer *l, double flop, bool data)
{
    static const char *const passes[] = {"forward", "weights", "data"};
    static void (*const run[])(void *) = {conv_forward, conv_weights, conv_data};
    for (int i = 0; i < HD_CONV_PASSES - !data; i++) {
        const char *by = hd_conv_get_name(l->conv, (enum hd_conv_pass)i, l->rows);
        if (strncmp(by, "ref", 3) != 0)
            report(name, passes[i], by, flop, hd_part_measure_seconds(run[i], l));
    }
}

static int measure_conv(const char *name, struct hd_conv_fields *fields, int64_t rows, bool data,
                        enum hd_layout *layout_p, int64_t *height_p, int64_t *width_p)
{
    struct layer l = {.bf16 = fields->bf16, .relu = fields->relu, .rows = rows};
    HD_TRY(hd_conv_create_fast(fields, &l.conv));
    HD_TRY(allocate(&l, fields));
    *layout_p = hd_conv_get_output(l.conv, height_p, width_p);
    double flop = 2.0 * (double)(rows * fields->out_channels * fields->in_channels *
                                 fields->kernel * fields->kernel * *height_p * *width_p);
    measure_passes(name, &l, flop, data);
    return HD_OK;
}

static void packed_forward(void *arg)
{
    const struct layer *l = arg;
    if (l->bf16)
        hd_packed_forward_bf16(&l->packed, l->rows, l->shadow, l->bias, l->x, l->packed.in, l->y,
                               l->packed.out);
    else
        hd_packed_forward(&l->packed, l->rows, l->w, l->bias, l->x, l->packed.in, l->y,
                          l->packed.out);
}

static void packed_weights(void *arg)
{
    const struct layer *l = arg;
    const int64_t blocks = hd_packed_count_in_blocks(&l->packed);
    if (l->bf16)
        hd_packed_backward_weights_bf16(&l->packed, l->rows, l->y, l->packed.out, l->x,
                                        l->packed.in, 0, blocks, l->dw, l->scratch);
    else
        hd_packed_backward_weights(&l->packed, l->rows, l->y, l->packed.out, l->x, l->packed.in, 0,
                                   blocks, l->dw, l->scratch);
}

static void packed_data(void *arg)
{
    const struct layer *l = arg;
    const int64_t blocks = hd_packed_count_in_blocks(&l->packed);
    if (l->bf16)
        hd_packed_backward_data_bf16(&l->packed, l->rows, l->shadow, l->y, l->packed.out, 0, blocks,
                                     l->x, l->dx, l->packed.in, l->scratch);
    else
        hd_packed_backward_data(&l->packed, l->rows, l->w, l->y, l->packed.out, 0, blocks, l->x,
                                l->dx, l->packed.in, l->scratch);
}

/* Measures a packed layer; in and out are multiples of 32. */
static int measure_packed(const char *name, int64_t in, int64_t out, int64_t rows, bool bf16)
{
    struct layer l = {.bf16 = bf16, .rows = rows, .packed = {in, out}};
    l.x = hd_alloc(rows * in, 4);
    l.dx = hd_alloc(rows * in, 4);
    l.y = hd_alloc(rows * out, 4);
    l.w = hd_alloc(in * out, 4);
    l.dw = hd_alloc(in * out, 4);
    l.shadow = hd_alloc(in * out, 2);
    l.bias = hd_alloc(out, 4);
    l.scratch = hd_alloc(hd_packed_get_scratch_bytes(&l.packed, rows), 1);
    const double flop = 2.0 * (double)(rows * in * out);
    report(name, "forward", "heddle", flop, hd_part_measure_seconds(packed_forward, &l));
    report(name, "weights", "heddle", flop, hd_part_measure_seconds(packed_weights, &l));
    report(name, "data", "heddle", flop, hd_part_measure_seconds(packed_data, &l));
    return HD_OK;
}

struct peak {
    float *w, *bias, *x, *y;
};

enum { SIDE = 512, COLUMNS = 64 };

static void multiply(void *arg)
{
    const struct peak *p = arg;
    hd_linear_forward(SIDE, SIDE, COLUMNS, p->w, p->bias, false, p->x, COLUMNS, p->y, COLUMNS);
}

/* Measures a product of float matrices that fit the second-level cache. */
static int measure_peak(void)
{
    struct peak p = {hd_alloc(SIDE * SIDE, 4), hd_alloc(SIDE, 4), hd_alloc(SIDE * COLUMNS, 4),
                     hd_alloc(SIDE * COLUMNS, 4)};
    if (!p.w || !p.bias || !p.x || !p.y)
        return HD_ERR_NOMEM;
    report("product", "512 x 512 x 64", "f32", 2.0 * SIDE * SIDE * COLUMNS,
           hd_part_measure_seconds(multiply, &p));
    return HD_OK;
}

static const struct {
    const char *name;
    int64_t channels[3], width;
} nets[] = {{"pong", {128, 128, 512}, 512},
            {"nature", {32, 64, 64}, 512},
            {"ppo", {64, 64, 128}, 128},
            {"ppo_fast", {16, 32, 32}, 256}};

/* -- One convolution by every implementation --------------------------------------------------- */

static int measure_layouts(int argc, char **argv)
{
    static const char *const layouts[] = {"nchw", "nhwc", "nchw16"};
    const int64_t rows = hd_part_parse_number(argc, argv, 2, 0);
    const int64_t in = hd_part_parse_number(argc, argv, 3, 0);
    const int64_t side = hd_part_parse_number(argc, argv, 4, 0);
    struct hd_layer layer = {
        .type = &hd_layer_conv,
        .fields = {hd_part_parse_number(argc, argv, 5, 0), hd_part_parse_number(argc, argv, 6, 0),
                   hd_part_parse_number(argc, argv, 7, 1), hd_part_parse_number(argc, argv, 8, 0)},
        .in = {3, {in, side, side}}};
    char message[HD_LAYER_MESSAGE];
    if (rows == 0 || in == 0 || layer.fields[HD_CONV_CHANNELS] == 0 ||
        layer.fields[HD_CONV_KERNEL] == 0 || layer.fields[HD_CONV_STRIDE] == 0 ||
        !layer.type->infer(&layer, message))
        return HD_ERR_INPUT;
    for (int i = HD_NCHW; i <= HD_NCHW16; i++) {
        struct layer l = {.bf16 = strcmp(argv[1], "bf16") == 0, .rows = rows};
        struct hd_conv_fields fields = {.in_channels = in,
                                        .in_height = side,
                                        .in_width = side,
                                        .out_channels = layer.fields[HD_CONV_CHANNELS],
                                        .kernel = layer.fields[HD_CONV_KERNEL],
                                        .stride = layer.fields[HD_CONV_STRIDE],
                                        .padding = layer.fields[HD_CONV_PADDING],
                                        .input = (enum hd_layout)i,
                                        .bf16 = l.bf16};
        HD_TRY(hd_conv_create(&fields, &l.conv));
        HD_TRY(allocate(&l, &fields));
        measure_passes(layouts[i], &l, 0, true);
    }
    return HD_OK;
}

/* Memory is released by the end of the process. */
static int measure(int argc, char **argv)
{
    static const int64_t kernels[] = {2, 4, 3}, strides[] = {1, 2, 1};
    const int64_t rows = hd_part_parse_number(argc, argv, 2, 32);
    const bool bf16 = argc > 1 && strcmp(argv[1], "bf16") == 0;
    if (argc > 1 && strcmp(argv[0], "conv") == 0)
        return measure_layouts(argc, argv);
    for (size_t n = 0; argc > 1 && rows > 0 && n < sizeof nets / sizeof *nets; n++) {
        if (strcmp(nets[n].name, argv[0]) != 0)
            continue;
        struct hd_conv_fields fields = {.in_channels = 64,
                                        .in_height = 21,
                                        .in_width = 21,
                                        .input = bf16 ? HD_NHWC : HD_NCHW16,
                                        .relu = true,
                                        .bf16 = bf16};
        for (int i = 0; i < 3; i++) {
            const char *const names[] = {"conv1", "conv2", "conv3"};
            int64_t height, width;
            fields.out_channels = nets[n].channels[i];
            fields.kernel = kernels[i];
            fields.stride = strides[i];
            HD_TRY(measure_conv(names[i], &fields, rows, i > 0, &fields.input, &height, &width));
            fields.in_channels = fields.out_channels;
            fields.in_height = height;
            fields.in_width = width;
        }
        HD_TRY(measure_peak());
        HD_TRY(measure_packed("mid", fields.in_channels * fields.in_height * fields.in_width,
                              nets[n].width, rows, bf16));
        return measure_packed("hidden", nets[n].width, 2 * nets[n].width, rows, bf16);
    }
    return HD_ERR_INPUT;
}

const struct hd_bench_part hd_part_layers = {
    "pong|nature|ppo|ppo_fast f32|bf16 [BATCH] | conv f32|bf16 BATCH CHANNELS SIDE OUT KERNEL "
    "[STRIDE [PADDING]]",
    "the layers of a convolutional net one by one, or a convolution by every implementation",
    measure};
