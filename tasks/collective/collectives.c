/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that change a value's placement, `barrier` and `stop`. The runtime carries them out;
 * their stream ids are constants like those of all verbs. */
#include "kernels/learn/rounding.h"
#include "tasks/base/builtin.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"

#include <string.h>

static const struct hd_port ports[] = {
    {"from", NULL, .mode = HD_READ, .none = true},
    {"to", NULL, .mode = HD_WRITE},
    {0},
};

static int collectives_declare(const struct hd_setup *setup)
{
    struct hd_spec *from = setup->specs[0], *to = setup->specs[1];
    if (from->type != to->type)
        return 0;
    if (from->type == &hd_type_moments)
        return hd_moments_declare_like(setup, to, from);
    return from->type == &hd_type_scalars ? hd_scalars_declare_like(setup, to, from) : 0;
}

const struct hd_verb hd_verb_sum = {
    .name = "sum",
    .stream_id = 0x7387636ba3e92f70,
    .kind = HD_VERB_COLLECTIVE,
    .combine = HD_SUM,
    .ports = ports,
    .by_bucket = true,
    .declare = collectives_declare,
    .help = "adds the instances of all shards in the fixed tree",
};

/* -- Means that are rounded -------------------------------------------------------------------- */

enum { FROM, TO, RESIDUAL };

static const struct hd_port mean_ports[] = {
    [FROM] = {"from", NULL, .mode = HD_READ, .none = true},
    [TO] = {"to", NULL, .mode = HD_WRITE},
    [RESIDUAL] = {"residual", "residual", .mode = HD_UPDATE, .optional = true},
    {0},
};

static const struct hd_option mean_options[] = {{"exchange", "f32|bf16|f16|int8", false}, {0}};

/* NCCL adds floats, and not in the fixed tree. */
static int refuse_nccl(const struct hd_setup *setup, const char *exchange)
{
    const char *nearest, *key = "runtime.reduction";
    const char *reduction = hd_config_find_text(setup->config, key, &nearest);
    if (!reduction || strcmp(reduction, "nccl") != 0)
        return HD_OK;
    return hd_diag_add_error(setup->diag, hd_config_get_node(setup->config, key)->location,
                             "%s: NCCL adds gradients in f32, and not in the tree whose nodes are "
                             "rounded to %s: leave it deterministic, or exchange in f32",
                             key, exchange);
}

/* A rounded mean stores how many samples it is of, for which only gradients have room. */
static bool can_round(const struct hd_spec *from)
{
    return from->type->weight && from->type->reduction && from->type->reduction->count;
}

static int mean_prepare(const struct hd_setup *setup, void **args_p)
{
    const char *exchange = hd_setup_get_option(setup, "exchange");
    const struct hd_rounding *rounding = exchange ? hd_rounding_find(exchange) : NULL;
    const struct hd_spec *from = setup->specs[FROM], *residual = setup->specs[RESIDUAL];
    if (rounding && !can_round(from))
        return hd_diag_add_error(setup->diag, setup->location,
                                 "mean: only gradients are exchanged in %s, and '%s' is of type %s",
                                 exchange, from->name, from->type->name);
    if (residual && !rounding)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "mean: '%s' is what rounding takes, and an exchange in f32 rounds "
                                 "nothing: choose bf16, f16 or int8",
                                 residual->name);
    if (residual && residual->of != from->of)
        return hd_diag_add_error(setup->diag, setup->location,
                                 "mean: '%s' is made of '%s', but '%s' of '%s'", residual->name,
                                 residual->of->name, from->name, from->of->name);
    *args_p = (void *)rounding;
    return rounding ? refuse_nccl(setup, exchange) : HD_OK;
}

static void mean_release(void *args)
{
    (void)args;
}

const struct hd_verb hd_verb_mean = {
    .name = "mean",
    .stream_id = 0x023c0ae2199663e8,
    .kind = HD_VERB_COLLECTIVE,
    .combine = HD_MEAN,
    .ports = mean_ports,
    .options = mean_options,
    .by_bucket = true,
    .declare = collectives_declare,
    .prepare = mean_prepare,
    .release = mean_release,
    .help =
        "averages the instances of all shards by their weights, gradients rounded as the option "
        "`exchange` says",
};

/* ---------------------------------------------------------------------------------------------- */

const struct hd_verb hd_verb_max = {
    .name = "max",
    .stream_id = 0x8e6001f85d23c02f,
    .kind = HD_VERB_COLLECTIVE,
    .combine = HD_MAX,
    .ports = ports,
    .by_bucket = true,
    .declare = collectives_declare,
    .help = "takes the maximum over all shards, element by element",
};

const struct hd_verb hd_verb_min = {
    .name = "min",
    .stream_id = 0xce729c6e1db4cfc1,
    .kind = HD_VERB_COLLECTIVE,
    .combine = HD_MIN,
    .ports = ports,
    .by_bucket = true,
    .declare = collectives_declare,
    .help = "takes the minimum over all shards, element by element",
};

static const struct hd_option reduce_options[] = {{"op", "mean|sum|max|min", true}, {0}};

const struct hd_verb hd_verb_reduce = {
    .name = "reduce",
    .stream_id = 0x7304ff843415c37d,
    .kind = HD_VERB_COLLECTIVE,
    .to_rank0 = true,
    .ports = ports,
    .options = reduce_options,
    .by_bucket = true,
    .declare = collectives_declare,
    .help = "combines the instances of all shards on rank 0, as the option `op` says",
};

const struct hd_verb hd_verb_broadcast = {
    .name = "broadcast",
    .stream_id = 0xe2f182bdd291b536,
    .kind = HD_VERB_BROADCAST,
    .ports = ports,
    .declare = collectives_declare,
    .help = "copies the instance of rank 0, or of shard 0, to every rank",
};

static const struct hd_port no_ports[] = {{0}};

const struct hd_verb hd_verb_barrier = {
    .name = "barrier",
    .stream_id = 0x9322e851fd60c073,
    .kind = HD_VERB_BARRIER,
    .ports = no_ports,
    .help = "waits until every rank has reached this step",
};

static const struct hd_port stop_ports[] = {
    {"value", NULL, .mode = HD_READ, .none = true},
    {0},
};

const struct hd_verb hd_verb_stop = {
    .name = "stop",
    .stream_id = 0x00194eb9d5e9a9c0,
    .kind = HD_VERB_STOP,
    .ports = stop_ports,
    .many = true,
    .help = "ends the run when the condition `if` holds",
};
