/* SPDX-License-Identifier: Apache-2.0 */
/* The nets that are measured, by name. */
#ifndef HD_BENCH_PARTS_NETS_H
#define HD_BENCH_PARTS_NETS_H

#include "kernels/net/net.h"

#define HD_BENCH_NETS "cartpole|pong|nature|fast|ppo|ppo_fast"

/* cartpole and pong: DI-engine's DQN configs; nature: convolutions of 32, 64 and 64 channels and a
 * layer of 512, one head; fast: a small net that learns Pong; ppo: of DI-engine's PPO config for
 * Pong, ppo_fast: as fast, both with an actor and a critic. Precision: "f32" or "bf16". Released by
 * hd_net_destroy. HD_ERR_INPUT: no such net or precision (not logged). */
int hd_bench_net_create(const char *name, const char *precision, struct hd_net **net_p);

/* The same, "tf32" too, of what a GPU computes in. */
int hd_bench_net_create_for_gpu(const char *name, const char *precision, struct hd_net **net_p);

#endif
