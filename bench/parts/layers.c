/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the steps of a net one by one, each by itself, and for comparison a product of matrices.
 * The products of the definition are counted, so minimal filtering may seem to exceed the peak. Or
 * measures one convolution in every layout. */
#include "bench/parts/nets.h"
#include "bench/parts/parts.h"
#include "graph/language/graph.h"
#include "kernels/conv/conv.h"
#include "kernels/dense/linear.h"
#include "kernels/net/layers/layer.h"
#include "runner/base/options.h"
#include "runner/base/run_spec.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/types/learn/params.h"

#include <stdio.h>
#include <string.h>

struct layer {
    bool bf16, relu;
    int64_t rows;
    struct hd_conv *conv;
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
    char name[320];
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

/* -- The steps of a net ------------------------------------------------------------------------ */

struct steps {
    struct hd_bench_passes passes;
    int number;
};

static void run(const struct steps *s, bool backward)
{
    const struct hd_bench_passes *p = &s->passes;
    hd_net_run_step(p->net, s->number, p->params, p->rows, backward, p->work, p->scratch, p->grad);
}

static void run_forward(void *arg)
{
    run(arg, false);
}

static void run_backward(void *arg)
{
    run(arg, true);
}

/* The first step with weights has no gradient of its input. */
static void measure_step(struct steps *s, bool first)
{
    struct hd_net_step step;
    char name[160];
    hd_net_describe_step(s->passes.net, s->number, s->passes.rows, &step);
    snprintf(name, sizeof name, "%s %s%s%s", step.module, step.layer, step.activation ? " " : "",
             step.activation ? step.activation : "");
    const double flop = 2.0 * (double)(s->passes.rows * step.multiply_adds);
    report(name, "forward", step.implementation, flop, hd_part_measure_seconds(run_forward, s));
    report(name, "backward", step.form, (first ? 1 : 2) * flop,
           hd_part_measure_seconds(run_backward, s));
}

static int measure_net(const struct hd_net *net, int64_t rows)
{
    struct steps s = {.number = 0};
    bool first = true;
    HD_TRY(hd_bench_passes_make(net, rows, 1, true, &s.passes));
    hd_bench_passes_forward(&s.passes);
    hd_bench_passes_backward(&s.passes);
    HD_TRY(measure_peak());
    for (; s.number < hd_net_count_steps(net); s.number++) {
        struct hd_net_step step;
        hd_net_describe_step(net, s.number, rows, &step);
        measure_step(&s, first && step.multiply_adds > 0);
        first &= step.multiply_adds == 0;
    }
    return HD_OK;
}

/* Measures the net of the first parameters of a run file. */
static int measure_run_file(const char *path, int64_t rows)
{
    struct hd_options options = {.config = path};
    struct hd_run_spec run_spec;
    hd_options_refuse_plugins(&options);
    HD_TRY(hd_run_spec_load(&options, 1, &run_spec));
    const struct hd_graph *graph = run_spec.graph;
    int status = HD_ERR_INPUT;
    for (int i = 0; i < graph->n_values && status == HD_ERR_INPUT; i++)
        if (graph->values[i].spec.type == &hd_type_params)
            status = measure_net(hd_params_get_net(&graph->values[i].spec), rows);
    hd_run_spec_release(&run_spec);
    return status;
}

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
    struct hd_net *net;
    if (argc > 1 && strcmp(argv[0], "conv") == 0)
        return measure_layouts(argc, argv);
    const bool file = argc > 0 && strchr(argv[0], '.');
    const int64_t rows = hd_part_parse_number(argc, argv, file ? 1 : 2, 32);
    if (rows == 0 || (!file && argc < 2))
        return HD_ERR_INPUT;
    if (file)
        return measure_run_file(argv[0], rows);
    HD_TRY(hd_bench_net_create(argv[0], argv[1], &net));
    return measure_net(net, rows);
}

const struct hd_bench_part hd_part_layers = {
    HD_BENCH_NETS
    " f32|bf16 [ROWS] | RUN.yaml [ROWS] | conv f32|bf16 BATCH CHANNELS SIDE OUT KERNEL "
    "[STRIDE [PADDING]]",
    "the steps of a net one by one, or a convolution by every implementation", measure};
