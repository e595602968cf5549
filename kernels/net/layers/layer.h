/* SPDX-License-Identifier: Apache-2.0 */
/* Layers, and the table of operations that each type of layer has on CPUs. A net is a list of them
 * (kernels/net/net.h). Activations are floats in one of two forms. As rows, each row is one sample,
 * whose elements have the order of the shape, [C][H][W] for images. As columns, which CPUs have
 * where a sample is a vector, each column is one sample: [elements][ld], ld being hd_linear_get_ld
 * of the samples (kernels/dense/linear.h), and columns beyond the samples are of no meaning. Some
 * types take rows of other forms too (kernels/net/layers/form.h). A sample's result depends on that
 * sample alone. Tables are constants; operations allocate nothing, run on the calling thread and
 * are thread safe on different memory. */
#pragma once

#include "runtime/base/on_gpu.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_TENSOR_NAME = 72, HD_MODULE_NAME = 56, HD_NET_DIMS = 4 };
enum { HD_LAYER_FIELDS = 4, HD_LAYER_TENSORS = 4, HD_SHAPE_TEXT = 80 };
enum { HD_LAYER_MESSAGE = 160 };

/* The shape of one sample's activations. */
struct hd_shape {
    int dims; /* 1 … 3 */
    int64_t size[3];
};

/* Parameters start as in PyTorch's layers, unless the net's `init` says something else. */
enum hd_tensor_init {
    HD_TENSOR_UNIFORM, /* in +-1 / sqrt(fan_in) */
    HD_TENSOR_ONES,
    HD_TENSOR_ZEROS,
    HD_TENSOR_NORMAL,        /* mean 0, deviation 1 */
    HD_TENSOR_ALWAYS_UNIFORM /* in +-1 / sqrt(fan_in), whatever the net's `init` says */
};

/* A stream of a net ends in one of these; tensors of its last layer are marked with it. */
enum hd_output { HD_OUTPUT_NONE, HD_OUTPUT_ACTIONS, HD_OUTPUT_VALUE };

/* One parameter tensor in PyTorch's shape, row-major. */
struct hd_tensor {
    char name[HD_TENSOR_NAME]; /* a layer may name its tensors; else they are weight and bias */
    int64_t shape[HD_NET_DIMS];
    int dims;
    int64_t offset, count; /* offset in the list of all tensors one after another, which is the flat
                              array in dense nets */
    int64_t fan_in;        /* inputs of a neuron of its layer; 0 if it starts as a constant or
                              normally distributed */
    enum hd_tensor_init init;
    enum hd_output output; /* of a net's last layers; else HD_OUTPUT_NONE */
};

struct hd_layer_type;

/* One layer of a net. A layer that contains others is followed by them. */
struct hd_layer {
    const struct hd_layer_type *type;
    int64_t fields[HD_LAYER_FIELDS]; /* in the order of the type's fields */
    int64_t body;                    /* number of layers after it that it contains, and they in
                                        turn */
    char module[HD_MODULE_NAME];     /* its name in PyTorch, of which its tensors' names begin */
    const void *source;              /* what the caller knows the layer by, for messages */
    /* Filled in by the net: */
    struct hd_shape in, out;
    int tensor;    /* number of its first tensor */
    int norm;      /* number of its batch norm */
    int64_t state; /* offset of its state in that of the net */
    bool bf16;     /* CPUs may round the factors of its products to bf16 */
};

struct hd_form;

