/* SPDX-License-Identifier: Apache-2.0 */
/* Losses: what the verb `loss_grad` needs to know of one. It differentiates itself by the net's
 * outputs for a microbatch; loss_grad does the rest. */
#ifndef HD_TASKS_LEARN_LOSSES_LOSS_H
#define HD_TASKS_LEARN_LOSSES_LOSS_H

#include "kernels/net/net.h"
#include "tasks/registry.h"
#include "tasks/types/output/scalars.h"

/* Ports of loss_grad. */
enum hd_loss_port {
    HD_LOSS_POLICY,
    HD_LOSS_TARGET,
    HD_LOSS_BATCH,
    HD_LOSS_STATS,
    HD_LOSS_GRAD,
    HD_LOSS_NORM,
    HD_LOSS_BATCH_NORM_STATS,
    HD_LOSS_RATE
};

/* DI-engine's learner shows the mean of the last 11 updates (spec 8.2). */
enum { HD_LOSS_WINDOW = 11, HD_LOSS_FIELDS_MAX = 24 };

/* A microbatch under way. */
struct hd_loss_pass {
    const struct hd_net *net;
    const struct hd_view *views; /* of loss_grad's ports; stats and grad have no data here */
    int64_t batch;               /* rows of the batch */
    int64_t first, rows;         /* of them, those of this microbatch */
    void *forward;               /* work memory of the net's forward pass */
    void *loss_work;             /* the loss's, `loss_work_bytes` */
    void *header;     /* the loss's, `header_bytes`: what `sum` takes from it. It starts with
                       an int64_t: of the rows, those that count, the first ones */
    const float *out; /* [rows][outputs] of the net, for losses that have `obs` */
    float *dout;      /* [rows][outputs]: to be filled */
    void *stream;     /* on a GPU */
};

/* Of the rows, those that count: known on the host; where a GPU finds it. */
static inline int64_t hd_loss_get_used(const struct hd_loss_pass *pass)
{
    return *(const int64_t *)pass->header;
}

static inline const int64_t *hd_loss_get_used_address(const struct hd_loss_pass *pass)
{
    return pass->header;
}

/* Rows of the forward pass whose activations go back, per row of the batch. */
enum hd_loss_passes { HD_LOSS_OBS = 1, HD_LOSS_OBS_AND_NEXT = 2 };

struct hd_loss {
    const char *name;
    const char *batch; /* type of the batch that it takes */
    bool target;       /* needs a target net */
    enum hd_loss_passes passes;
    const struct hd_scalar_field *fields; /* of the statistics, beside the learning rate */
    int n_fields;
    /* Mistakes in the config go to setup->diag. Released by hd_free. */
    int (*prepare)(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p);
    int64_t header_bytes;
    int64_t (*loss_work_bytes)(const struct hd_net *net, int64_t rows); /* NULL: none */
    /* Where the batch says how many of its rows count, the first ones. */
    const int64_t *(*used)(const struct hd_view *batch);
    /* The observations of the microbatch's rows. One pass over these is all that the loss needs,
     * and loss_grad makes it. NULL: `differentiate` makes its own passes, the last one that which
     * goes back. */
    const void *(*obs)(const struct hd_loss_pass *pass);
    /* Fills pass->dout with the derivative of the SUM of the loss over the microbatch's rows that
     * count; the others' derivatives are zero. */
    void (*differentiate)(const void *args, const struct hd_loss_pass *pass);
    /* The same on a GPU: queues, by the addresses in *pass alone, and returns a status. */
    int (*differentiate_on_gpu)(const void *args, const struct hd_loss_pass *pass);
    /* The statistics of a batch from its microbatches' headers, and the weights that they have in
     * means; returns the loss. */
    double (*sum)(const void *args, void *const *headers, int64_t items, double *values,
                  double *weights);
};

extern const struct hd_loss hd_loss_bc, hd_loss_dqn, hd_loss_ppo;

/* Returns the loss that the step's option `loss` names. */
const struct hd_loss *hd_loss_find(const struct hd_setup *setup);

#endif
