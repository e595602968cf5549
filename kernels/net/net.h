/* SPDX-License-Identifier: Apache-2.0 */
/* Nets are lists of layers (kernels/net/layers/layer.h): a trunk, then one or two streams that read
 * its output and end in the values of actions, their logits, or the value of the observation. A
 * trunk may begin with the layers of several inputs, whose results it joins. Such a list is given
 * as it is, or by DI-engine's fields, with its parameter names and shapes (docs/di-engine.md 2.1,
 * 3.1): FCEncoder for observations of one dimension, ConvEncoder for those of three. All parameters
 * are one flat array of floats in the layout that the passes need; hd_net_import_tensor and
 * hd_net_export_tensor convert from and to PyTorch's layout. A params instance is that array,
 * followed by bf16 shadow weights if the net computes in bf16. Functions that compute get their
 * memory from the caller, run on the calling thread alone and are thread safe on different memory:
 * a net is read-only once made, except for prepared passes, which a lock protects. */
#pragma once

#include "kernels/common/tiles.h"
#include "kernels/net/layers/layer.h"
#include "kernels/net/obs_norm.h"
#include "runtime/base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_NET_STREAMS = 2, HD_NET_INPUTS = 16, HD_NET_MESSAGE = 320 };

enum hd_precision {
    HD_F32,
    HD_BF16, /* products of bf16 with sums in f32 */
    HD_TF32  /* GPUs alone: products of floats rounded to 10 bits, sums in f32 */
};

/* The heads decide what a net yields. In DI-engine's nets a stream is a hidden layer with ReLU, as
 * wide as the encoder's last layer, and an output layer. */
enum hd_heads {
    HD_HEADS_Q,           /* one stream */
    HD_HEADS_DUELING,     /* streams A and V: q = A - mean A + V */
    HD_HEADS_ACTOR_CRITIC /* streams critic and actor (DI-engine's VAC): logits and a value */
};

/* A stream of a list: its number of layers, of which the last one is dense and yields a number for
 * each action, or one value. */
struct hd_stream {
    enum hd_output output;
    int64_t layers;
};

/* One of several inputs: an array of an observation, and the layers that read it before the results
 * of all inputs are joined. The last of these is `concat`. */
struct hd_net_input {
    struct hd_shape shape; /* of one dimension or three, as obs_shape */
    bool u8;
    int64_t offset; /* bytes in a frame, a multiple of 4 */
    int64_t layers;
};

/* Initial parameters. Orthogonal means that the rows of a weight matrix, or its columns if there
 * are more rows, are orthogonal and of length `gain` (Saxe et al. 2013); all input indices of a
 * convolution count as one. */
enum hd_init {
    HD_INIT_TORCH,      /* PyTorch's default: uniform in +-1 / sqrt(fan_in), biases too */
    HD_INIT_ORTHOGONAL, /* DI-engine's PPO (docs/di-engine.md 3.2): dense layers of gain 1 and
                           without bias, convolutions by PyTorch's default */
    HD_INIT_SCALED /* all layers without bias and of gain sqrt 2, except output layers: 0.01 for a
                      policy's logits, 1 for values (Huang et al. 2022, detail 2) */
};

/* The normalisation between a hidden layer and its ReLU, in dense nets. */
enum hd_norm {
    HD_NORM_NONE,
    HD_NORM_SYNC_BATCH /* torch.nn.SyncBatchNorm over all samples of all shards */
};

/* One batch norm: its module's name in PyTorch and its running statistics. */
struct hd_net_norm {
    char name[HD_TENSOR_NAME];
    int64_t features;
    int64_t mean, var; /* offsets of [features] floats each in the net's running statistics */
};

