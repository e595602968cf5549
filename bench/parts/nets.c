/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/parts/nets.h"

#include "runtime/base/status.h"

#include <string.h>

static const struct {
    const char *name;
    int dims;
    int64_t shape[3], actions, hidden[4], n_hidden;
    enum hd_heads heads;
} nets[] = {
    {"cartpole", 1, {4}, 2, {128, 128, 64}, 3, HD_HEADS_DUELING},
    {"pong", 3, {4, 84, 84}, 6, {128, 128, 512}, 3, HD_HEADS_DUELING},
    {"nature", 3, {4, 84, 84}, 6, {32, 64, 64, 512}, 4, HD_HEADS_Q},
    {"ppo", 3, {4, 84, 84}, 6, {64, 64, 128}, 3, HD_HEADS_ACTOR_CRITIC},
    {"ppo_fast", 3, {4, 84, 84}, 6, {16, 32, 32, 256}, 4, HD_HEADS_ACTOR_CRITIC},
    {"fast", 3, {4, 84, 84}, 6, {16, 32, 32, 256}, 4, HD_HEADS_DUELING},
};

static int make(const char *name, enum hd_precision precision, enum hd_precision on_gpu,
                struct hd_net **net_p)
{
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        if (strcmp(nets[i].name, name) == 0) {
            const struct hd_net_fields fields = {.obs_dims = nets[i].dims,
                                                 .obs_shape = nets[i].shape,
                                                 .obs_u8 = nets[i].dims == 3,
                                                 .actions = nets[i].actions,
                                                 .hidden = nets[i].hidden,
                                                 .n_hidden = nets[i].n_hidden,
                                                 .heads = nets[i].heads,
                                                 .precision = precision,
                                                 .on_gpu = on_gpu};
            return hd_net_create(&fields, net_p);
        }
    return HD_ERR_INPUT;
}

int hd_bench_net_create(const char *name, const char *precision, struct hd_net **net_p)
{
    const bool bf16 = strcmp(precision, "bf16") == 0;
    if (!bf16 && strcmp(precision, "f32") != 0)
        return HD_ERR_INPUT;
    return make(name, bf16 ? HD_BF16 : HD_F32, HD_F32, net_p);
}

int hd_bench_net_create_for_gpu(const char *name, const char *precision, struct hd_net **net_p)
{
    static const char *const names[] = {[HD_F32] = "f32", [HD_BF16] = "bf16", [HD_TF32] = "tf32"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (strcmp(precision, names[i]) == 0)
            return make(name, HD_F32, (enum hd_precision)i, net_p);
    return HD_ERR_INPUT;
}
