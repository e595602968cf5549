/* SPDX-License-Identifier: Apache-2.0 */
/* Places on a GPU: of tensors among shadow weights and gradients, and of the blocks of which the
 * memory of passes consists. */
#include "kernels/net/list/gpu/on_gpu_internal.h"

/* -- Places of tensors ------------------------------------------------------------------------- */

enum { UNIT = 64 /* elements: matrices start at multiples of this */ };

int64_t hd_gpu_take(int64_t *used, int64_t n)
{
    const int64_t at = *used;
    *used += (n + UNIT - 1) / UNIT * UNIT;
    return at;
}

/* Returns the number of tensors up to those of a layer, of which there are `before` anyway. */
static int find_end(const struct hd_layer *layer, int before)
{
    struct hd_tensor unused[HD_LAYER_TENSORS];
    const int n = hd_layer_list_tensors(layer, unused);
    return n > 0 && layer->tensor + n > before ? layer->tensor + n : before;
}

/* Returns whether derivatives by what a residual's body yields may lie where those by the sum do:
 * nothing else reads that, and its ReLU, if it has one, does not change them. */
static bool shares_delta(const struct walk *walk, const struct op *op)
{
    bool alone = op->skip != NO_VALUE && op->out != NO_VALUE && op->in != op->skip;
    for (int i = 0; i < walk->n_ops && alone; i++)
        alone = &walk->ops[i] == op || (walk->ops[i].in != op->in && walk->ops[i].skip != op->in &&
                                        !(walk->ops[i].out == op->in && walk->ops[i].impl->relu));
    return alone && !walk->values[op->in].is_obs;
}

/* Shadow weights that are always floats lie behind all others. */
void hd_gpu_take_places(struct list_net *net)
{
    const struct walk *walk = &net->on_gpu;
    int tensors = 0;
    for (int i = 0; i < walk->n_ops; i++) {
        struct gpu_impl *impl = (struct gpu_impl *)walk->ops[i].impl;
        const bool last = i == walk->n_ops - 1;
        tensors = find_end(impl->base.joined, find_end(impl->base.layer, tensors));
        impl->tensors = last ? net->base.n_tensors : tensors;
        impl->first_sum = net->places.sums;
        if (get_gpu_type(&walk->ops[i])->place)
            get_gpu_type(&walk->ops[i])->place(net, impl, &net->places);
    }
    for (int i = 0; i < walk->n_ops; i++) {
        struct gpu_impl *impl = (struct gpu_impl *)walk->ops[i].impl;
        impl->shares_delta = shares_delta(walk, &walk->ops[i]);
        impl->weight += impl->wide_weight ? net->places.narrow : 0;
        impl->bias += impl->wide_bias ? net->places.narrow : 0;
        for (int s = 0; s < HD_NET_STREAMS; s++)
            impl->streams[s].weight += net->places.narrow;
    }
}

struct hd_gpu_matrix hd_gpu_make_rows(int64_t rows, int64_t columns)
{
    return (struct hd_gpu_matrix){
        .rows = rows, .columns = columns, .gradient_ld = columns, .inputs = columns, .plane = 1};
}

struct hd_gpu_matrix hd_gpu_make_matrix(const struct hd_form *form, int64_t rows, int64_t inputs)
{
    const struct hd_gpu_image image = hd_gpu_make_image(form);
    struct hd_gpu_matrix matrix = hd_gpu_make_rows(rows, form->ld);
    matrix.inputs = inputs;
    matrix.plane = image.pixels;
    matrix.channels = image.stored;
    return matrix;
}

void hd_gpu_describe(const struct list_net *net, struct hd_gpu_matrix *matrices)
{
    const struct walk *walk = &net->on_gpu;
    for (int i = 0; i < walk->n_ops; i++)
        if (get_gpu_type(&walk->ops[i])->describe)
            get_gpu_type(&walk->ops[i])->describe(net, &walk->ops[i], matrices);
}

struct hd_gpu_image hd_gpu_make_image(const struct hd_form *form)
{
    const bool image = form->layout == HD_NHWC && form->plane > 1;
    const int64_t pixels = image ? form->plane : 1;
    return (struct hd_gpu_image){
        .channels = (int32_t)(form->channels * form->plane / pixels),
        .pixels = (int32_t)pixels,
        .stored = (int32_t)(form->ld / pixels),
    };
}

/* -- Memory of passes: the library's workspace, values or derivatives by them, then what ops keep,
 * or scratch and sums -------------------------------------------------------------------------- */

static int64_t round_up(int64_t n)
{
    const int64_t unit = HD_GEMM_WORKSPACE_ALIGNMENT;
    return (n + unit - 1) / unit * unit;
}

/* Returns the value in whose place derivatives by a value lie. */
static int find_shared(const struct list_net *net, int value)
{
    const struct walk *walk = &net->on_gpu;
    for (int i = 0; i < walk->n_ops; i++)
        if (walk->ops[i].in == value && as_gpu(&walk->ops[i])->shares_delta)
            value = walk->ops[i].out;
    return value;
}