/* The arguments of an operation; which of them it reads and writes depends on the operation. */
struct hd_layer_run {
    const struct hd_layer *layer;
    int64_t rows;               /* samples */
    const float *weight, *bias; /* on CPUs, other tensors follow the weight, in their order */
    const float *x, *y;         /* [rows][in], [rows][out], or columns */
    const float *dy;            /* [rows][out]: derivatives by the output, or columns */
    float *to;                  /* written: y or dx */
    /* On CPUs: the elements of an input are `lines` of `length` floats, a column's element or all
     * rows being one line. Lines of x and y are x_ld floats apart, those of dy and dx ld, as those
     * of y are where it is written. */
    int64_t lines, length, x_ld, ld;
    const struct hd_form *form; /* of x, on CPUs; of bf16 rows all pointers to activations are to
                                   hd_bf16 */
    bool relu;                  /* forward: the output is rectified (of types with has_relu) */
    bool add;  /* backward_data: dx is added to what is there (of types with adds) */
    bool mask; /* backward_data: dx is 0 where x is not positive (of types with adds) */
    float *dweight, *dbias;  /* written: sums over rows in a fixed order */
    const float *mean, *var; /* running statistics of a batch norm: [channels] */
    void *scratch;           /* count_scratch floats, 64-byte aligned */
    float *kept; /* CPUs: count_kept floats, 64-byte aligned, written forward, read backward */
    /* Layers with states read and write these: */
    int64_t steps;      /* T: rows are sequences of T consecutive rows */
    const float *state; /* [rows / T][state_ld]: before the first row of a sequence; NULL: zeros */
    float *next_state;  /* [rows / T][state_ld]: after the last row; may be `state`; NULL: unused */
    int64_t state_ld;
    const float *begins; /* [rows]: 1 where the state is zero before the row; NULL: nowhere */
    float *dkept;        /* like kept, written by backward_weights, read by backward_data */
};

/* A field of a layer, as it is called in run files. */
struct hd_layer_field {
    const char *name;
    int64_t min, initial; /* initial < min: the field has to be given */
};

/* The operations of a layer that normalises by sums over all samples of a batch, which are
 * distributed over items (kernels/net/net.h). Sums are doubles; `channels` is the first size of the
 * input's shape. */
struct hd_layer_batch {
    /* Computes sums[c] of x and sums[channels + c] of x^2, over rows < run->rows. */
    void (*add_up)(const struct hd_layer_run *run, double *sums);
    /* Computes run->to = y from the batch's mean[channels] and biased variance[channels]. */
    void (*forward)(const struct hd_layer_run *run, const double *mean, const double *variance);
    /* Computes sums[c] of dy and sums[channels + c] of dy xhat, which are also the derivatives by
     * bias and weight. */
    void (*add_up_backward)(const struct hd_layer_run *run, const double *mean,
                            const double *variance, double *sums);
    /* Computes run->to = dx from those sums over all items, and `count`, the batch's elements of a
     * channel. */
    void (*backward)(const struct hd_layer_run *run, const double *mean, const double *variance,
                     double count, const double *sums);
};

struct hd_cell;

/* The forms of activations that a layer takes on CPUs. */
enum hd_layer_form {
    HD_FORM_ROWS,
    HD_FORM_COLUMNS, /* columns where its input has one dimension, else rows */
    HD_FORM_ANY      /* its output has the form of its input */
};

struct hd_layer_type {
    const char *name; /* in run files */
    struct hd_layer_field fields[HD_LAYER_FIELDS];
    enum hd_layer_form form;
    bool keeps_rows;     /* of HD_FORM_COLUMNS: takes rows of floats as they are in bf16 nets, whose
                            products read and write rows */
    bool has_relu, adds; /* its operations do what run->relu, and run->add and run->mask, say */
    bool has_impl;       /* CPUs compute it by an implementation alone (kernels/net/impl/impl.h) */
    bool takes_layouts;  /* rows may have any layout */
    bool takes_bf16;     /* rows may be bf16 */
    bool has_gpu_impl;   /* GPUs compute it by an implementation alone (kernels/net/list/gpu/) */
    bool has_body;       /* contains layers; its output is their output plus its input */
    bool observation;    /* reads the observation alone, so that it has no backward_data */
    const struct hd_cell *cell; /* NULL, or what a layer with states computes in a step */
    int states; /* vectors as long as its output that it keeps from a row of a sequence to the next
                   one; such a layer's sequences depend on themselves alone */

    /* Computes layer->out from layer->in and the fields. Returns false with what the layer takes in
     * `message` ("takes an input of one dimension"). */
    bool (*infer)(struct hd_layer *layer, char message[HD_LAYER_MESSAGE]);

    /* Describes the layer's tensors: weight, then bias. Returns their number. NULL: none. */
    int (*list_tensors)(const struct hd_layer *layer, struct hd_tensor tensors[HD_LAYER_TENSORS]);

    /* Returns the floats of scratch for `rows` rows. NULL: none. */
    int64_t (*count_scratch)(const struct hd_layer *layer, int64_t rows);

    /* Returns the floats of `kept`, and of `dkept` in layers with states, for `rows` rows in
     * sequences of `steps`. NULL: none. */
    int64_t (*count_kept)(const struct hd_layer *layer, int64_t rows, int64_t steps);

