/* SPDX-License-Identifier: Apache-2.0 */
/* Passes of lists on a GPU, layer by layer. Shadow weights and gradients in GPU order are all
 * tensors in their order, row-major. */
#include "kernels/net/gpu/gemm.h"
#include "kernels/net/gpu/index_tables.h"
#include "kernels/net/gpu/observations.h"
#include "kernels/net/list/gpu/steps_internal.h"
#include "kernels/net/list/list_internal.h"
#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

/* -- Parameters -------------------------------------------------------------------------------- */

/* A vector is a matrix with rows of UNIT floats, so that it has few tiles. */
enum { UNIT = HD_TILE };

/* Returns the offset of a tensor, or the end of all: a multiple of UNIT, behind all multiples that
 * the tensor before it has begun. */
static int64_t find_tensor(const struct hd_net *net, int t)
{
    const int64_t before = t < net->n_tensors ? net->tensors[t].offset : net->row_major_elements;
    return (before / UNIT + t) * UNIT;
}

static struct hd_gpu_matrix find_matrix(const struct hd_net *net, int t)
{
    const struct hd_tensor *tensor = &net->tensors[t];
    const int64_t columns = tensor->dims > 1 ? tensor->count / tensor->shape[0] : UNIT;
    return (struct hd_gpu_matrix){.shadow = find_tensor(net, t),
                                  .gradient = find_tensor(net, t),
                                  .rows = (tensor->count + columns - 1) / columns,
                                  .columns = columns,
                                  .gradient_ld = columns,
                                  .inputs = columns,
                                  .plane = 1};
}

static int describe(const struct hd_net *net, struct hd_gpu_shadow *shadow_p,
                    struct hd_gpu_matrix *matrices)
{
    const int64_t floats = find_tensor(net, net->n_tensors);
    *shadow_p = (struct hd_gpu_shadow){.narrow = floats, .gradient = floats};
    for (int t = 0; t < net->n_tensors && matrices; t++)
        matrices[t] = find_matrix(net, t);
    return HD_OK;
}

/* -- Memory ------------------------------------------------------------------------------------ */

/* A pass of `values.rows` rows: the memory of either direction begins with the library's workspace
 * and a layer's scratch, and then is like that on CPUs. */
struct pass {
    const struct list_net *net;
    const float *shadow;
    struct list_memory values;
    void *workspace, *scratch, *stream;
    bool dry_run;
};

static int64_t round_up(int64_t n)
{
    return (n + HD_GEMM_WORKSPACE_ALIGNMENT - 1) / HD_GEMM_WORKSPACE_ALIGNMENT *
           HD_GEMM_WORKSPACE_ALIGNMENT;
}

static int64_t count_scratch_bytes(const struct list_net *net, int64_t rows)
{
    int64_t max = 0;
    for (int i = 0; i < net->plain.n_ops; i++) {
        const struct hd_layer *layer = net->plain.ops[i].layer;
        const struct hd_layer_on_gpu *gpu = layer->type->gpu;
        const int64_t n = gpu && gpu->count_scratch ? gpu->count_scratch(layer, rows) : 0;
        max = n > max ? n : max;
    }
    return round_up(max * (int64_t)sizeof(float));
}

/* Returns the bytes in front of the values, and what rounding the start up takes. */
static int64_t count_front_bytes(const struct list_net *net, int64_t rows)
{
    return HD_GEMM_WORKSPACE_ALIGNMENT + HD_GEMM_WORKSPACE + count_scratch_bytes(net, rows);
}

static struct pass make_pass(const struct hd_net *base, const void *params, int64_t rows,
                             void *memory, void *stream)
{
    const struct list_net *net = as_list(base);
    char *start =
        (char *)memory + (round_up((int64_t)(uintptr_t)memory) - (int64_t)(uintptr_t)memory);
    char *scratch = start + HD_GEMM_WORKSPACE;
    return (struct pass){.net = net,
                         .shadow = hd_net_on_gpu_get_shadow(base, params),
                         .values = hd_list_make_memory(
                             &net->plain, scratch + count_scratch_bytes(net, rows), rows, 1),
                         .workspace = start,
                         .scratch = scratch,
                         .stream = stream};
}

