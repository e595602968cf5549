/* SPDX-License-Identifier: Apache-2.0 */
/* Nets built from DI-engine's fields, with its parameter names and shapes (spec 2.1, 3.1):
 * FCEncoder (dense layers in plain C) for observations of one dimension, ConvEncoder (convolutions
 * through oneDNN) for those of three; then a single head, a dueling one, or those of an actor and
 * its critic. All parameters are one flat array of
 * floats, laid out as the passes like them; hd_net_import_tensor and export lead to and from
 * PyTorch's layout. A params instance is that array and then shadows of it in bf16, if the net
 * computes in bf16. Compute calls get their memory from the caller; they run on the calling thread
 * alone and are thread safe on different memory: a net is read-only once made, but for the passes
 * that it prepares under a lock. */
#ifndef HD_KERNELS_NET_NET_H
#define HD_KERNELS_NET_NET_H

#include "kernels/net/obs_norm.h"
#include "runtime/base/rng.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HD_TENSOR_NAME = 64, HD_NET_DIMS = 4, HD_NET_MESSAGE = 256 };

enum hd_precision {
    HD_F32,
    HD_BF16, /* products of bf16 with sums in f32 */
    HD_TF32  /* GPUs alone: products of floats rounded to 10 bits, sums in f32 */
};

/* What follows the encoder; a stream is a hidden layer with ReLU, as wide as the encoder's last
 * layer, and an output layer. */
enum hd_heads {
    HD_HEADS_Q,           /* one stream */
    HD_HEADS_DUELING,     /* streams A and V: q = A - mean A + V */
    HD_HEADS_ACTOR_CRITIC /* streams critic and actor (DI-engine's VAC): logits and a value */
};

/* How parameters start. Orthogonal: the rows of a weight matrix, or its columns if there are more
 * rows, are orthogonal and of length `gain` (Saxe et al. 2013), the other indices of a
 * convolution's input counting as one. */
enum hd_init {
    HD_INIT_TORCH,      /* PyTorch's default: uniform in +-1 / sqrt(fan_in), biases too */
    HD_INIT_ORTHOGONAL, /* DI-engine's PPO (spec 3.2): dense layers of gain 1 and without bias,
                           convolutions as PyTorch's default */
    HD_INIT_SCALED      /* all layers without bias and of gain sqrt 2, but for output layers: 0.01
                           for a policy's logits, 1 for values (Huang et al. 2022, detail 2) */
};

/* What stands between a hidden layer and its ReLU, of dense nets. */
enum hd_norm {
    HD_NORM_NONE,
    HD_NORM_SYNC_BATCH /* torch.nn.SyncBatchNorm over all samples of all shards */
};

/* One parameter tensor as PyTorch has it, row-major. */
struct hd_tensor {
    char name[HD_TENSOR_NAME];
    int64_t shape[HD_NET_DIMS];
    int dims;
    int64_t offset, count; /* in the list of all tensors one after another; in dense nets that list
                              is the flat array */
    int64_t fan_in;        /* of its layer; 0: a batch norm's weight or bias */
};

/* One batch norm: its module's name in PyTorch, and where its running statistics stand. */
struct hd_net_norm {
    char name[HD_TENSOR_NAME];
    int64_t features;
    int64_t mean, var; /* [features] each, in the net's running statistics */
};

struct hd_net_fields {
    int obs_dims;             /* 1: dense; 3: convolutional, [C, H, W] */
    const int64_t *obs_shape; /* [obs_dims] */
    bool obs_u8;              /* observations are bytes, which the net divides by 255 */
    int64_t actions;
    const int64_t *hidden; /* encoder_hidden_size_list */
    int64_t n_hidden;
    enum hd_heads heads;
    enum hd_norm norm;
    enum hd_init init;
    enum hd_precision precision; /* of processors; it decides how the flat array is laid out */
    enum hd_precision on_gpu;    /* and of GPUs */
};

struct hd_net;

/* Why no net can be made of the fields: a sentence in `message`, and the field that is to blame by
 * its name above; NULL: it can. */
const char *hd_net_find_mistake(const struct hd_net_fields *fields, char message[HD_NET_MESSAGE]);

/* Released by hd_net_destroy (accepts NULL). Errors: HD_ERR_NOMEM, HD_ERR_INPUT (a mistake, not
 * logged), HD_ERR_UNSUPPORTED (this machine or library, logged). */
int hd_net_create(const struct hd_net_fields *fields, struct hd_net **net_p);
void hd_net_destroy(struct hd_net *net);

