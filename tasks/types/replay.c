/* SPDX-License-Identifier: Apache-2.0 */
/* Type `replay`: the last policy.other.replay_buffer.replay_buffer_size transitions of one shard,
 * a ring (kernels/replay.h). Attribute `size` counts them. */
#include "kernels/replay.h"

#include "runtime/base/status.h"
#include "tasks/builtin.h"
#include "tasks/types/transitions.h"

static int resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    int64_t capacity =
        hd_config_int(setup->config, "policy.other.replay_buffer.replay_buffer_size");
    HD_TRY(hd_transitions_resolve(spec, setup->config, capacity));
    spec->bytes = hd_replay_bytes(spec->shape);
    return HD_OK;
}

static const char *const counted[] = {"size", NULL};

const struct hd_type hd_type_replay = {.name = "replay", .counted = counted, .resolve = resolve};
