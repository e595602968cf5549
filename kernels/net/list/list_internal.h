/* SPDX-License-Identifier: Apache-2.0 */
/* A net of any layers. CPUs compute it in f32. Threads as in kernels/net/net.h. */
#ifndef HD_KERNELS_NET_LIST_LIST_INTERNAL_H
#define HD_KERNELS_NET_LIST_LIST_INTERNAL_H

#include "kernels/net/net_internal.h"

enum { OBS = 0, NO_VALUE = -1 };

/* A stage has at least so many floats, so that tasks and messages are not too short. A net with
 * fewer has one, and its flat array the order of the list. */
enum { STAGE_FLOATS = 1 << 18 };

/* A step of a pass, in the order of the forward pass. It reads value `in` and writes value `out`;
 * the sum at the end of a residual also reads value `skip`. */
struct op {
    const struct hd_layer *layer;           /* NULL: `out` is `in` in the other form */
    const struct hd_layer_type *activation; /* of the output, in place; NULL: none */
    int in, skip, out;
    bool adds, adds_skip; /* derivatives by `in` and `skip` have a part already, from a later op
                             or, for `skip`, from the same one */
    bool masked, masks;   /* the activation is a ReLU, and the ops that read `out` do its backward
                             pass; the op does that for the op that wrote `in` */
    int64_t weight, bias, end; /* offsets in the flat array */
    int level;                 /* number of batch norms before it */
    int64_t feature;           /* of a batch norm: its first among the features of all */
};

/* The output of a layer, or the observation, as rows or columns (layers/layer.h). */
struct value {
    int64_t elements;
    bool columns;
    bool is_obs;                         /* the observation, in either form */
    int64_t before_rows, before_columns; /* elements of all values of either form before it */
};

/* Ops [first, last) and their range of the flat array. */
struct stage {
    int first, last;
    int64_t lo, hi;
};

/* The way through the list. */
struct walk {
    int n_ops, n_values, n_stages;
    struct op *ops;
    struct value *values;
    struct stage *stages;                /* of a walk on CPUs */
    int of_actions, of_value;            /* values of the streams; NO_VALUE: none */
    int64_t rows, columns;               /* elements of all values of either form */
    int64_t widest_rows, widest_columns; /* of the largest value of either form */
};

/* The flat array has the order in which the backward pass finishes: the tensors of the last op
 * first; unless the base says `in_list_order`. */
struct list_net {
    struct hd_net base;
    struct walk plain;  /* an op for each layer, all values as rows: for GPUs */
    struct walk on_cpu; /* made from it (rewrite.c) */
    int64_t features;   /* of all batch norms */
};

static inline const struct list_net *as_list(const struct hd_net *net)
{
    return (const struct list_net *)net;
}

/* -- Walks (walk.c) ---------------------------------------------------------------------------- */

/* Allocates a walk for so many ops and values. Returns HD_OK or HD_ERR_NOMEM; hd_walk_release frees
 * what there is. */
int hd_walk_allocate(struct walk *walk, int64_t ops, int64_t values);
void hd_walk_release(struct walk *walk);

/* Adds a value, and returns its number. */
int hd_walk_add_value(struct walk *walk, int64_t elements, bool columns);

/* Complete a walk whose ops and values are added: which derivatives are added, and its stages.
 * Return HD_OK or HD_ERR_NOMEM. */
int hd_walk_find_added(struct walk *walk);
int hd_walk_cut_stages(const struct hd_net *base, struct walk *walk);

/* Makes net->on_cpu of net->plain. Returns HD_OK or HD_ERR_NOMEM. */
int hd_list_rewrite(struct list_net *net);

/* -- Functions of struct hd_net_ops ------------------------------------------------------------ */

/* Forward passes, with a status as in kernels/net/net.h. The work memory holds all values, then the
 * scratch of a layer. */
int64_t hd_list_get_forward_bytes(const struct hd_net *base, int64_t batch);
int hd_list_forward(const struct hd_net *base, const void *params, const struct hd_net_rows *rows,
                    void *work, float *q);