static int64_t count_delta_bytes(const struct list_net *net, int value, int64_t rows)
{
    return rows * net->on_gpu.values[value].form.ld * hd_gpu_get_element_bytes(net);
}

/* Derivatives by an observation lie elsewhere, if they are wanted, and those by its conversions are
 * wanted only of rows. */
static int64_t count_value_bytes(const struct list_net *net, int value, bool backward, int64_t rows)
{
    const struct value *of = &net->on_gpu.values[value];
    const bool unwanted = of->is_obs && (value == OBS || of->form.plane > 1);
    if (backward && (unwanted || find_shared(net, value) != value))
        return 0;
    if (backward)
        return count_delta_bytes(net, value, rows);
    return hd_form_get_bytes(&of->form, rows);
}

static int64_t count_kept_bytes(const struct list_net *net, int i, int64_t rows)
{
    const struct op *op = &net->on_gpu.ops[i];
    return get_gpu_type(op)->count_kept ? get_gpu_type(op)->count_kept(as_gpu(op), rows) : 0;
}

/* Returns the most scratch that an op needs. */
static int64_t count_scratch_bytes(const struct list_net *net, int64_t rows)
{
    int64_t most = 0;
    for (int i = 0; i < net->on_gpu.n_ops; i++) {
        const struct op *op = &net->on_gpu.ops[i];
        const struct gpu_impl_type *type = get_gpu_type(op);
        const int64_t n = type->count_scratch ? type->count_scratch(as_gpu(op), rows) : 0;
        most = n > most ? n : most;
    }
    return most;
}

/* Returns the bytes before block number `end` of a pass's memory. */
static int64_t find_block(const struct list_net *net, bool backward, int64_t rows, int end)
{
    const int values = net->on_gpu.n_values;
    int64_t at = HD_GEMM_WORKSPACE;
    for (int i = 0; i < end && i < values; i++)
        at += round_up(count_value_bytes(net, i, backward, rows));
    for (int i = values; i < end && !backward; i++)
        at += round_up(count_kept_bytes(net, i - values, rows));
    if (backward && end > values)
        at += round_up(count_scratch_bytes(net, rows));
    if (backward && end > values + 1)
        at += HD_GPU_ROW_BLOCKS * net->places.sums * (int64_t)sizeof(float);
    return at;
}

/* The start of memory is rounded up. */
static char *find_start(const void *memory)
{
    const uintptr_t unit = HD_GEMM_WORKSPACE_ALIGNMENT, at = (uintptr_t)memory;
    return (char *)memory + (unit - at % unit) % unit;
}

int64_t hd_gpu_count_work_bytes(const struct list_net *net, int64_t rows)
{
    return find_block(net, false, rows, net->on_gpu.n_values + net->on_gpu.n_ops) +
           HD_GEMM_WORKSPACE_ALIGNMENT;
}

int64_t hd_gpu_count_scratch_bytes(const struct list_net *net, int64_t rows)
{
    return find_block(net, true, rows, net->on_gpu.n_values + 2) + HD_GEMM_WORKSPACE_ALIGNMENT;
}

void *hd_gpu_get_value(const struct gpu_pass *pass, int value, int64_t row)
{
    return find_start(pass->work) + find_block(pass->net, false, pass->forward_rows, value) +
           hd_form_get_bytes(hd_gpu_get_form(pass, value), row);
}

void *hd_gpu_get_delta(const struct gpu_pass *pass, int value, int64_t row)
{
    const int at = find_shared(pass->net, value);
    if (at == OBS)
        return (char *)pass->obs_delta + count_delta_bytes(pass->net, at, row);
    return find_start(pass->scratch) + find_block(pass->net, true, pass->rows, at) +
           count_delta_bytes(pass->net, value, row);
}

void *hd_gpu_get_kept(const struct gpu_pass *pass, const struct op *op)
{
    const struct walk *walk = &pass->net->on_gpu;
    return find_start(pass->work) +
           find_block(pass->net, false, pass->forward_rows, walk->n_values + (int)(op - walk->ops));
}

void *hd_gpu_get_scratch(const struct gpu_pass *pass)
{
    return find_start(pass->scratch) +
           find_block(pass->net, true, pass->rows, pass->net->on_gpu.n_values);
}

void *hd_gpu_get_workspace(const struct gpu_pass *pass)
{
    return find_start(pass->scratch ? pass->scratch : pass->work);
}

struct hd_gpu_sums hd_gpu_make_sums(const struct gpu_pass *pass, int64_t at)
{
    const int block = pass->net->on_gpu.n_values + 1;
    float *sums =
        (float *)(find_start(pass->scratch) + find_block(pass->net, true, pass->rows, block));
    return (struct hd_gpu_sums){sums + at, pass->net->places.sums, false};
}

const void *hd_gpu_get_shadow(const struct gpu_pass *pass, int64_t at)
{
    const char *shadow = hd_net_on_gpu_get_shadow(&pass->net->base, pass->params);
    const int64_t element = hd_gpu_get_element_bytes(pass->net), narrow = pass->net->places.narrow;
    if (at < narrow)
        return shadow + at * element;
    return shadow + narrow * element + (at - narrow) * (int64_t)sizeof(float);
}