    /* Computes y. NULL: the output is the input, differently shaped, or `has_impl`. */
    void (*forward)(const struct hd_layer_run *run);

    /* Computes dx from x, y, dy and the parameters. NULL likewise, or if `batch` has it. */
    void (*backward_data)(const struct hd_layer_run *run);

    /* Elementwise functions with a derivative that follows from the result: compute y[n] in place
     * of x, and dx[n] in place of dy. Or NULL. */
    void (*activate)(int64_t n, float *y);
    void (*differentiate)(int64_t n, const float *y, float *dy);

    /* Computes the derivatives by weight and bias, before backward_data in layers with states.
     * NULL: there are none. */
    void (*backward_weights)(const struct hd_layer_run *run);

    /* NULL: rows do not depend on each other in training. */
    const struct hd_layer_batch *batch;

    /* NULL: nets with the layer are computed on CPUs alone, unless it has an implementation on GPUs
     * or computes nothing. */
    const struct hd_layer_on_gpu *gpu; /* kernels/net/gpu/layers.h */
};

extern const struct hd_layer_on_gpu hd_embedding_on_gpu, hd_gelu_on_gpu, hd_layer_norm_on_gpu,
    hd_max_pool_on_gpu, hd_relu_on_gpu, hd_tanh_on_gpu;

extern const struct hd_layer_type hd_layer_batch_norm, hd_layer_concat, hd_layer_conv,
    hd_layer_dense, hd_layer_embedding, hd_layer_flatten, hd_layer_gelu, hd_layer_group_norm,
    hd_layer_gru, hd_layer_layer_norm, hd_layer_log_std, hd_layer_lstm, hd_layer_max_pool,
    hd_layer_relu, hd_layer_residual, hd_layer_tanh;

/* The numbers of the types' fields. */
enum { HD_CONCAT_FIRST };
enum { HD_DENSE_OUT };
enum { HD_CONV_CHANNELS, HD_CONV_KERNEL, HD_CONV_STRIDE, HD_CONV_PADDING };
enum { HD_POOL_KERNEL, HD_POOL_STRIDE, HD_POOL_PADDING };
enum { HD_EMBEDDING_VALUES, HD_EMBEDDING_WIDTH };
enum { HD_GROUP_NORM_GROUPS };
enum { HD_RECURRENT_HIDDEN };

/* Returns whether layers of a type compute anything. */
static inline bool hd_layer_type_computes(const struct hd_layer_type *type)
{
    return type->forward || type->has_impl;
}

/* Returns the number of fields of a type. */
int hd_layer_type_count_fields(const struct hd_layer_type *type);

/* Describes a layer's tensors. Returns their number, 0 for no layer (NULL); there are no errors. */
int hd_layer_list_tensors(const struct hd_layer *layer, struct hd_tensor tensors[HD_LAYER_TENSORS]);

/* Returns the floats of a layer's state. */
int64_t hd_layer_count_state(const struct hd_layer *layer);

/* Returns the elements of a shape, and of a channel of it: of its first dimension. */
int64_t hd_shape_count(const struct hd_shape *shape);
int64_t hd_shape_count_plane(const struct hd_shape *shape);
bool hd_shape_is_equal(const struct hd_shape *a, const struct hd_shape *b);

/* Writes "[4, 84, 84]". */
void hd_shape_describe(const struct hd_shape *shape, char text[HD_SHAPE_TEXT]);

/* Returns a tensor of shape[dims] without name and place. */
struct hd_tensor hd_layer_make_tensor(int dims, const int64_t *shape, enum hd_tensor_init init,
                                      int64_t fan_in);

/* Do infer for layers whose output has the shape of their input. */
bool hd_layer_keep_shape(struct hd_layer *layer, char message[HD_LAYER_MESSAGE]);

/* Are forward and backward_data of types with `activate`. */
void hd_layer_activate(const struct hd_layer_run *run);
void hd_layer_differentiate(const struct hd_layer_run *run);

/* Returns the outputs along a side of an image that windows of `kernel` pixels yield, `stride`
 * apart, with `padding` pixels on both ends; 0 if there are none. */
int64_t hd_count_windows(int64_t side, int64_t kernel, int64_t stride, int64_t padding);