struct hd_net_fields {
    int obs_dims;             /* 1, or 3: [C, H, W] */
    const int64_t *obs_shape; /* [obs_dims] */
    bool obs_u8;              /* observations are bytes, which the net divides by 255 */
    int64_t actions;          /* numbers that the stream of the actions yields */
    bool log_std; /* the second half of them are parameters, the same for all observations */
    enum hd_heads heads;
    /* The short form, which counts if `layers` is NULL. */
    const int64_t *hidden; /* encoder_hidden_size_list */
    int64_t n_hidden;
    enum hd_norm norm;
    /* The list: `trunk` layers, then those of each stream, in the order of their tensors. */
    const struct hd_layer *layers;
    int64_t trunk;
    /* Nets of several inputs have a list, of which the trunk begins with the layers of each input.
     * Their observations are frames one after the other, oldest first, in which an input's array is
     * its share of the shape's first dimension: of other nets, the array alone. */
    struct hd_net_input inputs[HD_NET_INPUTS];
    int n_inputs;        /* 0: the observation is one array, as above */
    int64_t frames;      /* of an observation */
    int64_t frame_bytes; /* a multiple of 4 */
    struct hd_stream streams[HD_NET_STREAMS];
    int n_streams;
    enum hd_init init;
    enum hd_precision precision; /* precision on CPUs; it decides the layout of the flat array */
    enum hd_precision on_gpu;    /* precision on GPUs */
};

struct hd_net;

/* A mistake in the fields: the one that is to blame (NULL: none), the source of the layer if that
 * is "layers", and a sentence. */
struct hd_net_mistake {
    const char *field;
    const void *source;
    char message[HD_NET_MESSAGE];
};

/* Checks whether a net can be made of the fields. Returns HD_OK, HD_ERR_INPUT with the mistake in
 * *mistake_p, or HD_ERR_NOMEM (logged). */
int hd_net_find_mistake(const struct hd_net_fields *fields, struct hd_net_mistake *mistake_p);

/* Makes a net, which the caller releases by hd_net_destroy (accepts NULL). Returns HD_OK,
 * HD_ERR_NOMEM (logged), HD_ERR_INPUT (a mistake, not logged) or HD_ERR_UNSUPPORTED (this machine
 * or library, logged). */
int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p);
void hd_net_destroy(struct hd_net *net);

int64_t hd_net_count_params(const struct hd_net *net); /* floats of the flat array */
int64_t
hd_net_get_params_bytes(const struct hd_net *net);      /* bytes of an instance, a multiple of 64 */
int64_t hd_net_count_obs(const struct hd_net *net);     /* numbers of an observation */
int64_t hd_net_get_obs_bytes(const struct hd_net *net); /* bytes of an observation, u8 or float */
bool hd_net_has_u8_obs(const struct hd_net *net);       /* false of several inputs */
bool hd_net_has_inputs(const struct hd_net *net);       /* the fields have named them */
int64_t hd_net_count_actions(const struct hd_net *net);
enum hd_heads hd_net_get_heads(const struct hd_net *net);

/* Returns whether the list is of a form that DI-engine's fields describe. */
bool hd_net_is_short_form(const struct hd_net *net);

/* Returns the first layer that is computed on CPUs alone, with its source (borrowed); NULL: GPUs
 * compute the net, in all precisions. */
const struct hd_layer *hd_net_find_cpu_layer(const struct hd_net *net);

/* Returns how many numbers each row yields: a value of each action, or in actor-critic nets the
 * logit of each action, then the value of the observation. */
int64_t hd_net_count_outputs(const struct hd_net *net);

/* Returns the floats of the state that the net keeps from row to row of a sequence; 0 in nets that
 * are not recurrent. */
int64_t hd_net_count_state(const struct hd_net *net);

/* The layers of a net in preorder: the trunk's, then those of each stream. Shapes are filled in. */
struct hd_layer_list {
    struct hd_layer *layers;
    int64_t n, trunk;
    struct hd_shape obs; /* of several inputs: all their numbers */
    bool joined;         /* the inputs are those of the fields; else one, of no layers: `obs` */
    int n_inputs;
    struct hd_net_input inputs[HD_NET_INPUTS];
    int64_t frames, frame_bytes;
    struct hd_stream streams[HD_NET_STREAMS];
    int n_streams;
};

/* Returns the number of the first layer of the trunk that reads what the inputs yield. */
static inline int64_t hd_layer_list_find_trunk(const struct hd_layer_list *list)
{
    int64_t first = 0;
    for (int i = 0; i < list->n_inputs; i++)
        first += list->inputs[i].layers;
    return first;
}

/* Returns the layers of a net (borrowed). */
const struct hd_layer_list *hd_net_get_layers(const struct hd_net *net);

