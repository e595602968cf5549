/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the verb loss_grad: loss_grad.c checks the config and writes statistics,
 * loss_grad_item.c lays out a microbatch's memory, loss_grad_cpu.c and loss_grad_gpu.c run stages.
 * Thread safe for different items. */
#pragma once

#include "tasks/learn/learning_rate.h"
#include "tasks/learn/losses/loss.h"

/* The task object. */
struct hd_loss_grad {
    const struct hd_loss *loss;
    void *loss_args; /* made by the loss's `prepare` */
    const struct hd_net *net;
    int64_t batch, micro, items; /* rows of a batch, rows of a microbatch, microbatches */
    int backward_stages;
    int64_t steps; /* of a recurrent net's sequences; else 0 */
    int buckets;   /* of the gradient */
    int levels;    /* of batch norms; 0: the net has none */
    bool skips;    /* runtime.on_nan is skip */
    struct hd_scheduled rate;
    float *learns; /* policy.learn.freeze; NULL: all parameters learn */
};

/* Where the arrays of one item, a microbatch, lie. */
struct hd_loss_item {
    void *header;                    /* the loss's, see struct hd_loss_pass */
    float *out, *target_next, *dout; /* as in struct hd_loss_pass */
    char *forward, *backward;
};

/* Returns the rows of the forward pass whose activations the backward pass needs. */
int64_t hd_loss_grad_count_forward_rows(const struct hd_loss_grad *args);

/* Sets *item_p to an item's arrays in `memory` and returns the bytes that they take (memory NULL:
 * counts only). The net's passes take forward_bytes and backward_bytes of them. */
int64_t hd_loss_item_lay_out(const struct hd_loss_grad *args, int64_t forward_bytes,
                             int64_t backward_bytes, void *memory, void *header,
                             struct hd_loss_item *item_p);

/* Returns what the loss is given of item i. */
struct hd_loss_pass hd_loss_item_make_pass(const struct hd_loss_grad *args,
                                           const struct hd_view *views, int64_t i,
                                           const struct hd_loss_item *item);

/* The operands of a microbatch's forward passes. */
struct hd_loss_operands {
    const void *policy, *target;       /* parameters */
    const void *obs, *next_obs;        /* [rows][obs_bytes] */
    struct hd_net_sequences sequences; /* of a recurrent net */
};

/* Returns where they are. Borrowed from the views. */
struct hd_loss_operands hd_loss_pass_get_operands(const struct hd_loss_grad *args,
                                                  const struct hd_loss_pass *pass);

/* Returns whether the loss that an item's header holds is a finite number. */
bool hd_loss_item_is_finite(const struct hd_loss_grad *args, void *header);

/* The verb's body on a CPU and its subtasks; `args` is a struct hd_loss_grad. See struct hd_verb.
 * The body returns HD_OK. */
int hd_loss_grad_run_stage(struct hd_context *context, const struct hd_view *views,
                           const void *args);
void hd_loss_grad_get_subtasks(const void *args, struct hd_subtasks *subtasks_p);
void hd_loss_grad_get_stage_range(const void *args, int stage, int64_t *lo_p, int64_t *hi_p);
int64_t hd_loss_grad_count_cross_shard_sums(const void *args, int stage);

/* Adds the moments of the whole batch to the running statistics in `stats`, after the last stage.
 * They are sums over all shards, so every shard's statistics stay equal. `memory` is any item's. */
void hd_loss_grad_update_running_stats(const struct hd_loss_grad *args, const struct hd_view *stats,
                                       void *memory);

extern const struct hd_gpu_verb hd_loss_grad_on_gpu; /* in builds with CUDA */

/* Returns HD_OK, or HD_ERR_INPUT after adding a mistake to setup->diag: policy.cuda requires a GPU
 * for what runs on CPUs only. */
int hd_loss_grad_check_gpu(const struct hd_setup *setup, const struct hd_loss_grad *args);