int64_t hd_net_count_params(const struct hd_net *net);     /* floats of the flat array */
int64_t hd_net_get_params_bytes(const struct hd_net *net); /* of an instance, a multiple of 64 */
int64_t hd_net_count_obs(const struct hd_net *net);        /* numbers of an observation */
int64_t hd_net_get_obs_bytes(const struct hd_net *net);    /* and its bytes, u8 or float */
bool hd_net_has_u8_obs(const struct hd_net *net);
int64_t hd_net_count_actions(const struct hd_net *net);
enum hd_heads hd_net_get_heads(const struct hd_net *net);

/* Numbers that a row yields: a value of each action; of an actor and its critic the logit of each
 * action, then the value of the observation. */
int64_t hd_net_count_outputs(const struct hd_net *net);

/* -- Parameters -------------------------------------------------------------------------------- */

/* The tensors in DI-engine's order. */
int hd_net_count_tensors(const struct hd_net *net);
const struct hd_tensor *hd_net_get_tensor(const struct hd_net *net, int i);

/* row_major[tensor's count] from or to an instance; import leaves shadows as they are
 * (hd_net_refresh). HD_ERR_NOMEM. */
int hd_net_export_tensor(const struct hd_net *net, const float *params, int i, float *row_major);
int hd_net_import_tensor(const struct hd_net *net, const float *row_major, int i, float *params);

/* Renews the shadows after floats [lo, hi) changed, whole blocks of HD_BLOCK. Ranges may be renewed
 * at once. */
void hd_net_refresh(const struct hd_net *net, void *params, int64_t lo, int64_t hi);

/* As the field `init` says; element j of a tensor is drawn as item offset + j of rng, whatever the
 * layout. `params` is a zeroed instance. HD_ERR_NOMEM. */
int hd_net_init(const struct hd_net *net, const struct hd_rng *rng, void *params);

/* -- Passes ------------------------------------------------------------------------------------ */

/* Builds and keeps what forward passes of `batch` rows and backward passes of `backward_batch` rows
 * need (0: none); at once when it is there. Passes that nobody prepared do so themselves. Thread
 * safe. Errors as for create. */
int hd_net_prepare(const struct hd_net *net, int64_t batch, int64_t backward_batch);

/* Bytes of work memory, a multiple of 64, for a forward pass of `batch` observations; it holds the
 * activations afterwards. */
int64_t hd_net_get_forward_bytes(const struct hd_net *net, int64_t batch);

/* q[batch][outputs] of obs[batch][hd_net_get_obs_bytes], which enter as `norm` says (NULL: bytes
 * divided by 255, floats as they are). In dense nets a row's result depends on that row alone, by
 * bits; in convolutional ones on `batch` too. `work` is 64-byte aligned. When the library fails,
 * which is logged, q is NaN. */
void hd_net_forward(const struct hd_net *net, const void *params, const struct hd_obs_norm *norm,
                    const void *obs, int64_t batch, void *work, float *q);

/* The same of floats as DI-engine's nets take them, already divided by 255; `norm` is of these. */
void hd_net_forward_floats(const struct hd_net *net, const void *params,
                           const struct hd_obs_norm *norm, const float *obs, int64_t batch,
                           void *work, float *q);

/* One pass over 2 rows: q[rows][outputs] of obs, then of next_obs[rows]. */
void hd_net_forward_pair(const struct hd_net *net, const void *params,
                         const struct hd_obs_norm *norm, const void *obs, const void *next_obs,
                         int64_t rows, void *work, float *q);

/* As hd_net_forward, of a net with batch norm: by running statistics (hd_net_count_running). Nets
 * without it look at none; nets with it yield NaN where there are none, as in the calls above. */
void hd_net_forward_running(const struct hd_net *net, const void *params, const float *running,
                            const struct hd_obs_norm *norm, const void *obs, int64_t batch,
                            void *work, float *q);

/* Backward goes in stages 0 … hd_net_count_stages - 1, in this order. Stage s reads the parameters
 * and writes the gradients [*lo_p, *hi_p); stages tile the flat array in order. */
int hd_net_count_stages(const struct hd_net *net);
void hd_net_get_stage_range(const struct hd_net *net, int stage, int64_t *lo_p, int64_t *hi_p);

/* Bytes of scratch, a multiple of 64, kept from stage to stage, for a backward pass of `batch`
 * observations. */
int64_t hd_net_get_backward_bytes(const struct hd_net *net, int64_t batch);

/* One stage of: grad, laid out like the floats of the parameters, = sum over rows b < batch of
 * dq[b][outputs] times the derivative of row b's output. `work` is that of a forward pass of
 * `forward_batch` rows, of which the first `batch` are meant. */