/* A step of a pass on CPUs: a layer, perhaps with the activation behind it. */
struct hd_net_step {
    const char *layer,
        *module;             /* the layer's type, "convert" for a change of layout; and its name */
    const char *activation;  /* NULL: none */
    char implementation[64]; /* "heddle winograd" */
    char form[32];           /* of the output: "f32 NCHW16" */
    int64_t weight_bytes, output_bytes, multiply_adds; /* the last two of one sample */
};

/* Return the number of steps; and step i of a forward pass of `rows` rows (borrowed from the
 * net). */
int hd_net_count_steps(const struct hd_net *net);
void hd_net_describe_step(const struct hd_net *net, int i, int64_t rows, struct hd_net_step *step);

/* Runs step i alone, as measurements do: forward, or backward with the gradients of its weights.
 * Memory is that of a forward and a backward pass of `rows` rows that have run. Returns HD_OK or an
 * error of hd_net_create; HD_ERR_INPUT of nets with batch norm. */
int hd_net_run_step(const struct hd_net *net, int i, const void *params, int64_t rows,
                    bool backward, void *work, void *scratch, float *grad);

/* -- Parameters -------------------------------------------------------------------------------- */

/* Return the number of tensors, and tensor i in DI-engine's order (borrowed). */
int hd_net_count_tensors(const struct hd_net *net);
const struct hd_tensor *hd_net_get_tensor(const struct hd_net *net, int i);

/* Copy tensor i between row_major[tensor's count] and an instance. Import does not refresh shadow
 * weights (hd_net_refresh). Return HD_OK, HD_ERR_NOMEM or HD_ERR_UNSUPPORTED (logged). */
int hd_net_export_tensor(const struct hd_net *net, const float *params, int i, float *row_major);
int hd_net_import_tensor(const struct hd_net *net, const float *row_major, int i, float *params);

/* Refreshes the shadow weights after floats [lo, hi), whole blocks of HD_BLOCK, have changed.
 * Different ranges may be refreshed at the same time. */
void hd_net_refresh(const struct hd_net *net, void *params, int64_t lo, int64_t hi);

/* Initialises `params`, a zeroed instance, as the field `init` says. Element j of a tensor is drawn
 * as item offset + j of rng, whatever the layout. Returns HD_OK, HD_ERR_NOMEM or HD_ERR_UNSUPPORTED
 * (logged). */
int hd_net_init(const struct hd_net *net, const struct hd_rng *rng, void *params);

/* -- Passes ------------------------------------------------------------------------------------ */

/* Makes and keeps what forward passes of `batch` rows and backward passes of `backward_batch` rows
 * need (0: none), unless it is kept already. Passes that are not prepared do so themselves. Thread
 * safe. Returns HD_OK or an error of hd_net_create. */
int hd_net_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch);

/* The rows of a pass through a recurrent net. */
struct hd_net_sequences {
    int64_t steps;       /* T: rows [i T, (i + 1) T) are sequence i, in the order of time */
    const float *state;  /* [rows / T][hd_net_count_state]: before the first row; NULL: zeros */
    const float *begins; /* [rows]: 1 where an episode begins, so that the state before this row is
                            zero; else 0. NULL: nowhere */
    float *next_state;   /* like state, written: after the last row. May be `state`; NULL: unused */
};

/* A forward pass. */
struct hd_net_pass {
    const void *params;
    const float *running; /* of nets with batch norm (hd_net_count_running), which yield NaN without
                             it; others ignore it */
    const struct hd_obs_norm *norm; /* of the observations; NULL, as with several inputs: bytes are
                                       divided by 255, floats are unchanged */
    const void *obs, *next_obs;     /* [rows] each, one after the other; next_obs NULL: obs alone */
    int64_t rows;
    bool floats; /* observations are floats, whatever the net's type: without `norm` already divided
                    by 255, as DI-engine's nets take them; not of several inputs */
    const struct hd_net_sequences *sequences; /* NULL: each row is a sequence of its own, which
                                                 begins with a state of zeros */
    void *work; /* 64-byte aligned; it holds the activations afterwards */
};

