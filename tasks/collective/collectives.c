/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs that change a value's placement, `barrier` and `stop`. The runtime carries them out;
 * their stream ids are constants like those of all verbs. */
#include "tasks/base/builtin.h"
#include "tasks/types/output/moments.h"
#include "tasks/types/output/scalars.h"

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

const struct hd_verb hd_verb_mean = {
    .name = "mean",
    .stream_id = 0x023c0ae2199663e8,
    .kind = HD_VERB_COLLECTIVE,
    .combine = HD_MEAN,
    .ports = ports,
    .by_bucket = true,
    .declare = collectives_declare,
    .help = "averages the instances of all shards by their weights",
};

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
