/* SPDX-License-Identifier: Apache-2.0 */
/* The description of a loss. A loss computes its derivative by the net's outputs for a microbatch;
 * the verb `loss_grad` passes it back through the net and adds up. A loss is one file with one
 * `const struct hd_loss`, and a row of tasks/base/policies.h.
 *
 * Threads: `prepare` is called by the thread that builds the graph; the other functions by any
 * worker, for several microbatches at once. */
#pragma once

#include "kernels/net/net.h"
#include "tasks/base/policies.h"
#include "tasks/base/registry.h"
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
    HD_LOSS_RATE,
    HD_LOSS_CRITIC1,
    HD_LOSS_CRITIC2,
    HD_LOSS_TEMPERATURE,
    HD_LOSS_TD_ERRORS,
    HD_LOSS_SCHEDULE
};

/* DI-engine's learner logs the mean of the last 11 updates (docs/di-engine.md 8.2). A loss has
 * fewer than HD_LOSS_FIELDS_MAX - 1 fields. */
enum { HD_LOSS_WINDOW = 11, HD_LOSS_FIELDS_MAX = 24 };

/* A microbatch, as a loss sees it. */
struct hd_loss_pass {
    const struct hd_net *net;
    const struct hd_view *views; /* of loss_grad's ports; stats and grad have no data */
    int64_t batch;               /* rows of the batch */
    int64_t first, rows;         /* the microbatch is rows [first, first + rows) of the batch */
    void *header;     /* of header_bytes: an int64_t, the number of rows that count (these are the
                         first ones), then what the loss keeps for `sum` */
    const float *out; /* [rows][outputs] of the net for the observations, then, with
                         HD_LOSS_OBS_AND_NEXT, as many for the next observations */
    const float *target_next; /* [rows][outputs] of the target net for the next observations */
    float *dout;              /* [rows][outputs]: filled by `differentiate` */
    void *scratch;            /* of the loss's scratch_bytes, or those on a GPU */
    const struct hd_rng *rng; /* the step's stream, in memory that a GPU addresses too */
    float *td_errors;         /* [rows]: filled by it with squared errors; NULL: not wanted */
    void *stream;             /* CUDA stream; NULL on a CPU */
};

/* Return the number of rows that count, and the address at which a GPU finds it. */
static inline int64_t hd_loss_get_used(const struct hd_loss_pass *pass)
{
    return *(const int64_t *)pass->header;
}

static inline const int64_t *hd_loss_get_used_address(const struct hd_loss_pass *pass)
{
    return pass->header;
}

/* The observations of each row that go through the net in one pass. */
enum hd_loss_passes { HD_LOSS_OBS = 1, HD_LOSS_OBS_AND_NEXT = 2 };

/* The observations of a batch, [rows][obs_bytes]; next_obs: NULL if the batch has none. The states
 * of a recurrent net: those before its sequences of `steps` rows, and where episodes begin (struct
 * hd_net_sequences). */
struct hd_loss_rows {
    const void *obs, *next_obs;
    int64_t steps; /* 0: the net is not recurrent */
    const float *state, *begins;
};

/* A type of batch that losses take. */
struct hd_loss_batch {
    const char *type;
    /* Returns the address at which a batch holds the number of its rows that count. */
    const int64_t *(*get_used)(const struct hd_view *batch);
    struct hd_loss_rows (*get_rows)(const struct hd_view *batch);
};

extern const struct hd_loss_batch hd_loss_batch, hd_loss_critic_batch, hd_loss_minibatch;

struct hd_loss {
    const char *name; /* for `loss:` in graphs */
    const struct hd_loss_batch *batch;
    bool target;    /* needs a target net's outputs for next observations */
    bool critics;   /* needs critics and a temperature, through which it goes by itself */
    bool td_errors; /* of a temporal-difference error, by which policy.priority may draw rows */
    enum hd_loss_passes passes;
    const struct hd_scalar_field *fields; /* of its statistics; loss_grad adds the learning rate */
    int n_fields;
    const char *rate_name, *rate_key; /* the statistic that is the learning rate, and its key below
                                         policy.learn; NULL: cur_lr_avg, learning_rate */
    /* Makes *args_p, the `args` of the other functions, freed by hd_free, for microbatches of
     * `rows` rows. Returns HD_OK, HD_ERR_INPUT after adding mistakes to setup->diag, or another
     * error (logged). */
    int (*prepare)(const struct hd_setup *setup, const struct hd_net *net, int64_t rows,
                   void **args_p);
    int64_t header_bytes;
    /* Returns the bytes of pass->scratch. NULL: none. */
    int64_t (*scratch_bytes)(const void *args);
    /* Fills pass->dout with the derivative of the sum of the loss over the rows that count, and
     * zeros for other rows; writes the header. */
    void (*differentiate)(const void *args, const struct hd_loss_pass *pass);
    /* Does this on a GPU: queues work that depends on the addresses in *pass alone. Returns HD_OK
     * or HD_ERR_DEVICE (logged). */
    int (*differentiate_on_gpu)(const void *args, const struct hd_loss_pass *pass);
    /* Returns the bytes of its pass->scratch; and prepares the present GPU, once before the first
     * of them (a status, logged). NULL: none; nothing. */
    int64_t (*scratch_bytes_on_gpu)(const void *args);
    int (*ready_on_gpu)(const void *args);
    /* Computes the values[n_fields] of a batch's statistics and their weights[n_fields] in means
     * over shards, from the headers[items] of its microbatches. Returns the loss, summed over rows.
     */
    double (*sum)(const void *args, void *const *headers, int64_t items, double *values,
                  double *weights);
};

#define HD_LOSS_DECLARE(name, ...) extern const struct hd_loss hd_loss_##name
HD_POLICIES(HD_LOSS_DECLARE, ;);
HD_OTHER_LOSSES(HD_LOSS_DECLARE, ;);

/* Sets values[n] to sums over `rows` rows divided by their number, with the weights[n] of a batch
 * that has rows. */
static inline void hd_loss_average(int n, const double *sums, double rows, double *values,
                                   double *weights)
{
    for (int i = 0; i < n; i++) {
        values[i] = rows > 0 ? sums[i] / rows : 0;
        weights[i] = rows > 0;
    }
}

/* Returns the loss that the step's option `loss` names. Thread safe. */
const struct hd_loss *hd_loss_find(const struct hd_setup *setup);