/* Return the bytes of a forward pass's work memory and of a backward pass's scratch, multiples of
 * 64, for `rows` rows (twice as many with next_obs) in sequences of `steps`; 1 in nets that are not
 * recurrent. The scratch is kept from stage to stage. */
int64_t hd_net_get_forward_bytes(const struct hd_net *net, int64_t rows, int64_t steps);
int64_t hd_net_get_backward_bytes(const struct hd_net *net, int64_t rows, int64_t steps);

/* Computes q[rows][outputs], or of twice as many rows. In nets with convolutions the bits of a
 * row's result depend also on the number of rows, in all others on that row alone, or on its
 * sequence. A backward pass that follows a pass of sequences, of all rows, goes through them back
 * in time: as far as the states at their beginnings, whose derivatives are dropped. If the library
 * fails, which is logged, q is NaN. */
void hd_net_forward(const struct hd_net *net, const struct hd_net_pass *pass, float *q);

/* The backward pass goes through stages 0 … hd_net_count_stages - 1, in this order. Stage s reads
 * the parameters and writes the gradients [*lo_p, *hi_p); stages tile the flat array in order. */
int hd_net_count_stages(const struct hd_net *net);
void hd_net_get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p);

/* Computes one stage of grad, which has the layout of the parameters' floats: the sum over rows b <
 * batch of dq[b][outputs] times the derivative of row b's output. `work` comes from a forward pass
 * of `forward_batch` rows, of which the first `batch` count. If the library fails, which is logged,
 * the stage's gradients are NaN. */
void hd_net_backward(const struct hd_net *net, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad);

/* Returns whether hd_net_backward_obs can be called: not for nets with an embedding, with batch
 * norm, with a state or with several inputs. */
bool hd_net_has_obs_gradient(const struct hd_net *net);

/* Computes dobs[batch][hd_net_count_obs], row b of it dq[b][outputs] times the derivative of row
 * b's output by the observation as the first layer gets it: after division by 255, or `norm`. Other
 * arguments are those of hd_net_backward. A row depends on that row alone. */
void hd_net_backward_obs(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs);

/* -- On a GPU ---------------------------------------------------------------------------------- */

/* Returns the bytes of a params instance on a GPU, a multiple of 64: hd_net_count_params floats,
 * then shadow weights, padded and in the precision and order in which the GPU multiplies. All
 * functions below concern the current GPU. Except for preparing, they only enqueue on `stream`, so
 * they can be captured in a CUDA graph. Pointers are to device memory, aligned to 64 bytes, unless
 * stated otherwise. Results depend on the number of rows too. Statuses are HD_OK,
 * HD_ERR_UNSUPPORTED (hd_net_find_cpu_layer finds one; no library), HD_ERR_DEVICE and HD_ERR_INPUT
 * (not prepared), all logged. */
int64_t hd_net_get_device_bytes(const struct hd_net *net);

/* Makes and keeps what passes need on the current GPU, and the algorithms for forward passes of
 * `batch` rows and backward passes of `backward_batch` rows (0: none), unless they are kept
 * already. This is the only function here that allocates memory of the GPU or waits for it. Thread
 * safe. Returns a status as above or HD_ERR_NOMEM (logged). */
int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch);

/* Refreshes the shadow weights after floats [lo, hi) have changed; all of them the first time.
 * Returns a status as above. */
int hd_net_refresh_cuda(const struct hd_net *net, void *params, int64_t lo, int64_t hi,
                        void *stream);

/* Do what hd_net_get_forward_bytes and hd_net_forward do, the last one with next_obs; `norm` itself
 * is in host memory, its scale and shift are in device memory. Return a status as above. */
int64_t hd_net_get_forward_cuda_bytes(const struct hd_net *net, int64_t batch);
int hd_net_forward_cuda(const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm, const void *obs, int64_t batch, void *work,
                        float *q, void *stream);
int hd_net_forward_pair_cuda(const struct hd_net *net, const void *params,
                             const struct hd_obs_norm *norm, const void *obs, const void *next_obs,
                             int64_t rows, void *work, float *q, void *stream);

/* Returns the number of floats of a gradient in GPU order, the order of the matrix products that
 * compute it; 0 if the net is not computed on GPUs. */
