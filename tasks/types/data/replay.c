/* SPDX-License-Identifier: Apache-2.0 */
/* Type `replay`: a ring of the last policy.other.replay_buffer.replay_buffer_size transitions of
 * one shard and the frames that they need (kernels/replay/replay.h). Its attribute `size` counts
 * the transitions. */
#include "kernels/replay/replay.h"

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"
#include "tasks/base/builtin.h"
#include "tasks/types/base/actions.h"
#include "tasks/types/base/obs.h"
#include "tasks/types/collect/surplus.h"
#include "tasks/types/collect/transition_block.h"

/* The part that bodies see comes first. */
struct shape {
    struct hd_replay_shape ring;
    struct hd_env_actions actions;
};

static const struct hd_field keys[] = {
    HD_FIELD(struct hd_replay_shape, capacity, "policy.other.replay_buffer.replay_buffer_size"),
    HD_FIELD(struct hd_replay_shape, envs, "env.collector_env_num"),
    HD_FIELD(struct hd_replay_shape, nstep, "policy.nstep"),
    {0},
};

/* Returns how many frames of each env to keep. The transitions of a full ring come from `blocks`
 * transition blocks and begin at most `before` frames earlier. If it costs little, the capacity is
 * for all frames that these blocks can have; else for the frames of long episodes, plus a share
 * (frame_slack) for first frames of episodes and frames of dropped transitions. */
static int64_t frames_of_env(const struct hd_config *config, int64_t capacity)
{
    enum { LITTLE = 64 << 20 };
    const struct hd_transition_block_shape block = hd_transition_block_shape_read(config);
    int64_t blocks = (capacity + block.n_sample - 1) / block.n_sample + 1;
    int64_t before = block.fragment + block.stack;
    if (hd_surplus_read(config, true) == HD_SURPLUS_KEEP)
        before += block.frames_of_env; /* a sample waits for one collect that steps envs */
    int64_t any = blocks * block.frames_of_env + before;
    if (any <= LITTLE / (block.envs * block.frame_bytes))
        return any;
    const double slack = hd_config_get_real(config, "policy.other.replay_buffer.frame_slack");
    int64_t usual = (int64_t)((double)(blocks * block.fragment) * (1 + slack)) + before;
    if (usual < 2 * block.frames_of_env + before)
        usual = 2 * block.frames_of_env + before;
    return any < usual ? any : usual;
}

static int replay_resolve(struct hd_spec *spec, const struct hd_setup *setup)
{
    const struct hd_config *config = setup->config;
    const struct hd_obs_shape obs = hd_obs_shape_read(config);
    struct shape *whole = hd_alloc(1, sizeof *whole);
    if (!whole)
        return HD_ERR_NOMEM;
    struct hd_replay_shape *shape = &whole->ring;
    whole->actions = hd_actions_read(config);
    hd_config_read(config, keys, shape);
    shape->frames = frames_of_env(config, shape->capacity);
    shape->frame_bytes = obs.frame_bytes;
    shape->stack = obs.stack;
    shape->dims = whole->actions.dims;
    spec->shape = whole;
    spec->bytes = hd_replay_get_bytes(shape);
    return HD_OK;
}

static int replay_check(const struct hd_spec *spec, const void *data,
                        char message[HD_NUMBERS_MESSAGE])
{
    const struct shape *shape = spec->shape;
    return hd_replay_check(&shape->ring, &shape->actions, data, message);
}

static const char *const counted[] = {"size", NULL};

const struct hd_type hd_type_replay = {.name = "replay",
                                       .used_by_updates = true,
                                       .size_key = "policy.other.replay_buffer.replay_buffer_size",
                                       .counted = counted,
                                       .resolve = replay_resolve,
                                       .check = replay_check};