/* Backward passes, with a status as in kernels/net/net.h. The scratch holds the derivatives by all
 * values, then room for one more, then the scratch of a layer. */
int64_t hd_list_get_backward_bytes(const struct hd_net *base, int64_t batch);
int64_t hd_list_get_sequences_forward_bytes(const struct hd_net *base, int64_t batch,
                                            int64_t steps);
int64_t hd_list_get_sequences_backward_bytes(const struct hd_net *base, int64_t batch,
                                             int64_t steps);
int hd_list_backward(const struct hd_net *base, const void *params, int64_t batch,
                     int64_t forward_batch, const void *work, const float *dq, void *scratch,
                     int stage, float *grad);
int hd_list_backward_obs(const struct hd_net *base, const void *params, int64_t batch,
                         int64_t forward_batch, const void *work, const float *dq, void *scratch,
                         float *dobs);

/* Training passes of lists with batch norm (training.c). */
int64_t hd_list_get_training_bytes(const struct hd_net *base, int64_t batch);
int64_t hd_list_count_training_sums(const struct hd_net *base, int number);
void hd_list_training_forward(const struct hd_net *base, const struct hd_training_pass *pass,
                              int stage, const double *total_sums, double *sums);
void hd_list_training_backward(const struct hd_net *base, const struct hd_training_pass *pass,
                               int stage, const double *total_sums, double *sums);
bool hd_list_update_running(const struct hd_net *base, const struct hd_training_pass *pass,
                            float *running);

/* -- Steps of passes --------------------------------------------------------------------------- */

/* Memory of `rows` samples for all values of a walk or the derivatives by them; in recurrent nets
 * then the number of steps of a sequence, and what layers with states keep; and what follows. */
struct list_memory {
    const struct walk *walk;
    float *values;
    int64_t rows;
    int64_t steps;                            /* of a sequence, in recurrent nets */
    const struct hd_net_sequences *sequences; /* forward; NULL as in struct hd_net_rows */
};
float *hd_list_get_value(struct list_memory memory, int value);

/* Return the floats of a value, of all values, and of all with room for one more. */
int64_t hd_list_count_value(const struct value *value, int64_t rows);
int64_t hd_list_count_values(const struct walk *walk, int64_t rows);
int64_t hd_list_count_deltas(const struct walk *walk, int64_t rows);

/* Copies the observations to the values. */
void hd_list_take_obs(const struct list_net *net, const struct hd_net_rows *rows,
                      struct list_memory memory);

/* Returns the arguments of an op's forward pass over all rows of the memory. */
struct hd_layer_run hd_list_make_forward(const struct list_net *net, const struct op *op,
                                         const float *params, struct list_memory memory);

/* Computes the activation of an op's output; an op that needs no sums; and q from the streams'
 * outputs. */
void hd_list_activate(const struct op *op, struct list_memory memory);
void hd_list_forward_op(const struct list_net *net, const struct op *op, const float *params,
                        const float *running, struct list_memory memory);
void hd_list_combine_heads(const struct list_net *net, struct list_memory memory, float *q);

/* Computes the derivatives by the streams' outputs of those by q. */
void hd_list_split_heads(const struct list_net *net, const float *dq, struct list_memory deltas);

/* Returns the arguments of an op's backward pass over all rows of the deltas. */
struct hd_layer_run hd_list_make_backward(const struct list_net *net, const struct op *op,
                                          const float *params, struct list_memory values,
                                          struct list_memory deltas);

/* Goes back through an op's activation, once, before the functions below. */
void hd_list_differentiate(const struct op *op, struct list_memory values,
                           struct list_memory deltas);

/* Compute the derivatives by the values that an op reads, and by its parameters; by the
 * observations only if `obs`. */
void hd_list_backward_data(const struct list_net *net, const struct op *op, const float *params,
                           struct list_memory values, struct list_memory deltas, bool obs);
void hd_list_backward_weights(const struct list_net *net, const struct op *op, const float *params,
                              struct list_memory values, struct list_memory deltas, float *grad);

#endif
