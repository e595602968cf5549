/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of a net. Threads as in kernels/net/net.h. */
#pragma once

#include "kernels/net/impl/impl.h"
#include "kernels/net/net_internal.h"

/* The first values are the observation's, one for each input: value 0 if it is one array. */
enum { OBS = 0, NO_VALUE = -1 };

/* A stage has at least so many floats, so that tasks and messages are not too short, and a layer
 * with more than so many is several stages. */
enum { STAGE_FLOATS = 1 << 18, MOST_STAGE_FLOATS = 1 << 22 };

/* A step of a pass, in the order of the forward pass. It reads value `in` and writes value `out`;
 * the sum at the end of a residual also reads value `skip`. */
struct op {
    const struct hd_layer *layer;           /* NULL: `out` is `in` in another form */
    struct hd_impl *impl;                   /* NULL: the layer's own operations */
    const struct hd_layer_type *activation; /* of the output, in place; NULL: none */
    int in, skip, out;
    bool part; /* it reads a part of each row of `in`, from `offset` on; other ops read the
                  other parts */
    int64_t offset;
    bool adds, adds_skip; /* derivatives by `in` and `skip` have a part already, from a later op
                             or, for `skip`, from the same one */
    bool masked, masks;   /* the activation is a ReLU, and the ops that read `out` do its backward
                             pass; the op does that for the op that wrote `in` */
    int64_t weight, bias, end; /* offsets in the flat array */
    int64_t shadow;            /* offset in the shadow weights */
    int level;                 /* number of batch norms before it */
    int64_t feature;           /* of a batch norm: its first among the features of all */
};

/* The output of a layer, or the observation. */
struct value {
    struct hd_form form;
    bool is_obs;            /* of the observation, in any form */
    int64_t before_rows;    /* bytes of a row of all values before it that are rows */
    int64_t before_columns; /* bytes of a column of all others */
};

/* Ops [first, last) and their range of the flat array; a layer that is cut has stages of its own,
 * for blocks [first_block, last_block) of its inputs each. */
struct stage {
    int first, last;
    int64_t lo, hi;
    int64_t first_block, last_block;
};

/* The way through the list. */
struct walk {
    int n_ops, n_values, n_stages;
    struct op *ops;
    struct value *values;
    struct stage *stages;                /* of a walk on CPUs */
    int of_actions, of_value;            /* values of the streams; NO_VALUE: none */
    int64_t rows, columns;               /* bytes of all values of either kind, as in a value */
    int64_t widest_rows, widest_columns; /* of the largest value of either kind */
    int front;                           /* ops [0, front) go through rows part by part */
    int64_t forward_part, backward_part; /* rows of a part */
};

/* Floats [lo, hi) of the flat array that are no tensor's. */
struct gap {
    int64_t lo, hi;
};

/* The amounts that a net has on GPUs: shadow weights in the precision and, behind them, floats;
 * floats of weights' gradients, and sums of columns, which are other gradients. */
struct gpu_places {
    int64_t narrow, wide, gradients, sums;
};