void hd_net_backward(const struct hd_net *net, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad);

/* -- On a GPU ------------------------------------------------------------------------------------
 * Params instances on a GPU are other than a processor's: the same floats, hd_net_count_params of
 * them, and then a shadow of them, padded and in the precision and order in which the GPU
 * multiplies. Calls are about the current GPU and, but for preparing, only enqueue on `stream`:
 * they can be captured in a CUDA graph. Pointers are to memory of the GPU, aligned to 64 bytes,
 * unless they are said to be the host's. Results depend on the number of rows too. Errors:
 * HD_ERR_UNSUPPORTED (nets with batch norm; no library), HD_ERR_DEVICE, HD_ERR_INPUT (nobody
 * prepared), all logged. */

/* Bytes of a params instance there, a multiple of 64. */
int64_t hd_net_get_device_bytes(const struct hd_net *net);

/* Builds and keeps what passes need on the current GPU, and the choice of algorithms for forward
 * passes of `batch` rows and backward passes of `backward_batch` rows (0: none); at once when it is
 * there. The only call here that allocates memory of the GPU or waits for it. Thread safe.
 * HD_ERR_NOMEM. */
int hd_net_prepare_cuda(const struct hd_net *net, int64_t batch, int64_t backward_batch);

/* Renews the shadow after floats [lo, hi) changed; all of them the first time. */
int hd_net_refresh_cuda(const struct hd_net *net, void *params, int64_t lo, int64_t hi,
                        void *stream);

/* As hd_net_forward and hd_net_forward_pair; `norm` is the host's, its scale and shift are not. */
int64_t hd_net_get_forward_cuda_bytes(const struct hd_net *net, int64_t batch);
int hd_net_forward_cuda(const struct hd_net *net, const void *params,
                        const struct hd_obs_norm *norm, const void *obs, int64_t batch, void *work,
                        float *q, void *stream);
int hd_net_forward_pair_cuda(const struct hd_net *net, const void *params,
                             const struct hd_obs_norm *norm, const void *obs, const void *next_obs,
                             int64_t rows, void *work, float *q, void *stream);

/* As hd_net_backward, in stages [first, last). `scratch` is kept from stage to stage. */
int64_t hd_net_get_backward_cuda_bytes(const struct hd_net *net, int64_t batch);
int hd_net_backward_cuda(const struct hd_net *net, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         int first, int last, float *grad, void *stream);

/* -- Training with batch norm ------------------------------------------------------------------ */

/* Of nets that have it, in levels of layers one behind another; else 0. */
int hd_net_count_levels(const struct hd_net *net);
int hd_net_count_norms(const struct hd_net *net);
const struct hd_net_norm *hd_net_get_norm(const struct hd_net *net, int i);

/* Floats of the running statistics of all batch norms; and as they start, means 0, variances 1. */
int64_t hd_net_count_running(const struct hd_net *net);
void hd_net_init_running(const struct hd_net *net, float *running);

/* A pass over some of a batch's samples, those of an item. */
struct hd_training_pass {
    const void *params;
    const struct hd_obs_norm *norm; /* NULL: observations as they are */
    const void *obs;                /* [batch][hd_net_get_obs_bytes] */
    int64_t batch, used;            /* rows, of which the first `used` count */
    void *work;      /* hd_net_get_training_bytes, 64-byte aligned, kept throughout */
    float *q;        /* [batch][outputs], in the last stage forward */
    const float *dq; /* [batch][outputs], in the first stage back; 0 from `used` on */
    float *grad;     /* in the last stage back: as hd_net_backward's */
};

/* Bytes of its work memory, a multiple of 64. */
int64_t hd_net_get_training_bytes(const struct hd_net *net, int64_t batch);

/* It goes forward in stages 0 … L, L the levels, then back in stages 0 … L. Forward stage s < L
 * leaves sums of number s, backward stage s < L sums of number L + s: somebody adds them up over
 * all items of the batch, and what that comes to is `pooled` of the next stage in the same
 * direction. The last stage in either direction leaves none, the first is given none. */
int64_t hd_net_count_training_sums(const struct hd_net *net, int number);
void hd_net_training_forward(const struct hd_net *net, const struct hd_training_pass *pass,
                             int stage, const double *pooled, double *sums);
void hd_net_training_backward(const struct hd_net *net, const struct hd_training_pass *pass,
                              int stage, const double *pooled, double *sums);

/* Running statistics take in those of the batch, from any item's pass that went forward; they are
 * the same by bits. False: of fewer than two samples nothing is taken. */
bool hd_net_update_running(const struct hd_net *net, const struct hd_training_pass *pass,
                           float *running);

#endif