static int64_t get_forward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct list_net *net = as_list(base);
    return count_front_bytes(net, batch) +
           hd_align_up(hd_list_get_values_bytes(&net->plain, batch));
}

static int64_t get_backward_bytes(const struct hd_net *base, int64_t batch)
{
    const struct list_net *net = as_list(base);
    return count_front_bytes(net, batch) +
           hd_align_up(hd_list_get_deltas_bytes(&net->plain, batch));
}

/* Values have any number of floats, so that the next one is aligned like floats. */
static int multiply(const struct hd_layer_run *run, const struct hd_gemm *sizes, const float *a,
                    const float *b, const float *bias, float *c)
{
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)bias | (uintptr_t)c;
    struct hd_gemm gemm = *sizes;
    gemm.tf32 = run->tf32;
    gemm.unaligned = all % HD_GEMM_ALIGNMENT != 0;
    if (run->dry_run)
        return hd_gemm_prepare_cuda(&gemm);
    return hd_gemm_multiply_cuda(&gemm, a, b, bias, c, run->workspace, run->stream);
}

/* Gives an op's arguments what they need on a GPU. A bias that there is follows the weight. */
static struct hd_layer_run complete(const struct pass *pass, struct hd_layer_run run)
{
    run.weight = pass->shadow + find_tensor(&pass->net->base, run.layer->tensor);
    run.bias = pass->shadow + find_tensor(&pass->net->base, run.layer->tensor + 1);
    run.scratch = pass->scratch;
    run.workspace = pass->workspace;
    run.stream = pass->stream;
    run.tf32 = pass->net->base.on_gpu == HD_TF32;
    run.dry_run = pass->dry_run;
    run.multiply = multiply;
    return run;
}

static struct hd_list_heads find_heads(const struct pass *pass)
{
    const struct list_net *net = pass->net;
    return (struct hd_list_heads){.actions = hd_list_get_value(pass->values, net->plain.of_actions),
                                  .value =
                                      net->plain.of_value == NO_VALUE
                                          ? NULL
                                          : hd_list_get_value(pass->values, net->plain.of_value),
                                  .n_actions = (int32_t)net->base.actions,
                                  .outputs = (int32_t)net->base.outputs,
                                  .dueling = net->base.heads == HD_HEADS_DUELING};
}

/* -- Forward ----------------------------------------------------------------------------------- */

static int add(const struct pass *pass, int64_t elements, const float *a, const float *b, float *to)
{
    if (pass->dry_run)
        return HD_OK;
    return hd_list_add_cuda(pass->values.rows * elements, a, b, to, pass->stream);
}

static int go_forward(const struct pass *pass)
{
    const struct list_net *net = pass->net;
    for (const struct op *op = net->plain.ops; op < net->plain.ops + net->plain.n_ops; op++) {
        const struct hd_layer_run run =
            complete(pass, hd_list_make_forward(net, op, pass->shadow, pass->values));
        if (op->skip == NO_VALUE)
            HD_TRY(op->layer->type->gpu->forward(&run));
        else
            HD_TRY(add(pass, net->plain.values[op->out].form.ld,
                       hd_list_get_value(pass->values, op->skip), run.x, run.to));
    }
    return HD_OK;
}

static int passes_forward(const struct hd_net *base, const void *params,
                          const struct hd_gpu_obs *obs, int64_t rows, void *work, float *q,
                          void *stream)
{
    const struct pass pass = make_pass(base, params, rows, work, stream);
    const struct hd_list_heads heads = find_heads(&pass);
    HD_TRY(
        hd_gpu_take_obs(obs, rows, base->obs, false, hd_list_get_value(pass.values, OBS), stream));
    HD_TRY(go_forward(&pass));
    return hd_list_combine_heads_cuda(&heads, rows, q, stream);
}

/* -- Backward ---------------------------------------------------------------------------------- */