int64_t hd_net_count_gpu_gradient(const struct hd_net *net);

/* Stores the table gradient_at of kernels/common/tiles.h, or all tables that join the flat array of
 * `params`, its shadow weights and gradients in GPU order. Borrowed from net and params. Returns a
 * status as above. */
int hd_net_get_gradient_table(const struct hd_net *net, const int32_t **at_p);
int hd_net_get_tiles(const struct hd_net *net, void *params, struct hd_tiles *tiles_p);

/* Do what hd_net_get_backward_bytes and hd_net_backward do, for stages [first, last). `scratch` is
 * kept from stage to stage. With gpu_order, grad[hd_net_count_gpu_gradient] is in GPU order, and a
 * stage writes whole layers: some with floats that belong to the ranges of later stages, which then
 * write nothing. Return a status as above. */
int64_t hd_net_get_backward_cuda_bytes(const struct hd_net *net, int64_t batch);
int hd_net_backward_cuda(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int first, int last, float *grad, bool gpu_order, void *stream);

/* Return the floats of a row of dobs, which holds an observation and padding; and the bytes of
 * scratch for derivatives by observations, which only rows of floats have: 0 for other nets. */
int64_t hd_net_get_obs_cuda_ld(const struct hd_net *net);
int64_t hd_net_get_backward_obs_cuda_bytes(const struct hd_net *net, int64_t batch);

/* Does what hd_net_backward_obs does: dobs[batch][hd_net_get_obs_cuda_ld]. Returns a status as
 * above. */
int hd_net_backward_obs_cuda(const struct hd_net *net, const void *params, int64_t batch,
                             int64_t forward_batch, const void *work, const float *dq,
                             void *scratch, float *dobs, void *stream);

/* -- Training with batch norm ------------------------------------------------------------------ */

/* Return the number of levels of consecutive layers with batch norm, 0 in nets without; the number
 * of batch norms; and one of them (borrowed). */
int hd_net_count_levels(const struct hd_net *net);
int hd_net_count_norms(const struct hd_net *net);
const struct hd_net_norm *hd_net_get_norm(const struct hd_net *net, int i);

/* Return the number of floats of the running statistics of all batch norms, and initialise them
 * with means 0 and variances 1. */
int64_t hd_net_count_running(const struct hd_net *net);
void hd_net_init_running(const struct hd_net *net, float *running);

/* A training pass over the samples of one item, a part of a batch. */
struct hd_training_pass {
    const void *params;
    const struct hd_obs_norm *norm; /* NULL: observations are not normalised */
    const void *obs;                /* [batch][hd_net_get_obs_bytes] */
    int64_t batch, used;            /* rows, of which the first `used` count */
    void *work;      /* hd_net_get_training_bytes, 64-byte aligned, kept through all stages */
    float *q;        /* [batch][outputs], written in the last forward stage */
    const float *dq; /* [batch][outputs], read in the first backward stage; 0 from `used` on */
    float *grad;     /* written in the last backward stage, as by hd_net_backward */
};

/* Returns the bytes of a training pass's work memory, a multiple of 64. */
int64_t hd_net_get_training_bytes(const struct hd_net *net, int64_t batch);

/* A training pass goes forward in stages 0 … L, L being the number of levels, then backward in
 * stages 0 … L. Forward stage s < L writes sums number s, backward stage s < L sums number L + s.
 * The caller adds them over all items of the batch and gives the result as `total_sums` to the next
 * stage in the same direction. The last stage in either direction writes no sums, the first reads
 * none. hd_net_count_training_sums returns how many doubles sums number `number` has. */
int64_t hd_net_count_training_sums(const struct hd_net *net, int number);
void hd_net_training_forward(const struct hd_net *net, const struct hd_training_pass *pass,
                             int stage, const double *total_sums, double *sums);
void hd_net_training_backward(const struct hd_net *net, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums);

/* Updates running statistics by the moments of the batch, which are bitwise identical in every
 * item's pass that went forward. Returns false if the batch has fewer than two samples, in which
 * case nothing changes. */
bool hd_net_update_running(const struct hd_net *net, const struct hd_training_pass *pass,
                           float *running);