struct list_net {
    struct hd_net base;
    struct walk plain;          /* an op for each layer */
    struct walk on_cpu, on_gpu; /* made from it (rewrite.c); the latter is empty in a net that GPUs
                                   do not compute */
    struct gpu_places places;
    struct hd_frames frames[HD_NET_INPUTS]; /* what CPUs make of the arrays of the observation,
                                               unless that is columns */
    bool in_list_order; /* the flat array is the list of tensors; else it has the order in which the
                           backward pass finishes */
    struct gap *gaps;   /* [n_gaps] */
    int n_gaps;
    bool aligned;     /* tensors begin at multiples of HD_PACK_BLOCK, so that no block of a shadow
                         crosses the edge of a tensor or of a range; the gaps are zero */
    int64_t shadow;   /* bf16 elements of the shadow weights */
    int64_t features; /* of all batch norms */
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
int hd_walk_add_value(struct walk *walk, const struct hd_form *form);

/* Returns the first op that writes a value; NULL: there is none. */
const struct op *hd_walk_find_writer(const struct walk *walk, int value);

/* Gives a value another form, before an op is there that reads it. */
void hd_walk_change_form(struct walk *walk, int value, const struct hd_form *form);

/* Finds which derivatives are added, once the ops are there, and cuts stages, once they have their
 * places. Return HD_OK or HD_ERR_NOMEM. */
int hd_walk_find_added(struct walk *walk);
int hd_walk_cut_stages(const struct list_net *net, struct walk *walk);

/* Make net->on_cpu and net->on_gpu of net->plain. Return HD_OK, HD_ERR_NOMEM or HD_ERR_UNSUPPORTED
 * (logged). */
int hd_list_rewrite(struct list_net *net);
int hd_list_rewrite_cuda(struct list_net *net);

/* Chooses the first ops that go through rows part by part, so that activations are still in the
 * cache when the next op reads them. */
void hd_walk_choose_front(const struct list_net *net, struct walk *walk);

/* -- The flat array (flat.c) ------------------------------------------------------------------- */

/* Gives the ops of net->on_cpu their places. Returns HD_OK or HD_ERR_NOMEM. */
int hd_list_assign_offsets(struct list_net *net);

/* Zeroes the gaps between tensors in [lo, hi). */
void hd_list_clear_gaps(const struct list_net *net, int64_t lo, int64_t hi, float *grad);

/* Returns the shadow weights in a params instance. */
const hd_bf16 *hd_list_find_shadow(const struct list_net *net, const void *params);

/* -- Steps of passes --------------------------------------------------------------------------- */

/* Memory of `rows` samples for all values of a walk or the derivatives by them; in recurrent nets
 * then the number of steps of a sequence, and what layers with states keep; and what follows. A
 * step concerns samples [first, first + count). */
struct list_memory {
    const struct walk *walk;
    void *values;
    int64_t rows, first, count;
    bool derivatives;                         /* those by values inside the front hold one part */
    int64_t steps;                            /* of a sequence, in recurrent nets */
    const struct hd_net_sequences *sequences; /* forward; NULL as in struct hd_net_pass */
};

/* Returns the memory of a walk for all rows. */
struct list_memory hd_list_make_memory(const struct walk *walk, void *values, int64_t rows,
                                       int64_t steps);

/* Return where the samples of a value begin that are meant; what an op reads of its input, or the
 * derivatives by that; and what an op's layer keeps. */
void *hd_list_get_value(struct list_memory memory, int value);
void *hd_list_find_input(struct list_memory memory, const struct op *op);
void *hd_list_get_kept(const struct list_net *net, const struct op *op, struct list_memory memory);

/* Returns the bytes of an input's array in an observation. */
int64_t hd_list_count_array_bytes(const struct list_net *net, int value);

/* Keep the number of steps of a sequence with the values. */
void hd_list_write_steps(const struct list_net *net, struct list_memory memory);
int64_t hd_list_read_steps(const struct list_net *net, const void *values, int64_t rows);

/* Return what follows values and what layers keep, which in a backward pass is the room for one
 * more; the scratch of one op after another; and the passes of the front's implementations, with
 * their scratch. */
char *hd_list_find_end(const struct list_net *net, struct list_memory memory);
char *hd_list_find_scratch(const struct list_net *net, struct list_memory memory, bool backward);
struct hd_impl_run *hd_list_find_front(const struct list_net *net, struct list_memory memory,
                                       bool backward, char **scratch_p);

/* Returns the bytes of scratch of an op's implementation. */
int64_t hd_list_get_impl_bytes(const struct op *op, enum hd_conv_pass pass, int64_t rows);

/* Returns how many of `rows` rows are processed at a time. */
int64_t hd_list_clip_part(int64_t part, int64_t rows);

/* Returns a pass of an op's implementation, over all its blocks. */
struct hd_impl_run hd_list_make_run(const struct list_net *net, const struct op *op,
                                    const void *params, enum hd_conv_pass pass, int64_t max_rows,
                                    void *scratch);

/* Makes and begins runs[front] of a pass in parts of `part` rows, with scratch from *at_p on; and
 * ends them. Return a status as in kernels/net/net.h. */
int hd_list_begin_front(const struct list_net *net, const void *params, enum hd_conv_pass pass,
                        int64_t part, float *grad, char **at_p, struct hd_impl_run *runs);
int hd_list_end_front(const struct walk *walk, struct hd_impl_run *runs);

/* Returns a value's memory of `count` samples from `first` on, which will soon be used. */
struct hd_conv_prefetch hd_list_prefetch(struct list_memory memory, int value, int64_t first,
                                         int64_t count, bool write);

/* Adds a and b, which are in the form of a value, for the samples that are meant. */
void hd_list_add(struct list_memory memory, int value, const void *a, const void *b, void *to);

/* Copies the observations to the values. */
void hd_list_take_obs(const struct list_net *net, const struct hd_net_pass *pass,
                      struct list_memory memory);

/* Returns the arguments of an op's forward pass, for a layer without an implementation. */
struct hd_layer_run hd_list_make_forward(const struct list_net *net, const struct op *op,
                                         const float *params, struct list_memory memory);

/* Computes the activation of an op's output; an op that needs no sums; and q from the streams'
 * outputs. hd_list_forward_op returns a status as in kernels/net/net.h. */
void hd_list_activate(const struct op *op, struct list_memory memory);
int hd_list_forward_op(const struct list_net *net, const struct op *op, const float *params,
                       const float *running, struct list_memory memory);
void hd_list_combine_heads(const struct list_net *net, struct list_memory memory, float *q);

/* Computes the derivatives by the streams' outputs of those by q. */
void hd_list_split_heads(const struct list_net *net, const float *dq, struct list_memory deltas);

/* Returns the arguments of an op's backward pass likewise. */
struct hd_layer_run hd_list_make_backward(const struct list_net *net, const struct op *op,
                                          const float *params, struct list_memory values,
                                          struct list_memory deltas);

/* Goes back through an op's activation, once, before the functions below. */
void hd_list_differentiate(const struct op *op, struct list_memory values,
                           struct list_memory deltas);

/* Compute the derivatives by the values that an op reads, and by its parameters; by the
 * observations only if `obs`. A stage may cut the op; NULL: it is computed as a whole. Return a
 * status as in kernels/net/net.h. */
int hd_list_backward_data(const struct list_net *net, const struct op *op,
                          const struct stage *stage, const float *params, struct list_memory values,
                          struct list_memory deltas, bool obs);
int hd_list_backward_weights(const struct list_net *net, const struct op *op,
                             const struct stage *stage, const float *params,
                             struct list_memory values, struct list_memory deltas, float *grad);