/* Passes derivatives on to a value, in addition to what is there if `adds`. */
static int pass_on(const struct pass *deltas, int value, bool adds, const float *from)
{
    float *to = hd_list_get_value(deltas->values, value);
    if (value == OBS)
        return HD_OK;
    return add(deltas, deltas->net->plain.values[value].form.ld, adds ? to : NULL, from, to);
}

static int differentiate_by_input(const struct pass *deltas, const struct op *op,
                                  const struct hd_layer_run *run)
{
    if (op->skip != NO_VALUE) {
        HD_TRY(pass_on(deltas, op->in, op->adds, run->dy));
        return pass_on(deltas, op->skip, op->adds_skip, run->dy);
    }
    if (op->in == OBS)
        return HD_OK;
    HD_TRY(op->layer->type->gpu->backward_data(run));
    return op->adds ? pass_on(deltas, op->in, true, run->to) : HD_OK;
}

static int go_back_op(const struct pass *deltas, struct list_memory values, const struct op *op,
                      float *gradient)
{
    struct hd_layer_run run = complete(
        deltas, hd_list_make_backward(deltas->net, op, deltas->shadow, values, deltas->values));
    run.dweight = gradient + (run.weight - deltas->shadow);
    run.dbias = gradient + (run.bias - deltas->shadow);
    if (op->skip == NO_VALUE && op->layer->type->gpu->backward_weights)
        HD_TRY(op->layer->type->gpu->backward_weights(&run));
    return differentiate_by_input(deltas, op, &run);
}

/* Goes back through the ops of stages [first, last). Those without tensors are in the stage of the
 * tensor before them. */
static int go_back(const struct pass *deltas, struct list_memory values, int first, int last,
                   float *gradient)
{
    const struct list_net *net = deltas->net;
    const struct hd_net_on_gpu *on;
    int tensors = net->base.n_tensors; /* up to the op */
    HD_TRY(hd_net_on_gpu_find(&net->base, &on));
    for (int i = net->plain.n_ops - 1; i >= 0 && on->stage[tensors] < last; i--) {
        const struct op *op = &net->plain.ops[i];
        if (on->stage[tensors] >= first)
            HD_TRY(go_back_op(deltas, values, op, gradient));
        if (op->layer->type->list_tensors)
            tensors = op->layer->tensor;
    }
    return HD_OK;
}

static int backward(const struct hd_net *base, const void *params, int64_t batch,
                    int64_t forward_batch, const void *work, const float *dq, void *scratch,
                    int first, int last, float *gradient, void *stream)
{
    const struct pass pass = make_pass(base, params, forward_batch, (void *)work, stream);
    const struct pass deltas = make_pass(base, params, batch, scratch, stream);
    const struct hd_list_heads heads = find_heads(&deltas);
    if (first == 0)
        HD_TRY(hd_list_split_heads_cuda(&heads, batch, dq, stream));
    return go_back(&deltas, pass.values, first, last, gradient);
}

/* -- Preparing --------------------------------------------------------------------------------- */

/* Goes both ways without computing, on addresses that are never accessed, to prepare products. */
static int passes_prepare(const struct hd_net *base, int64_t batch, int64_t backward_batch)
{
    void *nowhere = (void *)(uintptr_t)HD_GEMM_WORKSPACE_ALIGNMENT;
    struct pass pass = make_pass(base, nowhere, batch, nowhere, NULL);
    struct pass deltas = make_pass(base, nowhere, backward_batch, nowhere, NULL);
    pass.dry_run = deltas.dry_run = true;
    if (batch > 0)
        HD_TRY(go_forward(&pass));
    if (backward_batch > 0)
        HD_TRY(go_back(&deltas, pass.values, 0, hd_net_count_stages(base), nowhere));
    return HD_OK;
}

const struct hd_net_gpu_ops hd_list_net_on_gpu = {
    .describe = describe,
    .prepare = passes_prepare,
    .forward_bytes = get_forward_bytes,
    .forward = passes_forward,
    .backward_bytes = get_backward_bytes,
    .backward = backward,
};
