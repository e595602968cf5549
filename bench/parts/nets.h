/* SPDX-License-Identifier: Apache-2.0 */
/* The nets that are measured, by name. One thread at a time. */
#pragma once

#include "kernels/net/net.h"

#define HD_BENCH_NETS                                                                              \
    "cartpole|pong|nature|fast|ppo|ppo_fast|impala|gru|lstm|mlp_64|mlp_256|norm_256"

/* Makes a net. The names cartpole and pong are the nets of DI-engine's DQN configs; nature has
 * convolutions of 32, 64 and 64 channels, a layer of 512 and one head; fast is a small net that
 * learns Pong; ppo is the net of DI-engine's PPO config for Pong and ppo_fast is as small as fast,
 * both with an actor and a critic. The others are lists of layers (bench/peers/net.py has the same
 * ones). Precision is "f32" or "bf16". The caller releases the net by
 * hd_net_destroy. Returns a status of hd_net_create; HD_ERR_INPUT if there is no such net or
 * precision (not logged). */
int hd_bench_net_create(const char *name, const char *precision, struct hd_net **net_p);

/* Passes through a net, with their memory. */
struct hd_bench_passes {
    const struct hd_net *net;
    int64_t rows;
    struct hd_net_sequences sequences;
    void *params, *obs, *work, *scratch;
    float *q, *dq, *grad;
};

/* Prepares passes of `rows` rows in sequences of `steps`, with random numbers; backward ones too if
 * `backward`. Memory is released by the end of the process. Returns HD_OK, HD_ERR_NOMEM or an error
 * of hd_net_create. */
int hd_bench_passes_make(const struct hd_net *net, int64_t rows, int64_t steps, bool backward,
                         struct hd_bench_passes *passes_p);

/* Run a pass in either direction, the second one after the first. */
void hd_bench_passes_forward(const struct hd_bench_passes *passes);
void hd_bench_passes_backward(const struct hd_bench_passes *passes);

/* Makes a net whose precision, also "tf32", is that of a GPU. Returns a status of hd_net_create. */
int hd_bench_net_create_for_gpu(const char *name, const char *precision, struct hd_net **net_p);
